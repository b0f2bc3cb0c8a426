"""``Ledger``: charge releases to the people they concern, and ask later what everybody has lost in total."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from perinstance.checked_numbers import one_of, probability
from perinstance.data.confidential.private_files import private_file, private_folder
from perinstance.errors import InvalidInput, LedgerConflict, LedgerTrouble, UnsafeFile
from perinstance.ledger.admission import admitted, applicants
from perinstance.ledger.budgets import Budget, budget_record, read_budget
from perinstance.ledger.charge_files import SortedPairs, StoredCharge, synchronise_folder
from perinstance.ledger.databases import Database, ServerDatabase, SqliteDatabase
from perinstance.ledger.event_log import Event, EventLog
from perinstance.ledger.history import History, history_of
from perinstance.ledger.releases import ChargedRelease, State, known, releases_of, superseded_files
from perinstance.ledger.renaming import rewritten
from perinstance.ledger.running_totals import delete_running, running_blocks
from perinstance.ledger.totals import Totals, running_totals_of, totals_of
from perinstance.ledger.verification import Verification, refuse_damage, verify
from perinstance.pairs import Pairs
from perinstance.pairs.composition import pairs_of_promise
from perinstance.releases.base.shown_decimals import declared_text

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit

#: the longest key and note, in characters
LONGEST = 10_000


class Ledger:
    """What each person has lost over all releases. One ledger for one population, whoever publishes.

    A ledger per project would let ten projects spend ten times what each of them states: people are the same.

    Parameters
    ----------
    place
        A folder, made for its owner alone; or the address of a PostgreSQL database, for a team.
    store
        Where the columns per person go when the log is in a database: a folder.
    filter
        ``RenyiBudget(order, budget)`` or ``GaussianBudget(distance)``: releases are then made through ``admit``.
        Fixed when the ledger is made.
    secret
        Makes the log's chain of hashes one that only its holder can continue.

    Examples
    --------
    >>> import tempfile
    >>> from perinstance import Ledger
    >>> from perinstance.pairs import Shift
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(folder + "/ledger")
    ...     _ = ledger.charge_pairs(["ann", "bob"], Shift([0.3, 0.1]), key="January", fixed_in_advance=True)
    ...     _ = ledger.charge_pairs(["ann", "eve"], Shift([0.4, 0.1]), key="February", fixed_in_advance=True)
    ...     totals = ledger.totals(1e-6)
    >>> totals.ids.to_pylist(), totals.losses.round(2).tolist()
    (['ann', 'bob', 'eve'], [2.25, 0.4, 0.4])
    """

    def __init__(
        self,
        place: str | os.PathLike[str],
        *,
        store: str | os.PathLike[str] | None = None,
        filter: Budget | None = None,
        secret: bytes | None = None,
    ) -> None:
        if secret is not None and (not isinstance(secret, bytes) or len(secret) < 16):
            raise InvalidInput("secret must be at least 16 bytes; try secrets.token_bytes(32), and keep it elsewhere")
        database: Database
        if isinstance(place, str) and "://" in place:
            if store is None:
                raise InvalidInput("a ledger in a database needs store=, a folder for the columns per person")
            self._root = _folder(store)
            database = ServerDatabase(place)
        else:
            if store is not None:
                raise InvalidInput("store= belongs to a ledger in a database; a folder holds everything itself")
            self._root = _folder(place)
            database = SqliteDatabase.create(self._root / "log.sqlite")
        self._charges = _folder(self._root / "charges")
        self._log = EventLog(database, secret)
        self._log.create({"filter": budget_record(filter), "keyed": secret is not None})
        first = self._log.events()[0].body
        if first["keyed"] != (secret is not None):
            raise InvalidInput(
                "this ledger was made " + ("with" if first["keyed"] else "without") + " a secret; pass it so"
            )
        self._filter = read_budget(first["filter"])
        if filter is not None and filter != self._filter:
            raise LedgerConflict("this ledger was made with another filter, or none; a filter is fixed at the start")

    def __repr__(self) -> str:
        return f"Ledger({len(self.releases())} releases)"

    @property
    def filter(self) -> Budget | None:
        """The budget that is enforced, if any."""
        return self._filter

    def charge(self, audit: Audit, key: str, *, note: str = "", fixed_in_advance: bool = False) -> ChargedRelease:
        """Charge a release to the people of its audit.

        Charging the same losses again under the same key is the same charge; other losses are refused.

        Parameters
        ----------
        audit
            Of the people in the data, with ids.
        key
            The release's name in the ledger.
        note
            For the curator; it is kept in the log.
        fixed_in_advance
            Whether this release was decided on before any output of the others was seen. Only if that holds for
            all of them, totals are guarantees.
        """
        return self._charge_audit(audit, key, note, fixed_in_advance, "committed")

    def charge_pairs(
        self,
        ids: Any,
        pairs: Pairs | float,
        key: str,
        *,
        delta: float = 0.0,
        note: str = "",
        mechanism: str = "charged from outside",
        fixed_in_advance: bool = False,
    ) -> ChargedRelease:
        """Charge a release of another tool: one pair per person, or a plain epsilon (at ``delta``) for each of them."""
        found = pairs if isinstance(pairs, Pairs) else pairs_of_promise(pairs, delta, len(ids))
        return self._charge(ids, found, key, _Words(mechanism, note, fixed_in_advance), "committed")

    def reserve(self, audit: Audit, key: str, *, note: str = "", fixed_in_advance: bool = False) -> Reservation:
        """Charge before publishing: ``with ledger.reserve(audit, key=...): publish()`` commits when all went well.

        After an error or a crash the charge stays (the output may have been seen): ``commit`` or ``cancel`` it.
        """
        return Reservation(self, self._charge_audit(audit, key, note, fixed_in_advance, "reserved"))

    def reserve_pairs(self, ids: Any, pairs: Pairs, key: str, *, mechanism: str, **told: Any) -> Reservation:
        """Do the same for pairs that are no audit's; ``note`` and ``fixed_in_advance`` as for ``charge``."""
        words = _Words(mechanism, told.pop("note", ""), told.pop("fixed_in_advance", False))
        if told:
            raise InvalidInput(f"reserve_pairs takes note and fixed_in_advance, got {', '.join(told)}")
        return Reservation(self, self._charge(ids, pairs, key, words, "reserved"))

    def commit(self, key: str) -> ChargedRelease:
        """Say that a reserved release was published. Saying it again changes nothing."""
        return self._settle(key, "committed")

    def cancel(self, key: str) -> ChargedRelease:
        """Say that a reserved release was **not** published, nor seen by anybody: it no longer counts."""
        return self._settle(key, "cancelled")

    def releases(self) -> tuple[ChargedRelease, ...]:
        """Return all releases, in the order of their charges."""
        return tuple(releases_of(self._log.events()).values())

    def totals(self, delta: float = 1e-6, method: Literal["exact", "upper"] = "exact") -> Totals:
        """Return everybody's total at ``delta``. Confidential.

        ``"exact"`` composes the stored pairs. ``"upper"`` reads running sums of Renyi divergences: a looser bound whose
        cost does not grow with the number of releases.
        """
        delta = probability("delta", delta)
        if one_of("method", method, ("exact", "upper")) == "exact":
            return totals_of(self._charges, self._counting(), delta, self._filter is not None)
        events = self._log.events()
        blocks = running_blocks(self._root, self._charges, events, self._filter)
        counting = [release for release in releases_of(events).values() if release.counts]
        return running_totals_of(blocks, counting, delta, self._filter is not None)

    def person(self, identity: str, delta: float = 1e-6) -> History:
        """Return the releases of one person and their total. Confidential."""
        delta = probability("delta", delta)
        return history_of(self._charges, self._counting(), str(identity), delta, self._filter is not None)

    def admit(self, release: Any, X: Any, y: Any = None, *, key: str, note: str = "", **columns: Any) -> Any:
        """Publish under the filter: fit ``release`` on the rows of people whose budget lasts, and charge them.

        ``columns`` are ``target``, ``ids`` and ``features``, as for ``audit``. Nobody is told who was left out, nor how
        many. Returns the fitted release; after a crash the charge stays reserved, and counts.
        """
        _text("key", key, empty=False)
        _text("note", note)
        budget = self._filter
        if budget is None:
            raise InvalidInput("this ledger has no filter; make one with Ledger(..., filter=RenyiBudget(8, 1.0))")
        people = applicants(release, X, y, budget, **columns)
        words = _Words(_told(release), note, False)
        while True:
            events = self._log.events()
            if key in releases_of(events):
                raise LedgerConflict(f"the key {key!r} stands for a release already; choose another")
            spent = running_blocks(self._root, self._charges, events, budget) if len(events) > 1 else ()
            used = np.flatnonzero(admitted(people, spent, budget))
            pairs = people.pairs[used]
            stored = SortedPairs.of(people.ids.take(used), pairs).write(self._charges)
            try:
                self._append_charge(key, words, "reserved", pairs, stored, entry=len(events))
            except LedgerConflict:
                if key in releases_of(self._log.events()):
                    raise
                continue  # somebody else's release came between: their charges count now
            break
        release.fit(people.X[used], *(() if people.y is None else (people.y[used],)))
        self._settle(key, "committed")
        return release

    def rename(self, names: Mapping[str, str]) -> int:
        """Give people other ids, from old to new, in all releases; return how many files were written anew."""
        return self._rewrite(dict(names))

    def forget(self, identity: str) -> int:
        """Take a person's identity out of the ledger; their losses stay, under a name that stands for nobody."""
        return self._rewrite({str(identity): f"forgotten-{secrets.token_hex(16)}"})

    def verify(self) -> Verification:
        """Check the log and every file; say what is wrong."""
        with suppress(LedgerTrouble):
            self._delete_superseded(self._log.events())
        return verify(self._log, self._charges)

    def export(self, folder: str | os.PathLike[str]) -> Path:
        """Copy the ledger in plain formats into a private folder: ``releases.json``, one Parquet file per release."""
        import shutil

        refuse_damage(self.verify())
        target = _folder(folder)
        releases = self.releases()
        for place, release in enumerate(releases, start=1):
            with private_file(target / f"{place:05d}.parquet") as file, open(self._file(release), "rb") as source:
                shutil.copyfileobj(source, file)
        records = [{**asdict(release), "file": f"{i:05d}.parquet"} for i, release in enumerate(releases, start=1)]
        with private_file(target / "releases.json", "w", encoding="utf-8") as file:
            json.dump(records, file, indent=1)
        return target

    def _file(self, release: ChargedRelease) -> Path:
        return self._charges / release.stored.file

    def _counting(self) -> list[ChargedRelease]:
        return [release for release in self.releases() if release.counts]

    def _charge_audit(self, audit: Audit, key: str, note: str, fixed: bool, state: State) -> ChargedRelease:
        if not audit.inside:
            raise InvalidInput("people outside the table lost nothing by the release; charge the audit of those inside")
        if audit.ids is None:
            raise InvalidInput("a ledger follows people by their ids; pass ids= to audit")
        return self._charge(audit.ids, audit.pairs, key, _Words(_told(audit.release), note, fixed), state)

    def _charge(self, ids: Any, pairs: Pairs, key: str, words: _Words, state: State) -> ChargedRelease:
        _text("key", key, empty=False)
        _text("note", words.note)
        if self._filter is not None:
            raise LedgerConflict(
                "this ledger has a filter: what is published must be admitted first; use ledger.admit(release, ...)"
            )
        people = SortedPairs.of(ids, pairs)
        content = people.content
        before = releases_of(self._log.events()).get(key)
        if before is not None:
            return _same(before, content)
        stored = people.write(self._charges)
        return self._append_charge(key, words, state, pairs, stored)

    def _append_charge(
        self, key: str, words: _Words, state: State, pairs: Pairs, stored: StoredCharge, entry: int | None = None
    ) -> ChargedRelease:
        """Write the event; if somebody was quicker with this key, theirs is the charge."""
        first: list[ChargedRelease] = []

        def allowed(events: list[Event]) -> None:
            releases = releases_of(events)
            if key in releases:
                first.append(releases[key])
                raise LedgerConflict("another process has charged this key")
            if entry is not None and len(events) != entry:
                raise LedgerConflict("another process has charged the ledger")

        body = {**asdict(words), "state": state, "kind": pairs.kind, "stored": asdict(stored)}
        try:
            event = self._log.append("charged", key, body, allowed)
        except BaseException as error:
            # interrupted between the commit and here, the event may be there: then the file must stay
            if isinstance(error, LedgerConflict):
                (self._charges / stored.file).unlink(missing_ok=True)
            if first:
                return _same(first[0], stored.content)
            raise
        return releases_of([event])[key]

    def _settle(self, key: str, state: State) -> ChargedRelease:
        def allowed(events: list[Event]) -> None:
            now = known(releases_of(events), key)
            if now.state == state:
                raise _Already
            if now.state != "reserved":
                raise LedgerConflict(f"release {key!r} is {now.state}; only a reserved release can be {state}")

        with suppress(_Already):
            self._log.append("committed" if state == "committed" else "cancelled", key, {}, allowed)
        return known(releases_of(self._log.events()), key)

    def _rewrite(self, names: dict[str, str]) -> int:
        events = self._log.events()
        stored = rewritten(self._charges, releases_of(events), names)
        if not stored:
            raise InvalidInput("nobody of that name is in the ledger; ids are compared exactly as written")

        def allowed(now: list[Event]) -> None:
            if len(now) != len(events):
                raise LedgerConflict("another process has changed the ledger meanwhile; do it again")

        try:
            body = {"stored": {key: asdict(file) for key, file in stored.items()}}
            self._log.append("rewritten", "", body, allowed)
        except LedgerConflict:
            for file in stored.values():
                (self._charges / file.file).unlink(missing_ok=True)
            raise
        delete_running(self._root)
        self._delete_superseded(self._log.events())
        return len(stored)

    def _delete_superseded(self, events: list[Event]) -> None:
        gone = False
        for name in superseded_files(events):
            with suppress(FileNotFoundError):
                (self._charges / name).unlink()
                gone = True
        if gone:
            synchronise_folder(self._charges)


class Reservation:
    """A charge that waits for its publication."""

    __slots__ = ("_ledger", "release")

    def __init__(self, ledger: Ledger, release: ChargedRelease) -> None:
        self._ledger, self.release = ledger, release

    def commit(self) -> ChargedRelease:
        """Say that it was published."""
        return self._ledger.commit(self.release.key)

    def cancel(self) -> ChargedRelease:
        """Say that it was not published, nor seen by anybody."""
        return self._ledger.cancel(self.release.key)

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()


@dataclass(frozen=True, slots=True)
class _Words:
    """What the log says of a release, besides numbers."""

    mechanism: str
    note: str
    fixed_in_advance: bool


def _told(release: Any) -> str:
    """Say what is published, in words."""
    return "".join(part if isinstance(part, str) else declared_text(part) for part in release.mechanism().words)


class _Already(Exception):  # noqa: N818
    """The event that would be written is there."""


def _same(before: ChargedRelease, content: str) -> ChargedRelease:
    if before.stored.content != content:
        raise LedgerConflict(
            f"the key {before.key!r} stands for another charge ({before.people:,} people, {before.at[:10]}); "
            "charge this release under a key of its own"
        )
    return before


def _text(name: str, value: Any, empty: bool = True) -> None:
    if not isinstance(value, str) or len(value) > LONGEST or (not empty and not value.strip()):
        raise InvalidInput(f"{name} must be a text of at most {LONGEST:,} characters, got {type(value).__name__}")
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidInput(f"{name} must be plain text: it holds a character that cannot be stored")


def _folder(path: str | os.PathLike[str]) -> Path:
    try:
        return private_folder(path)
    except FileNotFoundError:
        raise UnsafeFile(f"there is no folder for {Path(path).name!r}; make it first") from None
    except FileExistsError:
        return private_folder(path)  # another process was quicker
    except OSError as error:
        raise LedgerTrouble(f"{Path(path).name!r} cannot be made ({error.strerror}); choose another place") from None
