"""What the events say: which releases were charged, in which state each one is, where its file is; which are nobody's.

Files of charges that no event names were left by a full disk or a killed process, or replaced by a rewriting. They hold
ids. A writer holds the lock of the log until the event is there that names its files, so under that lock they belong to
nobody. A file that begins with no digest of this log stays: it is another ledger's, in the wrong folder, or the log is
an older copy, restored from a backup, that does not know it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from perinstance.errors import LedgerConflict, LedgerTrouble
from perinstance.ledger.files.sorted_pairs import StoredCharge, synchronise_folder
from perinstance.ledger.log.event_log import TAG, Event, EventLog, OpenLog
from perinstance.pairs.kinds import Kind

#: the names that files of charges get: after which event, and a random number
CHARGE = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}\.parquet")

State = Literal["reserved", "committed", "cancelled"]
#: whom ids name: people, whatever the number of their rows, or single rows (stays, visits)
Unit = Literal["person", "row"]
UNITS: tuple[Unit, ...] = ("person", "row")


@dataclass(frozen=True, slots=True)
class ChargedRelease:
    """One release of the ledger. What it cost whom is in its file."""

    key: str
    state: State  #: a reserved release counts: it may have been published
    mechanism: str  #: in words
    note: str
    at: str  #: when it was charged
    fixed_in_advance: bool
    kind: Kind  #: the weakest of its pairs
    stored: StoredCharge
    unit: Unit = "person"  #: whom its ids name

    @property
    def people(self) -> int:
        """How many people it concerned."""
        return self.stored.people

    @property
    def counts(self) -> bool:
        """Whether it is part of the totals: unless it was cancelled."""
        return self.state != "cancelled"


def releases_of(events: Iterable[Event]) -> dict[str, ChargedRelease]:
    """Replay the events, in their order."""
    found: dict[str, ChargedRelease] = {}
    for event in events:
        body = event.body
        if event.kind == "charged":
            found[event.key] = ChargedRelease(
                key=event.key,
                state=body["state"],
                mechanism=str(body["mechanism"]),
                note=str(body["note"]),
                at=event.at,
                fixed_in_advance=body["fixed_in_advance"] is True,
                kind=body["kind"],
                stored=StoredCharge.of(body["stored"]),
                unit=body.get("unit", "person"),  # older logs do not say it
            )
        elif event.kind in ("committed", "cancelled"):
            found[event.key] = replace(found[event.key], state=event.kind)
        elif event.kind == "fixed":
            found[event.key] = replace(found[event.key], fixed_in_advance=True)
        elif event.kind == "rewritten":
            for key, stored in body["stored"].items():
                found[key] = replace(found[key], stored=StoredCharge.of(stored))
    return found


def logged_files(events: Iterable[Event]) -> set[str]:
    """Return the names of all files that an event has ever named."""
    ever: set[str] = set()
    for event in events:
        stored = {event.key: event.body["stored"]} if event.kind == "charged" else event.body.get("stored", {})
        ever.update(body["file"] for body in stored.values())
    return ever


def known(releases: dict[str, ChargedRelease], key: str) -> ChargedRelease:
    """Return the release of a key, or say that there is none."""
    if key not in releases:
        raise LedgerConflict(f"no release is charged under the key {key!r}; see ledger.releases()")
    return releases[key]


def delete_unlogged(folder: Path, log: OpenLog) -> list[str]:
    """Delete what no event names, under the lock of the log; return the names of the files."""
    current = {release.stored.file for release in releases_of(log.events).values()}
    once, own = logged_files(log.events), {event.digest[:TAG] for event in log.events}
    gone = []
    for path in folder.iterdir():
        broken_off = bool(CHARGE.fullmatch(path.name)) and path.name[:TAG] in own
        half_written = path.name.startswith(".") and path.suffix == ".part"
        if path.name not in current and (path.name in once or broken_off or half_written):
            path.unlink(missing_ok=True)
            gone.append(path.name)
    if gone:
        synchronise_folder(folder)
    return gone


def tidy(folder: Path, log: EventLog) -> None:
    """Delete what no event names when a ledger is opened; not now if somebody writes, or nothing can be written."""
    current = {release.stored.file for release in releases_of(log.events()).values()}
    if any(path.name not in current for path in folder.iterdir()):
        with suppress(LedgerTrouble, OSError), log.writing(patience=0.0) as now:
            delete_unlogged(folder, now)
