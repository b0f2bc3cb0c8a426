"""Writing the file of one release: everybody's pairs as plain columns, sorted by id, once and for all.

It is Parquet: ``id`` and the columns of ``pairs.to_columns()``, kinds as words. Its metadata hold the schema of the
pairs and, of each row group, the first id and a hash of all its ids: one person is found by reading one group, and
groups of several files that concern the same people are known as such without reading their ids.

The log keeps two hashes of each file for ever, and a plain one could be guessed: whoever has the rest of a file finds
out who was forgotten in it by trying names. So each file holds a random salt. The hash of its content is keyed by that,
the hash of its bytes covers it, and it is deleted with the file.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from perinstance.data.private_files import private_file
from perinstance.errors import InvalidInput
from perinstance.folds.ids import read_ids, repeated_people, several_rows
from perinstance.pairs import Pairs
from perinstance.pairs.columns import ColumnPairs
from perinstance.pairs.kinds import KINDS

#: people in a row group: a person's history reads one of them per release
ROWS = 1 << 14
META = b"perinstance"
#: from this many columns on (counted steps of a training) most are constant, and packing them pays
MANY_COLUMNS = 16


@dataclass(frozen=True, slots=True)
class StoredCharge:
    """What the log keeps of a file."""

    file: str  #: its name in the folder ``charges``
    people: int
    schema: str  #: of the pairs
    content: str  #: hash of ids and columns, keyed by the file's salt
    digest: str  #: hash of the bytes of the file, the salt among them

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> StoredCharge:
        """Read what an event says of a file."""
        return cls(**{name: body[name] for name in cls.__slots__})


class SortedPairs:
    """People sorted by id, as the columns that a file gets."""

    __slots__ = ("_groups", "schema", "table")

    def __init__(self, table: pa.Table, schema: str) -> None:
        """Sort the rows of a table by id; refuse an id that occurs twice."""
        names = table.column("id")
        if len(names) > 1 and not pc.all(pc.less(names[:-1], names[1:])).as_py():
            table = table.take(pc.sort_indices(names))
            people = repeated_people(table.column("id"))
            if people:
                raise several_rows(people)
        self.table, self.schema = table.combine_chunks(), schema
        self._groups = [hashed_ids(self.table.column("id").slice(i, ROWS)) for i in range(0, len(table), ROWS)]

    @classmethod
    def of(cls, ids: Any, pairs: Pairs) -> SortedPairs:
        """Put ids beside pairs; refuse an id that is missing."""
        names = read_ids(ids).cast(pa.large_string())
        if len(names) != len(pairs):
            raise InvalidInput(f"one id per person is needed, got {len(names)} ids for {len(pairs)} people")
        if isinstance(pairs, ColumnPairs) and pairs.one_number_each:  # codes at once, without the words
            columns = {name: pa.array(values) for name, values in pairs.parameters().items()}
            columns["kind"] = _coded(pairs.codes)
        else:
            columns = {
                name: _coded(np.select([values == kind for kind in KINDS], range(len(KINDS))))
                if _is_kind(name)
                else pa.array(values)
                for name, values in pairs.to_columns().items()
            }
        return cls(pa.table({"id": names, **columns}), str(pairs.schema()))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def content(self, salt: str) -> str:
        """Hash what is charged, to whom, under a file's salt."""
        told = hmac.new(bytes.fromhex(salt), digestmod=hashlib.sha256)
        told.update(json.dumps([self.schema, self._groups]).encode())
        for name, values in plain_columns(self.table).items():
            told.update(name.encode())
            told.update(np.ascontiguousarray(values).data)
        return told.hexdigest()

    def write(self, folder: Path, tag: str) -> StoredCharge:
        """Write the file aside, synchronise it, give it a name that begins with ``tag``, synchronise the folder."""
        salt, name = secrets.token_hex(32), f"{tag}-{secrets.token_hex(8)}.parquet"
        starts = [self.table.column("id")[i].as_py() for i in range(0, len(self), ROWS)]
        meta = {"pairs": self.schema, "starts": starts, "groups": self._groups, "salt": salt}
        table = self.table.replace_schema_metadata({META: json.dumps(meta).encode()})
        names = table.column_names
        packed = [name for name in names if _is_kind(name) or (name != "id" and len(names) > MANY_COLUMNS)]
        with (
            private_file(folder / name) as file,
            pq.ParquetWriter(
                file,
                table.schema,
                compression={name: "zstd" if name == "id" or name in packed else "none" for name in names},
                use_dictionary=packed,
                write_statistics=False,
                write_page_checksum=True,
            ) as writer,
        ):
            writer.write_table(table, row_group_size=ROWS)
        synchronise_folder(folder)
        return StoredCharge(name, len(self), self.schema, self.content(salt), file_digest(folder / name))


def _is_kind(name: str) -> bool:
    return name == "kind" or name.endswith("_kind")


def _coded(codes: NDArray[Any]) -> pa.DictionaryArray:
    """Write codes of kinds as words."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8, copy=False)), pa.array(KINDS))


def plain_columns(table: pa.Table) -> dict[str, NDArray[Any]]:
    """Return all columns but the ids: numbers as they are, kinds as their codes."""
    found = {}
    for name in table.column_names:
        if name != "id":
            column = table.column(name)
            if pa.types.is_dictionary(column.type):
                whole = one_array(column)
                words, codes = whole.dictionary.to_pylist(), whole.indices.to_numpy(zero_copy_only=False)
                if words == list(KINDS):  # as ``_coded`` writes them: no table to look them up in
                    found[name] = codes.astype(np.uint8)
                else:
                    found[name] = np.array([KINDS.index(word) for word in words], dtype=np.uint8)[codes]
            else:
                found[name] = column.to_numpy()
    return found


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece, without copying what is in one piece already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def hashed_ids(column: pa.ChunkedArray) -> str:
    """Hash the lengths and the letters of some ids, however they are cut into chunks."""
    ids = one_array(column)
    _, offsets, text = ids.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[ids.offset : ids.offset + len(ids) + 1]
    told = hashlib.sha256(ends - ends[0])
    if text is not None:
        told.update(memoryview(text)[int(ends[0]) : int(ends[-1])])
    return told.hexdigest()


def file_digest(path: Path) -> str:
    """Hash the bytes of a file."""
    told = hashlib.blake2b()  # half as long to compute as SHA-256, where the processor has no instructions for it
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            told.update(part)
    return f"blake2b:{told.hexdigest()}"


def synchronise_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
