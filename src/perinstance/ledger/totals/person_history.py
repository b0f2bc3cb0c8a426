"""One person: the releases they were in, what each cost alone, and what the total was after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from perinstance.ledger.files.aligned_files import placed_pairs
from perinstance.ledger.files.charge_files import opened
from perinstance.ledger.log.charged_releases import ChargedRelease, State
from perinstance.ledger.totals.everybody import ABSENT, total_of, worth
from perinstance.pairs import from_columns
from perinstance.pairs.kinds import KINDS, Kind
from perinstance.shown_decimals import short_loss_text


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One release in the history of a person."""

    key: str
    at: str
    state: State
    mechanism: str
    epsilon: float  #: of this release alone
    kind: Kind
    total: float  #: of all releases up to this one


@dataclass(frozen=True, slots=True)
class History:
    """The releases of one person, in the order of their charges. Confidential."""

    entries: tuple[HistoryEntry, ...]
    epsilon: float  #: the total
    delta: float
    kind: Kind
    guarantee: bool
    assumption: str

    def __str__(self) -> str:
        total = short_loss_text(self.epsilon)
        lines = [f"{len(self.entries)} releases at delta = {self.delta:g}: total {total} ({self.kind})"]
        for entry in self.entries:
            alone, total = short_loss_text(entry.epsilon), short_loss_text(entry.total)
            lines.append(f"  {entry.at[:10]}  {entry.key}: {alone} alone, {total} in total ({entry.state})")
        return "\n".join([*lines, self.assumption])


def history_of(
    folder: Path, releases: Sequence[ChargedRelease], identity: str, delta: float, filtered: bool
) -> History:
    """Read one row group of each release, and compose the first k of them for every k at once."""
    rows: list[dict[str, NDArray]] = []
    concerned: list[ChargedRelease] = []
    places: dict[str, int] = {}
    for release in releases:
        with opened(folder, [release.stored]) as (file,):
            row = file.row(identity, places)
        if row is not None:
            rows.append(row)
            concerned.append(release)
    if not rows:
        return History((), 0.0, delta, "exact", True, ABSENT)
    guarantee, why = worth(concerned, filtered)
    schemas = [release.stored.schema for release in concerned]
    upto = np.arange(len(rows))  # "people": the first release, the first two, ...
    present = upto >= upto[:, None]
    pairs = [
        placed_pairs(row, schema, np.where(there, 0, -1))
        for row, schema, there in zip(rows, schemas, present, strict=True)
    ]
    totals = total_of(pairs, delta, present)
    alone = _alone(rows, schemas, delta)
    entries = tuple(
        HistoryEntry(release.key, release.at, release.state, release.mechanism, epsilon, kind, float(total))
        for release, (epsilon, kind), total in zip(concerned, alone, totals.epsilon, strict=True)
    )
    return History(entries, entries[-1].total, delta, KINDS[int(totals.codes[-1])], guarantee, why)


def _alone(rows: list[dict[str, NDArray]], schemas: list[str], delta: float) -> list[tuple[float, Kind]]:
    """Return the loss of each release by itself; releases with pairs of one kind and shape are asked together."""
    alike: dict[tuple[str, int], list[int]] = {}
    for k, (row, schema) in enumerate(zip(rows, schemas, strict=True)):
        alike.setdefault((schema, len(row)), []).append(k)
    found: dict[int, tuple[float, Kind]] = {}
    for (schema, _), members in alike.items():
        columns = {name: np.concatenate([rows[k][name] for k in members]) for name in rows[members[0]]}
        pairs = from_columns(columns, schema)
        for k, epsilon, kind in zip(members, pairs.epsilon(delta), pairs.kinds, strict=True):
            found[k] = (float(epsilon), cast(Kind, str(kind)))
    return [found[k] for k in range(len(rows))]
