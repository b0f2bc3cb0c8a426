"""X'X, X'y and y'y of a table in memory, by threads that take turns inside compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from perinstance.folds.shared_turns import SharedCall, SharingSweep, WholeTable
from perinstance.models.linear import row_kernels
from perinstance.models.linear.loops import eight_lanes, library_loops
from perinstance.models.linear.loops.few_columns import FEWEST_COLUMNS, add_cross_of_few
from perinstance.models.linear.loops.library_loops import CrossSums, cross_rows
from perinstance.models.linear.row_kernels import NARROWEST, RUN_BYTES, WIDEST
from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation.blas_calls import PLAIN, blas_addresses
from perinstance.numerics.compilation.outlined_calls import lead, outlined
from perinstance.numerics.compilation.turn_counters import next_turn
from perinstance.numerics.numba_compile import kernel, sum_kernel
from perinstance.numerics.simd_vectors import eight_in_a_register, load8, multiply_add8, store8, sum8, zero8

#: the loop over rows that lie one after the other which compiled code calls on this machine
ADD_CROSS = eight_lanes.add_cross_of_rows if eight_in_a_register() else row_kernels.add_cross_of_rows

#: whether sums of targets are made by registers of eight
EIGHTS = eight_in_a_register()

#: bytes of the sums of all turns of a lap
SUMS_BYTES = 48 << 20
#: turns that a block is cut into, and one of the last quarter: the first of these whose sums have not too many bytes
TURNS = (8, 16, 1 << 18), (2, 8, SUMS_BYTES), (1, 4, SUMS_BYTES), (1, 1, np.inf)
#: neighbouring turns whose sums are added by the last of them: all of them would be many for one thread at the end
TOGETHER = 8
#: rows that are summed by themselves, and sums of such rows
SUM_ROWS = 32


class TableSums(NamedTuple):
    """Sums over some rows."""

    cross: Floats  #: X'X, its lower half
    moment: Floats  #: X'y
    total: Floats  #: X'1; empty where it is not wanted
    target: Floats  #: y'y and y'1


def shared_sums(sweep: SharingSweep, table: WholeTable, intercept: bool) -> tuple[TableSums, float]:
    """Return the sums over all rows, and the additions that one term went through at most."""
    d = table.X.shape[1]
    size = 8 * d * d
    cuts = next(cuts for few, many, most in TURNS if size * len(cuts := table.graded_turns(few, many)) <= most)
    narrow = FEWEST_COLUMNS <= d <= WIDEST
    # rows of which each has its sums, and how often those are added, in one turn
    piece = RUN_BYTES // (8 * d) if narrow else cross_rows(d)
    piece -= piece % 8 if d < NARROWEST and narrow else 0  # only the last of a turn has people who fill no register
    longest = int(np.diff(cuts).max())
    chain = piece + (longest / (piece - 3) + 4 if narrow else np.ceil(longest / piece))
    rows = table.X.reshape(-1), table.y, d
    whole = TableSums(*(np.zeros_like(part) for part in _room((), d, intercept)))
    for lap in table.laps(cuts, sweep.threads, SUMS_BYTES // size, TOGETHER):
        sums = _room((lap.stop - lap.start - 1,), d, intercept)
        done = np.zeros(-(-len(sums.moment) // TOGETHER), dtype=np.int64)
        given = rows, piece, sums, done
        if narrow:
            call = SharedCall(_narrow_turns, _led_narrow_turns, given)
        else:
            call = SharedCall(_library_turns, _led_library_turns, (blas_addresses(), *given))
        sweep.share(call, cuts[lap], "fold")
        _add_all(sums, narrow, whole)
    return whole, float(chain + TOGETHER + np.ceil(len(cuts) / TOGETHER))


def _room(shape: tuple[int, ...], d: int, intercept: bool) -> TableSums:
    """Make room for sums; whoever takes a turn clears its own, for that of all turns would be work for one thread."""
    total = np.empty((*shape, d if intercept else 0))
    return TableSums(np.empty((*shape, d, d)), np.empty((*shape, d)), total, np.empty((*shape, 2)))


@kernel
def _narrow_turns(turns, rows, piece, sums, done):  # pragma: no cover - compiled
    """Write the sums of each turn, of few columns; X'X in its upper half."""
    (counter, cuts), (x, y, d), (cross, moment, total, target) = turns, rows, sums
    k = next_turn(counter, 0)
    while k < len(cuts) - 1:
        a, b = cuts[k], cuts[k + 1]
        cross[k], moment[k], total[k] = 0.0, 0.0, 0.0
        if d < NARROWEST:
            add_cross_of_few(x[a * d : b * d], y[a:b], d, piece, cross[k], moment[k])
        else:
            ADD_CROSS(x[a * d : b * d], y[a:b], d, piece, cross[k], moment[k])
        if total.shape[1]:
            column_sums(x[a * d : b * d], d, total[k])
        target[k, 0], target[k, 1] = target_sums(y[a:b])
        _add_neighbours(k, done, sums, True)
        k = next_turn(counter, 0)


@kernel
def _library_turns(turns, blas, rows, piece, sums, done):  # pragma: no cover - compiled
    """The same of many columns, or none; X'X in its lower half."""
    (counter, cuts), (x, y, d), (cross, moment, total, target) = turns, rows, sums
    k = next_turn(counter, 0)
    while k < len(cuts) - 1:
        a, b = cuts[k], cuts[k + 1]
        cross[k], moment[k], total[k] = 0.0, 0.0, 0.0
        table = x[a * d : b * d], PLAIN, d, d
        library_loops.add_cross_of_table(blas, table, y[a:b], piece, CrossSums(cross[k], moment[k], total[k]))
        target[k, 0], target[k, 1] = target_sums(y[a:b])
        _add_neighbours(k, done, sums, False)
        k = next_turn(counter, 0)


@kernel
def _led_narrow_turns(box, arguments):  # pragma: no cover - compiled
    """Few columns, by all threads that serve a mailbox."""
    return lead(box, outlined(_narrow_turns, arguments))


@kernel
def _led_library_turns(box, arguments):  # pragma: no cover - compiled
    """Many columns, or none, by all of them."""
    return lead(box, outlined(_library_turns, arguments))


@kernel
def _add_neighbours(k, done, sums, upper):  # pragma: no cover - compiled
    """Whoever is the last of some neighbouring turns adds them to the first of them, in the order of the rows."""
    cross, moment, total, target = sums
    first = k // TOGETHER * TOGETHER
    stop = min(first + TOGETHER, len(moment))
    if next_turn(done, k // TOGETHER) < stop - first - 1:
        return
    d = moment.shape[1]
    for i in range(first + 1, stop):
        for j in range(d):
            for m in range(j if upper else 0, d if upper else j + 1):
                cross[first, j, m] += cross[i, j, m]
        moment[first] += moment[i]
        total[first] += total[i]
        target[first] += target[i]


@kernel
def _add_all(sums, upper, whole):  # pragma: no cover - compiled
    """Add what ``_add_neighbours`` left, in the order of the rows; X'X to the lower half."""
    cross, moment, total, target = sums
    d = moment.shape[1]
    for k in range(0, len(moment), TOGETHER):
        for j in range(d):
            for m in range(j if upper else 0, d if upper else j + 1):
                if upper:
                    whole.cross[m, j] += cross[k, j, m]
                else:
                    whole.cross[j, m] += cross[k, j, m]
        whole.moment[:] += moment[k]
        whole.total[:] += total[k]
        whole.target[:] += target[k]


@kernel
def target_sums(y):  # pragma: no cover - compiled
    """Return y'y and y'1, by sums of sums: a term goes through few additions."""
    square = total = 0.0
    room = np.empty(16)
    for start in range(0, len(y), SUM_ROWS * SUM_ROWS):
        stop = min(start + SUM_ROWS * SUM_ROWS, len(y))
        if EIGHTS and stop - start == SUM_ROWS * SUM_ROWS:
            a, b = _targets_by_eights(y, start, stop, room)
        else:
            a = b = 0.0
            for i in range(start, stop, SUM_ROWS):
                u, v = _few_targets(y, i, min(i + SUM_ROWS, stop))
                a += u
                b += v
        square += a
        total += b
    return square, total


@sum_kernel
def _few_targets(y, start, stop):  # pragma: no cover - compiled
    square = total = 0.0
    for i in range(start, stop):
        square += y[i] * y[i]
        total += y[i]
    return square, total


@kernel
def _targets_by_eights(y, start, stop, room):  # pragma: no cover - compiled
    """The same of rows that fill four registers each time."""
    a0, a1, a2, a3, b0, b1, b2, b3 = zero8(), zero8(), zero8(), zero8(), zero8(), zero8(), zero8(), zero8()
    for i in range(start, stop, SUM_ROWS):
        u, v, w, x = load8(y, i), load8(y, i + 8), load8(y, i + 16), load8(y, i + 24)
        a0, a1, a2, a3 = (
            multiply_add8(u, u, a0),
            multiply_add8(v, v, a1),
            multiply_add8(w, w, a2),
            multiply_add8(x, x, a3),
        )
        b0, b1, b2, b3 = sum8(b0, u), sum8(b1, v), sum8(b2, w), sum8(b3, x)
    store8(room, 0, sum8(sum8(a0, a1), sum8(a2, a3)))
    store8(room, 8, sum8(sum8(b0, b1), sum8(b2, b3)))
    square = total = 0.0
    for lane in range(8):
        square += room[lane]
        total += room[8 + lane]
    return square, total


@kernel
def column_sums(x, d, total):  # pragma: no cover - compiled
    """Add the rows to ``total``, in the same way."""
    n = len(x) // d
    few, more = np.empty(d), np.empty(d)
    for start in range(0, n, SUM_ROWS * SUM_ROWS):
        stop = min(start + SUM_ROWS * SUM_ROWS, n)
        more[:] = 0.0
        for i in range(start, stop, SUM_ROWS):
            few[:] = 0.0
            for row in range(i, min(i + SUM_ROWS, stop)):
                for j in range(d):
                    few[j] += x[row * d + j]
            more += few
        total += more
