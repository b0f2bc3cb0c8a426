"""From lengths of gradients to pairs: steps of one length, of many lengths, and what the promise is.

Step t adds noise ``N(0, sigma^2 I)`` to the sum of clipped gradients of a Poisson sample of rate q; a person whose
clipped gradient has length s is at the distance ``s / sigma`` there. Steps add up in ``SampledGaussian``; at rate 1,
distances add in quadrature (``GaussianShift``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from perinstance.checked_numbers import is_number, positive, probability
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_DOWN, NORM_UP, STEP_UP
from perinstance.pairs import GaussianShift, SampledGaussian
from perinstance.pairs.base import Pairs
from perinstance.pairs.kinds import Kind
from perinstance.releases.promises.promise import renyi_to_delta, renyi_to_epsilon

#: Lengths are counted at so many levels between 0 and the clip, each length at the level above it.
LEVELS = 128
#: Where the search for the noise stops, relatively.
NOISE_STEP = 2.0**-30
BEYOND = 1e3  #: an epsilon over the asked one from which on the search need not tell losses apart


def equal_steps(
    rate: float, distance: Any, steps: int, kind: Kind = "upper", budget: PersonalBudget | None = None
) -> Pairs:
    """Return the pairs of people who are at one distance in every step; at rate 1 a budget keeps them below its own."""
    m = np.atleast_1d(np.asarray(distance, dtype=np.float64)) * STEP_UP
    if rate == 1.0:
        whole = m * (math.sqrt(steps) * STEP_UP) * STEP_UP
        return GaussianShift(whole if budget is None else np.minimum(whole, budget.distance * NORM_UP), kind)
    return SampledGaussian(rate, m, steps, kind)


def levels_of(clip: float, count: int = LEVELS) -> Floats:
    """Return the levels ``0, clip / count, ..., clip`` (a length of zero has a level of its own)."""
    levels = clip * (np.arange(count + 1) / count)
    levels[-1] = clip
    return levels


def counted(norms: Floats, clip: float, count: int = LEVELS) -> NDArray[np.intp]:
    """Return the position of the smallest level that is not below each clipped length.

    >>> counted(np.array([0.0, 1e-9, 0.5, 0.51, 7.0]), clip=1.0, count=2)
    array([0, 1, 1, 2, 2])
    """
    return np.minimum(np.searchsorted(levels_of(clip, count), norms, side="left"), count)


def counted_steps(rate: float, noise: float, clip: float, counts: NDArray[Any], kind: Kind = "estimate") -> Pairs:
    """Return the pairs of people who took ``counts[i, k]`` steps at level k."""
    distances = levels_of(clip, counts.shape[1] - 1) / noise * STEP_UP
    if rate == 1.0:
        square = counts @ distances**2
        return GaussianShift(np.sqrt(square) * NORM_UP, kind)
    # the kinds of steps that nobody took cost time only
    taken = np.flatnonzero(counts.any(axis=0) & (distances > 0))
    if not taken.size:
        return GaussianShift(np.zeros(len(counts)), kind)
    return SampledGaussian(rate, distances[None, taken], counts[:, taken], kind)


@lru_cache(maxsize=64)
def largest_distance(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """Return the largest clip over noise, rounded down, at which the steps keep (epsilon, delta).

    >>> round(largest_distance(1.0, 100, 1.0, 1e-6), 5)
    0.02367
    """

    @cache
    def excess(m: float) -> float:
        found = float(equal_steps(rate, m, steps).epsilon(delta)[0]) - epsilon
        return found if found < BEYOND else BEYOND  # no number is beyond, too

    low = high = 1.0
    while excess(high) <= 0.0:
        if high >= 1e6:
            return high
        low, high = high, 2.0 * high
    while excess(low) > 0.0:
        if low < NOISE_STEP:
            raise InvalidInput(f"no noise keeps epsilon={epsilon:g}, delta={delta:g} over {steps} steps")
        low, high = 0.25 * low, low
    kept = float(brentq(excess, low, high, xtol=0.25 * NOISE_STEP * low, rtol=0.25 * NOISE_STEP))
    while excess(kept) > 0.0:  # the root is known to a step, and the side that keeps the promise is taken
        kept *= 1.0 - NOISE_STEP
    return max(kept, low)


@dataclass(frozen=True, slots=True)
class PersonalBudget:
    """What was declared. All of it is public."""

    order: float
    budget: float
    refresh: int

    @classmethod
    def of(cls, declared: Any, refresh: int) -> PersonalBudget:
        """Validate ``filter=(order, budget)``."""
        if not isinstance(declared, tuple | list) or len(declared) != 2 or not all(map(is_number, declared)):
            raise InvalidInput(f"filter must be (order, budget), two numbers, got {declared!r}; try filter=(8, 1.0)")
        order, budget = positive("the filter's order", declared[0]), positive("the filter's budget", declared[1])
        if not order > 1:
            raise InvalidInput(f"the filter's order must be > 1, got {order:g}; try filter=(8, 1.0)")
        return cls(order, budget, refresh)

    @property
    def distance(self) -> float:
        """The total Gaussian distance that is kept at rate 1."""
        return float(np.sqrt(2.0 * self.budget / self.order))

    def costs(self, rate: float, distances: Floats) -> tuple[Floats, float]:
        """Return what a step at each distance (the first is zero) costs, and what may be spent."""
        if rate == 1.0:
            return distances**2 * NORM_UP, 2.0 * self.budget / self.order * BOUND_DOWN
        cost = np.zeros(len(distances))
        cost[1:] = np.asarray(SampledGaussian(rate, distances[1:]).renyi(self.order)) * NORM_UP
        return cost, self.budget * BOUND_DOWN


@dataclass(frozen=True, slots=True)
class DescentPromise:
    """What holds for everybody, in every data set, whatever their row is. It is public.

    ``distance`` is the clip over the noise; all iterates are charged, so the last one alone costs no more. Under a
    filter everybody loses no more than its budget either.
    """

    rate: float
    distance: float
    steps: int
    budget: PersonalBudget | None = None  #: of a filter

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at epsilon in both directions."""
        if not np.isfinite(epsilon):
            raise InvalidInput(f"epsilon must be a finite number, got {epsilon!r}")
        found, budget = float(self.pairs.delta(epsilon)[0]), self.budget
        if budget is not None and self.rate < 1.0:
            found = min(found, renyi_to_delta(budget.budget, budget.order, epsilon) * NORM_UP)
        return found

    def epsilon(self, delta: float) -> float:
        """Return an epsilon at which both directions are at most delta."""
        found, budget = float(self.pairs.epsilon(probability("delta", delta))[0]), self.budget
        if budget is not None and self.rate < 1.0:
            found = min(found, float(renyi_to_epsilon(budget.budget, budget.order, delta)) * NORM_UP)
        return found

    @property
    def pairs(self) -> Pairs:
        """One pair: that of a person whose gradient is clipped in every step (at rate 1: while a budget lasts)."""
        return equal_steps(self.rate, self.distance, self.steps, budget=self.budget)
