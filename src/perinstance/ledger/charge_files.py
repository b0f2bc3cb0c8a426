"""The file of one release: everybody's pairs as plain columns, sorted by id, written once and never changed.

It is Parquet: ``id`` and the columns of ``pairs.to_columns()``. Its metadata hold the schema of the pairs and the first
id of each row group, so that one person is found by reading one group.
"""

from __future__ import annotations

import bisect
import hashlib
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

from perinstance.data.checks.ids import read_ids
from perinstance.data.confidential.private_files import private_file, refuse_wider
from perinstance.errors import InvalidInput, InvalidTable, LedgerDamaged
from perinstance.ledger.byte_order import id_order
from perinstance.pairs import Pairs, from_columns
from perinstance.pairs.interface.column_pairs import ColumnPairs
from perinstance.pairs.interface.kinds import KINDS

#: people in a row group: a person's history reads one of them per release
ROWS = 1 << 16
_META = b"perinstance"


@dataclass(frozen=True, slots=True)
class StoredCharge:
    """What the log keeps of a file."""

    file: str  #: its name in the folder ``charges``
    people: int
    schema: str  #: of the pairs
    content: str  #: hash of ids and columns: the same charge, whenever and wherever it is written
    digest: str  #: hash of the bytes of the file


class SortedPairs:
    """People sorted by id, as the columns that a file gets."""

    __slots__ = ("schema", "table")

    def __init__(self, table: pa.Table, schema: str) -> None:
        self.table, self.schema = table, schema

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
            columns = {name: _column(name, values) for name, values in pairs.to_columns().items()}
        return cls.of_table(pa.table({"id": names, **columns}), str(pairs.schema()))

    @classmethod
    def of_table(cls, table: pa.Table, schema: str) -> SortedPairs:
        """Sort the rows of a table by id."""
        names = table.column("id")
        if len(names) > 1 and not pc.all(pc.less(names[:-1], names[1:])).as_py():
            table = table.take(pa.array(id_order(names.combine_chunks())))
            names = table.column("id")
            if pc.any(pc.equal(names[:-1], names[1:])).as_py():
                raise InvalidTable(
                    "an id occurs twice; a loss belongs to one person (several rows of one person: group privacy)"
                )
        return cls(table.combine_chunks(), schema)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def content(self) -> str:
        """Hash what is charged, to whom: independent of the file's bytes."""
        told = hashlib.sha256(self.schema.encode())
        for name in self.table.column_names:
            told.update(name.encode())
            for part in _hashable(self.table.column(name)):
                told.update(part)
        return told.hexdigest()

    def write(self, folder: Path) -> StoredCharge:
        """Write the file aside, synchronise it, give it its name, synchronise the folder."""
        content = self.content
        name = f"{content[:16]}-{secrets.token_hex(8)}.parquet"
        starts = [self.table.column("id")[i].as_py() for i in range(0, len(self), ROWS)]
        meta = {"pairs": self.schema, "people": len(self), "rows": ROWS, "starts": starts}
        table = self.table.replace_schema_metadata({_META: json.dumps(meta).encode()})
        kinds = [name for name in table.column_names if _is_kind(name)]
        squeezed = {name: "zstd" if name == "id" or name in kinds else "none" for name in table.column_names}
        with private_file(folder / name) as file:
            hashing = _HashingFile(file)
            with pq.ParquetWriter(hashing, table.schema, compression=squeezed, use_dictionary=kinds) as writer:
                writer.write_table(table, row_group_size=ROWS)
        synchronise_folder(folder)
        return StoredCharge(name, len(self), self.schema, content, hashing.digest)


class ChargeFile:
    """One file, opened for reading."""

    __slots__ = ("_file", "path", "schema", "starts")

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        try:
            refuse_wider(self.path)
            self._file = pq.ParquetFile(self.path, memory_map=False)
            meta = json.loads(self._file.schema_arrow.metadata[_META])
        except FileNotFoundError:
            raise LedgerDamaged(f"the file {name} of a charge is missing; restore it from a backup") from None
        except (pa.ArrowException, KeyError, TypeError, ValueError):
            raise LedgerDamaged(f"the file {name} of a charge is damaged; restore it from a backup") from None
        self.schema, self.starts = str(meta["pairs"]), list(meta["starts"])

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def nobody(self) -> pa.Table:
        """Return the columns without rows."""
        return self._file.schema_arrow.empty_table()

    def groups(self) -> Iterator[pa.Table]:
        """Read the row groups in order."""
        for i in range(self._file.num_row_groups):
            yield self._group(i)

    def person(self, identity: str) -> Pairs | None:
        """Return the pair of one person; None if they were not in the release."""
        at = bisect.bisect_right(self.starts, identity) - 1
        if at < 0:
            return None
        table = self._group(at)
        row = pc.index(table.column("id"), identity).as_py()
        return None if row < 0 else pairs_of(table.slice(row, 1), self.schema)

    def _group(self, i: int) -> pa.Table:
        try:
            return self._file.read_row_group(i)
        except (pa.ArrowException, OSError):
            raise LedgerDamaged(f"the file {self.path.name} of a charge is damaged; restore it from a backup") from None


def plain_columns(table: pa.Table) -> dict[str, np.ndarray]:
    """Return all columns but the ids."""
    return {name: _plain(table.column(name)) for name in table.column_names if name != "id"}


def pairs_of(table: pa.Table, schema: str) -> Pairs:
    """Read the pairs of some rows back."""
    return from_columns(plain_columns(table), schema)


def file_digest(path: Path) -> str:
    """Hash the bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _slowly(file)


def synchronise_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _slowly(file: IO[bytes]) -> str:
    told = hashlib.sha256()
    while part := file.read(1 << 20):
        told.update(part)
    return told.hexdigest()


class _HashingFile:
    """A file to write to that hashes what passes; nothing else of a file is asked."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._told, self.closed = file, hashlib.sha256(), False

    def write(self, part: Any) -> int:
        self._told.update(part)
        return self._file.write(part)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True

    @property
    def digest(self) -> str:
        return self._told.hexdigest()


def _is_kind(name: str) -> bool:
    return name == "kind" or name.endswith("_kind")


def _column(name: str, values: Any) -> pa.Array:
    if not _is_kind(name):
        return pa.array(values)
    codes = np.select([values == kind for kind in KINDS], range(len(KINDS))).astype(np.int8)
    return coded(codes)


def coded(codes: np.ndarray) -> pa.DictionaryArray:
    """Write codes of kinds as words."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8, copy=False)), pa.array(KINDS))


def _plain(column: pa.ChunkedArray) -> np.ndarray:
    """Return numbers as they are, and kinds as their codes."""
    if not pa.types.is_dictionary(column.type):
        return column.to_numpy()
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    words = whole.dictionary.to_pylist()
    return np.array([KINDS.index(word) for word in words], dtype=np.uint8)[whole.indices.to_numpy(zero_copy_only=False)]


def _hashable(column: pa.ChunkedArray) -> Iterator[Any]:
    """Return the bytes of a column, however it is cut into chunks."""
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_dictionary(whole.type):
        yield _plain(column)
        return
    if pa.types.is_large_string(whole.type):
        _, offsets, text = whole.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[whole.offset : whole.offset + len(whole) + 1]
        yield ends - ends[0]
        if text is not None and len(ends):
            yield memoryview(text)[int(ends[0]) : int(ends[-1])]
        return
    yield np.ascontiguousarray(whole.to_numpy(zero_copy_only=False))


def stored_charge(body: Mapping[str, Any]) -> StoredCharge:
    """Read what the log keeps of a file."""
    return StoredCharge(**{name: body[name] for name in StoredCharge.__slots__})
