"""A filter inside a descent: everybody's gradient is used only while their own Renyi budget lasts.

At public times (every ``refresh`` steps) the length of each person's gradient at the iterate of that time is rounded up
to a public level, which is their own clip until the next. A step then costs them the divergence of a Poisson-sampled
Gaussian at that level, whether they are sampled or not; who cannot pay is left out of this step. Cost and admission are
functions of the person's own row and of the iterates before, so that nothing is told of the others.

Theorem (Feldman and Zrnic 2021, individual Renyi filters): if nobody's costs of one fixed order exceed the budget, the
whole adaptive descent has at most that divergence for everybody. At rate 1 the steps are Gaussian, and the sum of
squared distances is what is kept below ``2 budget / order``: then the descent is one Gaussian shift of the square root
of that (Koskela, Tobaben and Honkela 2023). Filters on exact compositions keep no promise: whoever may choose the next
step after seeing the last one exceeds them (``tests/releases/test_descent_filter.py`` shows by how much).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.checked_numbers import is_number, positive, probability
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_DOWN, NORM_UP, STEP_UP
from perinstance.pairs import SampledGaussian, Shift
from perinstance.pairs.interface.kinds import Kind
from perinstance.releases.descent.step_losses import DescentPromise, counted, levels_of
from perinstance.releases.promises.renyi_conversion import renyi_to_delta, renyi_to_epsilon


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


class Accounts:
    """What each person has spent so far. It lives for the time of one descent, and is confidential."""

    def __init__(self, terms: PersonalBudget, rate: float, noise: float, clip: float, people: int) -> None:
        self._refresh, self._clip = terms.refresh, clip
        self._levels = levels_of(clip)
        distance = self._levels / noise * STEP_UP
        if rate == 1.0:
            self._cost = distance**2 * NORM_UP
            self._budget = 2.0 * terms.budget / terms.order * BOUND_DOWN
        else:
            self._cost = np.zeros(len(distance))
            self._cost[1:] = np.asarray(SampledGaussian(rate, distance[1:]).renyi(terms.order)) * NORM_UP
            self._budget = terms.budget * BOUND_DOWN
        self._spent = np.zeros(people)
        self._own = np.zeros(people, dtype=np.intp)

    def is_public_time(self, t: int) -> bool:
        """Tell whether everybody's own clip is set anew before step t."""
        return t % self._refresh == 0

    def set_clips(self, lengths: Floats) -> None:
        """Take these lengths, at the iterate of now, as everybody's own clip."""
        self._own = counted(lengths, self._clip)

    def charge(self) -> Floats:
        """Charge one step to all who can pay for it, and return everybody's clip in it: zero for the others."""
        after = self._spent + self._cost[self._own]
        after = np.where(self._cost[self._own] > 0.0, np.nextafter(after, np.inf), after)
        pays = after <= self._budget
        self._spent = np.where(pays, after, self._spent)
        return np.where(pays, self._levels[self._own], 0.0)


@dataclass(frozen=True, slots=True)
class FilterPromise:
    """What holds for everybody under a filter: the budget, and what all steps at the clip would cost. It is public."""

    rate: float
    distance: float
    steps: int
    budget: PersonalBudget
    kind: Kind = "upper"

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at epsilon in both directions."""
        plain = self._steps().delta(epsilon)
        if self.rate == 1.0:
            return min(plain, float(Shift([self.budget.distance * NORM_UP]).delta(epsilon)[0]))
        return min(plain, renyi_to_delta(self.budget.budget, self.budget.order, epsilon) * NORM_UP)

    def epsilon(self, delta: float) -> float:
        """Return an epsilon at which both directions are at most delta."""
        plain = self._steps().epsilon(delta)
        if self.rate == 1.0:
            return min(plain, float(Shift([self.budget.distance * NORM_UP]).epsilon(delta)[0]))
        kept = renyi_to_epsilon(self.budget.budget, self.budget.order, probability("delta", delta))
        return min(plain, float(kept) * NORM_UP)

    def _steps(self) -> DescentPromise:
        return DescentPromise(self.rate, self.distance, self.steps)


def levels_used(own: Floats) -> list[tuple[float, NDArray[np.bool_]]]:
    """Return each clip in use and who has it; a clip of zero is none."""
    return [(float(clip), own == clip) for clip in np.unique(own) if clip > 0.0]
