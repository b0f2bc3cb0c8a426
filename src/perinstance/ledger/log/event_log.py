"""The log: one row per event, each with the hash of the row before, and a head that says how many there must be.

    digest_k = SHA-256(k, kind, key, at, body, digest_{k-1})        (HMAC-SHA-256 where a secret was given)

A changed, removed or reordered row breaks the chain, a log cut at its end disagrees with the head. With a secret nobody
who lacks it can write a chain that verifies; without one, keep the head (``verify().head``) somewhere else.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from perinstance.errors import LedgerDamaged, LedgerTrouble
from perinstance.ledger.log.databases import PATIENCE, Database, Execute

#: of the tables below
FORMAT = 1

_TABLES = (
    """CREATE TABLE IF NOT EXISTS ledger_events (
        entry INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, at TEXT NOT NULL,
        body TEXT NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS ledger_one_charge_per_key ON ledger_events (key) WHERE kind = 'charged'",
    "CREATE TABLE IF NOT EXISTS ledger_head "
    "(one INTEGER PRIMARY KEY, format INTEGER NOT NULL, entries INTEGER NOT NULL, digest TEXT NOT NULL)",
)

#: letters of a digest that are in the names of files
TAG = 16

EventKind = Literal["opened", "charged", "committed", "cancelled", "fixed", "rewritten"]


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the log."""

    entry: int
    kind: EventKind
    key: str
    at: str  #: when, by this machine's clock; the order of events is ``entry``
    body: dict[str, Any]
    previous: str
    digest: str


@dataclass(frozen=True, slots=True)
class OpenLog:
    """The log while its lock is held."""

    log: EventLog
    execute: Execute
    events: list[Event]  #: before anything is appended

    @property
    def tag(self) -> str:
        """The start of the names of files that are written now: it says after which event of which log."""
        return self.events[-1].digest[:TAG]

    def append(self, kind: EventKind, key: str, body: dict[str, Any]) -> Event:
        """Write one event."""
        entries, previous = self.execute("SELECT entries, digest FROM ledger_head WHERE one = 1")[0]
        at = datetime.now(timezone.utc).isoformat(timespec="microseconds")
        text = json.dumps(body, sort_keys=True, allow_nan=False)
        row: dict[str, Any] = {
            "entry": entries + 1,
            "kind": kind,
            "key": key,
            "at": at,
            "body": text,
            "previous": previous,
        }
        row["digest"] = self.log.digest_of(*row.values())
        self.execute("INSERT INTO ledger_events VALUES (:entry, :kind, :key, :at, :body, :previous, :digest)", **row)
        self.execute("UPDATE ledger_head SET entries = :entry, digest = :digest WHERE one = 1", **row)
        return Event(**{**row, "body": body})


@dataclass(frozen=True, slots=True)
class EventLog:
    """Appends events and reads them back."""

    database: Database
    secret: bytes | None = None

    def create(self, body: dict[str, Any]) -> None:
        """Make the tables and the first event, unless they are there."""
        with self.database.transaction(write=False) as execute:
            if ("table", "ledger_head") in execute(self.database.OBJECTS):
                found = execute("SELECT format FROM ledger_head WHERE one = 1")
                _refuse_other_formats(found)
                if found:
                    return  # a log that is read-only can be opened
        with self.database.transaction(write=True) as execute:
            for statement in _TABLES:
                execute(statement)
            there = execute("SELECT format FROM ledger_head") or execute("SELECT entry FROM ledger_events")
            if not there:
                execute("INSERT INTO ledger_head VALUES (1, :format, 0, '')", format=FORMAT)
                OpenLog(self, execute, []).append("opened", "", body)

    @contextmanager
    def writing(self, patience: float = PATIENCE) -> Iterator[OpenLog]:
        """Hold the lock of all writers, for an event and the files that it names: they count once the block ends."""
        with self.database.transaction(write=True, patience=patience) as execute:
            yield OpenLog(self, execute, self._whole(execute))

    def events(self) -> list[Event]:
        """Return all events in their order; a broken chain is refused."""
        with self.database.transaction(write=False) as execute:
            return self._whole(execute)

    def head(self) -> tuple[int, str]:
        """Return how many events the log is said to have, and the digest of the last."""
        with self.database.transaction(write=False) as execute:
            found = execute("SELECT entries, digest FROM ledger_head WHERE one = 1")
        return found[0] if found else (0, "")

    def _whole(self, execute: Execute) -> list[Event]:
        events, wrong = self._read(execute)
        if wrong:
            raise LedgerDamaged(f"{wrong[0]}; run verify, and restore the ledger from a backup")
        return events

    def check(self) -> list[str]:
        """Return what is wrong with the log, in words; nothing if it is whole."""
        with self.database.transaction(write=False) as execute:
            wrong = self._read(execute)[1]
            for what, name in execute(self.database.OBJECTS):
                if what in ("trigger", "rule", "view"):
                    wrong.append(f"the log has a {what} that perinstance did not make ({name}): find out what it does")
        return wrong

    def _read(self, execute: Execute) -> tuple[list[Event], list[str]]:
        wrong: list[str] = []
        events: list[Event] = []
        last = ""
        statement = "SELECT entry, kind, key, at, body, previous, digest FROM ledger_events ORDER BY entry"
        for place, (entry, kind, key, at, text, previous, digest) in enumerate(execute(statement), start=1):
            if entry != place:
                wrong.append(f"event {place} of the log is missing")
                break
            if previous != last:
                wrong.append(f"event {place} of the log does not follow event {place - 1}")
                break
            if not hmac.compare_digest(self.digest_of(entry, kind, key, at, text, previous), digest):
                why = ", or the secret is another one" if self.secret is not None or place == 1 else ""
                wrong.append(f"event {place} of the log was changed{why}")
                break
            events.append(Event(entry, kind, key, at, json.loads(text), previous, digest))
            last = digest
        heads = execute("SELECT entries, digest FROM ledger_head ORDER BY one")
        if len(heads) > 1:
            wrong.append(f"the log has {len(heads)} heads: somebody added one")
        if not wrong and heads[:1] != [(len(events), last)]:
            told = heads[0][0] if heads else "no"
            wrong.append(f"the log ends after event {len(events)}, its head says {told}: it was cut or reordered")
        return events, wrong

    def digest_of(self, entry: int, kind: str, key: str, at: str, text: str, previous: str) -> str:
        """Hash one event and the one before, with the secret where there is one."""
        whole = json.dumps([entry, kind, key, at, text, previous]).encode()
        if self.secret is None:
            return hashlib.sha256(whole).hexdigest()
        return hmac.new(self.secret, whole, hashlib.sha256).hexdigest()


def _refuse_other_formats(found: list[tuple[Any, ...]]) -> None:
    for (version,) in found:
        if not isinstance(version, int) or version < 1:
            raise LedgerDamaged("the head of the log names a format that never was; restore the ledger from a backup")
        if version > FORMAT:
            raise LedgerTrouble(
                f"this ledger has format {version}, this perinstance knows formats up to {FORMAT}; upgrade perinstance"
            )
