"""Who takes which sampled steps: the different kinds of steps, and how many of each a person takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import FEW_ROUNDINGS, LEAST_DISTANCE, LEAST_RATE, PROMISED
from perinstance.pairs.loss_sums.sampled.log_moments import StepKind, divergence_of

#: The mean of a step's loss may be so much less than its most for it to count as that.
CONSTANT = 10.0 * PROMISED
#: At distances up to this it is less: by q Phi(-5), about.
FAR = 10.0
#: Different people who are answered one by one, in one call, are given all the work that an answer may take up to so
#: many kinds of steps altogether; more share it, and beyond the second number none of them is.
IN_FULL, SHARED = 8192, 32768
#: Steps of those who are.
MOST_STEPS = 2.0**24


def share_of_work(people: Iterable[Floats]) -> float:
    """Return the share of all the work that an answer may take which each of some people (``of_person``) is given."""
    kinds = sum(person.shape[1] for person in people)
    return min(IN_FULL / max(kinds, 1), 1.0) if kinds <= SHARED else 0.0


@dataclass(frozen=True, slots=True)
class StepTable:
    """A table of which sums over people's steps are taken: a row for each kind, and the same over a basis if it fits.

    ``over_basis`` has a row for each column of the basis (``line_tables.py``).
    """

    values: Floats
    over_basis: Floats | None = None


@dataclass(frozen=True, slots=True)
class SampledSteps:
    """Person i takes ``steps[i, j]`` steps of the kind ``index[i, j]``, or of kind j where ``index`` is None.

    ``rates`` (above 0, below 1), ``distances`` (above 0) and ``kl`` (P over Q, Q over P, then the error of each; not a
    number until it is asked for) belong to the different kinds. ``taken`` are all steps of a person; ``over`` says
    whether Q over P is meant.
    ``in_basis`` are ``steps @ basis`` of these people, where a basis of all tables was found; ``table`` are the steps
    of everybody then, and ``rows`` says who is meant.
    """

    rates: Floats
    distances: Floats
    kl: Floats
    index: NDArray[np.intp] | None
    table: Floats
    taken: Floats
    over: bool
    in_basis: Floats | None = None
    rows: NDArray[np.intp] | None = None

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
        return cls(rates, distances, np.full((4, rates.size), np.nan), index, steps, steps.sum(axis=1), False)

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
            np.sum([part.taken for part in parts], axis=0),
            parts[0].over,
        )

    def _positions(self) -> NDArray[np.intp]:
        if self.index is not None:
            return self.index
        return np.broadcast_to(np.arange(self.rates.size), self.steps.shape)

    @property
    def steps(self) -> Floats:
        """How many steps of each kind, a row for each person."""
        return self.table if self.rows is None else self.table[self.rows]

    def __len__(self) -> int:
        return len(self.table) if self.rows is None else len(self.rows)

    def swapped(self) -> SampledSteps:
        """Exchange P and Q."""
        return replace(self, over=not self.over, in_basis=None)

    def with_basis(self, basis: Floats) -> SampledSteps:
        """Return the same people with their sums over a basis: the last time that all kinds are added up."""
        return replace(self, in_basis=self.steps @ basis)

    @property
    def costs(self) -> NDArray[np.bool_]:
        """Of each person: whether any step was taken."""
        return np.asarray(self.taken > 0.0)

    def own_kl(self, kinds: NDArray[np.intp]) -> Floats:
        """Return the divergence of some kinds in this direction, and its error: a row for each."""
        rows = [1, 3] if self.over else [0, 2]
        for j in kinds[np.isnan(self.kl[rows[0], kinds])].tolist():
            self.kl[rows, j] = divergence_of(StepKind(self.rates[j], self.distances[j], self.over, 0.0))
        return np.ascontiguousarray(self.kl[rows][:, kinds].T)

    def __getitem__(self, rows: Any) -> SampledSteps:
        if self.in_basis is not None:  # the steps themselves, a wide table, are hardly ever asked for again
            own = _positions(rows, len(self)) if self.rows is None else self.rows[rows]
            return replace(self, in_basis=self.in_basis[rows], rows=own, taken=self.taken[rows])
        index = None if self.index is None else self.index[rows]
        return replace(self, index=index, table=self.table[rows], taken=self.taken[rows])

    def fits(self, table: StepTable) -> bool:
        """Whether sums are taken over the basis."""
        return self.in_basis is not None and table.over_basis is not None

    def total_of(self, table: StepTable, kinds: NDArray[np.intp]) -> Floats:
        """Return the sum over a person's steps, over the basis where it fits."""
        if self.in_basis is not None and table.over_basis is not None:
            return self.in_basis @ table.over_basis
        return self.total(table.values, kinds)

    def total(self, table: Floats, kinds: NDArray[np.intp]) -> Floats:
        """Return the sum over a person's steps of rows of a table, which has one for each of ``kinds`` (sorted)."""
        if self.index is None:
            return self.steps @ table
        out = np.zeros((len(self), table.shape[1]))
        if kinds.size:
            where = np.minimum(np.searchsorted(kinds, self.index), kinds.size - 1)
            add_rows(self.steps, where, np.ascontiguousarray(table), out)
        return out

    def of_person(self, i: int) -> Floats:
        """Return the steps of one person: a row of rates, one of distances, one of how many; each kind once."""
        steps = self.table[i if self.rows is None else self.rows[i]]  # not of all of them: there may be a million
        taken = np.flatnonzero(steps > 0.0)
        if self.index is None:
            return np.stack([self.rates[taken], self.distances[taken], steps[taken]])
        which, inverse = np.unique(self.index[i, taken], return_inverse=True)
        counts = np.bincount(inverse.ravel(), steps[taken], which.size)
        return np.stack([self.rates[which], self.distances[which], counts])

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

    def without_constants(self) -> tuple[SampledSteps, Floats]:
        """Return the steps but those that lose their most, next to always, and what these lose at most, rounded up.

        Large distances without the person, that is; nobody is left without steps.
        """
        nothing = np.zeros(len(self))
        far = np.flatnonzero(self.distances > FAR)
        if self.over or not far.size:
            return self, nothing
        most, constant, kl = -np.log1p(-self.rates), np.zeros(self.rates.size, dtype=bool), self.own_kl(far)
        constant[far] = most[far] - kl[:, 0] + kl[:, 1] <= CONSTANT * most[far]
        if not constant.any() or constant.all():
            return self, nothing
        steps, which = self.steps, self._positions()
        without = np.where(constant[which], steps, 0.0)
        without[without.sum(axis=1) == self.taken] = 0.0
        rest = steps - without
        lost = (without * most[which]).sum(axis=1) * (1.0 + FEW_ROUNDINGS * (1 + steps.shape[1]))
        index = np.array(which)  # kinds that nobody takes any more are not looked at
        return replace(self, index=index, table=rest, taken=rest.sum(axis=1), in_basis=None, rows=None), lost

    def divergence(self) -> Floats:
        """Return the Kullback-Leibler divergence, rounded up."""
        each = self.own_kl(np.arange(self.rates.size)).sum(axis=1, keepdims=True)
        return self.total(each[self.kinds()], self.kinds())[:, 0]

    def zcdp(self) -> Floats:
        """Return ``sum steps m^2/2``: at large orders the samples with the person decide, whatever the rate."""
        each = 0.5 * self.distances[:, None] ** 2
        return self.total(each[self.kinds()], self.kinds())[:, 0] * (1.0 + FEW_ROUNDINGS * (1 + self.steps.shape[1]))


@kernel
def add_rows(steps, where, table, out):
    """Add up the rows of a table that each person takes, so many times each."""
    for i in range(steps.shape[0]):
        for j in range(steps.shape[1]):
            count, row = steps[i, j], table[where[i, j]]
            if count > 0.0:
                for k in range(row.size):
                    out[i, k] += count * row[k]


def _positions(rows: Any, n: int) -> NDArray[np.intp]:
    """Return the positions that an index means."""
    given = isinstance(rows, np.ndarray) and rows.dtype == np.intp
    return rows if given else np.arange(n)[rows]


def _same_rows(table: Floats) -> bool:
    """Whether everybody has the same row; a table of one row is seen without looking."""
    return not table.strides[0] or bool((table == table[:1]).all())
