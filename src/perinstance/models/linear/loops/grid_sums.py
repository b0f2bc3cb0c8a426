"""``X'(y - X theta)`` of up to seven columns with some 25 digits, by sums whose high parts are on a grid.

A sum that begins at ``C = 1.5 2^K`` and stays within ``2^K/4`` of it is a multiple of ``h = 2^(K - 52)`` all the way:
what a step adds to it is exact, and the product less that, rounded once, is what the step left behind. With u half a
unit and ``|x w| <= 2^K/4``:

    t' = fl(t + fl(x w)),   left = fl(x w - (t' - t)),   |left| <= h/2 + u |x w| <= 5/8 h

which takes half of the operations of sums and products of pairs. The lanes of a register are people. Nobody's ``|y| +
|x||theta|`` and no sum of ``x_j e`` over ``||x_j||`` is beyond ``S = ||y|| + sum_j ||x_j|| |theta_j|``, so that one K
with ``2^K >= 4 S`` does for all residuals, and ``2^K/scale_j`` for column j, whose length is below 1/scale_j.

Of a residual ``(d + 2)^2 u h`` is lost at most: d + 1 parts of at most 5/8 h, rounded, are added. Of the sum over N
people of one lane at most ``2 N^2 u h/scale_j``, for N >= 64 and d <= 7: what is left behind, with the low parts of
residuals times x, adds up to ``5/8 (N + (d + 2) sqrt(N)) h/scale_j``, and each addition loses u of that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from perinstance.folds.shared_turns import SharedCall, SharingSweep, WholeTable
from perinstance.models.linear.loops.few_columns import FEWEST_COLUMNS, MOST_COLUMNS
from perinstance.models.linear.loops.fewest_columns import LANES, THREE
from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation.outlined_calls import lead, outlined
from perinstance.numerics.compilation.turn_counters import next_turn
from perinstance.numerics.double_double import plus
from perinstance.numerics.numba_compile import exact_kernel, exact_piece
from perinstance.numerics.rounding import HALF_UNIT, UNIT
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
    times2,
    times8,
    zero2,
    zero8,
)

#: people of one lane that are summed before their low parts are put in order
PEOPLE = 128 if LANES == 2 else 64
#: all of them
TOGETHER = PEOPLE * LANES
#: rows of a turn
ROWS = 32 * TOGETHER

_columns, _spaced, _both, _three, _lying, _repeated, _fused, _sum, _less, _times, _zero, _store = (
    (columns8, spaced8, both8, three8, load8, repeat8, fused8, sum8, less8, times8, zero8, store8)
    if eight_in_a_register()
    else (columns2, spaced2, both2, three2, load2, repeat2, fused2, sum2, less2, times2, zero2, store2)
)


class GridSums(NamedTuple):
    """``X'(y - X theta)`` as pairs of floats, and how far each entry can be off, times the column's scale."""

    high: Floats
    low: Floats
    lost: float


def fits_grids(d: int, intercept: bool) -> bool:
    """Whether the loops here are for such rows."""
    return FEWEST_COLUMNS <= d <= MOST_COLUMNS and not intercept


def moments_on_grids(sweep: SharingSweep, table: WholeTable, theta: Floats, scale: Floats, size: float) -> GridSums:
    """Return the sums over all rows; ``size`` is S, a little more than less."""
    d, power = len(theta), np.ldexp(1.0, int(np.frexp(4.0 * size)[1]))
    cuts = table.turns_of(ROWS)
    start = np.append(1.5 * power / scale, 1.5 * power)  # of each column's sum, of a residual
    sums = np.zeros((2, len(cuts) - 1, d))
    given = table.X.reshape(-1), table.y, -theta, start
    for lap in table.laps(cuts, sweep.threads):
        part = sums[:, lap.start : lap.stop - 1]
        call = SharedCall(_moment_turns, _led_moment_turns, (given, part[0], part[1]))
        sweep.share(call, cuts[lap], "fold", last=lap.stop == len(cuts))  # it mostly is enough
    high, low = np.zeros(d), np.zeros(d)
    _add_turns(sums[0], sums[1], high, low)
    runs = len(cuts) * (2 + int(np.diff(cuts).max()) // (TOGETHER))
    grid = HALF_UNIT * UNIT * power  # u h
    rows = float(np.sqrt(len(table.y))) * (d + 2) ** 2
    lanes = 2 * PEOPLE**2 * LANES + 2 * PEOPLE * LANES**2 + 2  # of a run: each lane, their sum, and it is added
    return GridSums(high, low, 1.02 * grid * (rows + lanes * runs))


@exact_kernel
def _moment_turns(turns, given, high, low):  # pragma: no cover - compiled
    """Write the sums of each turn."""
    (counter, cuts), (x, y, w, start) = turns, given
    d, room, out = len(w), np.empty((MOST_COLUMNS + 2) * TOGETHER), np.empty(2 * MOST_COLUMNS * LANES)
    few, few_y = np.zeros(LANES * d), np.zeros(LANES)  # those who do not fill a register, and rows of zeros
    k = next_turn(counter, 0)
    while k < len(cuts) - 1:
        last = cuts[k + 1] - (cuts[k + 1] - cuts[k]) % LANES
        for i in range(cuts[k], last, TOGETHER):
            _some_moments(x, y, (i, min(i + TOGETHER, last)), w, start, room, out)
            _add_run(out, start, high[k], low[k])
        left = cuts[k + 1] - last
        if left > 0:
            few[:], few_y[:] = 0.0, 0.0
            for i in range(left):
                few_y[i] = y[last + i]
                for j in range(d):
                    few[i * d + j] = x[(last + i) * d + j]
            _some_moments(few, few_y, (0, LANES), w, start, room, out)
            _add_run(out, start, high[k], low[k])
        k = next_turn(counter, 0)


@exact_kernel
def _led_moment_turns(box, arguments):  # pragma: no cover - compiled
    """The same by all threads that serve a mailbox."""
    return lead(box, outlined(_moment_turns, arguments))


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
def _add_turns(high, low, total, rest):  # pragma: no cover - compiled
    for k in range(len(high)):
        for j in range(len(total)):
            total[j], rest[j] = plus(total[j], rest[j], high[k, j], low[k, j])


@exact_piece
def _step(t, x, w):  # pragma: no cover - compiled
    """Add a product to a sum; return that, and what was left behind."""
    more = _sum(t, _times(x, w))
    return more, _fused(x, w, _less(t, more))


@exact_kernel
def _residuals(x, y, run, w, centre, room):  # pragma: no cover - compiled
    """Write columns, residuals and their low parts of some people, a multiple of ``LANES``."""
    d = len(w)
    middle, w0, w1, w2, w3 = _repeated(centre, 0), _repeated(w, 0), _repeated(w, 1), _repeated(w, 2), _repeated(w, 3)
    for i in range(run[0], run[1], LANES):
        at, to = i * d, i - run[0]
        target = _lying(y, i)
        t = _sum(middle, target)
        x0, x1, x2, x3 = _columns(x, at, d)
        low = _less(target, _less(t, middle))
        t, l0 = _step(t, x0, w0)
        t, l1 = _step(t, x1, w1)
        t, l2 = _step(t, x2, w2)
        t, l3 = _step(t, x3, w3)
        low = _sum(low, _sum(_sum(l0, l1), _sum(l2, l3)))
        _store(room, to, x0)
        _store(room, to + TOGETHER, x1)
        _store(room, to + 2 * TOGETHER, x2)
        _store(room, to + 3 * TOGETHER, x3)
        for k in range(4, d):
            more = _spaced(x, at + k, d)
            t, left = _step(t, more, _repeated(w, k))
            low = _sum(low, left)
            _store(room, to + k * TOGETHER, more)
        _store(room, to + MOST_COLUMNS * TOGETHER, _less(t, middle))
        _store(room, to + (MOST_COLUMNS + 1) * TOGETHER, low)


@exact_kernel
def _fewest_residuals(x, y, run, w, centre, room):  # pragma: no cover - compiled
    """The same of one to three columns; those that there are not are columns of zeros."""
    d = len(w)
    middle, w0, w1, w2 = _repeated(centre, 0), _repeated(w, 0), _repeated(w, min(1, d - 1)), _repeated(w, d - 1)
    for i in range(run[0], run[1], LANES):
        to, target = i - run[0], _lying(y, i)
        x0, x1, x2 = _zero(), _zero(), _zero()
        if d == 1:
            x0 = _lying(x, i)
        elif d == 2:
            x0, x1 = _both(x, 2 * i)
        else:
            x0, x1, x2 = _three(x, 3 * i)
        t = _sum(middle, target)
        low = _less(target, _less(t, middle))
        t, l0 = _step(t, x0, w0)
        t, l1 = _step(t, x1, w1)
        t, l2 = _step(t, x2, w2)
        _store(room, to, x0)
        _store(room, to + TOGETHER, x1)
        _store(room, to + 2 * TOGETHER, x2)
        _store(room, to + MOST_COLUMNS * TOGETHER, _less(t, middle))
        _store(room, to + (MOST_COLUMNS + 1) * TOGETHER, _sum(low, _sum(_sum(l0, l1), l2)))


@exact_piece
def _store_pair(out, j, high, low):  # pragma: no cover - compiled
    _store(out, 2 * j * LANES, high)
    _store(out, (2 * j + 1) * LANES, low)


@exact_kernel
def _four_moments(room, count, start, out):  # pragma: no cover - compiled
    """Write the sums of the first four columns over as many people, lane by lane."""
    s0, s1, s2, s3 = _repeated(start, 0), _repeated(start, 1), _repeated(start, 2), _repeated(start, 3)
    r0, r1, r2, r3 = _zero(), _zero(), _zero(), _zero()
    for i in range(0, count, LANES):
        e, low = _lying(room, i + MOST_COLUMNS * TOGETHER), _lying(room, i + (MOST_COLUMNS + 1) * TOGETHER)
        x0, x1 = _lying(room, i), _lying(room, i + TOGETHER)
        x2, x3 = _lying(room, i + 2 * TOGETHER), _lying(room, i + 3 * TOGETHER)
        s0, l0 = _step(s0, x0, e)
        s1, l1 = _step(s1, x1, e)
        s2, l2 = _step(s2, x2, e)
        s3, l3 = _step(s3, x3, e)
        r0, r1 = _sum(r0, _fused(x0, low, l0)), _sum(r1, _fused(x1, low, l1))
        r2, r3 = _sum(r2, _fused(x2, low, l2)), _sum(r3, _fused(x3, low, l3))
    _store_pair(out, 0, s0, r0)
    _store_pair(out, 1, s1, r1)
    _store_pair(out, 2, s2, r2)
    _store_pair(out, 3, s3, r3)


@exact_kernel
def _one_moment(room, count, j, start, out):  # pragma: no cover - compiled
    """Write those of column j."""
    s, r = _repeated(start, j), _zero()
    for i in range(0, count, LANES):
        e, low = _lying(room, i + MOST_COLUMNS * TOGETHER), _lying(room, i + (MOST_COLUMNS + 1) * TOGETHER)
        x = _lying(room, i + j * TOGETHER)
        s, left = _step(s, x, e)
        r = _sum(r, _fused(x, low, left))
    _store_pair(out, j, s, r)


@exact_kernel
def _some_moments(x, y, run, w, start, room, sums):  # pragma: no cover - compiled
    """Write the sums over some people, a multiple of ``LANES``, lane by lane."""
    d = len(w)
    if d > THREE:
        _residuals(x, y, run, w, start[d:], room)
        _four_moments(room, run[1] - run[0], start, sums)
    else:
        _fewest_residuals(x, y, run, w, start[d:], room)
    for j in range(4 if d > THREE else 0, d):
        _one_moment(room, run[1] - run[0], j, start, sums)
