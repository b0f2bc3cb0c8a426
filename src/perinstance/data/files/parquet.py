"""Parquet: one file, or a folder of files with the same columns, decoded in batches.

The footer says how many rows and columns there are; it is believed only after its own size and the number of columns
in it have been looked at, byte by byte, because reading a footer of a million columns already takes gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from perinstance.data.checks.limits import Limits
from perinstance.data.memory.column_choice import Chosen
from perinstance.data.remote_paths import RemotePath
from perinstance.errors import InvalidTable

_BUFFER = 1 << 16  # a row group is read through buffers of this size per column, not in one piece


@dataclass(frozen=True, slots=True)
class ParquetReader:
    """See ``Reader``."""

    paths: tuple[Path | RemotePath, ...]
    labels: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    n_rows: int
    first_row: int = 0
    starts_quickly: bool = True
    row_groups: tuple[int, int] | None = None  #: of the only file: the first one, and the one behind the last

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """See ``Reader``."""
        wanted = [*chosen.features, *(at for at in (chosen.target, chosen.ids) if at is not None)]
        names = [self.labels[at] for at in wanted]
        # pyarrow takes "a.b" for a path into a record, so a name with a dot would find nothing: take all then
        columns = None if any("." in name for name in names) else names
        # texts of a recipe's columns and ids are handed on as codes of their words, as the file keeps them: a long word
        # that a million rows share is in memory once, until whoever reads it has counted
        asked = (*(chosen.features if raw else ()), *(() if chosen.ids is None else (chosen.ids,)))
        texts = [self.labels[at] for at in asked if _is_text(self.types[at])]
        for path in self.paths:
            try:
                with _open(path, texts) as file:
                    groups = None if self.row_groups is None else list(range(*self.row_groups))
                    for batch in file.iter_batches(rows, groups, columns=columns, use_threads=threads > 1):
                        only = [batch.select(names)]
                        del batch  # whoever asks for it is to have the only one
                        yield only.pop()
            except (pa.ArrowException, OSError) as error:
                raise _damaged(path, error) from None

    def parts(self, rows: int) -> Iterator[ParquetReader]:
        """Yield readers of some row groups of one file each, about ``rows`` rows, which count as this one does."""
        before = self.first_row
        for path in self.paths:
            try:
                with _open(path) as file:
                    sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
            except (pa.ArrowException, OSError) as error:
                raise _damaged(path, error) from None
            first, count = 0, 0
            for k, size in enumerate(sizes):
                if k > first and count + size > rows:
                    yield replace(self, paths=(path,), n_rows=count, first_row=before, row_groups=(first, k))
                    before, first, count = before + count, k, 0
                count += size
            if count:
                yield replace(self, paths=(path,), n_rows=count, first_row=before, row_groups=(first, len(sizes)))
                before += count


def open_parquet(paths: Sequence[Path | RemotePath], limits: Limits) -> ParquetReader:
    """Read the footers, and nothing else."""
    rows = size = 0
    schema: pa.Schema | None = None
    for path in paths:
        _check_footer(path, limits)
        try:
            with _open(path) as file:
                mine, count = file.schema_arrow, file.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            raise _damaged(path, error) from None
        if schema is None:
            schema = mine
        elif not mine.equals(schema):
            raise InvalidTable(f"the files of the folder differ in their columns, at {path.name!r}; audit them apart")
        if count < 0:
            raise InvalidTable(f"{path.name!r} claims a negative number of rows; the file is damaged")
        rows, size = rows + count, size + path.stat().st_size
    assert schema is not None
    limits.check_cells(rows, len(schema), size)
    return ParquetReader(tuple(paths), unique_labels(schema.names), tuple(schema.types), rows)


def unique_labels(names: list[str]) -> tuple[str, ...]:
    """Refuse two columns of one name."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names):
        if name in seen:
            raise InvalidTable(f"columns {seen[name]} and {number} have the same name; rename one of them")
        seen[name] = number
    return tuple(names)


def _open(path: Path | RemotePath, texts: list[str] | None = None) -> pq.ParquetFile:
    file = path if isinstance(path, Path) else path.open()
    return pq.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False, memory_map=False, read_dictionary=texts)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _damaged(path: Path | RemotePath, error: Exception) -> InvalidTable:
    # The text of the error may quote a cell or a name, so only its class is told.
    return InvalidTable(f"{path.name!r} cannot be read as Parquet ({type(error).__name__}); is it complete?")


def _check_footer(path: Path | RemotePath, limits: Limits) -> None:
    """Look at the size of the footer and at the length of the schema in it, before anything parses it.

    A file ends with the length of its footer and ``PAR1``. The footer is a thrift record that begins with field 1,
    the version (an integer), and field 2, the schema (a list, whose length stands in its head).
    """
    with path.open("rb") as file:
        end = file.seek(0, 2)
        if end < 12:
            raise InvalidTable(f"{path.name!r} is too short for Parquet; is it complete?")
        file.seek(end - 8)
        length, magic = struct.unpack("<I4s", file.read(8))
        if magic == b"PARE":
            raise InvalidTable(f"{path.name!r} is encrypted; decrypt it first")
        if magic != b"PAR1" or length > end - 8:
            raise InvalidTable(f"{path.name!r} does not end as a Parquet file does; is it complete?")
        file.seek(end - 8 - length)
        head = file.read(min(length, 32))
    limits.check_columns(_schema_length(head) - 1)  # the first element is the root
    # statistics of many row groups are honest reasons for a long footer, up to a point
    limits.check_header(length)


def _schema_length(head: bytes) -> int:
    """Return the length of the schema list at the head of a footer; 0 when it is not where writers put it.

    >>> _schema_length(bytes.fromhex("1504193c0000")), _schema_length(bytes.fromhex("150219fcc1843d00"))
    (3, 1000001)
    """
    if len(head) < 6 or head[0] != 0x15:
        return 0
    at = 1
    while at < len(head) - 3 and head[at] & 0x80:  # the version
        at += 1
    if head[at + 1] != 0x19:
        return 0
    short = head[at + 2] >> 4
    if short < 15:
        return short
    value = shift = 0
    for byte in head[at + 3 :]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    return value
