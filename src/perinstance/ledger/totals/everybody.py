"""Everybody's total over all releases, at any delta: the stored pairs composed, block of people by block of people."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from perinstance.auditing.loss_statistics import Summary, by_group, share_above, summary_of
from perinstance.data import write_losses
from perinstance.ledger.log.charged_releases import ChargedRelease
from perinstance.ledger.totals.composed_people import blocks_of, exact_total, renyi_total, worth
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs.kinds import KINDS, Kind


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
