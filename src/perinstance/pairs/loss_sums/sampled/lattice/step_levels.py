r"""One sampled step on all levels of a lattice: points near the least loss are finer, and finer again.

A seldom step mostly loses far less than a spacing, and moving all of that to the two ends of a cell would add
``mean x spacing`` to its variance, thousands of times. So the first points are divided, and sums that are small enough
stay on finer points (``loss_sums.py``). They are moved to coarser ones, keeping the mean, where they have become too
large, or are added to something that is on coarser points: by Jensen's inequality once more that raises delta only.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.normal_tails import upper_tail
from perinstance.numerics.rounding import FIVE_NODES, NOT_ZERO, UNIT
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import StepLaw, log_upper, scaled, step_bound
from perinstance.pairs.loss_sums.sampled.lattice.block_convolution import LEAST_BLOCK
from perinstance.pairs.loss_sums.sampled.lattice.excess_mass import without_excess
from perinstance.pairs.loss_sums.sampled.lattice.lattice_laws import Lattice, LossSum, coarsened
from perinstance.pairs.loss_sums.sampled.lattice.potential_lowering import lower_potential, take_back
from perinstance.pairs.loss_sums.sampled.lattice.step_spread import above_least, move_up, spread_step

#: Half of the variance, in squares of the spacing, that moves of sums to coarser points may add.
FEW_MOVES = 0.05
#: A level has so many points fewer than the one before, where sums of many steps stay on it, and where they do not.
FEWER, FEW = 4.0, 64.0
#: Of logarithms of scales, at most 710, that are sums of up to 2^24 of them without a rounding.
SCALES = 2.0**18
WIDEST = 100.0  # spacing that is divided: exponentials of it, times an order of some 2, are formed


def finer_levels(
    laws: tuple[StepLaw, ...], times: tuple[int, ...], starts: tuple[float, ...], points: int, spacing: float
) -> tuple[tuple[int, int], ...]:
    """Return how many points at the beginning are divided into how many parts, and of these again; powers of two."""
    means = np.array([above_least(0.5 * law.m, law) for law in laws]) - starts  # (1 - q) (e^g - 1) = q there
    out, weight, many = [], 1.0 / 12.0, True
    while many and points >= 8 * LEAST_BLOCK and spacing < WIDEST:
        small = float(np.dot(times, np.where(means < LEAST_BLOCK * spacing, means, 0.0))) / spacing
        many = small / LEAST_BLOCK * weight > FEW_MOVES
        head = max(min(_power_of_two(2.0 * small), _power_of_two(points / 32.0)), LEAST_BLOCK) if many else LEAST_BLOCK
        parts = _power_of_two(points / (FEWER if many else FEW) / head)
        out.append((head, parts))
        points, spacing, weight = head * parts, spacing / parts, weight / parts**2
    return tuple(out)


def _power_of_two(number: float) -> int:
    return 1 << max(math.ceil(math.log2(max(number, 2.0))), 1)


class SpreadStep:
    """One step on the lattice, and what its potential may be lowered by.

    Attributes
    ----------
    log_scale
        The logarithm of what its masses are divided by, a multiple of 2^-18: sums of 2^24 of them are exact.
    share
        The most that a point may be off, as a share of its loss.
    saved
        Half of the variance that is saved where the potential is lowered, in squares of the spacing.
    """

    __slots__ = ("_grids", "_lattice", "_law", "_levels", "_low", "_off", "_places", "log_scale", "saved", "share")

    def __init__(self, law: StepLaw, start: float, first: float, lattice: Lattice) -> None:
        self._law, self._lattice, self._off, self.share, self.saved = law, lattice, 0.0, 0.0, 0.0
        self._grids = [(start, spacing, skip) for spacing, _, skip in lattice.levels]
        self._levels: list[Floats] = []
        x = first
        for spacing, points, skip in lattice.levels[::-1]:
            masses, self._places = np.zeros(points), np.empty(points - skip)
            x, off, share = spread_step(law, (start, spacing, skip), lattice.order, x, masses[skip:], self._places)
            self._off, self.share = max(self._off, off), max(self.share, share)
            if law.sign > 0.0 and not self._levels:  # delta grows with the loss, which is raised
                masses[0] += upper_tail(-first) * (1.0 + FIVE_NODES)
            self._levels.insert(0, masses)
        total = sum(float(masses.sum()) for masses in self._levels)
        self._low = np.empty(self._places.size)
        self.log_scale = round(math.log(total) * SCALES) / SCALES if 0.0 < total < np.inf else np.inf
        if self.log_scale == np.inf:
            return
        scale = math.exp(-self.log_scale) * (1.0 + 4.0 * UNIT)
        for masses, (_, _, skip) in zip(self._levels, self._grids, strict=True):
            masses[skip:] *= scale
            masses[skip:] += NOT_ZERO  # what has underflowed is less
        self.saved = lower_potential(law, self._places, self._grids[0], lattice.order, self.log_scale, self._low)

    def loss(self, lowered: bool) -> LossSum:
        """Return its law, with what lies beyond the last point; to be asked for once."""
        law, lattice, grid = self._law, self._lattice, self._grids[0]
        if lowered:
            masses = self._levels[0][grid[2] :]
            take_back(masses, self._low, law, self._places, grid, lattice.order, self.share)
            masses += NOT_ZERO
        mean = -law.log_p - grid[0] + 8.0 * UNIT * (grid[0] - law.log_p)
        beyond, excess = self._beyond() if law.sign > 0.0 else (0.0, 0.0)
        for k in range(len(self._levels) - 2, -1, -1):  # the point that two levels share belongs to the finer one
            coarse, fine, (_, spacing, skip) = self._levels[k], self._levels[k + 1], self._grids[k]
            fine[-1] = (fine[-1] + coarse[skip]) * (1.0 + UNIT)
            coarse[: skip + 1] = coarsened(fine, lattice.finer[k][1], spacing, lattice.order)
        return without_excess(LossSum(tuple(self._levels), self.log_scale, mean, beyond, excess), lattice)

    def _beyond(self) -> tuple[float, float]:
        """Return the probability and the excess beyond the last point, moving masses up by what points may be off."""
        law, lattice, start, off, x = self._law, self._lattice, self._grids[0][0], self._off, self._places[-1]
        last = lattice.spacing * (lattice.points - 1)
        power = lattice.order * last - self.log_scale
        wrong = UNIT * (64.0 + 4.0 * (x * x + abs(lattice.order * last) + abs(self.log_scale)))
        beyond = scaled(log_upper(x) + power + wrong)
        epsilon = start + last + law.log_p
        bound = step_bound(epsilon, off + 4.0 * UNIT * (start + last - law.log_p), law, 1.0)
        excess = scaled(bound.power + math.log(bound.factor + NOT_ZERO) + power - epsilon + 2.0 * off + wrong)
        return beyond, excess * (1.0 + 8.0 * UNIT * (1.0 + abs(epsilon))) + self._moved_up()

    def _moved_up(self) -> float:
        """Return what moving masses up adds to the excess; infinity where it cannot be done."""
        above, finer = 0.0, None
        for masses, (start, spacing, skip) in zip(self._levels[::-1], self._grids[::-1], strict=True):
            own = masses[skip:]
            if finer is not None:  # from the point that they share mass goes to the next coarse one
                own[0] = (own[0] + finer[-1]) * (1.0 + UNIT)
                finer[-1] = 0.0
            above = move_up(own, start + spacing * skip, spacing, self._lattice.order, self.share)
            if not above < np.inf:
                return np.inf
            finer = masses
        return float(above)
