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
from perinstance.ledger.log.databases import PATIENCE, Database, Statements

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

#: letters of a digest that are in the names of files
TAG = 16

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
class OpenLog:
    """The log while its lock is held."""

    log: EventLog
    rows: Statements
    events: list[Event]  #: before anything is appended

    @property
    def tag(self) -> str:
        """The start of the names of files that are written now: it says after which event of which log."""
        return self.events[-1].digest[:TAG]

    def append(self, kind: EventKind, key: str, body: dict[str, Any]) -> Event:
        """Write one event."""
        entries, previous = self.rows.execute("SELECT entries, digest FROM ledger_head WHERE one = 1")[0]
        now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
        text = json.dumps(body, sort_keys=True, allow_nan=False)
        digest = self.log.digest_of(entries + 1, kind, key, now, text, previous)
        self.rows.execute(
            "INSERT INTO ledger_events VALUES (:entry, :kind, :key, :at, :body, :previous, :digest)",
            entry=entries + 1,
            kind=kind,
            key=key,
            at=now,
            body=text,
            previous=previous,
            digest=digest,
        )
        self.rows.execute(
            "UPDATE ledger_head SET entries = :entries, digest = :digest WHERE one = 1",
            entries=entries + 1,
            digest=digest,
        )
        return Event(entries + 1, kind, key, now, body, previous, digest)


@dataclass(frozen=True, slots=True)
class EventLog:
    """Appends events and reads them back."""

    database: Database
    secret: bytes | None = None

    def create(self, body: dict[str, Any]) -> None:
        """Make the tables and the first event, unless they are there; bring an older log to this format."""
        with self.database.transaction(write=False) as rows:
            there = ("table", "ledger_head") in rows.execute(self.database.OBJECTS)
            if there and rows.execute("SELECT format FROM ledger_head WHERE one = 1") == [(FORMAT,)]:
                return  # a log that is read-only can be opened
        with self.database.transaction(write=True) as rows:
            for statement in _TABLES:
                rows.execute(statement)
            found = rows.execute("SELECT format FROM ledger_head WHERE one = 1")
            if found:
                _migrate(rows, found[0][0])
            elif not rows.execute("SELECT entry FROM ledger_events"):
                rows.execute("INSERT INTO ledger_head VALUES (1, :format, 0, '')", format=FORMAT)
                OpenLog(self, rows, []).append("opened", "", body)

    @contextmanager
    def writing(self, patience: float = PATIENCE) -> Iterator[OpenLog]:
        """Hold the lock of all writers, for an event and the files that it names: they count once the block ends."""
        with self.database.transaction(write=True, patience=patience) as rows:
            yield OpenLog(self, rows, self._events(rows))

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
        """Return what is wrong with the log, in words; nothing if it is whole."""
        with self.database.transaction(write=False) as rows:
            wrong = self._read(rows)[1]
            for what, name in rows.execute(self.database.OBJECTS):
                if what in ("trigger", "rule", "view"):
                    wrong.append(f"the log has a {what} that perinstance did not make ({name}): find out what it does")
        return wrong

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
        head = rows.execute("SELECT format, entries, digest FROM ledger_head ORDER BY one")
        if len(head) > 1:
            wrong.append(f"the log has {len(head)} heads: somebody added one")
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
