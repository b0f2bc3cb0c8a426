"""One person's leverage, residual and distance, bounded by their own row and what is public: noisy looks, the draw.

With ``K = H + E``, ``|E| <= c``, ``H >= floor`` (in the frame of a look; H with everyone) and an eigenvector basis of K
with values g, let U be some of those with g > 0, and v the row's part in U divided by g. ``H v = x_U - E v`` gives
``H^-1 x_U = v + H^-1 E v``, so

    x_U'H^-1 x_U = x_U'v + v'E v + (E v)'H^-1(E v) <= x_U'v + (c + c^2/floor) |v|^2,
    |H^-1 x_U| <= |v| (1 + c/floor),

and the rest W has ``x_W'H^-1 x_W <= |x_W|^2/floor``, ``|H^-1 x_W| <= |x_W|/floor``. ``sqrt(x'H^-1x)`` and ``|H^-1x|``
are norms: the parts add up, and the best of all cuts of the sorted g counts. Rows that a look left out make H larger,
and ``x'H^-1x`` smaller; for ``|H^-1x|`` no row may be left out.

The draw o is public. ``|x'(o - theta)| <= q sqrt(x'H^-1x/gamma)`` (posterior sample) or ``q s |x|_{A^-1}`` (output
perturbation) for all x at once, q the quantile of a chi variable with p degrees of freedom: the residual at theta is
no further than that from the one at o.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from perinstance.checked_numbers import real_number
from perinstance.disclosure.published_losses.noisy_matrix import NoisyLook, in_frame, squared_norms
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import OWN_ROW_ERROR, OWN_ROW_UP, PROFILE_UP
from perinstance.pairs import PosteriorSamplePair
from perinstance.releases.promises.promise import gaussian_distance


@dataclass(frozen=True, slots=True, eq=False)
class PublicTerms:
    """What bounds everybody's loss of a ridge release, besides their row. All of it is public."""

    family: str  #: "posterior" or "output"
    looks: tuple[NoisyLook, ...]
    alpha: float
    intercept: bool
    noise: float  #: of ``x'(o - theta)``: 1/sqrt(gamma), or the scale in units of A's smallest eigenvalue
    longest: float  #: the square root of A's largest eigenvalue, over the scale; 1 of a posterior sample
    quantile: float  #: q
    output: Floats  #: o, the intercept last
    half: float  #: of a cell of the grid


@dataclass(frozen=True, slots=True, eq=False)
class RowBounds:
    """Of each row: at most so much. Infinite where nothing is known."""

    leverage: Floats  #: x'H^-1x with everyone
    residual: Floats  #: |y - x'theta| with everyone
    influence: Floats  #: |H^-1 x|

    @property
    def left(self) -> Floats:
        """``1 - leverage``, no less than 0."""
        return np.maximum(1.0 - self.leverage, 0.0)


def row_bounds(terms: PublicTerms, X: Floats, y: Floats) -> RowBounds:
    """Bound what the losses of these people depend on; each row by itself, in elementwise operations."""
    squares = squared_norms(X)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        leverage = np.full(len(X), np.inf)
        for look in terms.looks:
            leverage = np.fmin(leverage, _leverage(look, X))
        if terms.alpha > 0.0 and not terms.intercept:  # H without the person is at least alpha, too
            mu = squares / terms.alpha
            leverage = np.fmin(leverage, np.where(np.isfinite(mu), mu / (1.0 + mu), 1.0) * OWN_ROW_UP)
        influence = _influence(terms.looks[0], X)
        wobble = np.sqrt(leverage) if terms.family == "posterior" else np.sqrt(squares)
        residual = _residual(terms, X, y) + terms.quantile * terms.noise * wobble
        return RowBounds(leverage, residual * OWN_ROW_UP, influence)


def _residual(terms: PublicTerms, X: Floats, y: Floats) -> Floats:
    """Bound ``|y - x'o|`` over the cell of the grid that o stands for, and rounding."""
    value, size, lengths = y.astype(np.float64, copy=True), np.abs(y), np.zeros(len(X))
    for column, o in zip(X.T, terms.output.tolist(), strict=True):
        value -= column * o
        size = size + np.abs(column * o)
        lengths += np.abs(column)
    return np.abs(value) + OWN_ROW_ERROR * size + terms.half * lengths


def _leverage(look: NoisyLook, X: Floats) -> Floats:
    c, floor = look.margin, look.floor
    if floor <= 0.0:
        return np.full(len(X), np.inf)
    grown = c + c * c / floor
    best = _best_cut(look, X, lambda once, twice, rest: np.sqrt(once + grown * twice) + np.sqrt(rest / floor))
    lost = OWN_ROW_ERROR * math.sqrt(float(np.sum(look.frame**2)) / floor) * np.sqrt(squared_norms(X))
    return (best + lost) ** 2 * OWN_ROW_UP


def _influence(look: NoisyLook, X: Floats) -> Floats:
    """Bound ``|H^-1 x|`` in a look whose frame is the identity."""
    c, floor = look.margin, look.floor
    if floor <= 0.0:
        return np.full(len(X), np.inf)
    best = _best_cut(look, X, lambda _, twice, rest: np.sqrt(twice) * (1.0 + c / floor) + np.sqrt(rest) / floor)
    return (best + OWN_ROW_ERROR / floor * np.sqrt(squared_norms(X))) * OWN_ROW_UP


def _best_cut(look: NoisyLook, X: Floats, bound: Callable[[Floats, Floats, Floats], Floats]) -> Floats:
    """Return the least bound over all cuts of the sorted directions, those with g > 0 before the cut.

    A bound is a function of the sums of ``z^2/g`` and ``z^2/g^2`` before the cut, and of ``z^2`` behind it.
    """
    values, vectors = np.linalg.eigh(look.matrix)
    values, vectors = values[::-1], vectors[:, ::-1]
    squares = in_frame(X, vectors.T @ look.frame).T ** 2
    rest = [np.zeros(len(X))]
    for z2 in squares[::-1]:
        rest.append(rest[-1] + z2)
    once, twice = np.zeros(len(X)), np.zeros(len(X))
    best = bound(once, twice, rest.pop())
    for z2, g in zip(squares, values[values > 0].tolist(), strict=False):
        once, twice = once + z2 / g, twice + z2 / (g * g)
        best = np.fmin(best, bound(once, twice, rest.pop()))
    return best


EDGES = tuple(float(f"{m}e{k}") for k in range(-3, 1) for m in ("1", "1.5", "2", "3", "5", "7")) + (10.0,)
MOST_EDGES = 100
LEVELS = 2.0 ** (np.arange(-240, 49) / 8.0)  # of mu, eighths of a power of two
EXPONENTS = (-100.0, 60.0)  # of two, between which s is searched
HALVINGS = 24

Bins = np.ndarray[Any, np.dtype[np.int64]]


def checked_edges(edges: Sequence[float] | None) -> tuple[float, ...]:
    """Validate declared edges: rising and positive; None takes the usual ones, from 0.001 to 10."""
    if edges is None:
        return EDGES
    values = tuple(real_number("an edge", edge) for edge in edges)
    rising = all(a < b for a, b in zip(values, values[1:], strict=False))
    if not 1 <= len(values) <= MOST_EDGES or not rising or values[0] <= 0 or values[-1] == np.inf:
        raise InvalidInput(f"edges must be 1 to {MOST_EDGES} rising numbers > 0; they are losses, fixed in advance")
    return values


def bins_of(terms: PublicTerms, bounds: RowBounds, edges: tuple[float, ...], delta: float) -> Bins:
    """Return which bin each person's bound falls into: k means at most ``edges[k]``, the last one more than all."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if terms.family == "output":
            distance = bounds.influence * bounds.residual / bounds.left * terms.longest * OWN_ROW_UP
            return _above(distance, [np.float64(t) for t in _shift_limits(edges, delta)])
        mu = bounds.leverage / bounds.left * OWN_ROW_UP
        s = (bounds.residual / terms.noise) ** 2 / bounds.left * OWN_ROW_UP**4  # the noise was rounded up
        level = np.searchsorted(LEVELS, np.where(np.isnan(mu), np.inf, mu))
        limits = np.vstack([_posterior_limits(edges, delta), np.full(len(edges), -1.0)])[level]
        return _above(s, list(limits.T))


def _above(values: Floats, limits: list[Any]) -> Bins:
    """Count the limits that a value is not known to keep; NaN keeps none."""
    found = np.zeros(len(values), dtype=np.int64)
    for limit in limits:
        found += ~(values <= limit)
    return found


@lru_cache(maxsize=32)
def _shift_limits(edges: tuple[float, ...], delta: float) -> tuple[float, ...]:
    return tuple(gaussian_distance(edge, delta) for edge in edges)


@lru_cache(maxsize=8)
def _posterior_limits(edges: tuple[float, ...], delta: float) -> Floats:
    """Return, for each level of mu and each edge, the largest s that keeps the loss below the edge; -1: none does."""
    mu = np.repeat(LEVELS, len(edges))
    epsilon = np.tile(np.asarray(edges), len(LEVELS))

    def kept(s: Floats) -> Any:
        return PosteriorSamplePair(mu, np.sqrt(s * (1.0 + mu))).delta(epsilon) * PROFILE_UP <= delta

    low, high = np.full(len(mu), EXPONENTS[0]), np.full(len(mu), EXPONENTS[1])
    none = ~kept(np.exp2(low))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        good = kept(np.exp2(middle))
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    return np.where(none, -1.0, np.exp2(low)).reshape(len(LEVELS), len(edges))
