r"""Sums of independent losses on a lattice, with what lies beyond the last point: positive numbers only.

A sum is known by its masses at ``start + j spacing`` up to a last point T, by the probability of more (``beyond``) and
by ``E[(e^{g - T} - 1)_+]`` (``excess``). Whoever lies beyond T alone lies beyond it in every sum with others, where the
profile is linear in ``e^g``: with ``mean = log E[e^g] - start`` of another sum Y,

``excess(X + Y) = sum_i X_i excess_Y(T - i) + excess(X) e^{mean_Y} + beyond(X) (e^{mean_Y} - 1)``.

Masses are multiplied by ``e^{order j spacing}`` and divided by ``e^log_scale``, what belongs to the last point too.

The first points are given finer as well (``step_levels.py``), and two that both are are added there. What comes out is
moved to the coarser points, the mean of the ratio kept; what lies within the first points stays on the finer ones too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel, sum_kernel
from perinstance.numerics.rounding import UNIT
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import scaled
from perinstance.pairs.loss_sums.sampled.lattice.block_convolution import convolve
from perinstance.pairs.loss_sums.sampled.lattice.point_profiles import fill_profiles

BLOCK = 1024
#: roundings of the logarithm of a scale: one for each of up to 16 + 8 additions, half a unit, and an exponential
SCALES = 16.0
RUN = 32  # of numbers that are added before they are added to others
LARGEST = 700.0  # whose exponential is formed


@dataclass(frozen=True, slots=True)
class Lattice:
    """Spacing, order of the scale and number of points that all sums share; ``sign`` is +1 with, -1 without.

    ``finer`` are numbers of points and parts: so many points at the beginning, but for their last spacing, are divided
    into so many parts; and of these again.
    """

    spacing: float
    order: float
    points: int
    sign: float
    finer: tuple[tuple[int, int], ...] = ()

    @property
    def levels(self) -> list[tuple[float, int, int]]:
        """Spacing, number of points, and the first point that is not given finer, from coarse to fine."""
        out, spacing, points = [], self.spacing, self.points
        for head, parts in (*self.finer, (0, 1)):
            out.append((spacing, points, max(head - 1, 0)))
            spacing, points = spacing / parts, (head - 1) * parts + 1
        return out


@dataclass(frozen=True, slots=True)
class LossSum:
    """The law of a sum of losses above their least value, on all levels of a lattice: the first has all of it.

    The last two numbers are known only with the person.
    """

    levels: tuple[Floats, ...]
    log_scale: float
    mean: float
    beyond: float
    excess: float

    @property
    def masses(self) -> Floats:
        """Masses at all points."""
        return self.levels[0]


@sum_kernel
def _dot(left, right, n):
    """Return ``sum_i left_i right_{n - 1 - i}``."""
    total = 0.0
    for i in range(n):
        total += left[i] * right[n - 1 - i]
    return total


@kernel
def coarsened(fine, parts, spacing, order):
    """Return masses on parts of a spacing moved to the points around them, so that the mean of the ratio stays.

    They are rounded up. The last of the finer points is a point.
    """
    cells = fine.size // parts
    out = np.zeros(cells + 1)
    low, up = np.empty(parts), np.empty(parts)
    for r in range(parts):
        above, left = spacing * r / parts, spacing * (parts - r) / parts
        low[r] = math.expm1(-left) / math.expm1(-spacing) * math.exp(-order * above)
        up[r] = math.expm1(-above) / math.expm1(-spacing) * math.exp((order - 1.0) * left)
    out[cells] = fine[cells * parts]
    for c in range(cells):
        for begin in range(0, parts, RUN):
            down, higher = 0.0, 0.0
            for r in range(begin, min(begin + RUN, parts)):
                down += fine[c * parts + r] * low[r]
                higher += fine[c * parts + r] * up[r]
            out[c] += down
            out[c + 1] += higher
    return out * (1.0 + UNIT * (RUN + parts // RUN + 16.0 + 2.0 * (1.0 + abs(order)) * spacing))


@kernel
def folded(left, right, n):
    """Return ``sum_{i < n} left_i right_{n - 1 - i}`` of positive numbers, rounded up."""
    total = 0.0
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        total += _dot(left[begin:end], right[n - end : n - begin], end - begin)
    return total * (1.0 + UNIT * (BLOCK + n // BLOCK + 4.0))


def excesses(law: LossSum, lattice: Lattice) -> tuple[Floats, Floats]:
    """Return ``E[(e^{g - t} - 1)_+]`` and the probability of more, at every point t, times the scale there."""
    excess, beyond = np.empty(lattice.points), np.empty(lattice.points)
    orders = -lattice.order, 1.0 - lattice.order
    fill_profiles(law.masses[::-1], (law.excess, law.beyond), lattice.spacing, orders, excess[::-1], beyond[::-1])
    return excess, beyond


def shortfalls(law: LossSum, lattice: Lattice) -> Floats:
    """Return ``E[(1 - e^{g - t})_+]`` at every point t, times the scale there."""
    out, below = np.empty(lattice.points), np.empty(lattice.points)
    fill_profiles(law.masses, (0.0, 0.0), lattice.spacing, (lattice.order, lattice.order - 1.0), out, below)
    return out


def after(excess: float, beyond: float, other: LossSum) -> float:
    """Return what lies beyond a point alone, after another sum was added; rounded up."""
    grown = math.expm1(other.mean) * (1.0 + 8.0 * UNIT) if other.mean < LARGEST else np.inf
    return (float(excess) * (1.0 + grown) + float(beyond) * grown) * _all_of(other)  # not a number: nothing is known


def _all_of(law: LossSum) -> float:
    """Return a probability of one in the scale of a sum, rounded up."""
    return scaled(-law.log_scale) * (1.0 + UNIT * (8.0 + SCALES * abs(law.log_scale)))


def added(one: LossSum, two: LossSum, lattice: Lattice) -> LossSum:
    """Return the law of the sum of two independent losses, up to the last point."""
    beyond, excess = 0.0, 0.0
    if lattice.sign > 0.0:
        profile, more = excesses(two, lattice)
        beyond = folded(one.masses, more, lattice.points) + one.beyond * _all_of(two)
        excess = folded(one.masses, profile, lattice.points) + after(one.excess, one.beyond, two)
    mean, log_scale = (one.mean + two.mean) * (1.0 + UNIT), one.log_scale + two.log_scale
    beyond, excess = beyond * (1.0 + 2.0 * UNIT), excess * (1.0 + 2.0 * UNIT)
    return LossSum(_convolved(one, two, lattice), log_scale, mean, beyond, excess)


def _convolved(one: LossSum, two: LossSum, lattice: Lattice) -> tuple[Floats, ...]:
    """Return the masses of a sum on all levels, from fine to coarse: two that are given finer are added there."""
    found: list[Floats] = []
    levels = lattice.levels
    for k in range(len(levels) - 1, -1, -1):
        spacing, points, last = levels[k]
        count = 2 * points - 1 if k else points
        left, right = one.levels[k], two.levels[k]
        whole = convolve(left, left if one is two else right, count, last + 1 if last else 0)
        if last:
            parts, finer = lattice.finer[k][1], found[-1]
            whole[: 2 * last + 1] += coarsened(finer, parts, spacing, lattice.order)
            whole *= 1.0 + UNIT
            begin = last * parts
            finer[begin] = coarsened(finer[begin:], parts, spacing, lattice.order)[0]
            found[-1] = finer[: begin + 1].copy()
        found.append(whole)
    return tuple(found[::-1])


def repeated(law: LossSum, times: int, lattice: Lattice) -> LossSum:
    """Return the law of the sum of so many independent copies, at least one."""
    out: LossSum | None = None
    while True:
        if times % 2:
            out = law if out is None else added(out, law, lattice)
        times //= 2
        if not times:
            assert out is not None
            return out
        law = added(law, law, lattice)
