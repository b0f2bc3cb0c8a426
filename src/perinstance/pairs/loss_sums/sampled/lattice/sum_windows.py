r"""Sums of many losses on a window of the lattice: where next to nothing lies below, points would be wasted.

The sum of n losses lies around n times their mean, next to never some ``z sqrt(n E[g^2])`` below it: losses above their
least value are positive. Whatever lies lower is raised to the first point of a window there, which raises delta. For a
person who is seldom sampled the window is often a hundredth of all that their sum may be, and its points as much finer.

Whoever lies beyond the last point alone must lie beyond that of every sum with others, which lie above the beginnings
of their windows: with ``a`` the first and ``T`` the last points, ``T(X) = T(X + Y) - a(Y)``. So the windows of two that
are added, as long as each other, are longer than that of their sum by as much as its beginning is raised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NOT_ZERO, UNIT
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import StepLaw
from perinstance.pairs.loss_sums.sampled.lattice.lattice_laws import Lattice, LossSum
from perinstance.pairs.loss_sums.sampled.lattice.loss_sums import LARGEST, added
from perinstance.pairs.loss_sums.sampled.lattice.step_spread import above_least

NODES = 2000  # for mean and variance, about
FURTHEST = 12.0  # of the noise for them


@kernel
def _moments(law, start, first):
    """Return the mean of a step's loss above its start, and of its square, about; the noise begins at ``first``."""
    step = (FURTHEST - first) / (NODES - 1)
    mean, square = 0.0, 0.0
    for i in range(NODES):
        x = first + step * i
        loss = above_least(x, law) - start
        weight = math.exp(-0.5 * x * x) * step / math.sqrt(2.0 * math.pi)
        mean += weight * loss
        square += weight * loss * loss
    return mean, square


@dataclass(frozen=True, slots=True)
class LossWindow:
    """Where windows of sums of one kind of steps begin: ``n mean - sqrt(n) deep``, but up to a mean at the least value.

    So sums of fewer steps stay on finer points, which begin there.
    """

    mean: float = 0.0
    deep: float = 0.0
    least: float = np.inf

    @classmethod
    def of(cls, law: StepLaw, start: float, first: float, z: float) -> LossWindow:
        """Return windows that sums leave, about, with probability ``e^{-z^2/2}``; the noise begins at ``first``."""
        mean, square = _moments(law, start, first)
        return cls(mean, z * math.sqrt(square), 0.0)

    def begins(self, n: int) -> float:
        """Return where the window of a sum of n begins."""
        return max(n * self.mean - math.sqrt(n) * self.deep, 0.0) if n * self.mean > self.least else 0.0

    def raised(self, times: int) -> float:
        """Return by how much beginnings are raised on the way to a sum, all together."""
        return sum(max(self.begins(sum(both)) - sum(map(self.begins, both)), 0.0) for both in _sums(times))


def _sums(times: int) -> list[tuple[int, int]]:
    """Return which sums are added up, one after the other, for so many copies."""
    out, n = [], 1
    for digit in bin(times)[3:]:
        out.append((n, n))
        n *= 2
        if digit == "1":
            out.append((n, 1))
            n += 1
    return out


def repeated(law: LossSum, times: int, lattice: Lattice, window: LossWindow) -> LossSum:
    """Return the law of the sum of so many independent copies, at least one."""
    out = law
    for many, more in _sums(times):
        out = added(out, out if more == many else law, lattice)
        out = begun(out, int(window.begins(many + more) / lattice.spacing), lattice)
    return out


def begun(law: LossSum, first: int, lattice: Lattice) -> LossSum:
    """Return the law with all that lies below a point raised to it."""
    drop = first - law.first
    if drop <= 0:
        return law
    power = abs(lattice.order) * lattice.spacing * drop
    if not (power < LARGEST and drop < law.masses.size // 2):
        raise OverflowError("a window that begins too far above the last one")
    # their sum is next to nothing: however it is rounded up
    below = float(law.masses[:drop] @ np.exp(lattice.order * lattice.spacing * np.arange(drop, 0, -1)))
    below = below * (1.0 + UNIT * (drop + 8.0 + 4.0 * power)) + NOT_ZERO
    masses = law.masses[drop:].copy()
    masses[0] = (masses[0] + below) * (1.0 + UNIT)
    moved = lattice.order * (lattice.spacing * first)
    log = law.log_scale - moved
    if not log < LARGEST:
        raise OverflowError("a scale too large for floats")
    share = below * math.exp(log) * (1.0 + UNIT * (8.0 + 4.0 * (abs(law.log_scale) + abs(moved))))
    mean = law.mean - lattice.spacing * drop + 4.0 * UNIT * (law.mean + lattice.spacing * drop)
    mean += share * math.exp(-mean) * (1.0 + 4.0 * UNIT)  # e^mean grows by the share that was raised
    return replace(law, levels=(masses,), mean=mean, first=first)
