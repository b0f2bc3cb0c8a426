"""Everybody's total over all releases: the stored pairs composed on the same people, and what the totals are worth."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from perinstance.analysis.composition_bounds import renyi_to_epsilon
from perinstance.auditing.loss_statistics import Summary, by_group, share_above, summary_of
from perinstance.data import write_losses
from perinstance.ledger.budgets import Budget
from perinstance.ledger.files.aligned_files import IdBlock, id_blocks
from perinstance.ledger.files.charge_files import opened
from perinstance.ledger.log.charged_releases import ChargedRelease
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.numerics.rounding import ADDITION, NORM_UP
from perinstance.pairs import Pairs, compose
from perinstance.pairs.kinds import KINDS, Kind

#: Renyi orders of which the best bound is taken
ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 128.0)
FIXED = "the parameters of all releases were fixed in advance, so the totals are guarantees"
FILTERED = (
    "what was charged along the way is an odometer reading; what is guaranteed to everybody is the budget of the "
    "filter, whatever is released"
)
READING = "later releases may have been chosen after earlier outputs: odometer readings, not guarantees"
ABSENT = "nobody of this name is in a release that counts; ids are compared exactly as they were written"
ESTIMATED = "some losses are estimates: the totals are no guarantee"


@dataclass(frozen=True, slots=True)
class PersonTotal:
    """The total of some people: epsilon, and codes of how certain each one is."""

    epsilon: Floats
    codes: NDArray[np.uint8]


def total_of(pairs: Sequence[Pairs], delta: float, present: NDArray[np.bool_] | None = None) -> PersonTotal:
    """Compose releases on the same people; those that cannot be composed take a share of delta from their people."""
    alone = [k for k, part in enumerate(pairs) if not _composes(part)]
    if not alone or present is None:
        return _total(list(pairs), alone, delta)
    epsilon, codes = np.empty(present.shape[1]), np.empty(present.shape[1], dtype=np.uint8)
    summable = [k for k in range(len(pairs)) if k not in alone]
    others = present[summable].any(axis=0)
    patterns, member = np.unique(np.vstack([present[alone], others]), axis=1, return_inverse=True)
    for j, (*pattern, composed) in enumerate(patterns.T):
        who = np.flatnonzero(member.ravel() == j)
        theirs = [k for k, there in zip(alone, pattern, strict=True) if there]
        asked = [pairs[k][who] for k in (*theirs, *(summable if composed else ()))]
        found = _total(asked, range(len(theirs)), delta)
        epsilon[who], codes[who] = found.epsilon, found.codes
    return PersonTotal(epsilon, codes)


def _total(pairs: list[Pairs], alone: Sequence[int], delta: float) -> PersonTotal:
    parts = [pairs[k] for k in alone]
    summable = [part for k, part in enumerate(pairs) if k not in alone]
    if summable:
        parts.append(compose(summable) if len(summable) > 1 else summable[0])
    codes = np.maximum.reduce([part.codes for part in parts])
    if len(parts) == 1:
        return PersonTotal(np.asarray(parts[0].epsilon(delta)), codes)
    epsilon = np.sum([part.epsilon(delta / len(parts)) for part in parts], axis=0) * (1 + ADDITION * len(parts))
    return PersonTotal(epsilon, np.maximum(codes, np.uint8(KINDS.index("upper"))))


def _composes(part: Pairs) -> bool:
    """Tell whether a pair has a characteristic function in closed form."""
    return type(part).coordinates is not Pairs.coordinates


def exact_total(block: IdBlock, delta: float) -> PersonTotal:
    """Compose what was charged to these people."""
    return total_of(block.pairs, delta, None if all(map(_composes, block.pairs)) else block.present)


def renyi_total(block: IdBlock, delta: float) -> PersonTotal:
    """Add up Renyi divergences at fixed orders: an upper bound, which nothing is composed for."""
    sums = added_up(block, lambda pairs: np.array([pairs.renyi(order) for order in ORDERS]))
    bounds = [renyi_to_epsilon(d, order, delta) for order, d in zip(ORDERS, sums, strict=True)]
    codes = [np.where(here, pairs.codes, 0) for pairs, here in zip(block.pairs, block.present, strict=True)]
    weakest = np.maximum.reduce(codes).astype(np.uint8)
    epsilon = np.where(sums.any(axis=0), np.min(bounds, axis=0) * NORM_UP, 0.0)
    return PersonTotal(epsilon, np.maximum(weakest, np.uint8(KINDS.index("upper"))))


def added_up(block: IdBlock, cost: Callable[[Pairs], Floats]) -> Floats:
    """Sum what each release costs its people, one or more numbers each, rounded up."""
    people = [np.flatnonzero(here) for here in block.present]
    costs = [np.asarray(cost(pairs[who])) for pairs, who in zip(block.pairs, people, strict=True)]
    total = np.zeros((*costs[0].shape[:-1], len(block.ids)))
    for who, some in zip(people, costs, strict=True):
        total[..., who] = (total[..., who] + some) * (1 + ADDITION)
    return total


def blocks_of(folder: Path, releases: Sequence[ChargedRelease]) -> Iterator[IdBlock]:
    """Walk over everybody who is in any of these releases."""
    with opened(folder, [release.stored for release in releases]) as files:
        yield from id_blocks(files)


def worth(releases: Sequence[ChargedRelease], filtered: bool) -> tuple[bool, str]:
    """Say whether totals over these releases are guarantees, and why.

    A filter guarantees its budget. A total below it is a reading: whoever stops when an output tells much exceeds it.
    """
    if any(release.kind == "estimate" for release in releases):
        return False, ESTIMATED
    if filtered and releases:
        return False, FILTERED
    if all(release.fixed_in_advance for release in releases):
        return True, FIXED
    return False, READING


def spent(folder: Path, releases: Sequence[ChargedRelease], budget: Budget) -> Iterator[tuple[pa.Array, Floats]]:
    """Walk over everybody: ids, and what each has spent."""
    for block in blocks_of(folder, [release for release in releases if release.counts]):
        yield block.ids, added_up(block, budget.cost)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Totals:
    """What each person has lost over all releases of a ledger. Confidential."""

    ids: pa.ChunkedArray
    losses: Floats
    kind_codes: NDArray[np.uint8]
    counts: NDArray[np.int64]  #: of each person: in how many releases they were
    delta: float
    releases: int
    guarantee: bool
    assumption: str  #: why they are guarantees, or why not
    page: Callable[..., Path]  #: writes the page of the ledger they are from

    def __len__(self) -> int:
        return len(self.losses)

    def __repr__(self) -> str:
        what = "guarantees" if self.guarantee else "readings"
        return f"Totals({len(self):,} people, {self.releases} releases, delta={self.delta:g}, {what})"

    @property
    def kind(self) -> Kind:
        """The weakest claim among all people."""
        return KINDS[int(self.kind_codes.max(initial=0))]

    def summary(self) -> Summary:
        """Return the totals of all people in a few numbers."""
        return summary_of(self.losses, self.delta, self.kind)

    def quantile(self, q: ArrayLike) -> Any:
        """Return the smallest total that at least a share q of the people does not exceed."""
        return attained_quantile(self.losses, q)

    def share_above(self, t: ArrayLike) -> Any:
        """Return the share of people whose total exceeds t."""
        return share_above(self.losses, t)

    def by(self, groups: Mapping[str, Any] | ArrayLike) -> Any:
        """Return people, mean, median, 95% and maximum of each group: one label per person, or a mapping from ids."""
        import pandas as pd

        if isinstance(groups, Mapping):
            groups = [groups.get(name, "missing") for name in self.ids.to_pylist()]
        return pd.DataFrame(by_group(self.losses, self.kind_codes, np.asarray(groups)))

    def columns(self) -> dict[str, Any]:
        """Return id, epsilon, kind and the number of releases as plain columns. Confidential."""
        kinds = np.array(KINDS)[self.kind_codes]
        return {"id": self.ids, "epsilon": self.losses, "kind": kinds, "releases": self.counts}

    def to_frame(self) -> Any:
        """Return one row per person as a pandas DataFrame. Confidential."""
        import pandas as pd

        return pd.DataFrame({**self.columns(), "id": self.ids.to_pylist()})

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the page of the ledger, at this delta; ``limit``, ``redact`` and ``title`` as for ``Ledger.report``."""
        return self.page(path, self.delta, **options)

    def write(self, path: str | os.PathLike[str]) -> int:
        """Write everybody's totals to a ``.parquet`` or ``.csv`` file that only its owner may read."""
        return write_losses(path, [self.columns()])


def totals_of(
    folder: Path, releases: Sequence[ChargedRelease], delta: float, filtered: bool, exact: bool, page: Callable
) -> Totals:
    """Compose everything for everybody, or add up Renyi divergences."""
    ids, losses, codes, counts = [], [np.empty(0)], [np.empty(0, dtype=np.uint8)], [np.empty(0, dtype=np.int64)]
    for block in blocks_of(folder, releases):
        total = exact_total(block, delta) if exact else renyi_total(block, delta)
        ids.append(block.ids)
        losses.append(total.epsilon)
        codes.append(total.codes)
        counts.append(block.counts)
    everybody = pa.chunked_array(ids, type=pa.large_string())
    parts = (np.concatenate(losses), np.concatenate(codes), np.concatenate(counts))
    return Totals(everybody, *parts, delta, len(releases), *worth(releases, filtered), page)
