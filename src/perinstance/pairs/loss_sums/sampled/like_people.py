"""People with one kind of step each, too many to be answered one by one: like ones are answered as one.

A profile grows with the rate, the distance and the number of steps, in both directions. So in a group of people the one
who would have the largest of each, and the hardest goal, has an epsilon that is never below anybody's.
"""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import SMALLEST
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.steps import IN_FULL, MOST_STEPS, SampledSteps

#: Groups of people: as many as are answered one by one.
GROUPS = IN_FULL
#: How much more epsilon grows with the logarithms of rate, distance and number of steps, about.
WEIGHTS = np.array([1.0, 4.0, 1.0])


def crowd_of(view: LossCoordinates, rows: NDArray[np.intp], goals: Floats) -> NDArray[np.intp]:
    """Return which of some people, of one kind of step each, are too many; nobody if their kinds are shared."""
    steps = view.sampled
    assert steps is not None
    if steps.index is None or rows.size <= GROUPS:
        return rows[:0]
    taken = steps.steps[rows]
    one = ((taken > 0.0).sum(axis=1) == 1) & (taken % 1.0 == 0.0).all(axis=1) & (steps.taken[rows] <= MOST_STEPS)
    rows = rows[one]
    different = np.unique(np.column_stack([_kind_of_each(steps, rows), goals[rows]]), axis=0)
    return rows if len(different) > GROUPS else rows[:0]


def grouped(view: LossCoordinates, goals: Floats) -> tuple[LossCoordinates, Floats, NDArray[np.intp]]:
    """Return a view of one person for each group, what log delta is asked of them, and everybody's group."""
    steps = view.sampled
    assert steps is not None
    kinds = _kind_of_each(steps, np.arange(len(steps)))
    harder = np.log(np.maximum(-goals, SMALLEST))
    which = cells(np.column_stack([WEIGHTS * np.log(kinds), harder]), GROUPS)
    order = np.argsort(which, kind="stable")
    starts = np.flatnonzero(np.diff(which[order], prepend=-1))
    rate, distance, count = np.maximum.reduceat(kinds[order], starts, axis=0).T[:, :, None]
    corner = replace(SampledSteps.of(rate, distance, count), over=steps.over)
    return view[order[starts]].with_steps(corner), np.minimum.reduceat(goals[order], starts), which


def _kind_of_each(steps: SampledSteps, rows: NDArray[np.intp]) -> Floats:
    """Return rate, distance and number of the steps of people who take one kind."""
    assert steps.index is not None
    column = (steps.steps[rows] > 0.0).argmax(axis=1)
    kind = steps.index[rows, column]
    return np.column_stack([steps.rates[kind], steps.distances[kind], steps.steps[rows, column]])


def cells(points: Floats, most: int) -> NDArray[np.intp]:
    """Divide points among up to so many boxes, the longest halved first; return the number of each point's box."""
    which = np.zeros(len(points), dtype=np.intp)
    heap, count = [_box(points, np.arange(len(points)))], 1
    while count < most and heap[0][0] < 0.0:
        _, _, side, rows = heapq.heappop(heap)
        here = points[rows, side]
        low, high = float(here.min()), float(here.max())
        middle = low + 0.5 * (high - low)
        above = here > middle if middle < high else here == high
        which[rows[above]] = count
        for part in (rows[~above], rows[above]):
            heapq.heappush(heap, _box(points, part))
        count += 1
    return which


def _box(points: Floats, rows: NDArray[np.intp]) -> tuple[float, int, int, NDArray[np.intp]]:
    """Return minus the longest side of the box around some points, the first of them, that side, and all of them."""
    length = np.ptp(points[rows], axis=0)
    side = int(length.argmax())
    return -float(length[side]), int(rows[0]), side, rows
