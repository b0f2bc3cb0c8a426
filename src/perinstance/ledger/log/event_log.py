"""The log: one row per event, each with the hash of the row before, and a head that says how many there must be.

    digest_k = SHA-256(k, kind, key, at, body, digest_{k-1})        (HMAC-SHA-256 where a secret was given)

A changed, removed or reordered row breaks the chain, a log cut at its end disagrees with the head. With a secret nobody
who lacks it can write a chain that verifies; without one, keep the head (``verify().head``) somewhere else.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from perinstance.errors import LedgerDamaged, LedgerTrouble
from perinstance.ledger.log.databases import Database, Statements

#: of the tables below; ``MIGRATIONS[v]`` are the statements that lead from v to v + 1
FORMAT = 1
MIGRATIONS: dict[int, tuple[str, ...]] = {}

_TABLES = (
    """CREATE TABLE IF NOT EXISTS ledger_events (
        entry INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, at TEXT NOT NULL,
        body TEXT NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS ledger_one_charge_per_key ON ledger_events (key) WHERE kind = 'charged'",
    "CREATE TABLE IF NOT EXISTS ledger_head "
    "(one INTEGER PRIMARY KEY, format INTEGER NOT NULL, entries INTEGER NOT NULL, digest TEXT NOT NULL)",
)

EventKind = Literal["opened", "charged", "committed", "cancelled", "rewritten"]


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
class Head:
    """How many events there are, and the digest of the last."""

    format: int
    entries: int
    digest: str


@dataclass(frozen=True, slots=True)
class EventLog:
    """Appends events and reads them back."""

    database: Database
    secret: bytes | None = None

    def create(self, body: dict[str, Any]) -> None:
        """Make the tables and the first event, unless they are there; bring an older log to this format."""
        with self.database.transaction(write=True) as rows:
            for statement in _TABLES:
                rows.execute(statement)
            found = rows.execute("SELECT format FROM ledger_head WHERE one = 1")
            if not found:
                rows.execute("INSERT INTO ledger_head VALUES (1, :format, 0, '')", format=FORMAT)
                self._append(rows, "opened", "", body)
            else:
                _migrate(rows, found[0][0])

    def append(
        self, kind: EventKind, key: str, body: dict[str, Any], allowed: Callable[[list[Event]], None] | None = None
    ) -> Event:
        """Write one event. ``allowed`` sees all events under the lock, and raises if this one may not follow."""
        with self.database.transaction(write=True) as rows:
            if allowed is not None:
                allowed(self._events(rows))
            return self._append(rows, kind, key, body)

    def _append(self, rows: Statements, kind: EventKind, key: str, body: dict[str, Any]) -> Event:
        entries, previous = rows.execute("SELECT entries, digest FROM ledger_head WHERE one = 1")[0]
        now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
        text = json.dumps(body, sort_keys=True, allow_nan=False)
        digest = self.digest_of(entries + 1, kind, key, now, text, previous)
        values = {"entry": entries + 1, "kind": kind, "key": key, "at": now, "body": text}
        rows.execute(
            "INSERT INTO ledger_events VALUES (:entry, :kind, :key, :at, :body, :previous, :digest)",
            **values,
            previous=previous,
            digest=digest,
        )
        rows.execute(
            "UPDATE ledger_head SET entries = :entries, digest = :digest WHERE one = 1",
            entries=entries + 1,
            digest=digest,
        )
        return Event(entries + 1, kind, key, now, body, previous, digest)

    def events(self) -> list[Event]:
        """Return all events in their order; a broken chain is refused."""
        with self.database.transaction(write=False) as rows:
            return self._events(rows)

    def head(self) -> Head:
        """Return how long the log is said to be."""
        with self.database.transaction(write=False) as rows:
            found = rows.execute("SELECT format, entries, digest FROM ledger_head WHERE one = 1")
        return Head(*found[0]) if found else Head(0, 0, "")

    def _events(self, rows: Statements) -> list[Event]:
        events, wrong = self._read(rows)
        if wrong:
            raise LedgerDamaged(f"{wrong[0]}; run verify, and restore the ledger from a backup")
        return events

    def check(self) -> list[str]:
        """Return what is wrong with the chain, in words; nothing if it is whole."""
        with self.database.transaction(write=False) as rows:
            return self._read(rows)[1]

    def _read(self, rows: Statements) -> tuple[list[Event], list[str]]:
        statement = "SELECT entry, kind, key, at, body, previous, digest FROM ledger_events ORDER BY entry"
        found = rows.execute(statement)
        wrong: list[str] = []
        events: list[Event] = []
        last = ""
        for place, (entry, kind, key, at, text, previous, digest) in enumerate(found, start=1):
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
        head = rows.execute("SELECT format, entries, digest FROM ledger_head WHERE one = 1")
        if not wrong and (not head or head[0][1:] != (len(events), last)):
            told = head[0][1] if head else "no"
            wrong.append(f"the log ends after event {len(events)}, its head says {told}: it was cut or reordered")
        return events, wrong

    def digest_of(self, entry: int, kind: str, key: str, at: str, text: str, previous: str) -> str:
        """Hash one event and the one before."""
        return self.seal(json.dumps([entry, kind, key, at, text, previous]))

    def seal(self, text: str) -> str:
        """Hash a text, with the secret where there is one."""
        if self.secret is None:
            return hashlib.sha256(text.encode()).hexdigest()
        return hmac.new(self.secret, text.encode(), hashlib.sha256).hexdigest()


def _migrate(rows: Statements, version: int) -> None:
    if isinstance(version, int) and version > FORMAT:
        raise LedgerTrouble(
            f"this ledger has format {version}, this perinstance knows formats up to {FORMAT}; upgrade perinstance"
        )
    if not isinstance(version, int) or version < 1:
        raise LedgerDamaged("the head of the log names a format that never was; restore the ledger from a backup")
    for step in range(version, FORMAT):
        for statement in MIGRATIONS[step]:
            rows.execute(statement)
        rows.execute("UPDATE ledger_head SET format = :format WHERE one = 1", format=step + 1)
