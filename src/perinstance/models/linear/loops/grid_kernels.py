"""The loops of ``grid_sums``: some people's residuals on a grid, and their products with each column, lane by lane."""

from __future__ import annotations

import numpy as np

from perinstance.models.linear.loops.few_columns import MOST_COLUMNS
from perinstance.models.linear.loops.fewest_columns import LANES
from perinstance.numerics.compilation.outlined_calls import lead, outlined
from perinstance.numerics.compilation.turn_counters import next_turn
from perinstance.numerics.double_double import plus
from perinstance.numerics.numba_compile import exact_kernel, exact_piece
from perinstance.numerics.simd_vectors import (
    both2,
    both8,
    columns2,
    columns8,
    eight_in_a_register,
    fused2,
    fused8,
    less2,
    less8,
    load2,
    load8,
    repeat2,
    repeat8,
    spaced2,
    spaced8,
    store2,
    store8,
    sum2,
    sum8,
    three2,
    three8,
    zero2,
    zero8,
)

#: people of one lane that are summed before their low parts are put in order
PEOPLE = 128 if LANES == 2 else 64
#: all of them
TOGETHER = PEOPLE * LANES
#: columns whose sums stay in registers, all of them
FOUR = 4

_columns, _spaced, _both, _three, _lying, _repeated, _fused, _sum, _less, _zero, _store = (
    (columns8, spaced8, both8, three8, load8, repeat8, fused8, sum8, less8, zero8, store8)
    if eight_in_a_register()
    else (columns2, spaced2, both2, three2, load2, repeat2, fused2, sum2, less2, zero2, store2)
)


@exact_kernel
def moment_turns(turns, rows, grid, sums):  # pragma: no cover - compiled
    """Write the sums of each turn."""
    (counter, cuts), (x, y), d = turns, rows, grid.columns
    k = next_turn(counter, 0)
    while k < len(cuts) - 1:
        a, b = cuts[k], cuts[k + 1]
        add_moments(x[a * d : b * d], y[a:b], grid, sums[k, 0], sums[k, 1])
        k = next_turn(counter, 0)


@exact_kernel
def add_moments(x, y, grid, high, low):  # pragma: no cover - compiled
    """Add the sums over some rows."""
    d, n = grid.columns, len(y)
    room, out = np.empty((MOST_COLUMNS + 2) * TOGETHER if d > FOUR else 0), np.empty(2 * MOST_COLUMNS * LANES)
    last = n - n % LANES
    for i in range(0, last, TOGETHER):
        _some_moments(x, y, (i, min(i + TOGETHER, last)), grid, room, out)
        _add_run(out, grid.start, high, low)
    if n > last:  # those who do not fill a register, and rows of zeros
        few, few_y = np.zeros(LANES * d), np.zeros(LANES)
        for i in range(last, n):
            few_y[i - last] = y[i]
            for j in range(d):
                few[(i - last) * d + j] = x[i * d + j]
        _some_moments(few, few_y, (0, LANES), grid, room, out)
        _add_run(out, grid.start, high, low)


@exact_kernel
def led_moment_turns(box, arguments):  # pragma: no cover - compiled
    """The same by all threads that serve a mailbox."""
    return lead(box, outlined(moment_turns, arguments))


@exact_kernel
def _add_run(room, start, high, low):  # pragma: no cover - compiled
    """Add the lanes of each column: high parts are multiples of the grid, and exact."""
    for j in range(len(high)):
        total = rest = 0.0
        for lane in range(LANES):
            total += room[2 * j * LANES + lane] - start[j]
            rest += room[(2 * j + 1) * LANES + lane]
        high[j], low[j] = plus(high[j], low[j], total, rest)


@exact_kernel
def add_turns(sums, total, rest):  # pragma: no cover - compiled
    """Add the sums of all turns, in their order."""
    for k in range(len(sums)):
        for j in range(len(total)):
            total[j], rest[j] = plus(total[j], rest[j], sums[k, 0, j], sums[k, 1, j])


@exact_piece
def _step(t, x, w):  # pragma: no cover - compiled
    """Add a product to a sum; return that, and what was left behind."""
    more = _fused(x, w, t)
    return more, _fused(x, w, _less(t, more))


@exact_piece
def _first_columns(x, i, d):  # pragma: no cover - compiled
    """Return four columns of the people from i on; those that there are not are columns of zeros."""
    x0, x1, x2, x3 = _zero(), _zero(), _zero(), _zero()
    if d >= FOUR:
        x0, x1, x2, x3 = _columns(x, i * d, d)
    elif d == 3:
        x0, x1, x2 = _three(x, 3 * i)
    elif d == 2:
        x0, x1 = _both(x, 2 * i)
    else:
        x0 = _lying(x, i)
    return x0, x1, x2, x3


@exact_piece
def _four_steps(t, low, x, w):  # pragma: no cover - compiled
    """Add four products to a residual and what they left behind to its low part."""
    t, l0 = _step(t, x[0], w[0])
    t, l1 = _step(t, x[1], w[1])
    t, l2 = _step(t, x[2], w[2])
    t, l3 = _step(t, x[3], w[3])
    return t, _sum(low, _sum(_sum(l0, l1), _sum(l2, l3)))


@exact_piece
def _moment_step(s, r, x, e, low):  # pragma: no cover - compiled
    """Add ``x (e + low)`` to a sum and to what was left behind."""
    s, left = _step(s, x, e)
    return s, _sum(r, _fused(x, low, left))


@exact_piece
def _store_pair(out, j, high, low):  # pragma: no cover - compiled
    _store(out, 2 * j * LANES, high)
    _store(out, (2 * j + 1) * LANES, low)


@exact_piece
def _four_moment_steps(s, r, x, e, low):  # pragma: no cover - compiled
    """Add ``x (e + low)`` of four columns to their sums and to what was left behind."""
    s0, r0 = _moment_step(s[0], r[0], x[0], e, low)
    s1, r1 = _moment_step(s[1], r[1], x[1], e, low)
    s2, r2 = _moment_step(s[2], r[2], x[2], e, low)
    s3, r3 = _moment_step(s[3], r[3], x[3], e, low)
    return (s0, s1, s2, s3), (r0, r1, r2, r3)


@exact_piece
def _store_four(out, s, r):  # pragma: no cover - compiled
    _store_pair(out, 0, s[0], r[0])
    _store_pair(out, 1, s[1], r[1])
    _store_pair(out, 2, s[2], r[2])
    _store_pair(out, 3, s[3], r[3])


@exact_piece
def _begun(y, i, middle, x, w):  # pragma: no cover - compiled
    """Return a residual less four columns of it, and its low part."""
    target = _lying(y, i)
    t = _sum(middle, target)
    return _four_steps(t, _less(target, _less(t, middle)), x, w)


@exact_kernel
def _up_to_four(x, y, run, grid, out):  # pragma: no cover - compiled
    """Write the sums of up to four columns over some people, a multiple of ``LANES``, lane by lane.

    A residual is a chain of steps that wait for each other: two registers of people go through it together.
    """
    w, start, d = grid
    middle, ws = _repeated(start, FOUR), (_repeated(w, 0), _repeated(w, 1), _repeated(w, 2), _repeated(w, 3))
    s = _repeated(start, 0), _repeated(start, 1), _repeated(start, 2), _repeated(start, 3)
    r = _zero(), _zero(), _zero(), _zero()
    last = run[0] + (run[1] - run[0]) // (2 * LANES) * (2 * LANES)
    for i in range(run[0], last, 2 * LANES):
        xs, more = _first_columns(x, i, d), _first_columns(x, i + LANES, d)
        t, low = _begun(y, i, middle, xs, ws)
        t_more, low_more = _begun(y, i + LANES, middle, more, ws)
        s, r = _four_moment_steps(s, r, xs, _less(t, middle), low)
        s, r = _four_moment_steps(s, r, more, _less(t_more, middle), low_more)
    if last < run[1]:
        xs = _first_columns(x, last, d)
        t, low = _begun(y, last, middle, xs, ws)
        s, r = _four_moment_steps(s, r, xs, _less(t, middle), low)
    _store_four(out, s, r)


@exact_piece
def _store_columns(room, to, x):  # pragma: no cover - compiled
    _store(room, to, x[0])
    _store(room, to + TOGETHER, x[1])
    _store(room, to + 2 * TOGETHER, x[2])
    _store(room, to + 3 * TOGETHER, x[3])


@exact_piece
def _store_residual(room, to, e, low):  # pragma: no cover - compiled
    _store(room, to + MOST_COLUMNS * TOGETHER, e)
    _store(room, to + (MOST_COLUMNS + 1) * TOGETHER, low)


@exact_piece
def _next_column(x, at, d, w, t, low):  # pragma: no cover - compiled
    """Return one more column of some people, and their residuals less it."""
    column = _spaced(x, at, d)
    t, left = _step(t, column, w)
    return column, t, _sum(low, left)


@exact_kernel
def _residuals(x, y, run, grid, room):  # pragma: no cover - compiled
    """Write columns, residuals and their low parts of some people, of more than four columns; two registers at a time.

    If their number is odd the last ones are written twice.
    """
    w, start, d = grid
    middle, ws = _repeated(start, d), (_repeated(w, 0), _repeated(w, 1), _repeated(w, 2), _repeated(w, 3))
    for i in range(run[0], run[1], 2 * LANES):
        j = min(i + LANES, run[1] - LANES)
        to, to_more, xs, more = i - run[0], j - run[0], _columns(x, i * d, d), _columns(x, j * d, d)
        t, low = _begun(y, i, middle, xs, ws)
        t_more, low_more = _begun(y, j, middle, more, ws)
        _store_columns(room, to, xs)
        _store_columns(room, to_more, more)
        for k in range(FOUR, d):
            weight = _repeated(w, k)
            column, t, low = _next_column(x, i * d + k, d, weight, t, low)
            another, t_more, low_more = _next_column(x, j * d + k, d, weight, t_more, low_more)
            _store(room, to + k * TOGETHER, column)
            _store(room, to_more + k * TOGETHER, another)
        _store_residual(room, to, _less(t, middle), low)
        _store_residual(room, to_more, _less(t_more, middle), low_more)


@exact_kernel
def _four_moments(room, count, start, out):  # pragma: no cover - compiled
    """Write the sums of the first four columns over as many people, lane by lane."""
    s = _repeated(start, 0), _repeated(start, 1), _repeated(start, 2), _repeated(start, 3)
    r = _zero(), _zero(), _zero(), _zero()
    for i in range(0, count, LANES):
        e, low = _lying(room, i + MOST_COLUMNS * TOGETHER), _lying(room, i + (MOST_COLUMNS + 1) * TOGETHER)
        x0, x1 = _lying(room, i), _lying(room, i + TOGETHER)
        x2, x3 = _lying(room, i + 2 * TOGETHER), _lying(room, i + 3 * TOGETHER)
        s, r = _four_moment_steps(s, r, (x0, x1, x2, x3), e, low)
    _store_four(out, s, r)


@exact_kernel
def _one_moment(room, count, j, start, out):  # pragma: no cover - compiled
    """Write those of column j."""
    s, r = _repeated(start, j), _zero()
    for i in range(0, count, LANES):
        e, low = _lying(room, i + MOST_COLUMNS * TOGETHER), _lying(room, i + (MOST_COLUMNS + 1) * TOGETHER)
        s, r = _moment_step(s, r, _lying(room, i + j * TOGETHER), e, low)
    _store_pair(out, j, s, r)


@exact_kernel
def _some_moments(x, y, run, grid, room, sums):  # pragma: no cover - compiled
    """Write the sums over some people, a multiple of ``LANES``, lane by lane."""
    if grid.columns <= FOUR:
        _up_to_four(x, y, run, grid, sums)
        return
    _residuals(x, y, run, grid, room)
    _four_moments(room, run[1] - run[0], grid.start, sums)
    for j in range(FOUR, grid.columns):
        _one_moment(room, run[1] - run[0], j, grid.start, sums)
