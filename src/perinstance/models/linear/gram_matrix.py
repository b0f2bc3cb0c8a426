"""The statistic that a linear fit folds over blocks of rows: ``Q'Q``, ``Q'y``, ``y'y`` and the number of people.

``Q = [X 1] W``: the rows, with a column of ones behind them when there is an intercept, seen through a matrix W that
is None (identity) in the first pass and the inverse of the first factor in the passes of CholeskyQR2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from flint import fmpq_mat
from numpy.typing import NDArray

from perinstance.folds.block import Block, pieces
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.exact_sums import RationalSums, rational, rational_sums

#: numbers of a piece of X'X, and its rows at least and at most (change speed, and the additions that a sum is charged)
CROSS_NUMBERS, FEWEST_ROWS, MOST_ROWS = 1 << 17, 1024, 4096


@dataclass(frozen=True, slots=True)
class Gram:
    """Sums over some rows; adding two gives the sums over both sets of rows."""

    n: int
    cross: Floats  #: Q'Q
    moment: Floats  #: Q'y
    square: float  #: y'y
    chain: float = np.inf  #: additions that one term of a sum went through at most, whatever n is

    @property
    def depth(self) -> float:
        """How many additions one term of a sum went through at most."""
        return min(float(self.n), self.chain)

    @property
    def finite(self) -> bool:
        """Whether no NaN and no infinity (and no overflow) went into the sums: their diagonal shows it."""
        return bool(np.isfinite(np.trace(self.cross)) and np.isfinite(self.square))

    def __add__(self, other: Gram) -> Gram:
        cross, moment = self.cross + other.cross, self.moment + other.moment
        chain = max(self.depth, other.depth) + 1
        return Gram(self.n + other.n, cross, moment, self.square + other.square, chain)


def gram(block: Block, intercept: bool, W: Floats | None = None) -> Gram:
    """Return the statistic of one block; no temporary is larger than a piece of it."""
    d = block.X.shape[1]
    p = d + int(intercept) if W is None else W.shape[1]
    y = np.ascontiguousarray(block.y, dtype=np.float64)
    cross, moment, square, longest, count = np.zeros((p, p)), np.zeros(p), 0.0, 0, 0
    own = d if W is None else p  # the sums that are products of columns
    rows = min(MOST_ROWS, max(FEWEST_ROWS, CROSS_NUMBERS // max(p, 1)))
    for run, Z in placed_rows(block.X, rows):
        Q = Z if W is None else Z @ W[:d] + (W[d] if intercept else 0.0)
        target, ones = y[run], np.ones(len(Z))
        cross[:own, :own] += Q.T @ Q
        moment[:own] += target @ Q
        square += float(target @ target)
        if own < p:
            cross[d, :d] += ones @ Q
            cross[d, d] += len(Q)
            moment[d] += float(ones @ target)
        longest, count = max(longest, len(Q)), count + 1
    if own < p:
        cross[:d, d] = cross[d, :d]
    return Gram(len(y), cross, moment, square, float(longest + count))


def exact_gram(block: Block, intercept: bool) -> RationalSums:
    """Return ``[X 1 y]'[X 1 y]`` of one block, without any rounding."""
    ones = np.ones((len(block), int(intercept)))
    return rational_sums(np.column_stack([np.asarray(block.X, dtype=np.float64), ones, block.y]))


def exact_equations(sweep: Sweep, penalty: Floats, intercept: bool) -> tuple[fmpq_mat, fmpq_mat]:
    """Fold ``[X 1]'[X 1] + diag(penalty)`` and ``[X 1]'y`` without any rounding."""
    cross, p = sweep.fold(partial(exact_gram, intercept=intercept)).cross, len(penalty)
    H = fmpq_mat(p, p, [cross[i, j] for i in range(p) for j in range(p)])
    for j in range(p):
        H[j, j] += rational(penalty[j])
    return H, fmpq_mat(p, 1, [cross[i, p] for i in range(p)])


def placed_rows(X: NDArray, rows: int | None = None) -> Iterator[tuple[slice, Floats]]:
    """Yield pieces of so many rows of X (None: as many as stay in the cache) as BLAS reads them: float64, row by row or
    column by column.

    Only this knows how a table lies. A piece is overwritten by the next one, unless X lay so already.
    """
    by_row, by_column = X.flags.c_contiguous, X.strides[0] == X.itemsize
    ready = X.dtype == np.float64 and X.flags.aligned and (by_row or by_column)
    room = np.empty((0, X.shape[1]))
    for run in pieces(X, X.shape[1], rows):
        if ready:
            yield run, X[run]
            continue
        n = run.stop - run.start
        room = room if len(room) >= n else np.empty((n, X.shape[1]))
        room[:n] = X[run]
        yield run, room[:n]
