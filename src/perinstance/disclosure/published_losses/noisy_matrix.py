"""Noisy looks at X'X that bound everybody's leverage from above, each row used in a public frame and radius.

A look is ``S X'X S' + E`` over the rows with ``||S x||^2 <= r^2``; longer ones are left out, which only makes the
matrix smaller and a leverage larger. One person moves it by at most r^2 in the Frobenius norm, in which E is isotropic.
The largest eigenvalue of such noise of scale s has a mean of at most ``s sqrt(2p)`` (Davidson and Szarek 2001, II.11)
and is a Lipschitz function of it, so ``-c <= E <= c`` with ``c = s (sqrt(2p) + sqrt(2 log 1/f))``, each side but for
probability f (Gaussian concentration).

The first look takes the rows as they are (S = 1, r the declared bound). The second one, in a frame in which the first
made X'X about the identity, adds less noise where the first could see little. Both are looks at exact sums of float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_DOWN, BOUND_UP, EIGENVALUES_ERROR, OWN_ROW_ERROR, OWN_ROW_UP
from perinstance.releases.promises.promise import check_promise, gaussian_distance, noise_scale, tail_quantile
from perinstance.releases.promises.window import drawn
from perinstance.sampling import GRID, ExactGram

WIDE = 3.0  # how many times the mean squared length in the second frame a row may have, to be looked at
Rows = Callable[[Block], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyLook:
    """A noisy matrix ``K = S (X'X + P) S' + E`` with ``|E| <= margin``, and a floor of the eigenvalues without E.

    Public. P is the penalty.
    """

    frame: Floats  #: S
    matrix: Floats  #: K
    margin: float
    floor: float  #: 0 where nothing is known


def looks(sweep: Sweep, rows: Rows, penalties: Floats, x_bound: float, split: SplitPromise) -> tuple[NoisyLook, ...]:
    """NoisyLook at the matrix, once or twice, with exact draws."""
    p = len(penalties)
    unit = np.eye(p)
    square = x_bound * x_bound * OWN_ROW_UP * OWN_ROW_UP  # rows that were scaled to the bound may round above it
    scale = noise_scale(square, split.matrix)
    first = _first(noisy_gram(sweep, rows, unit, square, scale), penalties, _margin(scale, p, split.each))
    if split.looks == 1:
        return (first,)
    n_scale = noise_scale(1.0, split.count)
    counted = float(drawn([people_of(sweep)], [n_scale])[0])
    most = max(counted, 1.0) + tail_quantile(split.each, 0.0) * n_scale
    frame, square = _second_frame(first, max(counted, 1.0))
    scale = noise_scale(square, split.matrix)
    noisy = noisy_gram(sweep, rows, frame, square, scale)
    # rows in the frame are rounded; the bound of what that does to the matrix is part of the margin
    off = OWN_ROW_ERROR * float(np.linalg.norm(frame)) * x_bound
    margin = _margin(scale, p, split.each) + most * off * (2.0 * math.sqrt(square) + off)
    return first, _in_frame(first, frame, noisy, penalties, margin)


def noisy_gram(sweep: Sweep, rows: Rows, frame: Floats, square: float, scale: float) -> Floats:
    """Draw ``sum z z' + E`` over the rows ``z = S x`` with ``||z||^2 <= square``."""
    p = len(frame)

    def add(block: Block) -> ExactGram:
        with np.errstate(over="ignore", invalid="ignore"):  # whatever overflows is too long
            Z = in_frame(rows(block), frame)
            Z = Z[squared_norms(Z) * OWN_ROW_UP <= square]
        return ExactGram.of(Z, np.zeros(len(Z)))

    sums: ExactGram = sweep.fold(add)
    i, j = np.triu_indices(p)
    beside = math.nextafter(scale / math.sqrt(2.0), math.inf)
    noisy = drawn(
        [sums.fraction(a, b) for a, b in zip(i.tolist(), j.tolist(), strict=True)],
        [scale if a == b else beside for a, b in zip(i.tolist(), j.tolist(), strict=True)],
    )
    full = np.zeros((p, p))
    full[i, j] = noisy
    full[j, i] = noisy
    return full


def in_frame(X: Floats, frame: Floats) -> Floats:
    """Return ``S x`` of each row, a column after the other: nothing of it depends on the other rows, not even rounding.

    A matrix product may add in an order that depends on the shape of the table.
    """
    Z = np.zeros((len(X), len(frame)))
    for k, line in enumerate(frame.tolist()):
        for j, entry in enumerate(line):
            if entry:
                Z[:, k] += entry * X[:, j]
    return Z


def squared_norms(Z: Floats) -> Floats:
    """Return ``||z||^2`` of each row, in a fixed order."""
    total = np.zeros(len(Z))
    for column in Z.T:
        total += column * column
    return total


def people_of(sweep: Sweep) -> int:
    """Count the rows."""
    return int(sweep.fold(lambda block: len(block)))


def _margin(scale: float, p: int, failure: float) -> float:
    tail = math.sqrt(2.0 * p) + math.sqrt(-2.0 * math.log(failure))
    return (scale * tail + p * GRID) * BOUND_UP


def _first(noisy: Floats, penalties: Floats, margin: float) -> NoisyLook:
    """Put the first look together; its floor is the penalty's or the noisy eigenvalue's, whichever is larger.

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
    return NoisyLook(np.eye(len(K)), K, margin, max(known, _smallest(K) - margin, 0.0))


def _second_frame(first: NoisyLook, people: float) -> tuple[Floats, float]:
    """Return S with about ``S K S' = 1``, and the square of the radius: some times the mean of ``||S x||^2``."""
    values, vectors = np.linalg.eigh(first.matrix)
    seen = np.maximum(values, 0.0)
    raised = seen + first.margin
    return (vectors / np.sqrt(raised)).T, WIDE * max(float((seen / raised).sum()), 1.0) / people


def _in_frame(first: NoisyLook, frame: Floats, noisy: Floats, penalties: Floats, margin: float) -> NoisyLook:
    K = noisy + (frame * penalties) @ frame.T
    margin += EIGENVALUES_ERROR * float(np.linalg.norm(K))
    spread = frame @ frame.T
    carried = first.floor * max(_smallest(spread) - EIGENVALUES_ERROR * float(np.linalg.norm(spread)), 0.0)
    return NoisyLook(frame, K, margin, max(carried * BOUND_DOWN, _smallest(K) - margin, 0.0))


def _smallest(matrix: Floats) -> float:
    return float(np.linalg.eigvalsh(matrix)[0])


HISTOGRAM, COUNT = 0.2, 0.02  # shares of the squared distance, where matrices are looked at too; the rest is theirs


@dataclass(frozen=True, slots=True)
class SplitPromise:
    """GDP distances of the parts: matrices (each), the number of people, the histogram. Public."""

    epsilon: float
    delta: float
    distance: float  #: of everything
    looks: int
    matrix: float
    count: float
    histogram: float
    failure: float  #: of any bound that is read from the noisy numbers
    each: float  #: of one of them

    @classmethod
    def of(cls, epsilon: float, delta: float, looks: int, failure: float) -> SplitPromise:
        """Split a promise; a second look at the matrix wants to know about how many people there are."""
        epsilon, delta = check_promise(epsilon, delta)
        whole = gaussian_distance(epsilon, delta)
        counted = COUNT if looks > 1 else 0.0
        histogram = HISTOGRAM if looks else 1.0

        def part(share: float) -> float:
            return whole * math.sqrt(share) * BOUND_DOWN

        matrix = part((1.0 - histogram - counted) / looks) if looks else 0.0
        # what may fail: both sides of each matrix, the number of people, the draw, the reading of quantiles
        each = failure / (2 * looks + 3)
        return cls(epsilon, delta, whole, looks, matrix, part(counted), part(histogram), failure, each)

    @property
    def noise(self) -> float:
        """The standard deviation of each count of the histogram, in which a person counts once."""
        return noise_scale(1.0, self.histogram)
