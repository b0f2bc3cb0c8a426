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

BLOCK = 1024
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


@kernel
def _excesses(masses, last, spacing, order, excess, beyond):
    """Fill in ``E[(e^{g - t} - 1)_+]`` and the probability of more, at every point t, times the scale there."""
    up = 1.0 + 4.0 * UNIT
    fall = math.exp(-order * spacing) * (1.0 + UNIT * abs(order) * spacing) * up
    rise, jump = fall * math.exp(spacing) * up, fall * math.expm1(spacing) * up
    excess[masses.size - 1], beyond[masses.size - 1] = last
    for j in range(masses.size - 2, -1, -1):
        more = (beyond[j + 1] + masses[j + 1]) * up
        excess[j] = rise * excess[j + 1] + jump * more
        beyond[j] = fall * more


@kernel
def _shortfalls(masses, spacing, order, out):
    """Fill in ``E[(1 - e^{g - t})_+]`` at every point t, times the scale there."""
    up = 1.0 + 4.0 * UNIT
    rise = math.exp(order * spacing) * (1.0 + UNIT * abs(order) * spacing) * up
    stay, jump = rise * math.exp(-spacing) * up, -rise * math.expm1(-spacing) * up
    out[0], below = 0.0, 0.0
    for j in range(masses.size - 1):
        below = (rise * below if j else 0.0) + masses[j]
        out[j + 1] = stay * out[j] + jump * below


def excesses(law: LossSum, lattice: Lattice) -> tuple[Floats, Floats]:
    """Return the profile with the person at every point, and the probability of more."""
    excess, beyond = np.empty(lattice.points), np.empty(lattice.points)
    _excesses(law.masses, (law.excess, law.beyond), lattice.spacing, lattice.order, excess, beyond)
    return excess, beyond


def shortfalls(law: LossSum, lattice: Lattice) -> Floats:
    """Return the profile without the person at every point."""
    out = np.empty(lattice.points)
    _shortfalls(law.masses, lattice.spacing, lattice.order, out)
    return out


def after(excess: float, beyond: float, other: LossSum) -> float:
    """Return what lies beyond a point alone, after another sum was added; rounded up."""
    grown = math.expm1(other.mean) * (1.0 + 8.0 * UNIT) if other.mean < LARGEST else np.inf
    return (float(excess) * (1.0 + grown) + float(beyond) * grown) * _all_of(other)  # not a number: nothing is known


def _all_of(law: LossSum) -> float:
    """Return a probability of one in the scale of a sum, rounded up."""
    return scaled(-law.log_scale) * (1.0 + UNIT * (8.0 + 2.0 * abs(law.log_scale)))


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
