"""Tables of few columns: X'X, and leverage and prediction of each row, while everything stays in registers.

A library's matrix product is made for large matrices. At twenty columns it writes an image that is read once and
thrown away, and it multiplies by the half of W that is zero. Here four people go through eight columns of W at a time,
as far down as the columns go (``Panels``), and only their sums are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel, piece
from perinstance.numerics.simd_vectors import (
    add2,
    add4,
    fetch,
    first4,
    load2,
    load4,
    multiply4,
    multiply_add4,
    repeat4,
    second4,
    store2,
    store4,
    sums2,
    zero2,
    zero4,
)

#: From fewer columns there is nothing to win, for more a library's product is as good.
NARROWEST, WIDEST = 8, 64
#: The same of X W, row by row: for more columns W leaves the second-level cache.
WIDEST_ROWS = 300
#: Bytes of the rows that are folded at a time: they are read several times, from the first-level cache.
RUN_BYTES = 1 << 15


def contiguous(array: NDArray) -> Floats:
    """Return the array itself where the kernels can read it, else a copy."""
    if array.dtype == np.float64 and array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.require(array, dtype=np.float64, requirements=["C", "A"])


def by_columns(X: NDArray) -> bool:
    """Whether X lies column by column, so that compiled code can read it so."""
    across, along = X.strides
    return bool(X.dtype == np.float64 and X.flags.aligned and across == 8 < along and along % 8 == 0)


class CutMatrix(NamedTuple):
    """A matrix W of d rows, cut into panels of columns and filled up with zeros."""

    entries: Floats  #: panel by panel, row by row
    depth: NDArray[np.int64]  #: of each panel, or of each half of one: the rows below are zero
    offset: Floats  #: what is added to x W
    image: Floats
    weights: Floats


class RowSums(NamedTuple):
    """Where the sums of each row are written; ``square`` is empty where it is not wanted."""

    m: Floats  #: sum q_j^2, q = x W + offset
    t: Floats  #: sum q_j image_j
    square: Floats  #: sum weights_j q_j^2


@dataclass(frozen=True, slots=True)
class Panels:
    """A matrix cut into eight columns each, of which four may end before the others, and four (or none) at the end."""

    cut: CutMatrix

    FEWEST: ClassVar[int] = 4  #: people that the kernel takes at a time
    ORDER: ClassVar[Literal["C", "F"]] = "C"  #: how it wants them

    @classmethod
    def of(cls, W: Floats, offset: Floats, image: Floats, weights: Floats, triangular: bool) -> Panels:
        """Cut W; where it is upper triangular, a column ends at its diagonal."""
        d, r = W.shape
        width = -(-r // 4) * 4

        def padded(vector: Floats) -> Floats:
            return np.append(vector, np.zeros(width - r))

        W = np.hstack([W, np.zeros((d, width - r))])
        wide = width // 8 * 8
        depth = np.array([min(d, j + 4) if triangular else d for j in range(0, wide, 4)], dtype=np.int64)
        parts = [np.empty(0)]
        for j, few, many in zip(range(0, wide, 8), depth[::2], depth[1::2], strict=True):
            parts += [W[:few, j : j + 8].ravel(), W[few:many, j + 4 : j + 8].ravel()]
        entries = np.concatenate([*parts, W[:, wide:].ravel()])
        return cls(CutMatrix(entries, depth, padded(offset), padded(image), padded(weights)))

    def sums(self, X: NDArray, m: Floats, t: Floats, square: Floats) -> None:
        """Write, with ``q = x W + offset``, ``sum q_j^2``, ``sum q_j image_j`` and, unless ``square`` is empty,
        ``sum weights_j q_j^2`` of each row.
        """
        n, d = X.shape
        if n >= self.FEWEST:
            self._sums(X, RowSums(m, t, square))
            return
        filled = np.zeros((self.FEWEST, d), order=self.ORDER)
        filled[:n] = X
        found = np.empty((3, self.FEWEST))
        self._sums(filled, RowSums(found[0], found[1], found[2] if len(square) else square))
        m[:], t[:] = found[:2, :n]
        square[:] = found[2, : len(square)]

    def _sums(self, X: NDArray, out: RowSums) -> None:
        row_sums(contiguous(X).ravel(), X.shape[1], self.cut, out)


# A piece has no loop: in a loop's place numba would count the references of its arrays at every call.


@piece
def _two_features(x, at, d, entries, k, a, b):  # pragma: no cover - compiled
    """Add two features of four people to eight columns: a has the first four, b the others, one vector a person."""
    x0, x1, x2, x3 = load2(x, at), load2(x, at + d), load2(x, at + 2 * d), load2(x, at + 3 * d)
    v, w = load4(entries, k), load4(entries, k + 4)
    a0, b0 = multiply_add4(first4(x0), v, a[0]), multiply_add4(first4(x0), w, b[0])
    a1, b1 = multiply_add4(first4(x1), v, a[1]), multiply_add4(first4(x1), w, b[1])
    a2, b2 = multiply_add4(first4(x2), v, a[2]), multiply_add4(first4(x2), w, b[2])
    a3, b3 = multiply_add4(first4(x3), v, a[3]), multiply_add4(first4(x3), w, b[3])
    v, w = load4(entries, k + 8), load4(entries, k + 12)
    a0, b0 = multiply_add4(second4(x0), v, a0), multiply_add4(second4(x0), w, b0)
    a1, b1 = multiply_add4(second4(x1), v, a1), multiply_add4(second4(x1), w, b1)
    a2, b2 = multiply_add4(second4(x2), v, a2), multiply_add4(second4(x2), w, b2)
    a3, b3 = multiply_add4(second4(x3), v, a3), multiply_add4(second4(x3), w, b3)
    return (a0, a1, a2, a3), (b0, b1, b2, b3)


@piece
def _two_features_of_four(x, at, d, entries, k, a):  # pragma: no cover - compiled
    """Add two features of four people to four columns."""
    x0, x1, x2, x3 = load2(x, at), load2(x, at + d), load2(x, at + 2 * d), load2(x, at + 3 * d)
    v, w = load4(entries, k), load4(entries, k + 4)
    a0 = multiply_add4(second4(x0), w, multiply_add4(first4(x0), v, a[0]))
    a1 = multiply_add4(second4(x1), w, multiply_add4(first4(x1), v, a[1]))
    a2 = multiply_add4(second4(x2), w, multiply_add4(first4(x2), v, a[2]))
    a3 = multiply_add4(second4(x3), w, multiply_add4(first4(x3), v, a[3]))
    return a0, a1, a2, a3


@piece
def _one_feature(x, at, d, v, a):  # pragma: no cover - compiled
    """Add one feature of four people, times four entries of W."""
    a0, a1 = multiply_add4(repeat4(x, at), v, a[0]), multiply_add4(repeat4(x, at + d), v, a[1])
    a2, a3 = multiply_add4(repeat4(x, at + 2 * d), v, a[2]), multiply_add4(repeat4(x, at + 3 * d), v, a[3])
    return a0, a1, a2, a3


@piece
def _four_times(v):  # pragma: no cover - compiled
    return v, v, v, v


@piece
def _dots(vector, j, a, b):  # pragma: no cover - compiled
    """Return the products of eight columns with a vector: of the first two people, of the others."""
    v, w = load4(vector, j), load4(vector, j + 4)
    first = sums2(multiply_add4(a[0], v, multiply4(b[0], w)), multiply_add4(a[1], v, multiply4(b[1], w)))
    return first, sums2(multiply_add4(a[2], v, multiply4(b[2], w)), multiply_add4(a[3], v, multiply4(b[3], w)))


@piece
def _squares(a):  # pragma: no cover - compiled
    return multiply4(a[0], a[0]), multiply4(a[1], a[1]), multiply4(a[2], a[2]), multiply4(a[3], a[3])


@kernel
def row_sums(x, d, W, out):  # pragma: no cover - compiled
    """Write the sums of each row, of four people or more."""
    # the arrays are taken out of their records here: in the loop that would count references
    (entries, depth, offset, image, weights), (m, t, square) = W, out
    n, wide, moves = len(m), len(depth) // 2, len(square) > 0
    for start in range(0, n, 4):
        i = min(start, n - 4)  # the last four may overlap those before
        m0, m2, t0, t2, s0, s2 = zero2(), zero2(), zero2(), zero2(), zero2(), zero2()
        at = 0
        for panel in range(wide):
            j = 8 * panel
            a, b = _four_times(load4(offset, j)), _four_times(load4(offset, j + 4))
            few, many = depth[2 * panel], depth[2 * panel + 1]
            for k in range(0, few - 1, 2):
                a, b = _two_features(x, i * d + k, d, entries, at, a, b)
                at += 16
            if few % 2:
                k = i * d + few - 1
                a, b = _one_feature(x, k, d, load4(entries, at), a), _one_feature(x, k, d, load4(entries, at + 4), b)
                at += 8
            for k in range(few, many - 1, 2):  # a triangular W has zeros there in the first four columns
                b = _two_features_of_four(x, i * d + k, d, entries, at, b)
                at += 8
            if (many - few) % 2:
                b = _one_feature(x, i * d + many - 1, d, load4(entries, at), b)
                at += 4
            u, v = _dots(image, j, a, b)
            t0, t2 = add2(t0, u), add2(t2, v)
            a = _squares(a)
            m0 = add2(m0, sums2(multiply_add4(b[0], b[0], a[0]), multiply_add4(b[1], b[1], a[1])))
            m2 = add2(m2, sums2(multiply_add4(b[2], b[2], a[2]), multiply_add4(b[3], b[3], a[3])))
            if moves:
                u, v = _dots(weights, j, a, _squares(b))
                s0, s2 = add2(s0, u), add2(s2, v)
        if len(offset) > 8 * wide:  # four columns more
            j = 8 * wide
            a = _four_times(load4(offset, j))
            for k in range(0, d - 1, 2):
                a = _two_features_of_four(x, i * d + k, d, entries, at, a)
                at += 8
            if d % 2:
                a = _one_feature(x, i * d + d - 1, d, load4(entries, at), a)
            v = load4(image, j)
            t0 = add2(t0, sums2(multiply4(a[0], v), multiply4(a[1], v)))
            t2 = add2(t2, sums2(multiply4(a[2], v), multiply4(a[3], v)))
            a = _squares(a)
            m0, m2 = add2(m0, sums2(a[0], a[1])), add2(m2, sums2(a[2], a[3]))
            if moves:
                v = load4(weights, j)
                s0 = add2(s0, sums2(multiply4(a[0], v), multiply4(a[1], v)))
                s2 = add2(s2, sums2(multiply4(a[2], v), multiply4(a[3], v)))
        store2(m, i, m0)
        store2(m, i + 2, m2)
        store2(t, i, t0)
        store2(t, i + 2, t2)
        if moves:
            store2(square, i, s0)
            store2(square, i + 2, s2)


def add_cross(X: Floats, y: Floats, cross: Floats, moment: Floats) -> None:
    """Add X'X to the upper triangle of ``cross`` and X'y to ``moment``; X has eight columns or more."""
    d = X.shape[1]
    add_cross_of_rows(contiguous(X).ravel(), contiguous(y), d, max(1, RUN_BYTES // (8 * d)), cross, moment)


@kernel
def add_cross_of_rows(x, y, d, rows, cross, moment):  # pragma: no cover - compiled
    """Do it to rows that lie one after the other, so many at a time."""
    part = np.zeros((d, d))
    flat = part.reshape(-1)
    for start in range(0, len(y), rows):
        stop = min(start + rows, len(y))
        add_moment(x, y, d, start, stop, flat, moment)
        ahead = stop * d  # the next run is read while this one is multiplied: eight numbers with every row of a tile
        for row in range(0, d, 4):
            j = min(row, d - 4)  # the last tiles may overlap those before: they are written again, not added
            k = j
            while k < d:
                if d - k > 4:
                    k = min(k, d - 8)
                    _eight_columns(x, d, (start, stop), j, k, flat, ahead)
                    ahead = min(ahead + 8 * (stop - start), (stop + rows) * d)
                    k += 8
                else:
                    k = d - 4
                    _four_columns(x, d, start, stop, j, k, flat)
                    k += 4
        for j in range(d):
            for k in range(j, d):
                cross[j, k] += part[j, k]


@kernel
def _eight_columns(x, d, run, j, k, out, ahead):  # pragma: no cover - compiled
    """Write rows j to j + 3, columns k to k + 7 of X'X over some people."""
    start, stop = run
    a0, a1, a2, a3, b0, b1, b2, b3 = zero4(), zero4(), zero4(), zero4(), zero4(), zero4(), zero4(), zero4()
    for i in range(start, stop):
        at = i * d
        fetch(x, ahead + 8 * (i - start))
        v, w = load4(x, at + k), load4(x, at + k + 4)
        p, q = load2(x, at + j), load2(x, at + j + 2)
        a0, b0 = multiply_add4(first4(p), v, a0), multiply_add4(first4(p), w, b0)
        a1, b1 = multiply_add4(second4(p), v, a1), multiply_add4(second4(p), w, b1)
        a2, b2 = multiply_add4(first4(q), v, a2), multiply_add4(first4(q), w, b2)
        a3, b3 = multiply_add4(second4(q), v, a3), multiply_add4(second4(q), w, b3)
    at = j * d + k
    store4(out, at, a0)
    store4(out, at + 4, b0)
    store4(out, at + d, a1)
    store4(out, at + d + 4, b1)
    store4(out, at + 2 * d, a2)
    store4(out, at + 2 * d + 4, b2)
    store4(out, at + 3 * d, a3)
    store4(out, at + 3 * d + 4, b3)


@kernel
def _four_columns(x, d, start, stop, j, k, out):  # pragma: no cover - compiled
    """Write rows j to j + 3, columns k to k + 3 of X'X over some people."""
    a0, a1, a2, a3 = zero4(), zero4(), zero4(), zero4()
    for i in range(start, stop):
        at = i * d
        v = load4(x, at + k)
        p, q = load2(x, at + j), load2(x, at + j + 2)
        a0, a1 = multiply_add4(first4(p), v, a0), multiply_add4(second4(p), v, a1)
        a2, a3 = multiply_add4(first4(q), v, a2), multiply_add4(second4(q), v, a3)
    at = j * d + k
    store4(out, at, a0)
    store4(out, at + d, a1)
    store4(out, at + 2 * d, a2)
    store4(out, at + 3 * d, a3)


@kernel
def add_moment(x, y, d, start, stop, part, out):  # pragma: no cover - compiled
    """Add X'y over some people, eight columns at a time; every second person adds to a second set of sums."""
    last = stop - (stop - start) % 2
    for column in range(0, d, 8):
        k = min(column, d - 8)
        a0, a1, b0, b1 = zero4(), zero4(), zero4(), zero4()
        for i in range(start, last, 2):
            at = i * d + k
            v, w = repeat4(y, i), repeat4(y, i + 1)
            a0, b0 = multiply_add4(v, load4(x, at), a0), multiply_add4(v, load4(x, at + 4), b0)
            a1, b1 = multiply_add4(w, load4(x, at + d), a1), multiply_add4(w, load4(x, at + d + 4), b1)
        if last < stop:
            at = last * d + k
            v = repeat4(y, last)
            a0, b0 = multiply_add4(v, load4(x, at), a0), multiply_add4(v, load4(x, at + 4), b0)
        store4(part, k, add4(a0, a1))
        store4(part, k + 4, add4(b0, b1))
    for j in range(d):
        out[j] += part[j]
