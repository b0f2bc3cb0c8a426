"""Tables of few columns that lie column by column (files, Fortran order): the sums of ``row_kernels`` over them.

Here the lanes of a register are people. A column is one long run of memory, so a few people go at a time, all of their
columns, before the next: the processor follows some runs ahead of time, not twenty at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perinstance.models.linear.row_kernels import RUN_BYTES, CutMatrix, Panels, RowSums, contiguous
from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel, piece
from perinstance.numerics.simd_vectors import (
    add4,
    first4,
    load2,
    load4,
    memory1,
    memory4,
    multiply4,
    multiply_add4,
    repeat4,
    second4,
    store2,
    store4,
    sums2,
    zero4,
)

ROOM = 64  #: people that go through all panels before the next


class ColumnPanels(Panels):
    """A matrix W of d rows, cut into four columns each, filled up with zeros."""

    __slots__ = ()

    FEWEST = 8
    ORDER = "F"

    @classmethod
    def of(cls, W: Floats, offset: Floats, image: Floats, weights: Floats, triangular: bool) -> ColumnPanels:
        """Cut W; where it is upper triangular, a column ends at its diagonal."""
        d, r = W.shape
        width = max(4, -(-r // 4) * 4)
        padded = np.zeros((d + 3, width))
        padded[:d, :r], padded[d:, :r] = W, (offset, image, weights)
        starts = range(0, width, 4)
        depth = np.array([min(d, j + 4) if triangular else d for j in starts], dtype=np.int64)
        parts = [padded[:k, j : j + 4].ravel() for j, k in zip(starts, depth, strict=True)]
        return cls(CutMatrix(np.concatenate(parts), depth, *padded[d:]))

    def _sums(self, X: NDArray, out: RowSums) -> None:
        _column_sums(X[0], self.cut, out)


class PeopleSpan(NamedTuple):
    """Some consecutive people of a table whose columns lie ``step`` numbers apart."""

    start: int
    stop: int
    step: int
    before: int  #: how many people stand before the first one of the array that is read


@piece
def _weighted(weights, j, a0, a1, a2, a3):  # pragma: no cover - compiled
    p, q = load2(weights, j), load2(weights, j + 2)
    low = multiply_add4(first4(p), a0, multiply4(second4(p), a1))
    return multiply_add4(first4(q), a2, multiply_add4(second4(q), a3, low))


@piece
def _add(out, i, panel, a, b):  # pragma: no cover - compiled
    """Write the share of the first panel, add that of the others."""
    if panel > 0:
        a, b = add4(a, load4(out, i)), add4(b, load4(out, i + 4))
    store4(out, i, a)
    store4(out, i + 4, b)


@kernel
def _crowded(step, d, rows):  # pragma: no cover - compiled
    """Whether some people of a table would fall on each other in a first-level cache, five columns on one line.

    Caches differ; where a line has room for more than four, or there are more of them, this errs on the dear side.
    """
    taken = np.zeros(256, dtype=np.int64)
    most = 0
    for k in range(d):
        first = (k * step) // 8
        for line in range(first, first + rows // 8 + 1):
            taken[line % 256] += 1
            most = max(most, taken[line % 256])
    return most > 4 + d * rows // 4096


@kernel
def _gather(x, step, start, stop, d, room, pitch):  # pragma: no cover - compiled
    """Copy some people, a multiple of four, to where their columns lie close together."""
    for k in range(d):
        for i in range(0, stop - start, 4):
            store4(room, k * pitch + i, memory4(x, k * step + start + i))


@kernel
def _column_sums(x, W, out):  # pragma: no cover - compiled
    """Write the sums of all people; x is the row of the first, and the others lie behind it in every column."""
    n, d, step = len(out.m), len(x), x.strides[0] // 8
    # Where W is full every panel comes by all columns: they are put close together first.
    close = W.depth.sum() > 3 * len(W.depth) * d // 4 or _crowded(step, d, ROOM)
    room = np.empty(d * ROOM if close else 0)
    start = 0
    while start < n:
        stop = min(start + ROOM, n)
        if stop - start < 8:
            start = n - 8  # the last eight overlap those before, whose sums are written again
        stop -= (stop - start) % 8
        if close:
            _gather(x, step, start, stop, d, room, ROOM)
            _some_people(room, PeopleSpan(start, stop, ROOM, start), W, out)
        else:
            _some_people(x, PeopleSpan(start, stop, step, 0), W, out)
        start = stop


@kernel
def _some_people(x, people, W, out):  # pragma: no cover - compiled
    """Write the sums of some people, a multiple of eight."""
    (entries, depth, offset, image, weights), (m, t, square) = W, out
    start, stop, step, before = people
    moves = len(square) > 0
    first = 0
    for panel in range(len(depth)):
        j = 4 * panel
        for i in range(start, stop, 8):
            a0, a1, a2, a3 = repeat4(offset, j), repeat4(offset, j + 1), repeat4(offset, j + 2), repeat4(offset, j + 3)
            b0, b1, b2, b3 = a0, a1, a2, a3
            at, place = first, i - before
            for _ in range(depth[panel]):
                u, v = memory4(x, place), memory4(x, place + 4)
                p, q = load2(entries, at), load2(entries, at + 2)
                a0, b0 = multiply_add4(first4(p), u, a0), multiply_add4(first4(p), v, b0)
                a1, b1 = multiply_add4(second4(p), u, a1), multiply_add4(second4(p), v, b1)
                a2, b2 = multiply_add4(first4(q), u, a2), multiply_add4(first4(q), v, b2)
                a3, b3 = multiply_add4(second4(q), u, a3), multiply_add4(second4(q), v, b3)
                at, place = at + 4, place + step
            _add(t, i, panel, _weighted(image, j, a0, a1, a2, a3), _weighted(image, j, b0, b1, b2, b3))
            a0, a1, a2, a3 = multiply4(a0, a0), multiply4(a1, a1), multiply4(a2, a2), multiply4(a3, a3)
            b0, b1, b2, b3 = multiply4(b0, b0), multiply4(b1, b1), multiply4(b2, b2), multiply4(b3, b3)
            _add(m, i, panel, add4(add4(a0, a1), add4(a2, a3)), add4(add4(b0, b1), add4(b2, b3)))
            if moves:
                _add(square, i, panel, _weighted(weights, j, a0, a1, a2, a3), _weighted(weights, j, b0, b1, b2, b3))
        first += 4 * depth[panel]


def add_cross(X: Floats, y: Floats, cross: Floats, moment: Floats) -> None:
    """Add X'X to the upper triangle of ``cross`` and X'y to ``moment``; X has eight columns or more."""
    rows = max(4, RUN_BYTES // (8 * X.shape[1]) // 4 * 4)
    _add_cross(X[0], contiguous(y), rows, cross, moment)


@kernel
def _add_cross(x, y, rows, cross, moment):  # pragma: no cover - compiled
    d, step = len(x), x.strides[0] // 8
    part = np.zeros((d, d))
    flat = part.reshape(-1)
    total = np.zeros(d)
    close = _crowded(step, d, rows)
    room = np.empty(d * rows if close else 0)
    for start in range(0, len(y), rows):
        stop = min(start + rows, len(y))
        last = stop - (stop - start) % 4
        if close:
            _gather(x, step, start, last, d, room, rows)
            _tiles(room, PeopleSpan(start, last, rows, start), y, d, flat, total)
        else:
            _tiles(x, PeopleSpan(start, last, step, 0), y, d, flat, total)
        for j in range(d):
            moment[j] += total[j]
            for k in range(j, d):
                cross[j, k] += part[j, k]
        for i in range(last, stop):  # at most three people, at the very end
            for j in range(d):
                v = memory1(x, j * step + i)
                moment[j] += v * y[i]
                for k in range(j, d):
                    cross[j, k] += v * memory1(x, k * step + i)


@kernel
def _tiles(x, people, y, d, out, total):  # pragma: no cover - compiled
    """Write X'X and X'y over some people, a multiple of four."""
    start, stop, step, before = people
    for row in range(0, d, 4):
        j = min(row, d - 4)  # the last tiles may overlap those before: they are written again, not added
        _moments(x, step, before, y, start, stop, j, total)
        for column in range(j, d, 2):
            k = min(column, d - 2)
            _products(x, step, start - before, stop - before, j, k, d, out)


@kernel
def _products(x, step, start, stop, j, k, d, out):  # pragma: no cover - compiled
    """Write rows j to j + 3, columns k and k + 1 of X'X over some people, a multiple of four."""
    c0, k0, k1 = j * step, k * step, (k + 1) * step
    c1, c2, c3 = c0 + step, c0 + 2 * step, c0 + 3 * step
    a0, a1, a2, a3, b0, b1, b2, b3 = zero4(), zero4(), zero4(), zero4(), zero4(), zero4(), zero4(), zero4()
    for i in range(start, stop, 4):
        v, w = memory4(x, k0 + i), memory4(x, k1 + i)
        p, q = memory4(x, c0 + i), memory4(x, c1 + i)
        a0, b0 = multiply_add4(p, v, a0), multiply_add4(p, w, b0)
        a1, b1 = multiply_add4(q, v, a1), multiply_add4(q, w, b1)
        p, q = memory4(x, c2 + i), memory4(x, c3 + i)
        a2, b2 = multiply_add4(p, v, a2), multiply_add4(p, w, b2)
        a3, b3 = multiply_add4(q, v, a3), multiply_add4(q, w, b3)
    at = j * d + k
    store2(out, at, sums2(a0, b0))
    store2(out, at + d, sums2(a1, b1))
    store2(out, at + 2 * d, sums2(a2, b2))
    store2(out, at + 3 * d, sums2(a3, b3))


@kernel
def _moments(x, step, before, y, start, stop, j, out):  # pragma: no cover - compiled
    """Write entries j to j + 3 of X'y over some people, a multiple of four."""
    c0 = j * step - before
    c1, c2, c3 = c0 + step, c0 + 2 * step, c0 + 3 * step
    a0, a1, a2, a3 = zero4(), zero4(), zero4(), zero4()
    for i in range(start, stop, 4):
        v = load4(y, i)
        a0, a1 = multiply_add4(memory4(x, c0 + i), v, a0), multiply_add4(memory4(x, c1 + i), v, a1)
        a2, a3 = multiply_add4(memory4(x, c2 + i), v, a2), multiply_add4(memory4(x, c3 + i), v, a3)
    store2(out, j, sums2(a0, a1))
    store2(out, j + 2, sums2(a2, a3))
