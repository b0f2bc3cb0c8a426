"""People who get another id, or none: the files they are in are written anew.

The log never holds an id, so that nothing has to be struck out there: an event says which files have taken the place
of which. The old files are deleted once that event is committed.

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
from perinstance.ledger.log.charged_releases import CHARGE, ChargedRelease, delete_unlogged, logged_files, releases_of
from perinstance.ledger.log.event_log import EventLog

#: so many people are looked for one by one; for more the whole file is read
FEW = 16


def rewrite_ids(log: EventLog, folder: Path, names: Mapping[str, str]) -> int:
    """Give people other ids in all releases; return how many files were written anew."""
    texts: tuple[object, ...] = (*names, *names.values())
    if not all(isinstance(one, str) and is_unicode(one) for one in texts):
        raise InvalidInput("ids are texts, exactly as they were charged, got something else; pass {'old': 'new'}")
    if len(set(names.values())) < len(names):
        raise InvalidInput("two people cannot become one: every new id must stand for one old id")
    if "" in names.values():
        raise InvalidInput("an id must not be empty; give everyone one")
    with log.writing() as now:
        stored: dict[str, StoredCharge] = {}
        try:
            for key, release in releases_of(now.events).items():
                changed = _renamed(folder, release, names)
                if changed is not None:
                    stored[key] = changed.write(folder, now.tag)
        except BaseException:
            for written in stored.values():
                (folder / written.file).unlink(missing_ok=True)
            raise
        logged = logged_files(now.events) | {written.file for written in stored.values()}
        foreign = [path for path in folder.iterdir() if CHARGE.fullmatch(path.name) and path.name not in logged]
        gone = [path for path in foreign if _holds(folder, path.name, pa.array(list(names), type=pa.large_string()))]
        for path in gone:
            path.unlink(missing_ok=True)
        if stored:
            now.append("rewritten", "", {"stored": {key: asdict(written) for key, written in stored.items()}})
    with log.writing() as now:  # also what another rewriting, that was broken off, has left
        unlogged = delete_unlogged(folder, now)
    if not stored and not gone and not unlogged:
        raise InvalidInput("nobody of that name is in the ledger; ids are compared exactly as written")
    return len(stored)


def _renamed(folder: Path, release: ChargedRelease, names: Mapping[str, str]) -> SortedPairs | None:
    """Read one file with the new ids; None if nobody in it gets one."""
    with ChargeFile(folder, release.stored.file, release.stored.digest) as file:
        if not len(file) or (len(names) <= FEW and not any(file.row(name, {}) is not None for name in names)):
            return None
        table = pa.concat_tables(list(file.tables()))
    at = pc.index_in(table.column("id"), value_set=pa.array(list(names), type=pa.large_string()))
    if at.null_count == len(at):
        return None
    new = pa.array(list(names.values()), type=pa.large_string()).take(at.combine_chunks())
    changed = table.set_column(table.column_names.index("id"), "id", pc.coalesce(new, table.column("id")))
    return SortedPairs(changed.replace_schema_metadata(None), release.stored.schema)


def _holds(folder: Path, name: str, people: pa.Array) -> bool:
    """Tell whether somebody is in a file; one that cannot be read may hold anybody."""
    try:
        with ChargeFile(folder, name) as file:
            return any(pc.any(pc.is_in(file.ids(i), value_set=people)).as_py() for i in range(len(file)))
    except PerinstanceError:
        return True
