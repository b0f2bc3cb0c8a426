"""Tables of up to seven columns whose rows lie one after the other: the sums of ``row_kernels`` over them.

The lanes of a register are people here: a row is shorter than the tiles that rows of more columns go through. Rows are
seen through a triangular W (a factor) or through a full one, with weights (a factor that was rotated for a norm); with
an intercept, or without weights, a full one goes through ``row_kernels``. One to three columns: ``fewest_columns``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perinstance.models.linear.loops.fewest_columns import LANES, THREE, fewest_sums, three_products
from perinstance.models.linear.row_kernels import CutMatrix, Panels, RowSums, contiguous
from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel, piece
from perinstance.numerics.simd_vectors import (
    add4,
    columns2,
    columns4,
    columns8,
    eight_in_a_register,
    first4,
    load2,
    load8,
    multiply4,
    multiply_add2,
    multiply_add4,
    multiply_add8,
    repeat4,
    second4,
    spaced2,
    spaced4,
    spaced8,
    store2,
    store4,
    store8,
    zero2,
    zero4,
    zero8,
)

#: columns that these loops take
FEWEST_COLUMNS, MOST_COLUMNS = 1, 7

#: what reads, adds up and writes as many people as one register holds (``LANES``)
_columns, _spaced, _lying, _add, _zero, _store = (
    (columns8, spaced8, load8, multiply_add8, zero8, store8)
    if eight_in_a_register()
    else (columns2, spaced2, load2, multiply_add2, zero2, store2)
)


class Triangle(Panels):
    """An upper triangular W of four to seven columns, column by column."""

    __slots__ = ()

    @classmethod
    def of(cls, W: Floats, offset: Floats, image: Floats, weights: Floats, triangular: bool) -> Triangle:
        """Pack the columns down to the diagonal; a depth below zero tells such a cut from others."""
        columns = [W[: j + 1, j] for j in range(len(W))]
        return cls(CutMatrix(np.concatenate(columns), np.full(1, -1), offset, image, weights))

    def _sums(self, X: NDArray, out: RowSums) -> None:
        triangle_sums(contiguous(X).ravel(), X.shape[1], self.cut, out)


class Square(Panels):
    """A full W of four to seven columns, and as many rows, column by column; lengths are wanted too."""

    __slots__ = ()

    @classmethod
    def of(cls, W: Floats, offset: Floats, image: Floats, weights: Floats, triangular: bool) -> Square:
        """Turn it round; a depth below zero tells such a cut from others."""
        return cls(CutMatrix(W.T.flatten(), np.full(1, -1), offset, image, weights))

    def _sums(self, X: NDArray, out: RowSums) -> None:
        square_sums(contiguous(X).ravel(), X.shape[1], self.cut, out)


@kernel
def of_few(W):  # pragma: no cover - compiled
    """Tell whether W was cut by ``Triangle``, ``Square`` or ``Fewest``."""
    return len(W.depth) == 1 and W.depth[0] < 0


@piece
def _first_four(x, at, d, w, b):  # pragma: no cover - compiled
    """Return four columns of four people, and the sums over the first four entries of x W."""
    x0, x1, x2, x3 = columns4(x, at, d)
    w0, w2, w4, w6, w8 = load2(w, 0), load2(w, 2), load2(w, 4), load2(w, 6), load2(w, 8)
    q0 = multiply4(first4(w0), x0)
    q1 = multiply_add4(first4(w2), x1, multiply4(second4(w0), x0))
    q2 = multiply_add4(second4(w4), x2, multiply_add4(first4(w4), x1, multiply4(second4(w2), x0)))
    q3 = multiply_add4(second4(w6), x1, multiply4(first4(w6), x0))
    q3 = multiply_add4(second4(w8), x3, multiply_add4(first4(w8), x2, q3))
    m = multiply_add4(q1, q1, multiply4(q0, q0))
    m = multiply_add4(q3, q3, multiply_add4(q2, q2, m))
    b0, b2 = load2(b, 0), load2(b, 2)
    t = multiply_add4(second4(b0), q1, multiply4(first4(b0), q0))
    t = multiply_add4(second4(b2), q3, multiply_add4(first4(b2), q2, t))
    return (x0, x1, x2, x3), m, t


@piece
def _four_of(x, w, at):  # pragma: no cover - compiled
    """Add up the first four features times a column of W."""
    w0, w2 = load2(w, at), load2(w, at + 2)
    low = multiply_add4(second4(w0), x[1], multiply4(first4(w0), x[0]))
    return multiply_add4(second4(w2), x[3], multiply_add4(first4(w2), x[2], low))


@piece
def _more(q, b, j, m, t):  # pragma: no cover - compiled
    """Add one entry of x W to the sums."""
    return multiply_add4(q, q, m), multiply_add4(repeat4(b, j), q, t)


@kernel
def triangle_sums(x, d, W, out):  # pragma: no cover - compiled
    """Write leverages and predictions of four people or more; of up to three columns, of ``Fewest.FEWEST``."""
    w, b, m, t = W.entries, W.image, out.m, out.t
    n = len(m)
    if d <= THREE:
        fewest_sums(x, d, W, out)
    elif d == 4:
        for start in range(0, n, 4):
            i = min(start, n - 4)  # the last four may overlap those before
            _, u, v = _first_four(x, i * d, d, w, b)
            store4(m, i, u)
            store4(t, i, v)
    elif d == 5:
        for start in range(0, n, 4):
            i = min(start, n - 4)
            xs, u, v = _first_four(x, i * d, d, w, b)
            q = multiply_add4(repeat4(w, 14), spaced4(x, i * d + 4, d), _four_of(xs, w, 10))
            u, v = _more(q, b, 4, u, v)
            store4(m, i, u)
            store4(t, i, v)
    else:
        _six_or_seven(x, d, w, b, m, t)


@kernel
def _six_or_seven(x, d, w, b, m, t):  # pragma: no cover - compiled
    n = len(m)
    for start in range(0, n, 4):
        i = min(start, n - 4)
        at = i * d
        xs, u, v = _first_four(x, at, d, w, b)
        x4, x5 = spaced4(x, at + 4, d), spaced4(x, at + 5, d)
        u, v = _more(multiply_add4(repeat4(w, 14), x4, _four_of(xs, w, 10)), b, 4, u, v)
        q = multiply_add4(repeat4(w, 19), x4, _four_of(xs, w, 15))
        u, v = _more(multiply_add4(repeat4(w, 20), x5, q), b, 5, u, v)
        if d == 7:
            q = multiply_add4(repeat4(w, 26), x5, multiply_add4(repeat4(w, 25), x4, _four_of(xs, w, 21)))
            u, v = _more(multiply_add4(repeat4(w, 27), spaced4(x, at + 6, d), q), b, 6, u, v)
        store4(m, i, u)
        store4(t, i, v)


@piece
def _weighted(q, b, weights, j, sums):  # pragma: no cover - compiled
    """Add one entry of x W to the sums of three."""
    (m, t, lengths), square = sums, multiply4(q, q)
    return add4(m, square), multiply_add4(repeat4(b, j), q, t), multiply_add4(repeat4(weights, j), square, lengths)


@kernel
def square_sums(x, d, W, out):  # pragma: no cover - compiled
    """The same and squared lengths."""
    (w, _, _, b, weights), (m, t, square) = W, out
    if d <= THREE:
        fewest_sums(x, d, W, out)
        return
    if d == 4:
        _square_of_four(x, w, b, weights, m, t, square)
        return
    n = len(m)
    for start in range(0, n, 4):
        i = min(start, n - 4)  # the last four may overlap those before
        at = i * d
        xs, x4 = columns4(x, at, d), spaced4(x, at + 4, d)
        x5, x6 = spaced4(x, at + min(5, d - 1), d), spaced4(x, at + d - 1, d)
        sums = zero4(), zero4(), zero4()
        for j in range(d):
            q = multiply_add4(repeat4(w, j * d + 4), x4, _four_of(xs, w, j * d))
            if d > 5:
                q = multiply_add4(repeat4(w, j * d + 5), x5, q)
            if d > 6:
                q = multiply_add4(repeat4(w, j * d + 6), x6, q)
            sums = _weighted(q, b, weights, j, sums)
        store4(m, i, sums[0])
        store4(t, i, sums[1])
        store4(square, i, sums[2])


@piece
def _four_in(x, w, v):  # pragma: no cover - compiled
    """Add up four features times a column of W, two and two of them."""
    low = multiply_add4(second4(w), x[1], multiply4(first4(w), x[0]))
    return multiply_add4(second4(v), x[3], multiply_add4(first4(v), x[2], low))


@piece
def _four_terms(w, v, a, b, c, e):  # pragma: no cover - compiled
    """The same, as a sum of two sums: the next need not wait long."""
    low = multiply_add4(second4(w), b, multiply4(first4(w), a))
    return add4(low, multiply_add4(second4(v), e, multiply4(first4(v), c)))


@kernel
def _square_of_four(x, w, b, weights, m, t, square):  # pragma: no cover - compiled
    # what is written might be what is multiplied by, for all a compiler knows: it is read once, here
    w0, w2, w4, w6 = load2(w, 0), load2(w, 2), load2(w, 4), load2(w, 6)
    w8, w10, w12, w14 = load2(w, 8), load2(w, 10), load2(w, 12), load2(w, 14)
    b0, b2, v0, v2 = load2(b, 0), load2(b, 2), load2(weights, 0), load2(weights, 2)
    n = len(m)
    for start in range(0, n, 4):
        i = min(start, n - 4)
        xs = columns4(x, 4 * i, 4)
        q0, q1, q2, q3 = _four_in(xs, w0, w2), _four_in(xs, w4, w6), _four_in(xs, w8, w10), _four_in(xs, w12, w14)
        store4(t, i, _four_terms(b0, b2, q0, q1, q2, q3))
        q0, q2 = multiply4(q0, q0), multiply4(q2, q2)
        q1, q3 = multiply4(q1, q1), multiply4(q3, q3)
        store4(m, i, add4(add4(q0, q1), add4(q2, q3)))
        store4(square, i, _four_terms(v0, v2, q0, q1, q2, q3))


@kernel
def add_cross_of_few(x, y, d, rows, cross, moment):  # pragma: no cover - compiled
    """Add X'X to the upper triangle of ``cross`` and X'y to ``moment``, so many rows at a time: a multiple of 8."""
    room, first = np.empty(21 * LANES), 4 if d > THREE else THREE  # columns that come first
    for start in range(0, len(y), rows):
        stop = min(start + rows, len(y))
        last = stop - (stop - start) % LANES
        if d > THREE:
            _four_products(x, y, d, (start, last), room)
        else:
            three_products(x, y, d, (start, last), room)
        for j in range(min(d, first)):
            moment[j] += _total(room, j)
            for k in range(j, min(d, first)):
                cross[j, k] += _total(room, first + first * j - j * (j + 1) // 2 + k)
        if d > 4:
            _other_products(x, y, d, (start, last), room)
            at = 0
            for k in range(4, d):
                for j in range(k + 1):
                    cross[j, k] += _total(room, at + j)
                moment[k] += _total(room, at + k + 1)
                at += k + 2
        for i in range(last, stop):  # those who do not fill a register
            for j in range(d):
                moment[j] += x[i * d + j] * y[i]
                for k in range(j, d):
                    cross[j, k] += x[i * d + j] * x[i * d + k]


@kernel
def _total(room, k):  # pragma: no cover - compiled
    """Add up the lanes of one sum."""
    total = 0.0
    for lane in range(LANES):
        total += room[k * LANES + lane]
    return total


@kernel
def _four_products(x, y, d, run, room):  # pragma: no cover - compiled
    """Write X'y and X'X of the first four columns over some people, a multiple of ``LANES``."""
    m0, m1, m2, m3 = _zero(), _zero(), _zero(), _zero()
    a0, a1, a2, a3, b1, b2, b3 = _zero(), _zero(), _zero(), _zero(), _zero(), _zero(), _zero()
    c2, c3, e3 = _zero(), _zero(), _zero()
    for i in range(run[0], run[1], LANES):
        at = i * d
        v = _lying(y, i)
        x0, x1, x2, x3 = _columns(x, at, d)
        m0, m1, m2, m3 = _add(v, x0, m0), _add(v, x1, m1), _add(v, x2, m2), _add(v, x3, m3)
        a0, a1, a2, a3 = _add(x0, x0, a0), _add(x0, x1, a1), _add(x0, x2, a2), _add(x0, x3, a3)
        b1, b2, b3 = _add(x1, x1, b1), _add(x1, x2, b2), _add(x1, x3, b3)
        c2, c3, e3 = _add(x2, x2, c2), _add(x2, x3, c3), _add(x3, x3, e3)
    _store_six(room, 0, m0, m1, m2, m3, a0, a1)
    _store_six(room, 6 * LANES, a2, a3, b1, b2, b3, c2)
    _store(room, 12 * LANES, c3)
    _store(room, 13 * LANES, e3)


@kernel
def _other_products(x, y, d, run, room):  # pragma: no cover - compiled
    """Write, of columns 4 to 6 as far as they go, X'X from the first row to the diagonal and then the entry of X'y."""
    a0, a1, a2, a3, a4, a5 = _zero(), _zero(), _zero(), _zero(), _zero(), _zero()
    b0, b1, b2, b3, b4, b5, b6 = _zero(), _zero(), _zero(), _zero(), _zero(), _zero(), _zero()
    c0, c1, c2, c3, c4, c5, c6, c7 = _zero(), _zero(), _zero(), _zero(), _zero(), _zero(), _zero(), _zero()
    for i in range(run[0], run[1], LANES):
        at = i * d
        v, x4 = _lying(y, i), _spaced(x, at + 4, d)
        x0, x1, x2, x3 = _columns(x, at, d)
        a0, a1, a2, a3 = _add(x4, x0, a0), _add(x4, x1, a1), _add(x4, x2, a2), _add(x4, x3, a3)
        a4, a5 = _add(x4, x4, a4), _add(x4, v, a5)
        if d > 5:
            x5 = _spaced(x, at + 5, d)
            b0, b1, b2, b3 = _add(x5, x0, b0), _add(x5, x1, b1), _add(x5, x2, b2), _add(x5, x3, b3)
            b4, b5, b6 = _add(x5, x4, b4), _add(x5, x5, b5), _add(x5, v, b6)
            if d > 6:
                x6 = _spaced(x, at + 6, d)
                c0, c1, c2, c3 = _add(x6, x0, c0), _add(x6, x1, c1), _add(x6, x2, c2), _add(x6, x3, c3)
                c4, c5, c6, c7 = _add(x6, x4, c4), _add(x6, x5, c5), _add(x6, x6, c6), _add(x6, v, c7)
    _store_six(room, 0, a0, a1, a2, a3, a4, a5)
    _store_six(room, 6 * LANES, b0, b1, b2, b3, b4, b5)
    _store(room, 12 * LANES, b6)
    _store_six(room, 13 * LANES, c0, c1, c2, c3, c4, c5)
    _store(room, 19 * LANES, c6)
    _store(room, 20 * LANES, c7)


@piece
def _store_six(room, at, a, b, c, e, f, g):  # pragma: no cover - compiled
    _store(room, at, a)
    _store(room, at + LANES, b)
    _store(room, at + 2 * LANES, c)
    _store(room, at + 3 * LANES, e)
    _store(room, at + 4 * LANES, f)
    _store(room, at + 5 * LANES, g)
