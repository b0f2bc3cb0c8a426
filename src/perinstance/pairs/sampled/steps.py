"""Who takes which sampled steps: the different kinds of steps, and how many of each a person takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation import kernel
from perinstance.numerics.rounding import FEW_ROUNDINGS, LEAST_DISTANCE, LEAST_RATE


@dataclass(frozen=True, slots=True)
class StepsTaken:
    """Person i takes ``steps[i, j]`` steps of the kind ``index[i, j]``, or of kind j where ``index`` is None.

    ``rates`` (above 0, below 1) and ``distances`` (above 0) belong to the different kinds, sorted by both where there
    is an index. ``over`` says whether the person over without is meant.
    """

    rates: Floats
    distances: Floats
    index: NDArray[np.intp] | None
    steps: Floats
    over: bool = False

    @classmethod
    def of(cls, rate: Floats, distance: Floats, steps: Floats) -> StepsTaken:
        """Find the different kinds in tables with one row per person; what costs nothing gets no steps."""
        n, k = steps.shape
        if same_rows(rate) and same_rows(distance):
            used = np.flatnonzero((rate[0] > 0.0) & (distance[0] > 0.0) & (steps.max(axis=0) > 0.0))
            rates, distances, index = rate[0, used].copy(), distance[0, used].copy(), None
            steps = np.ascontiguousarray(steps if used.size == k else steps[:, used])
        else:
            live = (rate > 0.0) & (distance > 0.0) & (steps > 0.0)
            kinds, inverse = np.unique(np.stack([rate[live], distance[live]], axis=1), axis=0, return_inverse=True)
            index = np.zeros((n, k), dtype=np.intp)
            index[live] = inverse.ravel()
            rates, distances = kinds[:, 0].copy(), kinds[:, 1].copy()
            steps = np.where(live, steps, 0.0)
        # a profile grows with the rate and the distance
        return cls(np.maximum(rates, LEAST_RATE), np.maximum(distances, LEAST_DISTANCE), index, steps)

    @classmethod
    def join(cls, parts: list[StepsTaken]) -> StepsTaken:
        """Put the steps of independent trainings side by side."""
        starts = np.cumsum([0, *(part.rates.size for part in parts)])
        indices = [
            start + np.broadcast_to(np.arange(part.rates.size) if part.index is None else part.index, part.steps.shape)
            for start, part in zip(starts, parts, strict=False)
        ]
        return cls(
            np.concatenate([part.rates for part in parts]),
            np.concatenate([part.distances for part in parts]),
            None if all(part.index is None for part in parts) else np.hstack(indices),
            np.hstack([part.steps for part in parts]),
            parts[0].over,
        )

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, rows: Any) -> StepsTaken:
        return replace(self, index=None if self.index is None else self.index[rows], steps=self.steps[rows])

    def swapped(self) -> StepsTaken:
        """Exchange P and Q."""
        return replace(self, over=not self.over)

    @property
    def costs(self) -> NDArray[np.bool_]:
        """Of each person: whether any step was taken."""
        return np.asarray((self.steps > 0.0).any(axis=1))

    @property
    def kinds_each(self) -> int:
        """How many kinds of steps a person may have that others do not."""
        return 1 if self.index is None else max(self.steps.shape[1], 1)

    def kinds(self) -> NDArray[np.intp]:
        """Return the kinds that these people take, sorted."""
        if self.index is None:
            return np.arange(self.rates.size)
        return np.unique(self.index[self.steps > 0.0])

    def total(self, table: Floats, kinds: NDArray[np.intp]) -> Floats:
        """Return the sum over a person's steps of rows of a table, which has one for each of ``kinds`` (sorted)."""
        if self.index is None:
            return np.asarray(self.steps @ table)
        out = np.zeros((len(self), table.shape[1]))
        if kinds.size:
            where = np.minimum(np.searchsorted(kinds, self.index), kinds.size - 1)
            add_rows(self.steps, where, np.ascontiguousarray(table), out)
        return out

    def total_of(self, each: Floats) -> Floats:
        """Return the sum over a person's steps of a number for each kind, rounded up if it is not negative."""
        kinds = self.kinds()
        return self.total(each[kinds, None], kinds)[:, 0] * (1.0 + FEW_ROUNDINGS * (1 + self.steps.shape[1]))

    def largest_loss(self) -> Floats:
        """Return the essential supremum of the loss, rounded up: without the person no step says more than 1 - q."""
        if self.over:
            return np.where(self.costs, np.inf, 0.0)
        return self.total_of(-np.log1p(-self.rates))

    def zcdp(self) -> Floats:
        """Return ``sum steps m^2/2``: at large orders the samples with the person decide, whatever the rate."""
        return self.total_of(0.5 * self.distances**2)


@kernel
def add_rows(steps, where, table, out):
    """Add up the rows of a table that each person takes, so many times each."""
    for i in range(steps.shape[0]):
        for j in range(steps.shape[1]):
            count, row = steps[i, j], table[where[i, j]]
            if count > 0.0:
                for k in range(row.size):
                    out[i, k] += count * row[k]


def same_rows(table: Floats) -> bool:
    """Whether there are people and all have one row; a table that was spread is seen without looking."""
    return len(table) > 0 and (not table.strides[0] or bool((table == table[:1]).all()))
