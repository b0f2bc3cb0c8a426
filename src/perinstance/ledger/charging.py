"""Charging releases and settling them: what is charged counts until somebody says that it was never published.

The file of a charge is written first, whole and synchronised; the event in the log makes it count. Both are written
under the lock of the log, so that a file that no event names was left by a writer that is no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from perinstance.checked_numbers import one_of, truth_value
from perinstance.errors import InvalidInput, LedgerConflict
from perinstance.ledger.budgets import Budget
from perinstance.ledger.files.charge_files import holds_the_same
from perinstance.ledger.files.sorted_pairs import SortedPairs
from perinstance.ledger.log.charged_releases import UNITS, ChargedRelease, State, Unit, known, releases_of
from perinstance.ledger.log.event_log import EventLog, OpenLog
from perinstance.pairs import Pairs
from perinstance.shown_decimals import declared_text

#: the longest key and note, in characters
LONGEST = 10_000


@dataclass(frozen=True, slots=True)
class ChargeWords:
    """What the log says of a release, besides numbers."""

    mechanism: str
    note: str
    fixed_in_advance: bool
    unit: Unit = "person"

    def __post_init__(self) -> None:
        one_of("unit", self.unit, UNITS)
        check_text("mechanism", self.mechanism, empty=False)
        check_text("note", self.note)
        # "no" and "false" are true for Python
        object.__setattr__(self, "fixed_in_advance", truth_value("fixed_in_advance", self.fixed_in_advance))


@dataclass(frozen=True, slots=True)
class ChargeWriter:
    """Writes charges into a folder and its log."""

    log: EventLog
    folder: Path
    budget: Budget | None

    def charge_audit(
        self, audit: Any, ids: Any, key: str, note: str, fixed_in_advance: bool, state: State, unit: Unit
    ) -> ChargedRelease:
        """Charge what an audit, the reading of a training, or anything with everybody's pairs says."""
        found = audit.gathered() if hasattr(audit, "gathered") else audit  # by a cluster
        people = _ids_of(found, ids)
        release = getattr(found, "release", None)
        words = told(release) if release is not None else str(getattr(found, "assumption", type(found).__name__))
        if unit == "row" and getattr(release, "rows_per_person", None) is not None:
            raise LedgerConflict("a release with rows_per_person costs people, not rows; charge it with unit='person'")
        return self.charge(people, found.pairs, key, ChargeWords(words, note, fixed_in_advance, unit), state)

    def charge(self, ids: Any, pairs: Pairs, key: str, words: ChargeWords, state: State) -> ChargedRelease:
        """Charge pairs to people; the same pairs under the same key again are the same charge."""
        check_text("key", key, empty=False)
        if self.budget is not None:
            raise LedgerConflict(
                "this ledger has a filter: what is published must be admitted first; use ledger.admit(release, ...)"
            )
        people = SortedPairs.of(ids, pairs)
        with self.log.writing() as log:
            standing = releases_of(log.events)
            refuse_other_unit(standing.values(), words.unit)
            if key in standing:
                return self._standing(standing[key], people, words, state)
            return self.write(log, key, words, state, pairs, people)

    def write(
        self, log: OpenLog, key: str, words: ChargeWords, state: State, pairs: Pairs, people: SortedPairs
    ) -> ChargedRelease:
        """Write the file and its event, under the lock of the log."""
        stored = people.write(self.folder, log.tag)
        try:
            body = {**asdict(words), "state": state, "kind": pairs.kind, "stored": asdict(stored)}
            return releases_of([log.append("charged", key, body)])[key]
        except BaseException:  # no event names it, and it holds ids; one that a failing commit leaves goes later
            (self.folder / stored.file).unlink(missing_ok=True)
            raise

    def _standing(
        self, before: ChargedRelease, people: SortedPairs, words: ChargeWords, state: State
    ) -> ChargedRelease:
        """Return the charge that stands under a key, if it is the same and still counts.

        A reservation is made for one publication: a second one under the same key would be a second draw, uncharged.
        """
        key = f"the key {before.key!r}"
        if not holds_the_same(self.folder, before.stored, people):
            raise LedgerConflict(
                f"{key} stands for another charge ({before.people:,} people, {before.at[:10]}); "
                "charge this release under a key of its own"
            )
        if before.fixed_in_advance != words.fixed_in_advance:
            raise LedgerConflict(
                f"{key} was charged with fixed_in_advance={before.fixed_in_advance}, and the log is never changed; "
                "say the same (ledger.declare_fixed says it afterwards), or charge under another key"
            )
        if before.state == "cancelled":
            raise LedgerConflict(f"{key} was cancelled and no longer counts; choose another key")
        if state == "reserved" and before.state == "reserved":
            raise LedgerConflict(
                f"{key} is reserved already, by a run that broke off or is at work; commit it if its "
                "output may have been seen, cancel it if not, then publish under another key"
            )
        if state == "reserved":
            raise LedgerConflict(f"{key} is published already; another draw costs again: publish it under another key")
        return before

    def settle(self, key: str, state: State) -> ChargedRelease:
        """Say what became of a reserved release. Saying it again changes nothing."""
        with self.log.writing() as log:
            now = known(releases_of(log.events), key)
            if now.state == state:
                return now
            if now.state != "reserved":
                raise LedgerConflict(f"release {key!r} is {now.state}; only a reserved release can be {state}")
            log.append("committed" if state == "committed" else "cancelled", key, {})
            return replace(now, state=state)

    def declare_fixed(self, key: str) -> ChargedRelease:
        """Say afterwards that a release was fixed in advance. Saying it again changes nothing."""
        with self.log.writing() as log:
            now = known(releases_of(log.events), key)
            if self.budget is not None:
                raise LedgerConflict("this ledger has a filter: its budget holds however releases were decided on")
            if not now.fixed_in_advance:
                log.append("fixed", key, {})
            return replace(now, fixed_in_advance=True)


class Reservation:
    """A charge that waits for its publication."""

    __slots__ = ("_settle", "release")

    def __init__(self, release: ChargedRelease, settle: Callable[[str, State], ChargedRelease]) -> None:
        self.release, self._settle = release, settle

    def commit(self) -> ChargedRelease:
        """Say that it was published."""
        return self._settle(self.release.key, "committed")

    def cancel(self) -> ChargedRelease:
        """Say that it was not published, nor seen by anybody."""
        return self._settle(self.release.key, "cancelled")

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()


def _ids_of(audit: Any, ids: Any) -> Any:
    """Return whom a release concerns: a reading of a training has no ids of its own."""
    if not isinstance(getattr(audit, "pairs", None), Pairs):
        raise InvalidInput(
            f"charge takes an audit, or the reading of a training, got {type(audit).__name__}; "
            "charge pairs of other tools with charge_pairs(ids, pairs, key)"
        )
    if not getattr(audit, "inside", True):
        raise InvalidInput("people outside the table lost nothing by the release; charge the audit of those inside")
    own = getattr(audit, "ids", None)
    if own is not None and ids is not None:
        raise InvalidInput("this audit has ids already; leave ids= out")
    if own is None and ids is None:
        raise InvalidInput("a ledger follows people by their ids; pass ids= to audit, or here, in the same order")
    return ids if own is None else own


def refuse_other_unit(releases: Iterable[ChargedRelease], unit: Unit) -> None:
    """Refuse rows where ids name people, and people where they name rows: totals would be of nobody."""
    other = next((one for one in releases if one.unit != unit), None)
    if other is not None:
        here = "rows" if other.unit == "row" else "people"
        raise LedgerConflict(
            f"the ids of this ledger name {here} (since {other.key!r}), and those of this charge name "
            f"{'people' if unit == 'person' else 'rows'}; keep them in two ledgers"
        )


def told(release: Any) -> str:
    """Say what is published, in words."""
    return "".join(part if isinstance(part, str) else declared_text(part) for part in release.mechanism().words)


def check_text(name: str, value: Any, empty: bool = True) -> None:
    """Refuse a key or a note that cannot be kept."""
    if not isinstance(value, str) or len(value) > LONGEST or (not empty and not value.strip()):
        raise InvalidInput(f"{name} must be a text of at most {LONGEST:,} characters, got {type(value).__name__}")
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidInput(f"{name} must be plain text: it holds a character that cannot be stored")
