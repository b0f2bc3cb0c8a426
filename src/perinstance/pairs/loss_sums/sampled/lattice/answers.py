"""Answers from a lattice for people with a few sampled steps, or seldom ones, and nothing else: one by one."""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LOGARITHM, ON_LATTICE, PROMISED, UNIT
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import make_step, one_step_epsilon
from perinstance.pairs.loss_sums.sampled.lattice.lattice_bound import Kinds, LatticeBound
from perinstance.pairs.loss_sums.sampled.lattice.moment_orders import chernoff_epsilon
from perinstance.pairs.loss_sums.sampled.steps import MOST_STEPS, share_of_work

#: Kinds of steps that may have as many points as the finest lattice has, more have fewer: of people who are answered
#: together, and of one of them, whoever else is asked for. Each doubling of a kind counts as this much of one more.
OF_ALL, AT_LEAST, DOUBLING = 1024.0, 8.0, 0.4
#: Points of the first lattice, of the last one at most, and from how many on the error is said to fall as it should.
LEAST, FINEST, SURE = 1 << 9, 3 << 19, 1 << 12
#: Points of the last one where less than all digits are asked for.
COARSE = 1 << 17
MORE, FAR_MORE = 4, 8
FASTER = 4.0  # than with their square errors may still fall from there on
#: A lattice ends further out than where epsilon was found on the one before, by this share of it; the last one less.
FIRST_ROOM, ROOM, LAST_ROOM = 0.25, 0.05, 0.002
TURNS = 16


def answer_on_lattice(
    view: LossCoordinates, goals: Floats, bounds: Floats, solving: bool, near: float = PROMISED
) -> Floats:
    """Return epsilon, or the bound of log delta and minus its slope; infinite for whom a lattice does not serve.

    Goals are log delta, the epsilon that is asked and the largest loss; ``bounds`` are what is known already, epsilons
    or logarithms of delta, and how far above the least they are, about, or infinity. ``near`` is how far above it
    epsilon may be, of itself.
    """
    steps = view.sampled
    assert steps is not None
    out = np.full((len(goals), 2), np.inf)
    if view.has_others:
        return out
    served = (steps.taken >= 2.0) & (steps.taken <= MOST_STEPS)
    served &= (steps.steps % 1.0 == 0.0).all(axis=1)
    rows = np.flatnonzero(served)
    tables = [steps.of_person(int(i)) for i in rows]
    keys = [table.tobytes() + goals[i].tobytes() for i, table in zip(rows, tables, strict=True)]
    people = dict(zip(keys, tables, strict=True))
    finest = COARSE if near > PROMISED else int(share_of_work(people.values()) * FINEST)
    if not finest:
        return out
    work = sum(float(np.sum(1.0 + DOUBLING * np.log2(table[2]))) for table in people.values())
    together = OF_ALL / max(work, 1.0)
    sign = 1.0 if steps.over else -1.0
    known: dict[bytes, tuple[float, float]] = {}
    for i, key, table in zip(rows, keys, tables, strict=True):
        own = max(together, AT_LEAST / table.shape[1])
        points = max(min(finest, int(FINEST * own)), LEAST)
        if key not in known and solving:
            bound = min(float(bounds[i, 0]), float(goals[i, 2])), float(bounds[i, 1])
            known[key] = lattice_epsilon(table, sign, float(goals[i, 0]), bound, points, near), 1.0
        elif key not in known:
            known[key] = lattice_log_delta(
                table, sign, float(goals[i, 1]), points, (float(bounds[i, 0]), float(bounds[i, 1]))
            )
        out[i] = known[key]
    return out


def sum_of_shares(table: Floats, log_delta: float) -> float:
    """Return the sum of what each step with the person loses at its share of delta, a bound of epsilon."""
    share = log_delta - math.log(table[2].sum()) - 4.0 * UNIT * (4.0 + abs(log_delta))
    each = [one_step_epsilon(share, make_step(q, m, 1.0)) for q, m in table[:2].T.tolist()]
    return float(np.dot(table[2], each)) * (1.0 + 8.0 * UNIT * len(each))


def lattice_epsilon(
    table: Floats, sign: float, log_delta: float, given: tuple[float, float], finest: int, near: float = PROMISED
) -> float:
    """Return an epsilon whose delta is at most ``e^log_delta``, from lattices that end where the one before found it.

    ``given`` is such an epsilon and how far above the least it is, about, or infinity. The error falls by four when the
    points are doubled: two coarse lattices say how many points are needed.
    """
    bound, above = given
    log_delta -= LOGARITHM * (4.0 + abs(log_delta))
    kinds = Kinds.of(table, sign, log_delta)
    end = chernoff_epsilon(kinds.table(), kinds.first, sign, log_delta)
    if sign > 0.0:
        bound = min(bound, sum_of_shares(table, log_delta))
        end = min(bound, end * (1.0 + ROOM))
    elif kinds.place(end) > 0.0:
        end = _further(kinds, end, FIRST_ROOM)
    else:
        end = 0.0
    points = LEAST
    for _ in range(TURNS):
        found, outer = _solved(kinds, log_delta, end, points)
        bound, before = min(bound, found), end
        points = min(MORE * points, SURE, finest) if found == np.inf else LEAST
        inside = kinds.sign * (end - outer) > 0.0
        end = _further(kinds, outer, ROOM if inside else FIRST_ROOM)
        if bound == 0.0 or (inside and kinds.place(end) > 0.5 * kinds.place(before)):
            break
    return _refined(kinds, log_delta, (bound, above, found), end, finest, ON_LATTICE / PROMISED * near)


def _refined(
    kinds: Kinds, log_delta: float, given: tuple[float, float, float], end: float, finest: int, near: float
) -> float:
    """Return the epsilon of as many points as it needs: each lattice says how far off it is, next to the one before.

    ``given``: the best epsilon so far, how far above it is, and that of the coarsest lattice. What one said before
    counts too: two of them may lie next to each other by chance.
    """
    (bound, above, before), points, fewer, left = given, min(MORE * LEAST, finest), LEAST, 0.0
    for _ in range(TURNS):
        found, outer = _solved(kinds, log_delta, end, points)
        bound = min(bound, found)
        if outer == end and bound > 0.0:  # it lies further out
            end = _further(kinds, end, ROOM)
            continue
        moved, before = abs(before - found), found
        more, fewer = points / fewer, points
        expected = left / (FASTER * more**2) if left < np.inf else 0.0
        left = max(moved / (more**2 - 1.0), expected)
        if points >= finest or bound == 0.0 or left <= near * bound:
            break
        off = max(left, found - bound) if moved < np.inf else found - bound
        if bound < found and _hopeless(off, above, points, finest):
            break
        if moved < np.inf:
            end = _further(kinds, bound, max(LAST_ROOM, 2.0 * moved / kinds.place(bound)))
        enough = float(MORE * points)
        if points >= SURE and moved < np.inf:
            enough = max(1.1 * points * math.sqrt(left / (near * bound)), 2.0 * points)
        if enough > FAR_MORE * points:  # a fourth of them first: by it the error that is left is known better
            enough = max(MORE * points, enough / MORE)
        points = min(math.ceil(enough), finest)
    return bound


def _hopeless(off: float, above: float, points: int, finest: int) -> bool:
    """Return whether even the finest lattice would be further above the truth than a bound that is known."""
    return points >= SURE and off * (points / finest) ** 2 > FASTER * above


def _further(kinds: Kinds, epsilon: float, room: float) -> float:
    """Return the end of a lattice a little beyond an epsilon: above it with the person, below it without."""
    further = epsilon + kinds.sign * room * max(kinds.place(epsilon), 0.0)
    return max(further, 0.0)


def _solved(kinds: Kinds, log_delta: float, end: float, points: int) -> tuple[float, float]:
    """Return the least epsilon >= 0 that a lattice up to an epsilon proves, or infinity; and the point further out."""
    if not (kinds.place(end) > 0.0 and end < np.inf):
        return np.inf, end
    lattice = LatticeBound(kinds, end, points)
    # delta falls with the point with the person, and grows without
    good, bad = (lattice.last, lattice.first) if kinds.sign > 0.0 else (lattice.first, lattice.last)
    if not lattice.log_delta(good) <= log_delta:
        return np.inf, end
    if lattice.log_delta(bad) <= log_delta:
        return max(lattice.epsilon(bad), 0.0), end
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        if lattice.log_delta(middle) <= log_delta:
            good = middle
        else:
            bad = middle
    return max(_between(lattice, good, bad, log_delta), 0.0), lattice.epsilon(max(good, bad))


def _between(lattice: LatticeBound, good: int, bad: int, log_delta: float) -> float:
    """Return where the line through the bounds at two points, linear in ``e^epsilon``, meets delta; rounded up."""
    e = lattice.epsilon(good)
    low, high = lattice.log_delta(good) - log_delta, lattice.log_delta(bad) - log_delta
    if not high < 1.0:
        return e
    share = -math.expm1(low) / (math.expm1(high) - math.expm1(low))  # of the way from the good point to the bad one
    if not share > 0.0:
        return e
    gained = -math.log1p(share * math.expm1(lattice.epsilon(bad) - e))
    return e - gained * (1.0 - 64.0 * UNIT)


def lattice_log_delta(
    table: Floats, sign: float, epsilon: float, finest: int, given: tuple[float, float] = (np.inf, np.inf)
) -> tuple[float, float]:
    """Return a bound of log delta at an epsilon, and minus its slope, about.

    ``given`` is a bound of it and how far above the least it is, about; where lattices do not serve, infinity.
    """
    kinds = Kinds.of(table, sign, -700.0)
    if not kinds.place(epsilon) > 0.0:
        return np.inf, 1.0
    best, points, before, left = (np.inf, 1.0), min(MORE * LEAST, finest), np.inf, 0.0
    while True:
        found = _at_end(kinds, epsilon, points)
        moved, before = abs(before - found[0]), found[0]
        best = min(best, found)
        expected = left / (FASTER * MORE**2) if left < np.inf else 0.0
        left = max(moved / (MORE**2 - 1.0), expected)
        if points == finest or not found[0] < np.inf or left <= ON_LATTICE:
            return best
        if given[0] < found[0] and _hopeless(found[0] - given[0], given[1], points, finest):
            return best
        points = min(MORE * points, finest)


def _at_end(kinds: Kinds, epsilon: float, points: int) -> tuple[float, float]:
    """Return the bound of log delta at the last point of a lattice, and minus its slope; the point may not be above."""
    lattice = LatticeBound(kinds, epsilon, points)
    lattice = LatticeBound(kinds, epsilon - 2.0 * (lattice.epsilon(lattice.last) - epsilon), points)
    if lattice.epsilon(lattice.last) > epsilon:
        return np.inf, 1.0
    last, before = (lattice.log_delta(lattice.last - back) for back in (0, 1))
    slope = kinds.sign * (before - last) / lattice.lattice.spacing
    return last, slope if slope > 0.0 else 1.0
