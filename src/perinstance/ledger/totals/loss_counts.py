"""Quantiles of more losses than one wants to hold, gathered block by block, and how much of a budget people spent."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.ledger.budgets import Budget
from perinstance.ledger.log.charged_releases import ChargedRelease
from perinstance.ledger.totals.composed_people import added_up, blocks_of
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_rank

#: losses that are kept as they are; beyond, they are rounded up to 16 bits behind the leading one (a part in 65,536)
ROOM = 1 << 20
_DROPPED = np.int64((1 << 36) - 1)
MOST_SPENT = 10  #: people who are named, of those who have spent most


class LossCounts:
    """Losses of many people, one after the other.

    >>> counts = LossCounts()
    >>> counts.add(np.array([0.1, 4.0, 0.2, np.inf]))
    >>> counts.quantiles([0.5, 1.0]).tolist(), counts.above(0.2), counts.people
    ([0.2, inf], 2, 4)
    """

    __slots__ = ("_counts", "_held", "_new", "_values", "total")

    def __init__(self) -> None:
        self._values: Floats = np.empty(0)
        self._counts: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._new: list[Floats] = []
        self._held = 0
        self.total = 0.0  #: the sum of the finite ones

    def add(self, losses: Floats) -> None:
        """Count some more people."""
        self._new.append(losses)
        self._held += len(losses)
        with np.errstate(over="ignore"):
            self.total += float(losses[np.isfinite(losses)].sum())
        if self._held > ROOM:
            bits = self.weighted()[0].view(np.int64)
            values, place = np.unique((bits + _DROPPED) & ~_DROPPED, return_inverse=True)
            self._counts = np.bincount(place, weights=self._counts).astype(np.int64)
            self._values, self._held = values.view(np.float64), 0

    def weighted(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return the values, rising, and how many people have each."""
        if self._new:
            values, place = np.unique(np.concatenate([self._values, *self._new]), return_inverse=True)
            before = np.concatenate([self._counts, np.ones(len(place) - len(self._counts))])
            self._counts = np.bincount(place, weights=before).astype(np.int64)
            self._values, self._new = values, []
        return self._values, self._counts

    @property
    def people(self) -> int:
        """How many there are."""
        return int(self.weighted()[1].sum())

    @property
    def infinite(self) -> int:
        """For how many no finite loss holds."""
        values, counts = self.weighted()
        return int(counts[np.isinf(values)].sum())

    def quantiles(self, levels: Sequence[float]) -> Floats:
        """Return the smallest value that at least a share q does not exceed, one for each level; zeros for nobody."""
        values, counts = self.weighted()
        if not len(values):
            return np.zeros(len(levels))
        rank = attained_rank(self.people, levels)
        return values[np.searchsorted(np.cumsum(counts), rank)]

    def above(self, limit: float) -> int:
        """Return how many lost more than a limit."""
        values, counts = self.weighted()
        return int(counts[values > limit].sum())


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """Shares of the budget, everybody's counted and the largest by name. Confidential."""

    shares: LossCounts
    most: tuple[tuple[str, float], ...]  #: ids and shares, the largest first


def spent(folder: Path, releases: Sequence[ChargedRelease], budget: Budget) -> Iterator[tuple[pa.Array, Floats]]:
    """Walk over everybody: ids, and what each has spent."""
    for block in blocks_of(folder, [release for release in releases if release.counts]):
        yield block.ids, added_up(block, budget.cost)


def budget_use(folder: Path, releases: Sequence[ChargedRelease], budget: Budget) -> BudgetUse:
    """Count everybody's share, and keep the largest."""
    shares = LossCounts()
    most: list[tuple[float, str]] = []
    for ids, cost in spent(folder, releases, budget):
        share = cost / budget.budget
        shares.add(share)
        top = np.argsort(-share, kind="stable")[:MOST_SPENT]
        most = heapq.nlargest(MOST_SPENT, [*most, *((float(share[i]), ids[int(i)].as_py()) for i in top)])
    return BudgetUse(shares, tuple((name, share) for share, name in most))
