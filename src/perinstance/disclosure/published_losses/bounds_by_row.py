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
from dataclasses import dataclass

import numpy as np

from perinstance.disclosure.published_losses.noisy_matrix import NoisyLook, in_frame, squared_norms
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import OWN_ROW_ERROR, OWN_ROW_UP


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
    cuts = _cuts(look, X)
    c, floor = look.margin, look.floor
    if floor <= 0.0:
        return np.full(len(X), np.inf)
    best = np.full(len(X), np.inf)
    for k in range(cuts.usable + 1):
        root = np.sqrt(cuts.once[k] + (c + c * c / floor) * cuts.twice[k]) + np.sqrt(cuts.rest[k] / floor)
        best = np.fmin(best, root)
    lost = OWN_ROW_ERROR * math.sqrt(float(np.sum(look.frame**2)) / floor) * np.sqrt(squared_norms(X))
    return (best + lost) ** 2 * OWN_ROW_UP


def _influence(look: NoisyLook, X: Floats) -> Floats:
    """Bound ``|H^-1 x|`` in a look whose frame is the identity."""
    cuts, c, floor = _cuts(look, X), look.margin, look.floor
    if floor <= 0.0:
        return np.full(len(X), np.inf)
    best = np.full(len(X), np.inf)
    for k in range(cuts.usable + 1):
        best = np.fmin(best, np.sqrt(cuts.twice[k]) * (1.0 + c / floor) + np.sqrt(cuts.rest[k]) / floor)
    return (best + OWN_ROW_ERROR / floor * np.sqrt(squared_norms(X))) * OWN_ROW_UP


@dataclass(frozen=True, slots=True, eq=False)
class _Cuts:
    """Sums over the first k of the sorted directions, for k = 0 .. p: ``z^2/g``, ``z^2/g^2``; over the rest ``z^2``."""

    once: list[Floats]
    twice: list[Floats]
    rest: list[Floats]
    usable: int  #: directions with g > 0


def _cuts(look: NoisyLook, X: Floats) -> _Cuts:
    values, vectors = np.linalg.eigh(look.matrix)
    values, vectors = values[::-1], vectors[:, ::-1]
    squares = in_frame(X, vectors.T @ look.frame).T ** 2
    once, twice, rest = [np.zeros(len(X))], [np.zeros(len(X))], [np.zeros(len(X))]
    for z2, g in zip(squares, values.tolist(), strict=True):
        once.append(once[-1] + z2 / g if g > 0 else once[-1])
        twice.append(twice[-1] + z2 / (g * g) if g > 0 else twice[-1])
    for z2 in squares[::-1]:
        rest.append(rest[-1] + z2)
    return _Cuts(once, twice, rest[::-1], int((values > 0).sum()))
