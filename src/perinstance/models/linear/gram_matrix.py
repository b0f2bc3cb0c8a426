"""The statistic that a linear fit folds over blocks of rows: ``Q'Q``, ``Q'y``, ``y'y`` and the number of people.

``Q = [X 1] W``: the rows, with a column of ones behind them when there is an intercept, seen through a matrix W that
is None (identity) in the first pass and the inverse of the first factor in the passes of CholeskyQR2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perinstance.folds.block import Block
from perinstance.folds.cache_pieces import PIECE_BYTES, pieces
from perinstance.models.linear import column_kernels
from perinstance.models.linear.column_kernels import by_columns
from perinstance.models.linear.row_kernels import NARROWEST, WIDEST, add_cross
from perinstance.numerics.array_types import Floats


@dataclass(frozen=True, slots=True)
class Gram:
    """Sums over some rows; adding two gives the sums over both sets of rows."""

    n: int
    cross: Floats  #: Q'Q
    moment: Floats  #: Q'y
    square: float  #: y'y

    @property
    def depth(self) -> float:
        """How many additions one term of a sum goes through at most: runs of rows, those of a piece, and the pieces.

        A run is at most 512 rows here and in libraries' products, and a piece at most 1024 runs.
        """
        pieces_of = max(64, min(1024, PIECE_BYTES // (4 * max(len(self.moment), 1))))
        return min(float(self.n), 2048 + self.n / pieces_of)

    @property
    def finite(self) -> bool:
        """Whether no NaN and no infinity (and no overflow) went into the sums: their diagonal shows it."""
        return bool(np.isfinite(np.trace(self.cross)) and np.isfinite(self.square))

    def __add__(self, other: Gram) -> Gram:
        return Gram(self.n + other.n, self.cross + other.cross, self.moment + other.moment, self.square + other.square)


def gram(block: Block, intercept: bool, W: Floats | None = None) -> Gram:
    """Return the statistic of one block; no temporary is larger than a piece of it."""
    X, y = block.X, block.y
    d = X.shape[1]
    p = d + int(intercept)
    r = p if W is None else W.shape[1]
    cross, moment, square = np.zeros((r, r)), np.zeros(r), 0.0
    narrow = W is None and NARROWEST <= d <= WIDEST
    # X'X and X'y read the same rows: the second time from the cache, which the narrow kernels see to themselves
    for run in pieces(X, 1 if narrow and X.dtype == np.float64 else max(d, r) // 2):
        Q = np.asarray(X[run], dtype=np.float64)
        t = np.asarray(y[run], dtype=np.float64)
        square += float(t @ t)
        if W is not None:
            Q = Q @ W[:d]
            if intercept:
                Q += W[d]
            cross += Q.T @ Q
            moment += Q.T @ t
            continue
        if narrow:  # into sums of this piece's own: a long sum loses more
            upper, aim = np.zeros((d, d)), np.zeros(d)
            (column_kernels.add_cross if by_columns(Q) else add_cross)(Q, t, upper, aim)
            cross[:d, :d] += upper + np.triu(upper, 1).T
            moment[:d] += aim
        elif d < NARROWEST or not Q.flags.c_contiguous:
            cross[:d, :d] += Q.T @ Q
            moment[:d] += Q.T @ t
        else:
            cross[:d, :d] += Q.T @ Q
            aim = np.zeros(d)
            add_cross(Q, t, None, aim)
            moment[:d] += aim
        if intercept:
            total = _column_sums(Q)
            cross[d, :d] += total
            cross[:d, d] += total
            cross[d, d] += len(Q)
            moment[d] += t.sum()
    return Gram(len(X), cross, moment, square)


def _column_sums(Q: Floats) -> Floats:
    """Sum the rows, 256 at a time: numpy adds them one after the other."""
    if not Q.flags.c_contiguous:
        return np.asarray(Q.sum(axis=0))
    whole = len(Q) // 256 * 256
    total = Q[whole:].sum(axis=0)
    return total + Q[:whole].reshape(-1, 256, Q.shape[1]).sum(axis=1).sum(axis=0) if whole else total
