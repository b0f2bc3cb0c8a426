"""People who get another id, or none: the files they are in are written anew.

The log never holds an id, so that nothing has to be struck out there: an event says which files have taken the place
of which. The old files are deleted once that event is committed, and running sums with their drafts: one that is being
written has opened old files, and is there before they are gone.

A file that this log has never named, and that was not written by it (of another ledger, or of a log that was restored
from a backup), is deleted if somebody who gets another id is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from perinstance.checked_numbers import is_unicode
from perinstance.errors import InvalidInput, PerinstanceError
from perinstance.ledger.files.charge_files import ChargeFile
from perinstance.ledger.files.sorted_pairs import SortedPairs, StoredCharge
from perinstance.ledger.log.charged_releases import ChargedRelease, logged_files, releases_of
from perinstance.ledger.log.event_log import EventLog
from perinstance.ledger.log.unlogged_files import CHARGE, delete_unlogged
from perinstance.ledger.totals.sealed_sums import delete_sums

#: so many people are looked for one by one; for more the whole file is read
FEW = 16


def rewritten(
    folder: Path, releases: Mapping[str, ChargedRelease], names: Mapping[str, str], tag: str
) -> dict[str, StoredCharge]:
    """Write anew the files of the releases in which somebody gets another id; return them by key."""
    texts = (*names, *names.values())
    if not all(isinstance(one, str) and is_unicode(one) for one in texts):
        raise InvalidInput("ids are texts, exactly as they were charged, got something else; pass {'old': 'new'}")
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
                found[key] = changed.write(folder, tag)
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


def rewrite_ids(log: EventLog, root: Path, folder: Path, names: dict[str, str]) -> int:
    """Give people other ids in all releases; return how many files were written anew."""
    with log.writing() as now:
        stored = rewritten(folder, releases_of(now.events), names, now.tag)
        gone = _delete_foreign(folder, logged_files(now.events) | {file.file for file in stored.values()}, names)
        if stored:
            now.append("rewritten", "", {"stored": {key: asdict(file) for key, file in stored.items()}})
    delete_sums(root)
    with log.writing() as now:  # also what another rewriting, that was broken off, has left
        gone += delete_unlogged(folder, now)
    delete_sums(root)  # again: what was made of those files until they were gone
    if not stored and not gone:
        raise InvalidInput("nobody of that name is in the ledger; ids are compared exactly as written")
    return len(stored)


def _delete_foreign(folder: Path, logged: set[str], names: Mapping[str, str]) -> list[str]:
    """Delete the files of charges that this log does not know with one of these people in them; return their names."""
    people = pa.array(list(names), type=pa.large_string())
    found = [path.name for path in folder.iterdir() if CHARGE.fullmatch(path.name) and path.name not in logged]
    gone = [name for name in sorted(found) if _holds(folder, name, people)]
    for name in gone:
        (folder / name).unlink(missing_ok=True)
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
