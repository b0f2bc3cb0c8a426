"""What the events say: which releases were charged, in which state each one is, and where its file is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from perinstance.errors import LedgerConflict
from perinstance.ledger.files.sorted_pairs import StoredCharge, stored_charge
from perinstance.ledger.log.event_log import Event
from perinstance.pairs.interface.kinds import Kind

State = Literal["reserved", "committed", "cancelled"]


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
                mechanism=str(body["mechanism"]),  # earlier versions wrote whatever they were given
                note=str(body["note"]),
                at=event.at,
                fixed_in_advance=body["fixed_in_advance"] is True,
                kind=body["kind"],
                stored=stored_charge(body["stored"]),
            )
        elif event.kind in ("committed", "cancelled"):
            found[event.key] = replace(found[event.key], state=event.kind)
        elif event.kind == "rewritten":
            for key, stored in body["stored"].items():
                found[key] = replace(found[key], stored=stored_charge(stored))
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
