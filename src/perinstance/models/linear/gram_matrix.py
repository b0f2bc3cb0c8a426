"""The statistic that a linear fit folds over blocks of rows: ``Q'Q``, ``Q'y``, ``y'y`` and the number of people.

``Q = [X 1] W``: the rows, with a column of ones behind them when there is an intercept, seen through a matrix W that
is None (identity) in the first pass and the inverse of the first factor in the passes of CholeskyQR2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.folds.cache_pieces import pieces
from perinstance.folds.shared_turns import sharing
from perinstance.folds.sweep import Sweep
from perinstance.models.linear import row_kernels
from perinstance.models.linear.loops import column_kernels, eight_lanes, library_loops
from perinstance.models.linear.loops.library_loops import CrossSums, cross_rows
from perinstance.models.linear.loops.shared_gram import TableSums, shared_sums, target_sums
from perinstance.models.linear.row_kernels import NARROWEST, RUN_BYTES, WIDEST, WIDEST_ROWS, by_columns, contiguous
from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import brief_kernel
from perinstance.numerics.simd_vectors import eight_in_a_register


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
    X, y = block.X, contiguous(block.y)
    d, target = X.shape[1], np.array(target_sums(y))
    if W is not None:
        return _seen_through(X, y, intercept, W, float(target[0]))
    if NARROWEST <= d <= WIDEST:
        return _by_kernels(X, y, intercept, target)
    lower = CrossSums(np.zeros((d, d)), np.zeros(d), np.zeros(d if intercept else 0))
    for run in _readable(X, d) if d else ():  # a library complains, aloud, of a table without columns
        library_loops.add_cross(X[run], y[run], lower)
    _mirror(lower.cross)
    return _with_ones(len(X), TableSums(*lower, target), intercept, _chain(len(X), d))


def gram_of_table(sweep: Sweep, intercept: bool) -> Gram:
    """Return the statistic of all rows: by threads that share a pass where they can, else by a fold."""
    together = sharing(sweep)
    table = None if together is None else together.whole_table
    if together is not None and table is not None and table.X.shape[1] <= WIDEST_ROWS:
        sums, chain = shared_sums(together, table, intercept)
        _mirror(sums.cross)
        found = _with_ones(len(table.y), sums, intercept, chain)
        if found.finite:
            together.all_finite()
            return found
    return sweep.fold(partial(gram, intercept=intercept))  # it finds the cell that is not


def _seen_through(X: NDArray, y: Floats, intercept: bool, W: Floats, square: float) -> Gram:
    d, r = X.shape[1], W.shape[1]
    lower = CrossSums(np.zeros((r, r)), np.zeros(r), np.empty(0))
    offset = W[d] if intercept else np.zeros(r)
    for run in _readable(X, max(d, r)):
        library_loops.add_cross_seen_through(X[run], y[run], W[:d], offset, lower)
    _mirror(lower.cross)
    return Gram(len(X), lower.cross, lower.moment, square, _chain(len(X), max(W[:d].shape)))


def _by_kernels(X: NDArray, y: Floats, intercept: bool, target: Floats) -> Gram:
    """Return the statistic of few columns, whose kernels see to the cache themselves."""
    d = X.shape[1]
    cross, moment, total = np.zeros((d, d)), np.zeros(d), np.zeros(d)
    chain, add = 0.0, _narrow_kernel(X)
    for run in pieces(X, 1 if X.dtype == np.float64 else d // 2):
        Q = np.asarray(X[run], dtype=np.float64)
        upper, aim = np.zeros((d, d)), np.zeros(d)  # sums of this piece's own: a long sum loses more
        add(Q, y[run], upper, aim)
        _add_upper(upper, cross)
        moment += aim
        if intercept:
            total += _column_sums(Q)
        rows = RUN_BYTES // (8 * d)  # of a run, or up to three fewer, which are added by themselves at the end
        chain = max(chain, rows + len(Q) / (rows - 3) + 4) + 1
    _mirror(cross)
    return _with_ones(len(X), TableSums(cross, moment, total, target), intercept, chain)


# Compiled not for speed: every step of numpy's over a large array gives the interpreter's lock away and waits for it.


@brief_kernel
def _add_upper(upper, lower):  # pragma: no cover - compiled
    """Add the upper half of a matrix to the lower half of another."""
    for j in range(len(upper)):
        for k in range(j, len(upper)):
            lower[k, j] += upper[j, k]


@brief_kernel
def _mirror(lower):  # pragma: no cover - compiled
    """Fill the upper half of a symmetric matrix."""
    for j in range(len(lower)):
        for k in range(j):
            lower[k, j] = lower[j, k]


def _narrow_kernel(X: NDArray) -> Callable[[Floats, Floats, Floats, Floats], None]:
    """Return what adds up X'X and X'y fastest: how the table lies and what registers hold decides."""
    if by_columns(X):
        return column_kernels.add_cross
    return eight_lanes.add_cross if eight_in_a_register() else row_kernels.add_cross


def _readable(X: NDArray, width: int) -> Iterable[slice]:
    """Return the runs that a library is given: everything at once where it can read X as it lies."""
    if X.dtype == np.float64 and X.flags.aligned and (X.flags.c_contiguous or by_columns(X)):
        return [slice(0, len(X))]
    rows = cross_rows(width)
    return [slice(start, start + rows) for start in range(0, len(X), rows)]


def _chain(n: int, width: int) -> float:
    """Return the additions that a term goes through in the pieces of a library's sums, and the pieces."""
    rows = cross_rows(width)
    return rows + np.ceil(n / rows)


def _with_ones(n: int, sums: TableSums, intercept: bool, chain: float) -> Gram:
    """Put the column of ones behind the others, where there is one."""
    cross, moment = sums.cross, sums.moment
    if intercept:
        cross = np.block([[cross, sums.total[:, None]], [sums.total, np.full(1, float(n))]])
        moment = np.append(moment, sums.target[1])
    return Gram(n, cross, moment, float(sums.target[0]), chain)


def _column_sums(Q: Floats) -> Floats:
    """Sum the rows, 256 at a time: numpy adds them one after the other."""
    if not Q.flags.c_contiguous:
        return np.asarray(Q.sum(axis=0))
    whole = len(Q) // 256 * 256
    total = Q[whole:].sum(axis=0)
    return total + Q[:whole].reshape(-1, 256, Q.shape[1]).sum(axis=1).sum(axis=0) if whole else total
