"""People who get another id, or none: the files they are in are written anew.

The log never holds an id, so that nothing has to be struck out there: an event says which files have taken the place
of which. The old files are deleted once that event is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from perinstance.errors import InvalidInput
from perinstance.ledger.files.charge_files import ChargeFile
from perinstance.ledger.files.sorted_pairs import SortedPairs, StoredCharge
from perinstance.ledger.log.charged_releases import ChargedRelease

#: so many people are looked for one by one; for more the whole file is read
FEW = 16


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
    file = ChargeFile(folder, release.stored.file)
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
