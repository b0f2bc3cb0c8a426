"""Everybody's total over all releases, at any delta: the stored pairs composed, block of people by block of people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from perinstance.auditing.loss_statistics import Summary, by_group, share_above, summary_of
from perinstance.data import write_losses
from perinstance.ledger.aligned_files import IdBlock, id_blocks
from perinstance.ledger.charge_files import ChargeFile
from perinstance.ledger.releases import ChargedRelease
from perinstance.ledger.running_totals import RunningBlock
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.numerics.rounding import ADDITION
from perinstance.pairs import Pairs, compose
from perinstance.pairs.interface.kinds import KINDS, Kind

FIXED = "the parameters of all releases were fixed in advance, so the totals are guarantees"
FILTERED = "a filter was on when the releases were made: nobody's row was used beyond the budget, which is a guarantee"
READING = "later releases may have been chosen after earlier outputs: odometer readings, not guarantees"
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


@contextmanager
def opened(folder: Path, releases: Sequence[ChargedRelease]) -> Iterator[list[ChargeFile]]:
    """Open the files of some releases, and close them."""
    with ExitStack() as stack:
        files = []
        for release in releases:
            file = ChargeFile(folder, release.stored.file)
            stack.callback(file.close)
            files.append(file)
        yield files


def composed_blocks(
    folder: Path, releases: Sequence[ChargedRelease], delta: float
) -> Iterator[tuple[IdBlock, PersonTotal]]:
    """Walk over everybody, with the total of each."""
    with opened(folder, releases) as files:
        for block in id_blocks(files):
            yield block, total_of(block.pairs, delta, block.present)


def worth(releases: Sequence[ChargedRelease], filtered: bool) -> tuple[bool, str]:
    """Say whether totals over these releases are guarantees, and why."""
    if any(release.kind == "estimate" for release in releases):
        return False, ESTIMATED
    if filtered:
        return True, FILTERED
    if all(release.fixed_in_advance for release in releases):
        return True, FIXED
    return False, READING


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Totals:
    """What each person has lost over all releases of a ledger. Confidential."""

    ids: pa.ChunkedArray
    losses: Floats
    kind_codes: NDArray[np.uint8]
    counts: NDArray[np.int64] | None  #: of each person: in how many releases they were; None where only sums were read
    delta: float
    releases: int
    guarantee: bool
    assumption: str  #: why they are guarantees, or why not

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

    def tail(self, t: ArrayLike) -> Any:
        """Return the share of people whose total exceeds t."""
        return share_above(self.losses, t)

    def by(self, groups: Mapping[str, Any] | ArrayLike) -> Any:
        """Return people, mean, median, 95% and maximum of each group: one label per person, or a mapping from ids."""
        import pandas as pd

        labels = (
            [groups.get(name, "missing") for name in self.ids.to_pylist()] if isinstance(groups, Mapping) else groups
        )
        return pd.DataFrame(by_group(self.losses, self.kind_codes, np.asarray(labels)))

    def columns(self) -> dict[str, Any]:
        """Return id, epsilon, kind and the number of releases as plain columns. Confidential."""
        kinds = np.array(KINDS)[self.kind_codes]
        columns = {"id": self.ids, "epsilon": self.losses, "kind": kinds}
        return columns if self.counts is None else {**columns, "releases": self.counts}

    def to_frame(self) -> Any:
        """Return one row per person as a pandas DataFrame. Confidential."""
        import pandas as pd

        return pd.DataFrame({**self.columns(), "id": self.ids.to_pylist()})

    def write(self, path: str | os.PathLike[str]) -> int:
        """Write everybody's totals to a ``.parquet`` or ``.csv`` file that only its owner may read."""
        return write_losses(path, [self.columns()])


def running_totals_of(
    blocks: Iterable[RunningBlock], releases: Sequence[ChargedRelease], delta: float, filtered: bool
) -> Totals:
    """Read everybody's running sums: upper bounds."""
    ids, losses, codes = [], [], []
    for block in blocks:
        ids.append(block.ids)
        losses.append(block.epsilon(delta))
        codes.append(np.maximum(block.codes, np.uint8(KINDS.index("upper"))))
    return _gathered(ids, losses, codes, None, releases, delta, filtered)


def totals_of(folder: Path, releases: Sequence[ChargedRelease], delta: float, filtered: bool) -> Totals:
    """Compose everything for everybody."""
    ids, losses, codes, counts = [], [], [], []
    for block, total in composed_blocks(folder, releases, delta) if releases else ():
        ids.append(block.ids)
        losses.append(total.epsilon)
        codes.append(total.codes)
        counts.append(block.present.sum(axis=0))
    return _gathered(ids, losses, codes, counts, releases, delta, filtered)


def _gathered(ids, losses, codes, counts, releases, delta, filtered) -> Totals:
    guarantee, why = worth(releases, filtered)
    return Totals(
        ids=pa.chunked_array(ids, type=pa.large_string()),
        losses=np.concatenate([np.empty(0), *losses]),
        kind_codes=np.concatenate([np.empty(0, dtype=np.uint8), *codes]),
        counts=None if counts is None else np.concatenate([np.empty(0, dtype=np.int64), *counts]),
        delta=delta,
        releases=len(releases),
        guarantee=guarantee,
        assumption=why,
    )
