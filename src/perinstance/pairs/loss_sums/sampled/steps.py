"""Who takes which sampled steps: the different kinds of steps, and how many of each a person takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS, LEAST_DISTANCE, LEAST_RATE
from perinstance.pairs.loss_sums.sampled.log_moments import StepKind, divergence_of


@dataclass(frozen=True, slots=True)
class SampledSteps:
    """Person i takes ``steps[i, j]`` steps of the kind ``index[i, j]``, or of kind j where ``index`` is None.

    ``rates`` (above 0, below 1), ``distances`` (above 0) and ``kl`` (P over Q, Q over P, then the error of each)
    belong to the different kinds. ``over`` says whether Q over P is meant.
    """

    rates: Floats
    distances: Floats
    kl: Floats
    index: NDArray[np.intp] | None
    steps: Floats
    over: bool

    @classmethod
    def of(cls, rate: Floats, distance: Floats, steps: Floats) -> SampledSteps:
        """Find the different kinds in tables with one row per person; what costs nothing gets no steps."""
        n, k = steps.shape
        if n > 0 and _same_rows(rate) and _same_rows(distance):
            used = np.flatnonzero((rate[0] > 0.0) & (distance[0] > 0.0) & (steps.max(axis=0) > 0.0))
            rates, distances, index = rate[0, used].copy(), distance[0, used].copy(), None
            steps = np.ascontiguousarray(steps if used.size == k else steps[:, used])
        else:
            live = (rate > 0.0) & (distance > 0.0) & (steps > 0.0)
            rows = np.stack([rate[live], distance[live]], axis=1)
            kinds, inverse = np.unique(rows, axis=0, return_inverse=True)
            index = np.zeros((n, k), dtype=np.intp)
            index[live] = inverse.ravel()
            rates, distances = kinds[:, 0].copy(), kinds[:, 1].copy()
            steps = np.where(live, steps, 0.0)
        np.maximum(rates, LEAST_RATE, out=rates)  # a profile grows with the rate and the distance
        np.maximum(distances, LEAST_DISTANCE, out=distances)
        kl = np.empty((4, rates.size))
        for j, (q, m) in enumerate(zip(rates.tolist(), distances.tolist(), strict=True)):
            for i, over in enumerate((False, True)):
                kl[i, j], kl[2 + i, j] = divergence_of(StepKind(q, m, over, 0.0))
        return cls(rates, distances, kl, index, steps, False)

    @classmethod
    def join(cls, parts: list[SampledSteps]) -> SampledSteps:
        """Put the steps of independent trainings side by side."""
        starts = np.cumsum([0, *(part.rates.size for part in parts)])
        indices = [start + part._positions() for start, part in zip(starts, parts, strict=False)]
        shared = all(part.index is None for part in parts)
        return cls(
            np.concatenate([part.rates for part in parts]),
            np.concatenate([part.distances for part in parts]),
            np.hstack([part.kl for part in parts]),
            None if shared else np.hstack(indices),
            np.hstack([part.steps for part in parts]),
            parts[0].over,
        )

    def _positions(self) -> NDArray[np.intp]:
        if self.index is not None:
            return self.index
        return np.broadcast_to(np.arange(self.rates.size), self.steps.shape)

    def swapped(self) -> SampledSteps:
        """Exchange P and Q."""
        return replace(self, over=not self.over)

    @property
    def costs(self) -> NDArray[np.bool_]:
        """Of each person: whether any step was taken."""
        return np.asarray((self.steps > 0.0).any(axis=1))

    def own_kl(self, kinds: NDArray[np.intp]) -> Floats:
        """Return the divergence of some kinds in this direction, and its error: a row for each."""
        return np.ascontiguousarray(self.kl[[1, 3] if self.over else [0, 2]][:, kinds].T)

    def __getitem__(self, rows: Any) -> SampledSteps:
        index = None if self.index is None else self.index[rows]
        return replace(self, index=index, steps=self.steps[rows])

    def total(self, table: Floats, kinds: NDArray[np.intp]) -> Floats:
        """Return the sum over a person's steps of rows of a table, which has one for each of ``kinds`` (sorted)."""
        if self.index is None:
            return self.steps @ table
        out = np.zeros((len(self.steps), table.shape[1]))
        where = np.minimum(np.searchsorted(kinds, self.index), max(kinds.size - 1, 0))
        for j in range(self.steps.shape[1]):
            taken = self.steps[:, j] > 0.0
            out[taken] += self.steps[taken, j, None] * table[where[taken, j]]
        return out

    def of_person(self, i: int) -> Floats:
        """Return the steps of one person: a row of rates, one of distances, one of how many."""
        taken = np.flatnonzero(self.steps[i] > 0.0)
        which = taken if self.index is None else self.index[i, taken]
        return np.stack([self.rates[which], self.distances[which], self.steps[i, taken]])

    def kinds(self) -> NDArray[np.intp]:
        """Return the kinds that these people take, sorted."""
        if self.index is None:
            return np.arange(self.rates.size)
        return np.unique(self.index[self.steps > 0.0])

    def largest_loss(self) -> Floats:
        """Return the essential supremum of the loss, rounded up: without the person no step says more than 1 - q."""
        if self.over:
            return np.where(self.costs, np.inf, 0.0)
        each = -np.log1p(-self.rates)[:, None]
        return self.total(each[self.kinds()], self.kinds())[:, 0] * (1.0 + FEW_ROUNDINGS * (1 + self.steps.shape[1]))

    def divergence(self) -> Floats:
        """Return the Kullback-Leibler divergence, rounded up."""
        each = self.own_kl(np.arange(self.rates.size)).sum(axis=1, keepdims=True)
        return self.total(each[self.kinds()], self.kinds())[:, 0]

    def zcdp(self) -> Floats:
        """Return ``sum steps m^2/2``: at large orders the samples with the person decide, whatever the rate."""
        each = 0.5 * self.distances[:, None] ** 2
        return self.total(each[self.kinds()], self.kinds())[:, 0] * (1.0 + FEW_ROUNDINGS * (1 + self.steps.shape[1]))


def _same_rows(table: Floats) -> bool:
    """Whether everybody has the same row; a table of one row is seen without looking."""
    return not table.strides[0] or bool((table == table[:1]).all())
