"""Writing the file of one release: everybody's pairs as plain columns, sorted by id, once and for all.

It is Parquet: ``id`` and the columns of ``pairs.to_columns()``. Its metadata hold the schema of the pairs and, of each
row group, the first id and a hash of all its ids: one person is found by reading one group, and groups of several files
that concern the same people are known as such without reading their ids.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from perinstance.data.checks.ids import read_ids, repeated_people, several_rows
from perinstance.data.confidential.private_files import private_file
from perinstance.errors import InvalidInput
from perinstance.ledger.files.byte_order import id_order
from perinstance.ledger.files.kind_columns import coded, column_of, is_kind, plain
from perinstance.pairs import Pairs
from perinstance.pairs.interface.column_pairs import ColumnPairs

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
    content: str  #: hash of ids and columns, keyed by the file's salt; plain where an older file has none
    digest: str  #: hash of the bytes of the file, the salt among them


def stored_charge(body: Mapping[str, Any]) -> StoredCharge:
    """Read what the log keeps of a file."""
    return StoredCharge(**{name: body[name] for name in StoredCharge.__slots__})


class SortedPairs:
    """People sorted by id, as the columns that a file gets."""

    __slots__ = ("_groups", "schema", "table")

    def __init__(self, table: pa.Table, schema: str) -> None:
        self.table, self.schema = table, schema
        self._groups = [hashed_ids(table.column("id").slice(i, ROWS)) for i in range(0, len(table), ROWS)]

    @classmethod
    def of(cls, ids: Any, pairs: Pairs) -> SortedPairs:
        """Sort; refuse an id that is missing or occurs twice."""
        names = read_ids(ids).cast(pa.large_string())
        if len(names) != len(pairs):
            raise InvalidInput(f"one id per person is needed, got {len(names)} ids for {len(pairs)} people")
        if isinstance(pairs, ColumnPairs) and pairs.one_number_each:  # codes at once, without the words
            columns = {name: pa.array(values) for name, values in pairs.parameters().items()}
            columns["kind"] = coded(pairs.codes)
        else:
            columns = {name: column_of(name, values) for name, values in pairs.to_columns().items()}
        return cls.of_table(pa.table({"id": names, **columns}), str(pairs.schema()))

    @classmethod
    def of_table(cls, table: pa.Table, schema: str) -> SortedPairs:
        """Sort the rows of a table by id."""
        names = table.column("id")
        if len(names) > 1 and not pc.all(pc.less(names[:-1], names[1:])).as_py():
            table = table.take(pa.array(id_order(names.combine_chunks())))
            names = table.column("id")
            people = repeated_people(names)
            if people:
                raise several_rows(people)
        return cls(table.combine_chunks(), schema)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def content(self, salt: str) -> str:
        """Hash what is charged, to whom, under a file's salt; plainly where it has none."""
        told = hmac.new(bytes.fromhex(salt), digestmod=hashlib.sha256) if salt else hashlib.sha256()
        told.update(json.dumps([self.schema, self._groups]).encode())
        for name in self.table.column_names:
            if name != "id":
                told.update(name.encode())
                told.update(np.ascontiguousarray(plain(self.table.column(name))).data)
        return told.hexdigest()

    def write(self, folder: Path, tag: str) -> StoredCharge:
        """Write the file aside, synchronise it, give it a name that begins with ``tag``, synchronise the folder."""
        salt = secrets.token_hex(32)
        content = self.content(salt)
        name = f"{tag}-{secrets.token_hex(8)}.parquet"
        starts = [self.table.column("id")[i].as_py() for i in range(0, len(self), ROWS)]
        meta = {"pairs": self.schema, "people": len(self), "rows": ROWS, "starts": starts, "groups": self._groups}
        meta["salt"] = salt
        table = self.table.replace_schema_metadata({META: json.dumps(meta).encode()})
        names = table.column_names
        packed = [name for name in names if is_kind(name) or (name != "id" and len(names) > MANY_COLUMNS)]
        squeezed = {name: "zstd" if name == "id" or name in packed else "none" for name in names}
        with private_file(folder / name) as file:
            hashing = _HashingFile(file)
            with pq.ParquetWriter(
                hashing,
                table.schema,
                compression=squeezed,
                use_dictionary=packed,
                write_statistics=False,
                write_page_checksum=True,
            ) as writer:
                writer.write_table(table, row_group_size=ROWS)
        synchronise_folder(folder)
        return StoredCharge(name, len(self), self.schema, content, hashing.digest)


def hashed_ids(ids: pa.ChunkedArray) -> str:
    """Hash some ids, however they are cut into chunks."""
    told = hashlib.sha256()
    for part in _id_bytes(ids.combine_chunks() if ids.num_chunks != 1 else ids.chunk(0)):
        told.update(part)
    return told.hexdigest()


def _id_bytes(ids: pa.LargeStringArray) -> Iterator[Any]:
    _, offsets, text = ids.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[ids.offset : ids.offset + len(ids) + 1]
    yield ends - ends[0]
    if text is not None:
        yield memoryview(text)[int(ends[0]) : int(ends[-1])]


def synchronise_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _HashingFile:
    """A file to write to that hashes what passes; nothing else of a file is asked."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._told, self.closed = file, hashlib.blake2b(), False

    def write(self, part: Any) -> int:
        self._told.update(part)
        return self._file.write(part)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True

    @property
    def digest(self) -> str:  # half as long to compute as SHA-256, where the processor has no instructions for it
        return f"blake2b:{self._told.hexdigest()}"
