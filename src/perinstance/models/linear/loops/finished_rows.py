"""What follows from the sums of a row: leverage, residual and length without the person, rounded away from zero.

Rounding is charged by ``sqrt(m)``. For most people a bound of it does, at most 6.1% above, that a shift makes of the
bits of m: from 4^k to 4^(k+1) it grows from 2^k to 2^(k+1), linearly in each octave, along lines that touch the root
from above.
"""

from __future__ import annotations

import numpy as np

from perinstance.models.linear.loops import eight_lanes
from perinstance.models.linear.loops.few_columns import of_few, square_sums, triangle_sums
from perinstance.models.linear.row_kernels import RowSums, row_sums
from perinstance.numerics.charged_rounding import parameter_too_rough
from perinstance.numerics.inline_exp_log import bits_of, float_of
from perinstance.numerics.numba_compile import kernel, piece
from perinstance.numerics.rounding import EXACT_PARAMETER, LARGEST_SQUARE, UNDERFLOWN, UNIT
from perinstance.numerics.simd_vectors import eight_in_a_register

#: an in-sample leverage above this is answered by a factorisation without the person: 1 - m would lose digits
HARD_LEVERAGE = 0.95

#: people who go through a loop together: their room stays in the first-level cache
TOGETHER = 512

#: the sums of rows that lie one after the other which compiled code calls on this machine
TWO_SUMS, THREE_SUMS = (eight_lanes.two_sums, eight_lanes.three_sums) if eight_in_a_register() else (row_sums, row_sums)

#: codes of people who are not known well enough: only the residual is not, or something else
ROUGH_RESIDUAL, HARD = 1, 2

_HALF_OF_ONE = (0x3FF << 51) + 1  # half of the bits of 1.0, and one more for the bit that a shift loses
_SIGN = -(1 << 63)
_ROOT_AT_LEAST = 0.94  # a root, as a share of its bound


@piece
def root_bound(m):  # pragma: no cover - compiled
    """Return at least ``sqrt(m)``, at most 1.061 times as much, for m > 0 that did not underflow."""
    return float_of((bits_of(m) >> 1) + _HALF_OF_ONE)


@kernel
def finish(y, part, limits, inside, mu, r, moves, kind_code):  # pragma: no cover - compiled
    """Turn m, x'theta and the squared length into mu, r and the length, rounded away from zero; count the hard.

    ``part`` is empty where every row is taken to be the worst: then some people go through loops without a branch, and
    only whoever looks hard there is looked at again.
    """
    hard, wanted = 0, len(moves[0]) > 0
    if not inside or len(part) > 0:
        for i in range(len(y)):
            hard += _one(i, y, part, limits, inside, (mu, r), moves, kind_code)
        return hard
    sums = np.empty(TOGETHER), np.empty(TOGETHER), np.empty(TOGETHER if wanted else 0)
    room = np.empty(TOGETHER), np.empty(TOGETHER, dtype=np.int64)
    for start in range(0, len(y), TOGETHER):
        stop = min(start + TOGETHER, len(y))
        for i in range(start, stop):
            sums[0][i - start], sums[1][i - start] = mu[i], r[i]
            if wanted:
                sums[2][i - start] = moves[0][i]
        places = moves if not wanted else (moves[0][start:stop], moves[1][start:stop])
        hard += _some(y[start:stop], limits, sums, room, (mu[start:stop], r[start:stop]), places, kind_code[start:stop])
    return hard


@kernel
def two_statistics(rows, W, limits, mu, r, kind_code):  # pragma: no cover - compiled
    """Do sums and ``finish`` to some people inside, who lie one after the other: leverage and residual."""
    (x, y, d), hard, nothing = rows, 0, np.empty(0)
    m, t = np.empty(2 * TOGETHER), np.empty(2 * TOGETHER)
    room = np.empty(2 * TOGETHER), np.empty(2 * TOGETHER, dtype=np.int64)
    count, few = max(1, len(y) // TOGETHER), of_few(W)
    for k in range(count):
        a, b = k * TOGETHER, (k + 1) * TOGETHER if k + 1 < count else len(y)
        if few:
            triangle_sums(x[a * d : b * d], d, W, RowSums(m[: b - a], t[: b - a], nothing))
        else:
            TWO_SUMS(x[a * d : b * d], d, W, RowSums(m[: b - a], t[: b - a], nothing))
        hard += _some(y[a:b], limits, (m, t, nothing), room, (mu[a:b], r[a:b]), (nothing, nothing), kind_code[a:b])
    return hard


@kernel
def three_statistics(rows, W, limits, mu, r, length, kind_code):  # pragma: no cover - compiled
    """The same, and the length; not its share."""
    (x, y, d), hard, nothing = rows, 0, np.empty(0)
    m, t, square = np.empty(2 * TOGETHER), np.empty(2 * TOGETHER), np.empty(2 * TOGETHER)
    room = np.empty(2 * TOGETHER), np.empty(2 * TOGETHER, dtype=np.int64)
    count, few = max(1, len(y) // TOGETHER), of_few(W)
    for k in range(count):
        a, b = k * TOGETHER, (k + 1) * TOGETHER if k + 1 < count else len(y)
        if few:
            square_sums(x[a * d : b * d], d, W, RowSums(m[: b - a], t[: b - a], square[: b - a]))
        else:
            THREE_SUMS(x[a * d : b * d], d, W, RowSums(m[: b - a], t[: b - a], square[: b - a]))
        places = length[a:b], nothing
        hard += _some(y[a:b], limits, (m, t, square), room, (mu[a:b], r[a:b]), places, kind_code[a:b])
    return hard


@kernel
def _some(y, limits, sums, room, out, moves, kind_code):  # pragma: no cover - compiled
    """Answer for a few people inside whose rows are the worst; count the hard."""
    (m, t, square), (roots, doubt), (mu, r), (length, share) = sums, room, out, moves
    wanted, hard = len(length) > 0, 0
    for i in range(len(y)):
        kind_code[i] = 0
    looked = _most(y, (m, t), limits, (mu, r), room)
    if wanted and len(share) > 0:
        looked += _most_lengths(square, roots, limits, (length, share), doubt)
    elif wanted:
        looked += _most_lengths_alone(square, roots, limits, length, doubt)
    for i in range(len(y) if looked else 0):
        if doubt[i] > 0:
            mu[i], r[i] = m[i], t[i]
            if wanted:
                length[i] = square[i]
            hard += _one(i, y, np.empty(0), limits, True, (mu, r), moves, kind_code)
    return hard


@kernel
def _most(y, sums, limits, out, room):  # pragma: no cover - compiled
    """Do what ``_one`` does, with a bound of the root; count those who may be hard."""
    (m, t), (mu, r), (roots, doubt) = sums, out, room
    (leverage, leverage_row), (residual, residual_row), _, (_, floor) = limits
    away, per_root = leverage + leverage_row, residual + residual_row
    grown, raised = 1.0 + away, (1.0 + away) * (1.0 + away)
    least = EXACT_PARAMETER * _ROOT_AT_LEAST * floor
    # up to here ``4 away/(1 - m)`` is small enough; not a number where the error has no bound: then it is nobody
    most = (1.0 - 4.0 * away / EXACT_PARAMETER) / raised * (1.0 - 8.0 * UNIT)
    most = HARD_LEVERAGE if most >= HARD_LEVERAGE else most
    looked = 0
    for i in range(len(y)):
        e = y[i] - t[i]
        size = abs(e)
        root = root_bound(m[i]) * grown
        lost = root * per_root + UNIT * size
        up = m[i] * raised
        rest = 1.0 / (1.0 - up)
        mu[i] = up * rest
        r[i] = float_of(bits_of((size + lost) * rest) | (bits_of(e) & _SIGN))
        roots[i] = root
        known = (lost <= EXACT_PARAMETER * size) | (lost <= least * root)
        sound = (m[i] > UNDERFLOWN) & (m[i] <= most)
        open_yet = 0 if known & sound else 1
        doubt[i] = open_yet
        looked += open_yet
    return looked


@kernel
def _most_lengths(square, roots, limits, out, doubt):  # pragma: no cover - compiled
    length, share = out
    (leverage, leverage_row), _, (length_all, length_row), (norm_share, _) = limits
    away, per_root = 4.0 * (leverage + leverage_row), length_all + length_row
    looked = 0
    for i in range(len(length)):
        b = np.sqrt(square[i])
        lost = roots[i] * per_root + b * norm_share
        length[i] = b + lost
        part = lost / b + away
        share[i] = part
        sound = (b * part <= EXACT_PARAMETER * b) & (square[i] > UNDERFLOWN) & (square[i] < LARGEST_SQUARE)
        open_yet = 0 if sound else 1
        doubt[i] += open_yet
        looked += open_yet
    return looked


@kernel
def _most_lengths_alone(square, roots, limits, length, doubt):  # pragma: no cover - compiled
    """The same without the shares, and without their quotients: who is next to the limit is looked at again."""
    (leverage, leverage_row), _, (length_all, length_row), (norm_share, _) = limits
    per_root = length_all + length_row
    most = (EXACT_PARAMETER - 4.0 * (leverage + leverage_row)) * (1.0 - 8.0 * UNIT)
    looked = 0
    for i in range(len(length)):
        b = np.sqrt(square[i])
        lost = roots[i] * per_root + b * norm_share
        length[i] = b + lost
        sound = (lost <= most * b) & (square[i] > UNDERFLOWN) & (square[i] < LARGEST_SQUARE)
        open_yet = 0 if sound else 1
        doubt[i] += open_yet
        looked += open_yet
    return looked


@kernel
def _one(i, y, part, limits, inside, seen, moves, kind_code):  # pragma: no cover - compiled
    """Do the same to one person, whoever they are; tell whether they are hard."""
    (leverage, leverage_row), (residual, residual_row), (length_all, length_row), (norm_share, floor) = limits
    mu, r = seen
    length, share = moves
    m = mu[i]
    e = y[i] - r[i]
    worst = part[i] if len(part) > 0 else 1.0
    away = leverage + worst * leverage_row
    root = np.sqrt(m) * (1.0 + away)
    lost = root * (residual + worst * residual_row) + UNIT * abs(e)
    up = root * root
    near = inside and not m <= HARD_LEVERAGE  # answered elsewhere
    left = 1.0 - up if inside and not near else 1.0
    rest = 1.0 / left if left > 0.0 else np.inf
    mu[i] = up * rest if up >= 0.0 else np.inf  # zero times an error that has no bound
    # a larger leverage tells more of a posterior sample only together with sqrt((1 + mu')/(1 + mu)) times the
    # residual; of those inside both are divided by 1 - m, which is more than that
    along = 1.0 if inside else 1.0 + 2.5 * away * min(1.0, up)
    r[i] = np.copysign((abs(e) + lost) * rest * along, e)
    rough = parameter_too_rough(1.0, 4.0 * away * rest) or not UNDERFLOWN < m < LARGEST_SQUARE
    residual_rough = parameter_too_rough(max(abs(e), floor * min(np.sqrt(mu[i]), 1.0)), lost)
    kind_code[i] = HARD if near or rough else ROUGH_RESIDUAL if residual_rough else 0
    if len(length) > 0:
        b = np.sqrt(length[i])
        m = mu[i] / (1.0 + mu[i]) if inside else mu[i]
        away *= 4.0
        lost = np.sqrt(m) * (length_all + worst * length_row) + b * norm_share
        length[i] = (b + lost) / (1.0 if inside else 1.0 + m * max(1.0 - away, 0.0)) if lost < np.inf else np.inf
        charged = lost / b + away
        if len(share) > 0:
            share[i] = charged
        if parameter_too_rough(b, b * charged) or not UNDERFLOWN < b * b < LARGEST_SQUARE:
            kind_code[i] = HARD
    return 1 if kind_code[i] > 0 else 0
