"""The sums of ``row_kernels`` where a register holds eight numbers and there are thirty-two of them (AVX-512).

Eight people go through eight columns of W at a time; their sums stay in registers until the last panel. A tile of X'X
is eight rows by sixteen columns, or by eight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perinstance.models.linear.row_kernels import RUN_BYTES, CutMatrix, Panels, RowSums, add_moment, contiguous
from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel, piece
from perinstance.numerics.simd_vectors import (
    fetch,
    load8,
    multiply8,
    multiply_add8,
    repeat8,
    store8,
    sums8,
    zero8,
)

#: people from one eight to the eight whose rows are asked of memory meanwhile: no thread waits for them then
AHEAD = 16


class EightPanels(Panels):
    """A matrix W of d rows, cut into eight columns each, filled up with zeros."""

    __slots__ = ()

    FEWEST = 8

    @classmethod
    def of(cls, W: Floats, offset: Floats, image: Floats, weights: Floats, triangular: bool) -> EightPanels:
        """Cut W; where it is upper triangular, a column ends at its diagonal."""
        d, r = W.shape
        width = max(8, -(-r // 8) * 8)
        padded = np.zeros((d + 3, width))
        padded[:d, :r], padded[d:, :r] = W, (offset, image, weights)
        starts = range(0, width, 8)
        depth = np.array([min(d, j + 8) if triangular else d for j in starts], dtype=np.int64)
        parts = [padded[:k, j : j + 8].ravel() for j, k in zip(starts, depth, strict=True)]
        return cls(CutMatrix(np.concatenate(parts), depth, *padded[d:]))

    def _sums(self, X: NDArray, out: RowSums) -> None:
        (three_sums if len(out.square) else two_sums)(contiguous(X).ravel(), X.shape[1], self.cut, out)


@piece
def _one_feature(x, at, d, v, a):  # pragma: no cover - compiled
    """Add one feature of eight people, times eight entries of W."""
    a0, a1 = multiply_add8(repeat8(x, at), v, a[0]), multiply_add8(repeat8(x, at + d), v, a[1])
    a2, a3 = multiply_add8(repeat8(x, at + 2 * d), v, a[2]), multiply_add8(repeat8(x, at + 3 * d), v, a[3])
    a4, a5 = multiply_add8(repeat8(x, at + 4 * d), v, a[4]), multiply_add8(repeat8(x, at + 5 * d), v, a[5])
    a6, a7 = multiply_add8(repeat8(x, at + 6 * d), v, a[6]), multiply_add8(repeat8(x, at + 7 * d), v, a[7])
    return a0, a1, a2, a3, a4, a5, a6, a7


@piece
def _read_ahead(x, at):  # pragma: no cover - compiled
    """Ask for eight lines of the cache: a panel's share, for eight rows fill as many lines as they have columns."""
    fetch(x, at)
    fetch(x, at + 8)
    fetch(x, at + 16)
    fetch(x, at + 24)
    fetch(x, at + 32)
    fetch(x, at + 40)
    fetch(x, at + 48)
    fetch(x, at + 56)


@piece
def _three_columns(x, at, u, v, w, abc):  # pragma: no cover - compiled
    """Add one feature of one person, times three eights of entries of W."""
    p = repeat8(x, at)
    return multiply_add8(p, u, abc[0]), multiply_add8(p, v, abc[1]), multiply_add8(p, w, abc[2])


@piece
def _three_panels(x, at, d, entries, k, step, sums):  # pragma: no cover - compiled
    """Add one feature of eight people to three panels: twenty-four sums, and eleven reads for as many products."""
    u, v, w = load8(entries, k), load8(entries, k + step), load8(entries, k + 2 * step)
    s0, s1 = _three_columns(x, at, u, v, w, sums[0]), _three_columns(x, at + d, u, v, w, sums[1])
    s2, s3 = _three_columns(x, at + 2 * d, u, v, w, sums[2]), _three_columns(x, at + 3 * d, u, v, w, sums[3])
    s4, s5 = _three_columns(x, at + 4 * d, u, v, w, sums[4]), _three_columns(x, at + 5 * d, u, v, w, sums[5])
    s6, s7 = _three_columns(x, at + 6 * d, u, v, w, sums[6]), _three_columns(x, at + 7 * d, u, v, w, sums[7])
    return s0, s1, s2, s3, s4, s5, s6, s7


@piece
def _panel_of(sums, j):  # pragma: no cover - compiled
    """Return the sums of one of three panels."""
    low = sums[0][j], sums[1][j], sums[2][j], sums[3][j]
    return (*low, sums[4][j], sums[5][j], sums[6][j], sums[7][j])


@piece
def _add_products(a, b, c):  # pragma: no cover - compiled
    """``a b + c`` of each person."""
    c0, c1 = multiply_add8(a[0], b[0], c[0]), multiply_add8(a[1], b[1], c[1])
    c2, c3 = multiply_add8(a[2], b[2], c[2]), multiply_add8(a[3], b[3], c[3])
    c4, c5 = multiply_add8(a[4], b[4], c[4]), multiply_add8(a[5], b[5], c[5])
    return c0, c1, c2, c3, c4, c5, multiply_add8(a[6], b[6], c[6]), multiply_add8(a[7], b[7], c[7])


@piece
def _eight_times(v):  # pragma: no cover - compiled
    return v, v, v, v, v, v, v, v


@piece
def _scaled(v, a):  # pragma: no cover - compiled
    low = multiply8(v, a[0]), multiply8(v, a[1]), multiply8(v, a[2]), multiply8(v, a[3])
    return (*low, multiply8(v, a[4]), multiply8(v, a[5]), multiply8(v, a[6]), multiply8(v, a[7]))


@piece
def _store_sums(out, i, a):  # pragma: no cover - compiled
    store8(out, i, sums8(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]))


@piece
def _add_to(room, a, b):  # pragma: no cover - compiled
    """Add ``a b`` of each person to what lies in memory."""
    store8(room, 0, multiply_add8(a[0], b[0], load8(room, 0)))
    store8(room, 8, multiply_add8(a[1], b[1], load8(room, 8)))
    store8(room, 16, multiply_add8(a[2], b[2], load8(room, 16)))
    store8(room, 24, multiply_add8(a[3], b[3], load8(room, 24)))
    store8(room, 32, multiply_add8(a[4], b[4], load8(room, 32)))
    store8(room, 40, multiply_add8(a[5], b[5], load8(room, 40)))
    store8(room, 48, multiply_add8(a[6], b[6], load8(room, 48)))
    store8(room, 56, multiply_add8(a[7], b[7], load8(room, 56)))


@piece
def _in_room(room):  # pragma: no cover - compiled
    low = load8(room, 0), load8(room, 8), load8(room, 16), load8(room, 24)
    return (*low, load8(room, 32), load8(room, 40), load8(room, 48), load8(room, 56))


@kernel
def two_sums(x, d, W, out):  # pragma: no cover - compiled
    """Write leverages and predictions of eight people or more."""
    # the arrays are taken out of their records here: in the loop that would count references
    (entries, depth, offset, image, _), (m, t, _) = W, out
    n, wide = len(m), len(depth)
    for start in range(0, n, 8):
        i = min(start, n - 8)  # the last eight may overlap those before
        ms, ts = _eight_times(zero8()), _eight_times(zero8())
        at = 0
        for panel in range(wide):
            _read_ahead(x, (i + AHEAD) * d + 64 * panel)
            a = _eight_times(load8(offset, 8 * panel))
            for k in range(depth[panel]):
                a = _one_feature(x, i * d + k, d, load8(entries, at), a)
                at += 8
            ts = _add_products(a, _eight_times(load8(image, 8 * panel)), ts)
            ms = _add_products(a, a, ms)
        _store_sums(m, i, ms)
        _store_sums(t, i, ts)


@kernel
def three_sums(x, d, W, out):  # pragma: no cover - compiled
    """The same and the squared movements."""
    if len(W.depth) > 2 and W.depth[0] == d:
        _three_sums_by_threes(x, d, W, out)
    else:
        _three_sums_one_by_one(x, d, W, out)


@kernel
def _three_sums_one_by_one(x, d, W, out):  # pragma: no cover - compiled
    """Squared movements lie in memory meanwhile: there is no register left for them."""
    (entries, depth, offset, image, weights), (m, t, square) = W, out
    n, wide, room = len(m), len(depth), np.empty(64)
    for start in range(0, n, 8):
        i = min(start, n - 8)
        ms, ts = _eight_times(zero8()), _eight_times(zero8())
        room[:] = 0.0
        at = 0
        for panel in range(wide):
            _read_ahead(x, (i + AHEAD) * d + 64 * panel)
            a = _eight_times(load8(offset, 8 * panel))
            for k in range(depth[panel]):
                a = _one_feature(x, i * d + k, d, load8(entries, at), a)
                at += 8
            ts = _add_products(a, _eight_times(load8(image, 8 * panel)), ts)
            ms = _add_products(a, a, ms)
            _add_to(room, a, _scaled(load8(weights, 8 * panel), a))
        _store_sums(m, i, ms)
        _store_sums(t, i, ts)
        _store_sums(square, i, _in_room(room))


@piece
def _add_panel(rooms, a, image, weights):  # pragma: no cover - compiled
    """Add a panel's part of the three sums of each person."""
    _add_to(rooms[1], a, _eight_times(image))
    _add_to(rooms[0], a, a)
    _add_to(rooms[2], a, _scaled(weights, a))


@kernel
def _three_sums_by_threes(x, d, W, out):  # pragma: no cover - compiled
    """Three panels at a time, where none ends before the last row of W: all sums lie in memory meanwhile.

    With one panel at a time it is the reads, not the products, that take the time, and those of a large W come from the
    second-level cache. The sums are added in the same order.
    """
    (entries, depth, offset, image, weights), (m, t, square) = W, out  # every depth is d
    n, wide, rooms = len(m), len(depth), (np.empty(64), np.empty(64), np.empty(64))
    for start in range(0, n, 8):
        i = min(start, n - 8)
        rooms[0][:], rooms[1][:], rooms[2][:] = 0.0, 0.0, 0.0
        at = panel = 0
        while panel + 2 < wide:
            j = 8 * panel
            sums = _eight_times((load8(offset, j), load8(offset, j + 8), load8(offset, j + 16)))
            for ahead in range(8 * j, 8 * j + 192, 64):
                _read_ahead(x, (i + AHEAD) * d + ahead)
            for k in range(d):
                sums = _three_panels(x, i * d + k, d, entries, at + 8 * k, 8 * d, sums)
            _add_panel(rooms, _panel_of(sums, 0), load8(image, j), load8(weights, j))
            _add_panel(rooms, _panel_of(sums, 1), load8(image, j + 8), load8(weights, j + 8))
            _add_panel(rooms, _panel_of(sums, 2), load8(image, j + 16), load8(weights, j + 16))
            at += 24 * d
            panel += 3
        while panel < wide:
            _read_ahead(x, (i + AHEAD) * d + 64 * panel)
            a = _eight_times(load8(offset, 8 * panel))
            for k in range(d):
                a = _one_feature(x, i * d + k, d, load8(entries, at), a)
                at += 8
            _add_panel(rooms, a, load8(image, 8 * panel), load8(weights, 8 * panel))
            panel += 1
        _store_sums(m, i, _in_room(rooms[0]))
        _store_sums(t, i, _in_room(rooms[1]))
        _store_sums(square, i, _in_room(rooms[2]))


def add_cross(X: Floats, y: Floats, cross: Floats, moment: Floats) -> None:
    """Add X'X to the upper triangle of ``cross`` and X'y to ``moment``; X has eight columns or more."""
    d = X.shape[1]
    add_cross_of_rows(contiguous(X).ravel(), contiguous(y), d, max(1, RUN_BYTES // (8 * d)), cross, moment)


@kernel
def _tiles(d):  # pragma: no cover - compiled
    """Count the tiles of X'X that ``add_cross_of_rows`` makes."""
    count = 0
    for row in range(0, d, 8):
        j = min(row, d - 8)
        k = j
        while k < d:
            k = min(k, d - 16) + 16 if d - k > 8 and d >= j + 16 else min(k, d - 8) + 8
            count += 1
    return count


@kernel
def add_cross_of_rows(x, y, d, rows, cross, moment):  # pragma: no cover - compiled
    """Do it to rows that lie one after the other, so many at a time."""
    part = np.zeros((d, d))
    flat = part.reshape(-1)
    share = -(-d // _tiles(d))
    for start in range(0, len(y), rows):
        stop = min(start + rows, len(y))
        add_moment(x, y, d, start, stop, flat, moment)
        # the next run is read while this one is multiplied, evenly: asked for in one go, threads wait for each other's
        ahead = stop * d
        for row in range(0, d, 8):
            j = min(row, d - 8)  # the last tiles may overlap those before: they are written again, not added
            k = j
            while k < d:
                if d - k > 8 and d >= j + 16:
                    k = min(k, d - 16)
                    _sixteen_columns(x, d, (start, stop), j, k, flat, (ahead, share))
                    k += 16
                else:
                    k = min(k, d - 8)
                    _eight_columns(x, d, (start, stop), j, k, flat, (ahead, share))
                    k += 8
                ahead = min(ahead + share * (stop - start), (stop + rows) * d)
        for j in range(d):
            for k in range(j, d):
                cross[j, k] += part[j, k]


@piece
def _store_tile(out, at, d, a):  # pragma: no cover - compiled
    store8(out, at, a[0])
    store8(out, at + d, a[1])
    store8(out, at + 2 * d, a[2])
    store8(out, at + 3 * d, a[3])
    store8(out, at + 4 * d, a[4])
    store8(out, at + 5 * d, a[5])
    store8(out, at + 6 * d, a[6])
    store8(out, at + 7 * d, a[7])


@kernel
def _sixteen_columns(x, d, run, j, k, out, ahead):  # pragma: no cover - compiled
    """Write rows j to j + 7, columns k to k + 15 of X'X over some people."""
    (start, stop), (next_row, share) = run, ahead
    a, b = _eight_times(zero8()), _eight_times(zero8())
    for i in range(start, stop):
        at = i * d
        fetch(x, next_row + share * (i - start))
        a = _one_feature(x, at + j, 1, load8(x, at + k), a)
        b = _one_feature(x, at + j, 1, load8(x, at + k + 8), b)
    _store_tile(out, j * d + k, d, a)
    _store_tile(out, j * d + k + 8, d, b)


@kernel
def _eight_columns(x, d, run, j, k, out, ahead):  # pragma: no cover - compiled
    """Write rows j to j + 7, columns k to k + 7 of X'X over some people."""
    (start, stop), (next_row, share) = run, ahead
    a = _eight_times(zero8())
    for i in range(start, stop):
        at = i * d
        fetch(x, next_row + share * (i - start))
        a = _one_feature(x, at + j, 1, load8(x, at + k), a)
    _store_tile(out, j * d + k, d, a)
