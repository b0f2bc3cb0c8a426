"""One person's leverage, residual and distance, bounded by their own row and what is public: a noisy look, the draw.

The look is ``K = X'X + P + E`` over the rows with ``||x|| <= r``, the declared bound; longer ones are left out. One
person moves it by at most r^2 in the Frobenius norm, in which E is isotropic. The largest eigenvalue of such noise of
scale s has a mean of at most ``s sqrt(2p)`` (Davidson and Szarek 2001, II.11) and is a Lipschitz function of it, so
``-c <= E <= c`` with ``c = s (sqrt(2p) + sqrt(2 log 1/f))``, each side but for probability f (Gaussian concentration).

With ``H = K - E >= floor`` (H with everyone) and an eigenvector basis of K with values g, let U be some of those with
g > 0, and v the row's part in U divided by g. ``H v = x_U - E v`` gives ``H^-1 x_U = v + H^-1 E v``, so

    x_U'H^-1 x_U = x_U'v + v'E v + (E v)'H^-1(E v) <= x_U'v + (c + c^2/floor) |v|^2,
    |H^-1 x_U| <= |v| (1 + c/floor),

and the rest W has ``x_W'H^-1 x_W <= |x_W|^2/floor``, ``|H^-1 x_W| <= |x_W|/floor``. ``sqrt(x'H^-1x)`` and ``|H^-1x|``
are norms: the parts add up, and the best of all cuts of the sorted g counts. Rows that the look left out make H larger,
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
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_DOWN, EIGENVALUES_ERROR, OWN_ROW_ERROR, OWN_ROW_UP, PROFILE_UP
from perinstance.pairs import PosteriorSamplePair
from perinstance.releases.promises.promise import check_promise, gaussian_distance, noise_scale
from perinstance.sampling import ExactGram, Noisy, draw

HISTOGRAM = 0.2  #: of the squared distance, where the matrix is looked at too; the rest is the matrix's
EDGES = tuple(float(f"{m}e{k}") for k in range(-3, 1) for m in ("1", "1.5", "2", "3", "5", "7")) + (10.0,)
MOST_EDGES = 100
LEVELS = 2.0 ** (np.arange(-240, 49) / 8.0)  # of mu, eighths of a power of two
EXPONENTS = (-100.0, 60.0)  # of two, between which s is searched
HALVINGS = 24
Rows = Callable[[Block], Floats]
Bins = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyLook:
    """A noisy matrix ``K = X'X + P + E`` with ``|E| <= margin``, and a floor of the eigenvalues without E; P penalises.

    Public.
    """

    matrix: Floats  #: K
    margin: float
    floor: float  #: 0 where nothing is known


def noisy_gram(sweep: Sweep, rows: Rows, p: int, square: float, scale: float) -> Floats:
    """Draw ``sum x x' + E`` over the rows with ``||x||^2 <= square``."""

    def add(block: Block) -> ExactGram:
        X = rows(block)
        with np.errstate(over="ignore", invalid="ignore"):  # whatever overflows is too long
            X = X[squared_norms(X) * OWN_ROW_UP <= square]
        return ExactGram.of(X, np.zeros(len(X)))

    sums: ExactGram = sweep.fold(add)
    places = [(i, j) for i in range(p) for j in range(i, p)]
    beside = math.nextafter(scale / math.sqrt(2.0), math.inf)
    full = np.zeros((p, p))
    center, scales = [sums.fraction(i, j) for i, j in places], [scale if i == j else beside for i, j in places]
    noisy = draw(Noisy(center, scales)).values
    for (i, j), value in zip(places, noisy, strict=True):
        full[i, j] = full[j, i] = value
    return full


def squared_norms(Z: Floats) -> Floats:
    """Return ``||z||^2`` of each row, in a fixed order."""
    total = np.zeros(len(Z))
    for column in Z.T:
        total += column * column
    return total


def bounded(noisy: Floats, penalties: Floats, margin: float) -> NoisyLook:
    """Put a look together; its floor is the penalty's or the noisy eigenvalue's, whichever is larger.

    With an intercept, which has no penalty: let ``a <= n`` be a floor of its square and b above the eigenvalues of the
    other columns. For a unit vector with a share s of other columns, ``w'(G + P)w >= (sqrt(a) cos - sqrt(b) sin)_+^2
    + alpha sin^2``, which is at least ``a alpha / (a + b + alpha)``.
    """
    K = noisy + np.diag(penalties)
    margin += EIGENVALUES_ERROR * float(np.linalg.norm(K))
    known = float(penalties.min())
    if known == 0.0 and len(penalties) > 1 and penalties[0] > 0.0:
        a, alpha = float(noisy[-1, -1]) - margin, float(penalties[0])
        b = max(float(np.linalg.eigvalsh(noisy[:-1, :-1])[-1]), 0.0) + margin
        known = max(a, 0.0) * alpha / (max(a, 0.0) + b + alpha) * BOUND_DOWN
    return NoisyLook(K, margin, max(known, float(np.linalg.eigvalsh(K)[0]) - margin, 0.0))


@dataclass(frozen=True, slots=True)
class SplitPromise:
    """GDP distances of the parts: the matrix, where it is looked at, and the histogram. Public."""

    epsilon: float
    delta: float
    distance: float  #: of everything
    matrix: float
    histogram: float
    failure: float  #: of any bound that is read from the noisy numbers
    each: float  #: of one of them

    @classmethod
    def of(cls, epsilon: float, delta: float, looks: bool, failure: float) -> SplitPromise:
        """Split a promise."""
        epsilon, delta = check_promise(epsilon, delta)
        whole = gaussian_distance(epsilon, delta)
        matrix, histogram = (math.sqrt(1 - HISTOGRAM), math.sqrt(HISTOGRAM)) if looks else (0.0, 1.0)
        each = failure / (2 * looks + 3)  # what may fail: both sides of the matrix, the draw, the reading of quantiles
        return cls(epsilon, delta, whole, whole * matrix * BOUND_DOWN, whole * histogram * BOUND_DOWN, failure, each)

    @property
    def noise(self) -> float:
        """The standard deviation of each count of the histogram, in which a person counts once."""
        return noise_scale(1.0, self.histogram)


@dataclass(frozen=True, slots=True, eq=False)
class PublicTerms:
    """What bounds everybody's loss of a ridge release, besides their row. All of it is public."""

    family: str  #: "posterior" or "output"
    look: NoisyLook
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
        leverage, influence = _leverage_and_influence(terms.look, X)
        if terms.alpha > 0.0 and not terms.intercept:  # H without the person is at least alpha, too
            mu = squares / terms.alpha
            leverage = np.fmin(leverage, np.where(np.isfinite(mu), mu / (1.0 + mu), 1.0) * OWN_ROW_UP)
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


def _leverage_and_influence(look: NoisyLook, X: Floats) -> tuple[Floats, Floats]:
    """Bound ``x'H^-1 x`` and ``|H^-1 x|``: the least over all cuts of the sorted directions, g > 0 before the cut.

    A bound is a function of the sums of ``z^2/g`` and ``z^2/g^2`` before the cut, and of ``z^2`` behind it. Columns
    are added in a fixed order, so that nothing depends on the other rows: a matrix product's order may.
    """
    c, floor, n = look.margin, look.floor, len(X)
    if floor <= 0.0:
        return np.full(n, np.inf), np.full(n, np.inf)
    values, vectors = np.linalg.eigh(look.matrix)
    squares = []
    for line in vectors.T[::-1].tolist():
        z = np.zeros(n)
        for entry, column in zip(line, X.T, strict=True):
            z += entry * column
        squares.append(z**2)
    rest = [np.zeros(n)]
    for z2 in squares[::-1]:
        rest.append(rest[-1] + z2)
    once, twice, grown = np.zeros(n), np.zeros(n), c + c * c / floor
    length, long = np.sqrt(rest[-1] / floor), np.sqrt(rest.pop()) / floor
    for z2, g in zip(squares, values[::-1][values[::-1] > 0].tolist(), strict=False):
        once, twice, behind = once + z2 / g, twice + z2 / (g * g), rest.pop()
        length = np.fmin(length, np.sqrt(once + grown * twice) + np.sqrt(behind / floor))
        long = np.fmin(long, np.sqrt(twice) * (1.0 + c / floor) + np.sqrt(behind) / floor)
    off = OWN_ROW_ERROR * np.sqrt(squared_norms(X))
    lost = math.sqrt(len(values) / floor)
    return (length + lost * off) ** 2 * OWN_ROW_UP, (long + off / floor) * OWN_ROW_UP


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
