"""How much of a filter's budget people have spent: what the charges that count cost them, added up and rounded up."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from perinstance.ledger.budgets import Budget
from perinstance.ledger.log.charged_releases import ChargedRelease
from perinstance.ledger.totals.composed_people import added_up, blocks_of
from perinstance.ledger.totals.loss_counts import LossCounts
from perinstance.numerics.array_types import Floats

MOST_SPENT = 10


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
