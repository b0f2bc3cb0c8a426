r"""Sums of independent losses on a lattice, with what lies beyond the last point: positive numbers only.

A sum is known by its masses at ``start + j spacing`` up to a last point T, by the probability of more (``beyond``) and
by ``E[(e^{g - T} - 1)_+]`` (``excess``). Whoever lies beyond T alone lies beyond it in every sum with others, where the
profile is linear in ``e^g``: with ``mean = log E[e^g] - start`` of another sum Y,

``excess(X + Y) = sum_i X_i excess_Y(T - i) + excess(X) e^{mean_Y} + beyond(X) (e^{mean_Y} - 1)``.

Masses are multiplied by ``e^{order j spacing}`` and divided by ``e^log_scale``, what belongs to the last point too.
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
LARGEST = 700.0  # whose exponential is formed


@dataclass(frozen=True, slots=True)
class Lattice:
    """Spacing, order of the scale and number of points that all sums share; ``sign`` is +1 with, -1 without."""

    spacing: float
    order: float
    points: int
    sign: float


@dataclass(frozen=True, slots=True)
class LossSum:
    """The law of a sum of losses above their least value; the last two only with the person."""

    masses: Floats
    log_scale: float
    mean: float
    beyond: float
    excess: float


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
    masses = convolve(one.masses, two.masses)
    mean, log_scale = (one.mean + two.mean) * (1.0 + UNIT), one.log_scale + two.log_scale
    return LossSum(masses, log_scale, mean, beyond * (1.0 + 2.0 * UNIT), excess * (1.0 + 2.0 * UNIT))


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
