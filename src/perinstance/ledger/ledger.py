"""``Ledger``: charge releases to the people they concern, and ask later what everybody has lost in total."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from perinstance.checked_numbers import is_unicode, one_of, probability
from perinstance.data.private_files import private_file, private_folder
from perinstance.errors import InvalidInput, LedgerConflict, LedgerDamaged, LedgerTrouble, UnsafeFile
from perinstance.ledger.admission import admit, applicants
from perinstance.ledger.budgets import Budget, budget_record, read_budget
from perinstance.ledger.charging import ChargeWords, ChargeWriter, Reservation, check_text, told
from perinstance.ledger.log.charged_releases import ChargedRelease, Unit, releases_of, tidy
from perinstance.ledger.log.databases import Database, ServerDatabase, SqliteDatabase
from perinstance.ledger.log.event_log import EventLog
from perinstance.ledger.renaming import rewrite_ids
from perinstance.ledger.totals.everybody import Totals, totals_of
from perinstance.ledger.totals.growth import BudgetUse, LedgerOverview, budget_use, overview_of
from perinstance.ledger.totals.person_history import History, history_of
from perinstance.ledger.verification import Verification, verify
from perinstance.pairs import Pairs
from perinstance.pairs.composition import pairs_of_promise


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
    >>> from perinstance.pairs import GaussianShift
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(folder + "/ledger")
    ...     _ = ledger.charge_pairs(["ann", "bob"], GaussianShift([0.3, 0.1]), key="January", fixed_in_advance=True)
    ...     _ = ledger.charge_pairs(["ann", "eve"], GaussianShift([0.4, 0.1]), key="February", fixed_in_advance=True)
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
        given: object = secret
        if given is not None and (not isinstance(given, bytes) or len(given) < 16):
            raise InvalidInput("secret must be at least 16 bytes; try secrets.token_bytes(32), and keep it elsewhere")
        database: Database
        if isinstance(place, str) and "://" in place:
            if store is None:
                raise InvalidInput("a ledger in a database needs store=, a folder for the columns per person")
            root = _folder(store)
            database = ServerDatabase(place)
        else:
            if store is not None:
                raise InvalidInput("store= belongs to a ledger in a database; a folder holds everything itself")
            root = _folder(place)
            database = SqliteDatabase.create(root / "log.sqlite")
        self._charges = _folder(root / "charges")
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
        self._writer = ChargeWriter(self._log, self._charges, self._filter)
        tidy(self._charges, self._log)

    def __repr__(self) -> str:
        return f"Ledger({len(self.releases())} releases)"

    @property
    def filter(self) -> Budget | None:
        """The budget that is enforced, if any."""
        return self._filter

    def charge(
        self,
        audit: Any,
        key: str,
        *,
        ids: Any = None,
        note: str = "",
        fixed_in_advance: bool = False,
        unit: Unit = "person",
    ) -> ChargedRelease:
        """Charge a release to the people of its audit.

        Charging the same losses again under the same key is the same charge; other losses are refused.

        Parameters
        ----------
        audit
            Of the people in the data: what ``pi.audit`` gave, or the reading of a training.
        key
            The release's name in the ledger.
        ids
            Of the people, in their order, where the audit has none.
        note
            For the curator; it is kept in the log.
        fixed_in_advance
            Whether this release was decided on before any output of the others was seen. Only if that holds for
            all of them, totals are guarantees.
        unit
            Whom ids name: ``"person"``, whatever the number of their rows, or ``"row"`` (one stay, one visit). A ledger
            does not mix the two.
        """
        return self._writer.charge_audit(audit, ids, key, note, fixed_in_advance, "committed", unit)

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
        unit: Unit = "person",
    ) -> ChargedRelease:
        """Charge a release of another tool: one pair per person, or a plain epsilon (at ``delta``) for each of them."""
        found = pairs if isinstance(pairs, Pairs) else pairs_of_promise(pairs, delta, len(ids))
        words = ChargeWords(mechanism, note, fixed_in_advance, unit)
        return self._writer.charge(ids, found, key, words, "committed")

    def reserve(
        self,
        audit: Any,
        key: str,
        *,
        ids: Any = None,
        note: str = "",
        fixed_in_advance: bool = False,
        unit: Unit = "person",
    ) -> Reservation:
        """Charge before publishing: ``with ledger.reserve(audit, key=...): publish()`` commits when all went well.

        After an error or a crash the charge stays (the output may have been seen): ``commit`` or ``cancel`` it. A key
        is for one publication: a second draw is another release, and is refused under the same key.
        """
        charged = self._writer.charge_audit(audit, ids, key, note, fixed_in_advance, "reserved", unit)
        return Reservation(charged, self._writer.settle)

    def reserve_pairs(
        self, ids: Any, pairs: Pairs, key: str, *, mechanism: str, note: str = "", fixed_in_advance: bool = False
    ) -> Reservation:
        """Charge pairs that are no audit's before publishing; everything else as for ``reserve``."""
        words = ChargeWords(mechanism, note, fixed_in_advance)
        return Reservation(self._writer.charge(ids, pairs, key, words, "reserved"), self._writer.settle)

    def commit(self, key: str) -> ChargedRelease:
        """Say that a reserved release was published. Saying it again changes nothing."""
        return self._writer.settle(key, "committed")

    def cancel(self, key: str) -> ChargedRelease:
        """Say that a reserved release was **not** published, nor seen by anybody: it no longer counts."""
        return self._writer.settle(key, "cancelled")

    def declare_fixed(self, key: str) -> ChargedRelease:
        """Say that a release was decided on before any output of the others was seen, where charging did not say so.

        It is for who decided to say, and the log keeps when it was said.
        """
        return self._writer.declare_fixed(key)

    def releases(self) -> tuple[ChargedRelease, ...]:
        """Return all releases, in the order of their charges."""
        return tuple(releases_of(self._log.events()).values())

    def totals(self, delta: float = 1e-6, method: Literal["exact", "upper"] = "exact") -> Totals:
        """Return everybody's total at ``delta``. Confidential.

        ``"exact"`` composes the stored pairs. ``"upper"`` adds up Renyi divergences: a looser bound at less cost.
        """
        delta = probability("delta", delta)
        exact = one_of("method", method, ("exact", "upper")) == "exact"
        return totals_of(self._charges, self._counting(), delta, self._filter is not None, exact, self.report)

    def person(self, identity: str, delta: float = 1e-6) -> History:
        """Return the releases of one person and their total. Confidential."""
        delta = probability("delta", delta)
        if not is_unicode(str(identity)):
            raise InvalidInput("an id is a text as it was charged, got one with half a character (a lone surrogate)")
        return history_of(self._charges, self._counting(), str(identity), delta, self._filter is not None)

    def overview(self, delta: float = 1e-6) -> LedgerOverview:
        """Return how totals grew from release to release, what each added, and who has the largest. Confidential.

        It holds a few blocks of people at a time, however many there are.
        """
        return overview_of(self._charges, self._counting(), probability("delta", delta))

    def budget_use(self) -> BudgetUse | None:
        """Return how much of the filter's budget people have spent; None without a filter. Confidential."""
        return None if self._filter is None else budget_use(self._charges, self.releases(), self._filter)

    def report(self, path: str | os.PathLike[str], delta: float = 1e-6, **options: Any) -> Path:
        """Write the ledger's page to a file that only its owner can read. Do not publish it.

        ``limit`` is a total that nobody should pass, ``redact=True`` leaves out what fewer than 40 people share, and
        ``title`` is the page's.
        """
        from perinstance.report import ledger_page

        return ledger_page.to_html(self, path, delta=delta, **options)

    def admit(self, release: Any, X: Any, y: Any = None, *, key: str, note: str = "", **columns: Any) -> Any:
        """Publish under the filter: fit ``release`` on the rows of people whose budget lasts, and charge them.

        ``columns`` are ``target``, ``ids``, ``features`` and ``recipe``, as for ``audit``. Nobody is told who was left
        out, nor how many. Returns the fitted release; after a crash the charge stays reserved, and counts.
        """
        if self._filter is None:
            raise InvalidInput("this ledger has no filter; make one with Ledger(..., filter=RenyiBudget(8, 1.0))")
        check_text("key", key, empty=False)
        words = ChargeWords(told(release), note, False)
        people = applicants(release, X, y, self._filter, **columns)
        used = admit(self._writer, people, key, words)
        release.fit(people.X[used], *(() if people.y is None else (people.y[used],)))
        self._writer.settle(key, "committed")
        return release

    def rename(self, names: Mapping[str, str]) -> int:
        """Give people other ids, from old to new, in all releases; return how many files were written anew."""
        if not isinstance(names, Mapping):
            raise InvalidInput(f"rename takes {{'old': 'new'}}, got {type(names).__name__}")
        return rewrite_ids(self._log, self._charges, dict(names))

    def forget(self, identity: str) -> int:
        """Take a person's identity out of the ledger; their losses stay, under a name that stands for nobody.

        Charges that were broken off before they counted are deleted with the person in them.
        """
        names = {str(identity): f"forgotten-{secrets.token_hex(16)}"}
        return rewrite_ids(self._log, self._charges, names)

    def verify(self) -> Verification:
        """Check the log and every file; say what is wrong."""
        return verify(self._log, self._charges)

    def export(self, folder: str | os.PathLike[str]) -> Path:
        """Copy the ledger in plain formats into a private folder: ``releases.json``, one Parquet file per release."""
        if problems := self.verify().problems:
            raise LedgerDamaged("; ".join(problems))
        target = _folder(folder)
        releases = self.releases()
        for place, release in enumerate(releases, start=1):
            with private_file(target / f"{place:05d}.parquet") as file:
                file.write((self._charges / release.stored.file).read_bytes())
        records = [{**asdict(release), "file": f"{i:05d}.parquet"} for i, release in enumerate(releases, start=1)]
        with private_file(target / "releases.json", "w", encoding="utf-8") as file:
            json.dump(records, file, indent=1)
        return target

    def _counting(self) -> list[ChargedRelease]:
        return [release for release in self.releases() if release.counts]


def _folder(path: str | os.PathLike[str]) -> Path:
    try:
        return private_folder(path)
    except FileNotFoundError:
        raise UnsafeFile(f"there is no folder for {Path(path).name!r}; make it first") from None
    except FileExistsError:
        return private_folder(path)  # another process was quicker
    except OSError as error:
        raise LedgerTrouble(f"{Path(path).name!r} cannot be made ({error.strerror}); choose another place") from None
