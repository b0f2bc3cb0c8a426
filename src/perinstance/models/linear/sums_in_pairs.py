"""X'X, X'y and y'y once more, with 32 digits: sums of pairs of floats over the rows, as balls that hold the truth.

This is for the people of whom the factor in floats does not say enough. Products of floats are exact as pairs, and a
sum of pairs loses ``2^-104`` of what it adds at a time. Columns are scaled by powers of two, so that nothing overflows
and what underflows is charged as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation import exact_kernel
from perinstance.numerics.double_double import plus, two_product, two_sum
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import PAIR_SUM, PAIR_UNDERFLOW, UNIT

#: bits: the sums have 104
SHARPENED_BITS = 160
#: rows whose low parts are added plainly before the sum is put in order again
ROWS = 64


@dataclass(frozen=True, slots=True)
class ColumnSizes:
    """The largest entry of each column, the target last."""

    largest: Floats

    def __add__(self, other: ColumnSizes) -> ColumnSizes:
        return ColumnSizes(np.maximum(self.largest, other.largest))

    @property
    def exponents(self) -> NDArray[np.int64]:
        """Powers of two that bring every column below one."""
        return np.where(self.largest > 0, -np.frexp(self.largest)[1], 0).astype(np.int64)


@dataclass(frozen=True, slots=True)
class PairedGram:
    """Sums over some rows of the scaled ``[X 1 y]``; adding two gives those over both sets of rows."""

    runs: int  #: how many sums of ``ROWS`` rows went into it
    n: int
    high: Floats
    low: Floats
    finite = True  # the first fold has looked at every cell

    def __add__(self, other: PairedGram) -> PairedGram:
        high, lost = _pair(self.high, other.high)
        high, low = _pair(high, lost + (self.low + other.low))
        return PairedGram(self.runs + other.runs + 1, self.n + other.n, high, low)

    def balls(self, exponents: NDArray[np.int64]) -> arb_mat:
        """Return the sums of ``[X 1 y]``, scaled back, with a radius that covers what was lost."""
        size, unit = len(self.high), [arb(2) ** -int(k) for k in exponents]
        root = np.sqrt(np.diag(self.high)) + PAIR_UNDERFLOW  # sum |a b| <= |a| |b|
        share, least = (ROWS * ROWS + self.runs) * PAIR_SUM, (1 + self.n) * PAIR_UNDERFLOW
        entries = [[arb(0)] * size for _ in range(size)]
        for i in range(size):
            for j in range(i, size):
                radius = arb(share * root[i] * root[j] + least) if root[i] * root[j] > 0 else arb(least)
                value = arb(self.high[i, j]) + arb(self.low[i, j]) + arb(0, radius)
                entries[i][j] = entries[j][i] = value * unit[i] * unit[j]
        return arb_mat(entries)


def _pair(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return sums of floats as pairs, exactly (``two_sum``, of arrays)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def column_sizes(block: Block, intercept: bool) -> ColumnSizes:
    """Return the largest entries of one block."""
    X = np.asarray(block.X, dtype=np.float64)
    ones = np.ones(int(intercept))
    y = np.asarray(block.y, dtype=np.float64)
    return ColumnSizes(np.concatenate([np.abs(X).max(axis=0, initial=0.0), ones, [np.abs(y).max(initial=0.0)]]))


def paired_gram(block: Block, intercept: bool, exponents: NDArray[np.int64]) -> PairedGram:
    """Return the sums of one block."""
    n = len(block.y)
    p = len(exponents)
    high, low = np.zeros((p, p)), np.zeros((p, p))
    runs = 0
    for start in range(0, n, ROWS * 64):
        part = slice(start, min(start + ROWS * 64, n))
        columns = [np.asarray(block.X[part], dtype=np.float64)]
        if intercept:
            columns.append(np.ones((part.stop - part.start, 1)))
        columns.append(np.asarray(block.y[part], dtype=np.float64)[:, None])
        Z = np.ldexp(np.hstack(columns), exponents)
        _add_rows(np.ascontiguousarray(Z), high, low)
        runs += -(-len(Z) // ROWS)
    return PairedGram(runs, n, high, low)


@exact_kernel
def _add_rows(Z, high, low):  # pragma: no cover - compiled
    """Add ``Z'Z``, upper triangle."""
    n, p = Z.shape
    for start in range(0, n, ROWS):
        stop = min(start + ROWS, n)
        for i in range(p):
            total, rest = np.zeros(p), np.zeros(p)
            for k in range(start, stop):
                a = Z[k, i]
                for j in range(i, p):
                    product, product_low = two_product(a, Z[k, j])
                    total[j], lost = two_sum(total[j], product)
                    rest[j] += lost + product_low
            for j in range(i, p):
                high[i, j], low[i, j] = plus(high[i, j], low[i, j], total[j], rest[j])


def sharpened(sweep: Sweep, penalty: Floats, intercept: bool, W: Floats) -> tuple[Floats, Floats, float, float]:
    """Sharpen a small table's factor: ``W'HW`` in balls, and one step towards the identity.

    Return W, ``W'X'y`` and bounds of the errors of both: ``||W'HW - I||`` and that of the vector. In floats the bound
    of what a factor lost grows with the number of rows; here it does not, so that people are charged a few units.
    """
    sizes: ColumnSizes = sweep.fold(partial(column_sizes, intercept=intercept))
    sums: PairedGram = sweep.fold(partial(paired_gram, intercept=intercept, exponents=sizes.exponents))
    p = len(W)
    with working_precision(SHARPENED_BITS):
        balls = sums.balls(sizes.exponents)
        H = arb_mat([[balls[i, j] + (arb(penalty[i]) if i == j else 0) for j in range(p)] for i in range(p)])
        moment = arb_mat([[balls[i, p]] for i in range(p)])
        seen, _ = _seen(H, W)
        step = np.triu(seen, 1) + np.diag(np.diag(seen)) / 2
        W = W - W @ step
        seen, radius = _seen(H, W)
        error = float(np.linalg.norm(np.abs(seen) + radius))
        exact = arb_mat([[arb(v) for v in column] for column in W.T.tolist()]) * moment
        image = np.array([float(exact[j, 0].mid()) for j in range(p)])
        off = [float((exact[j, 0] - arb(image[j])).abs_upper()) for j in range(p)]
    return W, image, error, float(np.linalg.norm(off))


def _seen(H: arb_mat, W: Floats) -> tuple[Floats, Floats]:
    """Return ``W'HW - I`` and its radius."""
    p = len(W)
    lift = arb_mat([[arb(v) for v in row] for row in W.tolist()])
    product = lift.transpose() * (H * lift)
    middle, radius = np.empty((p, p)), np.empty((p, p))
    for i in range(p):
        for j in range(p):
            entry = product[i, j] - int(i == j)
            middle[i, j] = float(entry.mid())
            radius[i, j] = float(entry.rad()) + abs(middle[i, j]) * UNIT
    return middle, radius
