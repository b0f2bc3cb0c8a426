"""How much of a filter's budget people have spent."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from perinstance.ledger.budgets import Budget
from perinstance.ledger.totals.loss_counts import LossCounts
from perinstance.ledger.totals.running_sums import RunningBlock

MOST_SPENT = 10


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """Shares of the budget, everybody's counted and the largest by name. Confidential."""

    shares: LossCounts
    most: tuple[tuple[str, float], ...]  #: ids and shares, the largest first


def budget_use(blocks: Iterable[RunningBlock], budget: Budget) -> BudgetUse:
    """Walk over the running sums of everybody."""
    shares = LossCounts()
    most: list[tuple[float, str]] = []
    for block in blocks:
        share = block.spent / budget.budget
        shares.add(share)
        top = np.argsort(-share, kind="stable")[:MOST_SPENT]
        most = heapq.nlargest(MOST_SPENT, [*most, *((float(share[i]), block.ids[int(i)].as_py()) for i in top)])
    return BudgetUse(shares, tuple((name, share) for share, name in most))
