r"""What rounding up has added to a probability of one is taken from the least losses, where it counts least.

Masses are rounded up wherever they are made, and a share lost in one step is lost k times in k of them: 1e-14 becomes
1e-7 of delta after ten million steps. But the masses of a sum of losses add up to one, with what lies beyond the last
point. With the person delta is an average of a function of the loss that grows with it, and is never negative.

**Why it is a bound.** Let s be a law with a sum of one that is known to give bounds, and ``r >= s`` everywhere. Let r'
be r without as much of its least masses as leaves a sum of one or more. Then above every point r' has at least as much
as s: where nothing was taken because r has, below that because it has everything. So averages of functions that grow
are at least as large. The sum of two such r' is above the sum of two laws with a sum of one again, and so on.

A law on several levels is on the points of the finest of them up to its end, then on those of the next. What is taken
from finer points is taken from the coarser ones that they were moved to as well, each time a little less.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NOT_ZERO, UNIT
from perinstance.pairs.loss_sums.sampled.lattice.lattice_laws import (
    Lattice,
    LossSum,
    coarsened,
    coarsening_error,
)

RUN = 32  # of numbers whose scales are powers of one
LARGEST = 700.0  # logarithm of a scale that is formed


@kernel
def probability(masses, first, scale, fall):
    """Return a lower bound of the sum of ``m_i e^{log - fall i}`` over the points from the first on.

    ``scale`` is the log, and the size of the numbers whose sum it is.
    """
    log_scale, size = scale
    powers = np.exp(-fall * np.arange(RUN))
    total, lost = 0.0, 0.0
    for begin in range(first, masses.size, RUN):
        power = log_scale - fall * begin
        if abs(power) > LARGEST or RUN * abs(fall) > LARGEST:  # nothing of it is counted
            continue
        part = 0.0
        for i in range(begin, min(begin + RUN, masses.size)):
            part += masses[i] * powers[i - begin]
        wrong = UNIT * (2.0 * RUN + 8.0 + 4.0 * size + 2.0 * abs(fall) * (begin + RUN))
        part *= math.exp(power) * (1.0 - wrong)
        found = total + part
        lost += (total - found) + part if total >= part else (part - found) + total
        total = found
    return (total + lost) * (1.0 - 4.0 * UNIT)


@kernel
def take_least(masses, first, scale, fall, most, taken):
    """Take up to so much probability from the least points on; add what was taken of each mass, or a little less.

    Returns what is left to be taken when all of them are gone.
    """
    log_scale, size = scale
    for i in range(first, masses.size):
        power = log_scale - fall * i
        if abs(power) > LARGEST:
            return 0.0
        wrong = UNIT * (8.0 + 4.0 * size + 2.0 * abs(fall) * i)
        unit, before = math.exp(power), masses[i]
        here = before * unit * (1.0 + wrong)
        masses[i] = max((before - most / unit * (1.0 - wrong)) * (1.0 + 2.0 * UNIT), NOT_ZERO)
        taken[i] += max(before - masses[i], 0.0) * (1.0 - 2.0 * UNIT)
        most = (most - here) * (1.0 - UNIT)
        if most <= 0.0:
            return 0.0
    return most


def without_excess(law: LossSum, lattice: Lattice) -> LossSum:
    """Return the same law without what its levels have beyond a probability of one, if there are many steps.

    Its masses are changed.
    """
    if not (lattice.many and law.beyond < np.inf):
        return law
    grids, deepest = lattice.levels, len(law.levels) - 1
    moved = lattice.order * (lattice.spacing * law.first)
    scale = law.log_scale - moved, abs(law.log_scale) + abs(moved)
    firsts = [grids[k][2] + 1 if k < deepest else 0 for k in range(deepest + 1)]
    falls = [lattice.order * spacing for spacing, _, _ in grids]
    each = [probability(law.levels[k], firsts[k], scale, falls[k]) for k in range(deepest + 1)]
    last = np.zeros(law.masses.size)
    last[-1] = law.beyond
    more = probability(last, last.size - 1, scale, falls[0])
    left = (math.fsum([*each, more]) - 1.0) * (1.0 - UNIT) - 4.0 * UNIT
    if not 0.0 < left < 0.5:
        return law
    image: Floats | None = None
    for k in range(deepest, -1, -1):
        masses = law.levels[k]
        taken = np.zeros(masses.size)
        if image is not None:
            spacing, parts = grids[k][0], lattice.finer[k][1]
            gone = coarsened(image, parts, spacing, lattice.order)
            gone *= 1.0 - 2.0 * coarsening_error(parts, spacing, lattice.order)
            before = masses[: gone.size].copy()
            masses[: gone.size] = np.maximum((before - gone) * (1.0 + 2.0 * UNIT), NOT_ZERO)
            taken[: gone.size] = np.maximum(before - masses[: gone.size], 0.0) * (1.0 - 2.0 * UNIT)
        if left > 0.0:
            left = take_least(masses, firsts[k], scale, falls[k], left, taken)
        image = taken
    return law
