r"""Sums of independent losses on a lattice, with what lies beyond the last point: positive numbers only.

A sum is known by its masses at ``start + j spacing`` up to a last point T, by the probability of more (``beyond``) and
by ``E[(e^{g - T} - 1)_+]`` (``excess``). Whoever lies beyond T alone lies beyond it in every sum with others, where the
profile is linear in ``e^g``: with ``mean = log E[e^g] - start`` of another sum Y,

``excess(X + Y) = sum_i X_i excess_Y(T - i) + excess(X) e^{mean_Y} + beyond(X) (e^{mean_Y} - 1)``.

The first points are given finer as well (``step_levels.py``), and two that both are are added there. What comes out is
moved to the coarser points, the mean of the ratio kept; what lies within the first points stays on the finer ones too.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel, sum_kernel
from perinstance.numerics.rounding import UNIT
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import scaled
from perinstance.pairs.loss_sums.sampled.lattice.block_convolution import convolve
from perinstance.pairs.loss_sums.sampled.lattice.excess_mass import without_excess
from perinstance.pairs.loss_sums.sampled.lattice.lattice_laws import Lattice, LossSum, coarsened
from perinstance.pairs.loss_sums.sampled.lattice.point_profiles import fill_profiles

BLOCK = 1024
TOO_LARGE = 1e280  # masses whose products, added up and transformed, may be too large for floats
LARGEST = 700.0  # whose exponential is formed


@sum_kernel
def _dot(left, right, n):
    """Return ``sum_i left_i right_{n - 1 - i}``."""
    total = 0.0
    for i in range(n):
        total += left[i] * right[n - 1 - i]
    return total


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
    excess, beyond = np.empty(law.masses.size), np.empty(law.masses.size)
    orders = -lattice.order, 1.0 - lattice.order
    fill_profiles(law.masses[::-1], (law.excess, law.beyond), lattice.spacing, orders, excess[::-1], beyond[::-1])
    return excess, beyond


def shortfalls(law: LossSum, lattice: Lattice) -> Floats:
    """Return ``E[(1 - e^{g - t})_+]`` at every point t, times the scale there."""
    out, below = np.empty(law.masses.size), np.empty(law.masses.size)
    fill_profiles(law.masses, (0.0, 0.0), lattice.spacing, (lattice.order, lattice.order - 1.0), out, below)
    return out


def after(excess: float, beyond: float, other: LossSum, lattice: Lattice) -> float:
    """Return what lies beyond a point alone, after another sum was added; rounded up."""
    grown = math.expm1(other.mean) * (1.0 + 8.0 * UNIT) if other.mean < LARGEST else np.inf
    # not a number: nothing is known
    return (float(excess) * (1.0 + grown) + float(beyond) * grown) * _all_of(other, lattice)


def _all_of(law: LossSum, lattice: Lattice) -> float:
    """Return a probability of one in the scale of a sum at its first point, rounded up."""
    moved = lattice.order * (lattice.spacing * law.first)
    return scaled(moved - law.log_scale) * (1.0 + UNIT * (8.0 + 4.0 * (abs(moved) + abs(law.log_scale))))


def added(one: LossSum, two: LossSum, lattice: Lattice) -> LossSum:
    """Return the law of the sum of two independent losses, up to the last point that both can tell of."""
    if one is not two:
        one, two = ended(one, two.masses.size, lattice), ended(two, one.masses.size, lattice)
    if not float(one.masses.max()) * float(two.masses.max()) < TOO_LARGE:
        raise OverflowError("masses on points that are too far apart for their scale")
    beyond, excess = 0.0, 0.0
    if lattice.sign > 0.0:
        profile, more = excesses(two, lattice)
        beyond = folded(one.masses, more, more.size) + one.beyond * _all_of(two, lattice)
        excess = folded(one.masses, profile, more.size) + after(one.excess, one.beyond, two, lattice)
    mean, log_scale = (one.mean + two.mean) * (1.0 + UNIT), one.log_scale + two.log_scale
    beyond, excess = beyond * (1.0 + 2.0 * UNIT), excess * (1.0 + 2.0 * UNIT)
    levels = _convolved(one, two, lattice)
    return without_excess(LossSum(levels, log_scale, mean, beyond, excess, one.first + two.first), lattice)


def _convolved(one: LossSum, two: LossSum, lattice: Lattice) -> tuple[Floats, ...]:
    """Return the masses of a sum on all levels, from fine to coarse: two that are given finer are added there."""
    if len(one.levels) != len(two.levels) or len(one.levels) == 1:
        return (convolve(one.masses, one.masses if one is two else two.masses, one.masses.size),)
    found: list[Floats] = []
    levels = lattice.levels
    for k in range(len(levels) - 1, -1, -1):
        spacing, points, last = levels[k]
        count = 2 * points - 1 if k else one.masses.size
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


def ended(law: LossSum, points: int, lattice: Lattice) -> LossSum:
    """Return the law up to an earlier point: what lies behind it lies beyond the last one."""
    if law.masses.size <= points:
        return law
    beyond, excess = 0.0, 0.0
    if lattice.sign > 0.0:
        profile, more = excesses(law, lattice)
        beyond, excess = float(more[points - 1]), float(profile[points - 1])
    levels = (law.masses[:points].copy(), *law.levels[1:])
    return replace(law, levels=levels, beyond=beyond, excess=excess)
