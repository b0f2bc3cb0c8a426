"""Filters: a person's row is used only while their budget lasts, so that adaptive releases keep a promise together.

What is charged against a budget must be a function of the person's own row and of what was published
(``Mechanism.own_row``), or admission itself would tell of the others. Filters on exact privacy-loss distributions are
not valid under adaptivity; Renyi filters of one fixed order (Feldman and Zrnic 2021) and, for Gaussian noise, sums of
squared distances (Koskela, Tobaben and Honkela 2023) are.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from perinstance.analysis.composition_bounds import renyi_to_epsilon
from perinstance.checked_numbers import positive
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import NORM_UP
from perinstance.pairs import GaussianShift, Pairs


@dataclass(frozen=True, slots=True)
class RenyiBudget:
    """At most ``budget`` of Renyi divergence of one order, for everybody."""

    NAME: ClassVar[str] = "renyi"
    order: float
    budget: float

    def __post_init__(self) -> None:
        positive("budget", self.budget)
        if not positive("order", self.order) > 1:
            raise InvalidInput(f"order must be > 1, got {self.order:g}; try order=8")

    def cost(self, pairs: Pairs) -> Floats:
        """Return what a release takes from each person's budget."""
        return np.asarray(pairs.renyi(self.order))

    def epsilon(self, delta: float) -> float:
        """Return the loss that holds for everybody, whatever was released."""
        return float(renyi_to_epsilon(self.budget, self.order, delta)) * NORM_UP


@dataclass(frozen=True, slots=True)
class GaussianBudget:
    """A total Gaussian distance of at most ``distance`` (in quadrature) for everybody; Gaussian noise only."""

    NAME: ClassVar[str] = "gaussian"
    distance: float

    def __post_init__(self) -> None:
        positive("distance", self.distance)

    @property
    def budget(self) -> float:
        """The sum of squared distances."""
        return float(np.nextafter(self.distance**2, 0.0))

    def cost(self, pairs: Pairs) -> Floats:
        """Return the squared distance of each person, rounded up."""
        if not isinstance(pairs, GaussianShift):
            raise InvalidInput(
                f"a Gaussian budget admits releases with Gaussian noise only, got {type(pairs).__name__} pairs; "
                "use a RenyiBudget"
            )
        return np.nextafter(np.square(pairs.distance), np.where(pairs.distance > 0, np.inf, 0.0))

    def epsilon(self, delta: float) -> float:
        """Return the loss that holds for everybody, whatever was released."""
        return float(GaussianShift([self.distance]).epsilon(delta)[0])


Budget = RenyiBudget | GaussianBudget


def budget_record(budget: Budget | None) -> dict[str, Any] | None:
    """Write a budget down, for the log."""
    return None if budget is None else {"name": budget.NAME, **asdict(budget)}


def read_budget(record: dict[str, Any] | None) -> Budget | None:
    """Read what ``budget_record`` wrote."""
    if record is None:
        return None
    values = {name: value for name, value in record.items() if name != "name"}
    return {"renyi": RenyiBudget, "gaussian": GaussianBudget}[record["name"]](**values)
