"""Many columns: X'X and the rows of X W by a library's products, piece by piece, in one call for a whole block.

The pieces of X'X are long, because a library packs its operands first; those of X W stay in the second-level cache with
their rows. Where W is upper triangular it is cut into a few panels of columns, each multiplied down to its last entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.cache_pieces import PIECE_BYTES
from perinstance.models.linear.row_kernels import RowSums, by_columns, contiguous
from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation.blas_calls import (
    PLAIN,
    TRANSPOSED,
    UPPER_HALF,
    blas_addresses,
    dgemm,
    dgemv,
    dsyrk,
)
from perinstance.numerics.numba_compile import kernel, sum_kernel

#: rows of a piece of Q'Q at most, and their bytes
CROSS_ROWS, CROSS_BYTES = 2048, 4 << 20
#: rows whose products with y are summed by themselves: a library adds them one after the other
MOMENT_ROWS = 256
#: columns of a panel at least, and panels at most
PANEL, PANELS = 24, 8


class ReadableRows(NamedTuple):
    """People that a library can read: in rows (to the library, which counts along columns, plain) or in columns."""

    entries: Floats
    order: int  #: PLAIN or TRANSPOSED
    step: int  #: from one row to the next, or from one column to the next
    across: int  #: from one person to the next

    @classmethod
    def of(cls, X: NDArray) -> ReadableRows:
        """Look at X, or copy it where a library cannot read it."""
        if by_columns(X) and X.strides[1] >= 8 * len(X):
            return cls(X[0], TRANSPOSED, X.strides[1] // 8, 1)
        return cls(contiguous(X).reshape(-1), PLAIN, X.shape[1], X.shape[1])


class CrossSums(NamedTuple):
    """Sums over rows q."""

    cross: Floats  #: Q'Q, its lower half
    moment: Floats  #: Q'y
    total: Floats  #: Q'1; empty where it is not wanted


def cross_rows(width: int) -> int:
    """Return the rows of a piece of Q'Q: no term goes through more additions inside of one."""
    return max(64, min(CROSS_ROWS, CROSS_BYTES // (8 * max(width, 1))))


def add_cross(X: NDArray, y: NDArray, sums: CrossSums) -> None:
    """Add the sums over the rows of X."""
    add_cross_of_table(blas_addresses(), ReadableRows.of(X), contiguous(y), cross_rows(X.shape[1]), sums)


def add_cross_seen_through(X: NDArray, y: NDArray, W: Floats, offset: Floats, sums: CrossSums) -> None:
    """Add the sums over the rows ``x W + offset``."""
    matrix = contiguous(W).reshape(-1), contiguous(offset)
    _add_cross_seen_through(blas_addresses(), ReadableRows.of(X), contiguous(y), cross_rows(max(W.shape)), matrix, sums)


@kernel
def add_cross_of_table(blas, table, y, rows, sums):  # pragma: no cover - compiled
    """Add the sums over the rows of a table, so many at a time."""
    part = np.empty(len(sums.moment) ** 2)
    for start in range(0, len(y), rows):
        _add_piece(blas, table, start, y, (start, min(start + rows, len(y))), part, sums)


@kernel
def _add_cross_seen_through(blas, table, y, rows, matrix, sums):  # pragma: no cover - compiled
    W, offset = matrix
    r, part = len(offset), np.empty(len(offset) ** 2)
    q = np.empty(rows * r)
    for start in range(0, len(y), rows):
        stop = min(start + rows, len(y))
        _multiply(blas, table, (start, stop), W, (r, 0, r, len(W) // r), q)
        for i in range(stop - start):
            for j in range(r):
                q[i * r + j] += offset[j]
        _add_piece(blas, (q, PLAIN, r, r), 0, y, (start, stop), part, sums)


@kernel
def _multiply(blas, table, people, W, columns, q):  # pragma: no cover - compiled
    """Write some columns of X W over some people: those from a to b, of r, whose entries below ``depth`` are zero."""
    (x, order, step, across), (start, stop), (r, a, b, depth) = table, people, columns
    product = PLAIN, order, b - a, stop - start, depth, 1.0, W, a, r, x, start * across, step, 0.0, q, a, r
    dgemm(blas.dgemm, product)


@kernel
def _add_piece(blas, table, first, y, people, part, sums):  # pragma: no cover - compiled
    """Add the sums over some people, who begin at ``first`` in the table; the piece has sums of its own."""
    (x, order, step, across), (start, stop), (cross, moment, total) = table, people, sums
    r, n, at = len(moment), stop - start, first * across
    dsyrk(blas.dsyrk, (UPPER_HALF, order, r, n, 1.0, x, at, step, 0.0, part, 0, r))
    for j in range(r):
        for k in range(j + 1):
            cross[j, k] += part[j * r + k]
    _add_weighted(blas, table, first, y[start:stop], moment)
    if len(total):
        _add_weighted(blas, table, first, np.ones(n), total)


@kernel
def _add_weighted(blas, table, first, weights, out):  # pragma: no cover - compiled
    """Add ``Q'w``."""
    x, order, step, across = table
    r, whole, part = len(out), np.zeros(len(out)), np.empty(len(out))
    for i in range(0, len(weights), MOMENT_ROWS):
        n, at = min(MOMENT_ROWS, len(weights) - i), (first + i) * across
        rows, columns = (r, n) if order == PLAIN else (n, r)
        dgemv(blas.dgemv, (order, rows, columns, 1.0, x, at, step, weights, i, 1, 0.0, part, 0, 1))
        whole += part
    out += whole


class CutProducts(NamedTuple):
    """A matrix W of r columns, where its columns are cut, and what is summed up of the rows of X W."""

    entries: Floats  #: row by row
    cuts: NDArray[np.int64]
    depth: NDArray[np.int64]  #: of each panel: the rows below are zero
    offset: Floats  #: what is added to x W
    image: Floats
    weights: Floats
    lift: Floats  #: (r, p) the squared length is ``||q lift||^2``; empty: ``sum weights_j q_j^2``


@dataclass(frozen=True, slots=True)
class Products:
    """A matrix W, cut into columns."""

    cut: CutProducts

    @classmethod
    def of(
        cls, W: Floats, offset: Floats, image: Floats, weights: Floats, triangular: bool, lift: Floats | None
    ) -> Products:
        """Cut W; where it is upper triangular the rows below are zero and cost nothing."""
        d, r = W.shape
        width = max(PANEL, -(-r // (8 * PANELS)) * 8) if triangular else max(r, 1)
        cuts = np.array([*range(0, max(r - width // 2, 1), width), r], dtype=np.int64)
        depth = np.minimum(cuts[1:] if triangular else d, d).astype(np.int64) + np.zeros(len(cuts) - 1, dtype=np.int64)
        lifted = np.empty((0, 0)) if lift is None else contiguous(lift)
        return cls(CutProducts(contiguous(W).reshape(-1), cuts, depth, offset, image, weights, lifted))

    def sums(self, X: NDArray, m: Floats, t: Floats, square: Floats) -> None:
        """Write, with ``q = x W + offset``, ``sum q_j^2``, ``sum q_j image_j`` and, unless ``square`` is empty,
        the squared length of each row.
        """
        widest = max(X.shape[1], len(self.cut.offset), *self.cut.lift.shape, 1)
        rows = min(len(X), max(64, PIECE_BYTES // (8 * widest)))
        _product_sums(blas_addresses(), ReadableRows.of(X), rows, self.cut, RowSums(m, t, square))


@kernel
def _product_sums(blas, table, rows, W, out):  # pragma: no cover - compiled
    entries, cuts, depth, offset, image, weights, lift = W
    m, t, square = out
    m[:], t[:], square[:] = 0.0, 0.0, 0.0
    r, (_, p) = len(offset), lift.shape
    room, lifted = np.empty(rows * r), np.empty(rows * p)
    for start in range(0, len(m) if r else 0, rows):
        stop = min(start + rows, len(m))
        for panel in range(len(depth)):
            _multiply(blas, table, (start, stop), entries, (r, cuts[panel], cuts[panel + 1], depth[panel]), room)
        q = room[: (stop - start) * r].reshape((stop - start, r))
        if len(square) and not p:
            _three_sums(q, offset, image, weights, m[start:stop], t[start:stop], square[start:stop])
            continue
        _two_sums(q, offset, image, m[start:stop], t[start:stop])
        if p:
            q += offset
            flat = lift.reshape(-1)
            dgemm(blas.dgemm, (PLAIN, PLAIN, p, stop - start, r, 1.0, flat, 0, p, room, 0, r, 0.0, lifted, 0, p))
            _squares(lifted[: (stop - start) * p].reshape((stop - start, p)), square[start:stop])


@sum_kernel
def _squares(v, square):  # pragma: no cover - compiled
    """Write the squared length of each row."""
    for i in range(len(v)):
        s = 0.0
        for j in range(v.shape[1]):
            s += v[i, j] * v[i, j]
        square[i] = s


@sum_kernel
def _two_sums(q, offset, image, m, t):  # pragma: no cover - compiled
    """Add to the leverages and the predictions; four rows at a time share the loads of offset and image."""
    n, width = q.shape
    last = n - n % 4
    for i in range(0, last, 4):
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
        for j in range(width):
            o, c = offset[j], image[j]
            v0, v1, v2, v3 = q[i, j] + o, q[i + 1, j] + o, q[i + 2, j] + o, q[i + 3, j] + o
            a0 += v0 * v0
            a1 += v1 * v1
            a2 += v2 * v2
            a3 += v3 * v3
            b0 += v0 * c
            b1 += v1 * c
            b2 += v2 * c
            b3 += v3 * c
        m[i] += a0
        m[i + 1] += a1
        m[i + 2] += a2
        m[i + 3] += a3
        t[i] += b0
        t[i + 1] += b1
        t[i + 2] += b2
        t[i + 3] += b3
    for i in range(last, n):
        for j in range(width):
            v = q[i, j] + offset[j]
            m[i] += v * v
            t[i] += v * image[j]


@sum_kernel
def _three_sums(q, offset, image, weights, m, t, square):  # pragma: no cover - compiled
    """Add to the leverages, the predictions and the squared movements; two rows at a time."""
    n, width = q.shape
    last = n - n % 2
    for i in range(0, last, 2):
        a0 = a1 = b0 = b1 = c0 = c1 = 0.0
        for j in range(width):
            o, c, w = offset[j], image[j], weights[j]
            v0, v1 = q[i, j] + o, q[i + 1, j] + o
            s0, s1 = v0 * v0, v1 * v1
            a0 += s0
            a1 += s1
            b0 += v0 * c
            b1 += v1 * c
            c0 += w * s0
            c1 += w * s1
        m[i] += a0
        m[i + 1] += a1
        t[i] += b0
        t[i + 1] += b1
        square[i] += c0
        square[i + 1] += c1
    for i in range(last, n):
        for j in range(width):
            v = q[i, j] + offset[j]
            m[i] += v * v
            t[i] += v * image[j]
            square[i] += weights[j] * (v * v)
