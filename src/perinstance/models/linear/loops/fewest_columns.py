"""Tables of one to three columns whose rows lie one after the other: the sums of ``few_columns`` over them.

The lanes of a register are people. Columns that there are not are columns of zeros: W, which may be full, has three
rows and columns, and there is one loop for all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perinstance.models.linear.row_kernels import CutMatrix, Panels, RowSums, contiguous
from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel, piece
from perinstance.numerics.simd_vectors import (
    both2,
    both4,
    both8,
    eight_in_a_register,
    load2,
    load4,
    load8,
    multiply4,
    multiply8,
    multiply_add2,
    multiply_add4,
    multiply_add8,
    repeat4,
    repeat8,
    store2,
    store4,
    store8,
    three2,
    three4,
    three8,
    zero2,
    zero4,
    zero8,
)

#: columns that a row has at most here
THREE = 3

#: people whose rows go through W at a time, and what reads and writes them
PEOPLE, _one, _both, _three, _multiply, _add, _repeat, _zero, _store = (
    (8, load8, both8, three8, multiply8, multiply_add8, repeat8, zero8, store8)
    if eight_in_a_register()
    else (4, load4, both4, three4, multiply4, multiply_add4, repeat4, zero4, store4)
)

#: the same of people whose products are summed side by side: what one register holds
LANES, _sum_one, _sum_both, _sum_three, _sum_add, _sum_zero, _sum_store = (
    (8, load8, both8, three8, multiply_add8, zero8, store8)
    if eight_in_a_register()
    else (2, load2, both2, three2, multiply_add2, zero2, store2)
)


class Fewest(Panels):
    """A full W of one to three columns, and as many rows, column by column; filled up with zeros to three."""

    __slots__ = ()

    FEWEST = PEOPLE

    @classmethod
    def of(cls, W: Floats, offset: Floats, image: Floats, weights: Floats, triangular: bool) -> Fewest:
        """Turn it round; a depth below zero tells such a cut from others."""
        d = len(W)
        whole, vectors = np.zeros((THREE, THREE)), np.zeros((2, THREE))
        whole[:d, :d], vectors[:, :d] = W.T, (image, weights)
        return cls(CutMatrix(whole.ravel(), np.full(1, -1), offset, vectors[0], vectors[1]))

    def _sums(self, X: NDArray, out: RowSums) -> None:
        fewest_sums(contiguous(X).ravel(), X.shape[1], self.cut, out)


@piece
def _entry(w, j, x0, x1, x2):  # pragma: no cover - compiled
    """Return entry j of x W."""
    low = _multiply(_repeat(w, 3 * j), x0)
    return _add(_repeat(w, 3 * j + 2), x2, _add(_repeat(w, 3 * j + 1), x1, low))


@piece
def _three_terms(v, a, b, c):  # pragma: no cover - compiled
    return _add(_repeat(v, 2), c, _add(_repeat(v, 1), b, _multiply(_repeat(v, 0), a)))


@kernel
def fewest_sums(x, d, W, out):  # pragma: no cover - compiled
    """Write leverages, predictions and, unless ``square`` is empty, squared lengths of ``PEOPLE`` people or more."""
    (w, _, _, b, weights), (m, t, square) = W, out
    n, lengths = len(m), len(square) > 0
    for start in range(0, n, PEOPLE):
        i = min(start, n - PEOPLE)  # the last may overlap those before
        x0, x1, x2 = _zero(), _zero(), _zero()
        if d == 1:
            x0 = _one(x, i)
        elif d == 2:
            x0, x1 = _both(x, 2 * i)
        else:
            x0, x1, x2 = _three(x, 3 * i)
        q0, q1, q2 = _entry(w, 0, x0, x1, x2), _entry(w, 1, x0, x1, x2), _entry(w, 2, x0, x1, x2)
        _store(t, i, _three_terms(b, q0, q1, q2))
        _store(m, i, _add(q2, q2, _add(q1, q1, _multiply(q0, q0))))
        if lengths:
            q0, q1, q2 = _multiply(q0, q0), _multiply(q1, q1), _multiply(q2, q2)
            _store(square, i, _three_terms(weights, q0, q1, q2))


@kernel
def three_products(x, y, d, run, room):  # pragma: no cover - compiled
    """Write X'y and X'X of three columns over some people, a multiple of ``LANES``."""
    m0, m1, m2 = _sum_zero(), _sum_zero(), _sum_zero()
    a0, a1, a2, b1, b2, c2 = _sum_zero(), _sum_zero(), _sum_zero(), _sum_zero(), _sum_zero(), _sum_zero()
    for i in range(run[0], run[1], LANES):
        v, x0, x1, x2 = _sum_one(y, i), _sum_zero(), _sum_zero(), _sum_zero()
        if d == 1:
            x0 = _sum_one(x, i)
        elif d == 2:
            x0, x1 = _sum_both(x, 2 * i)
        else:
            x0, x1, x2 = _sum_three(x, 3 * i)
        m0, m1, m2 = _sum_add(v, x0, m0), _sum_add(v, x1, m1), _sum_add(v, x2, m2)
        a0, a1, a2 = _sum_add(x0, x0, a0), _sum_add(x0, x1, a1), _sum_add(x0, x2, a2)
        b1, b2, c2 = _sum_add(x1, x1, b1), _sum_add(x1, x2, b2), _sum_add(x2, x2, c2)
    _store_three(room, 0, m0, m1, m2)
    _store_three(room, 3 * LANES, a0, a1, a2)
    _store_three(room, 6 * LANES, b1, b2, c2)


@piece
def _store_three(room, at, a, b, c):  # pragma: no cover - compiled
    _sum_store(room, at, a)
    _sum_store(room, at + LANES, b)
    _sum_store(room, at + 2 * LANES, c)
