"""Everybody's total over all releases, at any delta: the stored pairs composed, block of people by block of people."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from perinstance.auditing.loss_statistics import Summary, by_group, share_above, summary_of
from perinstance.data import write_losses
from perinstance.errors import InvalidInput
from perinstance.ledger.log.charged_releases import ChargedRelease
from perinstance.ledger.totals.composed_people import composed_blocks, worth
from perinstance.ledger.totals.running_sums import RunningBlock
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs.interface.kinds import KINDS, Kind


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
    page: Callable[..., Path] | None = None  #: writes the page of the ledger they are from

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

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the page of the ledger, at this delta; ``limit``, ``redact`` and ``title`` as for ``Ledger.report``."""
        if self.page is None:
            raise InvalidInput("these totals are of no ledger; use ledger.report")
        return self.page(path, self.delta, **options)

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
        counts.append(block.rows.counts)
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
