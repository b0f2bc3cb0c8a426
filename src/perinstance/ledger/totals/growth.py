"""How everybody's totals grew from release to release, what each release added, and how much of a budget is spent.

Totals are those of all people. How they grew is taken from an even sample when there are many, because each person is
composed once per release they were in.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perinstance.auditing.loss_statistics import LossCounts
from perinstance.ledger.budgets import Budget
from perinstance.ledger.files.aligned_files import IdBlock
from perinstance.ledger.log.charged_releases import ChargedRelease
from perinstance.ledger.totals.everybody import PersonTotal, blocks_of, exact_total, spent, total_of
from perinstance.numerics.rounding import ADDITION
from perinstance.pairs import GaussianShift, Pairs
from perinstance.pairs.kinds import KINDS, Kind

#: compositions that are made to see how totals grew: of Gaussian shifts, and of anything else
COMPOSITIONS = {True: 4_000_000, False: 20_000}
MOST_EXPOSED = 10
MOST_SPENT = 10  #: people who are named, of those who have spent most


@dataclass(frozen=True, slots=True)
class ExposedTotal:
    """One of the people with the largest totals."""

    id: str
    epsilon: float
    kind: Kind
    releases: int  #: how many they were in


@dataclass(frozen=True, slots=True)
class ReleaseGrowth:
    """One release: what it added to the totals of its people, and the totals of all people after it."""

    release: ChargedRelease
    added: LossCounts
    totals: LossCounts
    basic: float  #: what one number for everybody would be by now: the largest loss of each release, added up


@dataclass(frozen=True, slots=True)
class LedgerOverview:
    """What has become of everybody over all releases. Confidential."""

    delta: float
    totals: LossCounts
    kind: Kind
    worst: tuple[ExposedTotal, ...]  #: the largest total first
    growth: tuple[ReleaseGrowth, ...]  #: in the order of the charges
    step: int  #: growth is that of every so many-th person; 1 is everybody

    def share(self, k: int) -> float:
        """Return how much of all finite losses release k has added."""
        whole = sum(part.added.total for part in self.growth)
        return self.growth[k].added.total / whole if 0.0 < whole < np.inf else 0.0


class _Growth:
    """Counts along the walk."""

    def __init__(self, releases: int, delta: float) -> None:
        self.delta = delta
        self.added = [LossCounts() for _ in range(releases)]
        self.totals = [LossCounts() for _ in range(releases)]
        self.largest = np.zeros(releases)

    def add(self, pairs: Sequence[Pairs], present: NDArray[np.bool_]) -> None:
        """Follow some people through all releases."""
        total, seen = np.zeros(present.shape[1]), np.zeros(present.shape[1], dtype=bool)
        for k, here in enumerate(present):
            who = np.flatnonzero(here)
            if len(who):
                mine = [pair[who] for pair in pairs[: k + 1]]
                now = total_of(mine, self.delta, present[: k + 1, who]).epsilon
                before = total[who]
                with np.errstate(invalid="ignore"):
                    more = np.where(np.isinf(before), 0.0, np.maximum(now - before, 0.0))
                self.added[k].add(more)
                alone = np.asarray(mine[k].epsilon(self.delta / len(present)))
                self.largest[k] = max(self.largest[k], float(alone.max()))
                total[who], seen[who] = now, True
            self.totals[k].add(total[seen])


def overview_of(folder: Path, releases: Sequence[ChargedRelease], delta: float) -> LedgerOverview:
    """Walk over everybody once."""
    gaussian = all(release.stored.schema.startswith(GaussianShift.FORMAT[0] + "/") for release in releases)
    step = max(-(-sum(release.people for release in releases) // COMPOSITIONS[gaussian]), 1)
    totals, growth, code, start = LossCounts(), _Growth(len(releases), delta), 0, 0
    worst: list[tuple[float, int, ExposedTotal]] = []
    for block in blocks_of(folder, releases):
        total = exact_total(block, delta)
        totals.add(total.epsilon)
        code = max(code, int(total.codes.max(initial=0)))
        found = _exposed(block, total)
        worst = heapq.nlargest(MOST_EXPOSED, [*worst, *((p.epsilon, -start - i, p) for i, p in found)])
        some = np.union1d(np.arange(-start % step, len(block.ids), step), [found[0][0]])
        growth.add([pair[some] for pair in block.pairs], block.present[:, some])
        start += len(block.ids)
    basic = np.cumsum(growth.largest) * (1 + ADDITION * len(releases))
    parts = zip(releases, growth.added, growth.totals, basic.tolist(), strict=True)
    return LedgerOverview(
        delta=delta,
        totals=totals,
        kind=KINDS[code],
        worst=tuple(person for _, _, person in worst),
        growth=tuple(ReleaseGrowth(*part) for part in parts),
        step=step,
    )


def _exposed(block: IdBlock, total: PersonTotal) -> list[tuple[int, ExposedTotal]]:
    """Return positions and people with the largest totals of a block."""
    order = np.argsort(-total.epsilon, kind="stable")[:MOST_EXPOSED]
    counts = block.counts
    found = []
    for i in order.tolist():
        name, kind = block.ids[i].as_py(), KINDS[total.codes[i]]
        found.append((i, ExposedTotal(name, float(total.epsilon[i]), kind, int(counts[i]))))
    return found


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """Shares of the budget, everybody's counted and the largest by name. Confidential."""

    shares: LossCounts
    most: tuple[tuple[str, float], ...]  #: ids and shares, the largest first


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
