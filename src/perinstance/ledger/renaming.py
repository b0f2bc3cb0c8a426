"""People who get another id, or none: the files they are in are written anew.

The log never holds an id, so that nothing has to be struck out there: an event says which files have taken the place
of which. The old files are deleted once that event is committed, and running sums with their drafts: one that is being
written has opened old files, and is there before they are gone.

A charge that was broken off has left a file that no event names, whole or half-written. Whole ones with somebody who
gets another id are deleted under the lock of the log; half-written ones, of which nobody can tell who is in them, when
they are old, and all of them when somebody is forgotten. If their writer is at work after all, it finds its file gone
before its charge can count, and is told to charge again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from perinstance.errors import InvalidInput, LedgerConflict, PerinstanceError
from perinstance.ledger.files.charge_files import ChargeFile
from perinstance.ledger.files.sorted_pairs import MEANWHILE, SortedPairs, StoredCharge, synchronise_folder
from perinstance.ledger.log.charged_releases import ChargedRelease, logged_files, releases_of, superseded_files
from perinstance.ledger.log.event_log import Event, EventLog
from perinstance.ledger.totals.sealed_sums import delete_old_drafts, delete_sums

#: so many people are looked for one by one; for more the whole file is read
FEW = 16
#: the names that files of charges get, and their drafts
CHARGE, CHARGE_DRAFTS = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}\.parquet"), ".*.part"


def rewritten(
    folder: Path, releases: Mapping[str, ChargedRelease], names: Mapping[str, str]
) -> dict[str, StoredCharge]:
    """Write anew the files of the releases in which somebody gets another id; return them by key."""
    if len(set(names.values())) < len(names):
        raise InvalidInput("two people cannot become one: every new id must stand for one old id")
    found: dict[str, StoredCharge] = {}
    old = pa.array(list(names), type=pa.large_string())
    new = pa.array(list(names.values()), type=pa.large_string())
    if pc.any(pc.equal(pc.binary_length(new), 0)).as_py():
        raise InvalidInput("an id must not be empty; give everyone one")
    try:
        for key, release in releases.items():
            changed = _renamed(folder, release, names, old, new)
            if changed is not None:
                found[key] = changed.write(folder)
    except BaseException:
        for stored in found.values():
            (folder / stored.file).unlink(missing_ok=True)
        raise
    return found


def _renamed(
    folder: Path, release: ChargedRelease, names: Mapping[str, str], old: pa.Array, new: pa.Array
) -> SortedPairs | None:
    """Read one file with the new ids; None if nobody in it gets one."""
    file = ChargeFile(folder, release.stored.file, release.stored.digest)
    try:
        if not len(file) or (len(names) <= FEW and not any(file.row(name, {}) is not None for name in names)):
            return None
        table = pa.concat_tables(list(file.tables()))
    finally:
        file.close()
    ids = table.column("id")
    at = pc.index_in(ids, value_set=old)
    if at.null_count == len(at):
        return None
    ids = pc.coalesce(new.take(at.combine_chunks()), ids)
    at_id = table.schema.get_field_index("id")
    changed = table.set_column(at_id, "id", ids).replace_schema_metadata(None)
    return SortedPairs.of_table(changed, release.stored.schema)


class _NobodyError(Exception):
    """Nobody of these names is in a release: no event is written."""


def rewrite_ids(log: EventLog, root: Path, folder: Path, names: dict[str, str], *, forget: bool = False) -> int:
    """Give people other ids in all releases; return how many files were written anew."""
    events = log.events()
    stored = rewritten(folder, releases_of(events), names)
    own = {file.file for file in stored.values()}
    gone: list[str] = []

    def allowed(now: list[Event]) -> None:
        if stored and (len(now) != len(events) or not all((folder / name).exists() for name in own)):
            raise LedgerConflict(MEANWHILE)
        gone.extend(_delete_broken_off(folder, logged_files(now) | own, names))
        if not stored:
            raise _NobodyError

    try:
        log.append("rewritten", "", {"stored": {key: asdict(file) for key, file in stored.items()}}, allowed)
    except LedgerConflict:
        for name in own:
            (folder / name).unlink(missing_ok=True)
        raise
    except _NobodyError:
        pass
    _delete_old(log, root, folder, forget)  # also should these people's rewriting have been broken off
    if not stored and not gone:
        raise InvalidInput("nobody of that name is in the ledger; ids are compared exactly as written")
    return len(stored)


def _delete_broken_off(folder: Path, logged: set[str], names: Mapping[str, str]) -> list[str]:
    """Delete the files that no event names with one of these people in them; return their names."""
    people = pa.array(list(names), type=pa.large_string())
    found = [path.name for path in folder.iterdir() if CHARGE.fullmatch(path.name) and path.name not in logged]
    gone = [name for name in sorted(found) if _holds(folder, name, people)]
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    if gone:
        synchronise_folder(folder)
    return gone


def _holds(folder: Path, name: str, people: pa.Array) -> bool:
    """Tell whether somebody is in a file; of one that cannot be read nobody knows."""
    try:
        file = ChargeFile(folder, name)
        try:
            return any(pc.any(pc.is_in(file.ids(i), value_set=people)).as_py() for i in range(len(file)))
        finally:
            file.close()
    except PerinstanceError:
        return True


def _delete_old(log: EventLog, root: Path, folder: Path, forget: bool) -> None:
    """Delete what still holds the old ids."""
    delete_sums(root)
    delete_superseded(log, folder)
    delete_sums(root)  # again: what was made of those files until they were gone
    if forget:
        for draft in folder.glob(CHARGE_DRAFTS):
            draft.unlink(missing_ok=True)
    delete_old_drafts(folder, CHARGE_DRAFTS)


def delete_superseded(log: EventLog, folder: Path) -> None:
    """Delete the files that others have taken the place of, should they still be there."""
    gone = False
    for name in superseded_files(log.events()):
        with suppress(FileNotFoundError):
            (folder / name).unlink()
            gone = True
    if gone:
        synchronise_folder(folder)
