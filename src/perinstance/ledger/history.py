"""One person: the releases they were in, what each cost alone, and what the total was after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perinstance.ledger.releases import ChargedRelease, State
from perinstance.ledger.totals import opened, total_of, worth
from perinstance.pairs import Pairs
from perinstance.pairs.interface.kinds import KINDS, Kind
from perinstance.releases.base.shown_decimals import short_loss_text


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
    """Read one row group of each release."""
    entries: list[HistoryEntry] = []
    mine: list[Pairs] = []
    concerned: list[ChargedRelease] = []
    with opened(folder, releases) as files:
        for release, file in zip(releases, files, strict=True):
            pair = file.person(identity)
            if pair is None:
                continue
            mine.append(pair)
            concerned.append(release)
            total = total_of(mine, delta)
            entries.append(
                HistoryEntry(
                    key=release.key,
                    at=release.at,
                    state=release.state,
                    mechanism=release.mechanism,
                    epsilon=float(pair.epsilon(delta)[0]),
                    kind=pair.kind,
                    total=float(total.epsilon[0]),
                )
            )
    guarantee, why = worth(concerned, filtered)
    kind: Kind = KINDS[int(total_of(mine, delta).codes[0])] if mine else "exact"
    return History(tuple(entries), entries[-1].total if entries else 0.0, delta, kind, guarantee, why)
