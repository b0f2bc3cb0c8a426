"""Arrow files (IPC, Feather) and Arrow datasets.

A record batch may be compressed, and says how many rows it has only in its own header; the headers are read first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from perinstance.data.checks.limits import Limits
from perinstance.data.files.parquet import unique_labels
from perinstance.data.memory.column_choice import Chosen
from perinstance.errors import InvalidTable

_MAGIC = b"ARROW1"


@dataclass(frozen=True, slots=True)
class ArrowReader:
    """See ``Reader``."""

    path: Path
    labels: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    n_rows: int
    first_row: int = 0
    starts_quickly: bool = False  #: a batch may be the whole file

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """See ``Reader``."""
        wanted = _wanted(chosen)
        try:
            # only the chosen columns are unpacked; the option wants them sorted
            options = pa.ipc.IpcReadOptions(included_fields=sorted(wanted), use_threads=threads > 1)
            with pa.memory_map(str(self.path)) as file, _open(file, options) as reader:
                for k in range(reader.num_record_batches):
                    batch = reader.get_batch(k)
                    batch.validate(full=True)
                    batch = batch.select([self.labels[at] for at in wanted])
                    for start in range(0, batch.num_rows, rows):
                        yield batch.slice(start, rows)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(error) from None


@dataclass(frozen=True, slots=True)
class DatasetReader:
    """See ``Reader``; for a ``pyarrow.dataset.Dataset`` of any format."""

    dataset: Any
    labels: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    n_rows: int | None
    first_row: int = 0
    starts_quickly: bool = False

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """See ``Reader``."""
        names = [self.labels[at] for at in _wanted(chosen)]
        try:
            for batch in self.dataset.to_batches(
                columns=names, batch_size=rows, batch_readahead=2, fragment_readahead=1, use_threads=threads > 1
            ):
                yield batch.select(names)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(error) from None


def open_arrow(path: Path, limits: Limits) -> ArrowReader:
    """Read the schema and the headers of the batches, and nothing else."""
    size = path.stat().st_size
    try:
        with pa.memory_map(str(path)) as file:
            head = file.read_buffer(16).to_pybytes()
            if len(head) < 16:
                raise InvalidTable(f"{path.name!r} is too short for Arrow; is it complete?")
            marker, length = struct.unpack("<II", head[8:16])
            limits.check_header(length if marker == 0xFFFFFFFF else marker)
            with _open(file) as reader:
                schema, count = reader.schema, reader.num_record_batches
            limits.check_columns(len(schema))
            file.seek(8)
            rows = sum(_batch_rows(file, count))
    except (pa.ArrowException, OSError, struct.error, IndexError) as error:
        raise _damaged(error) from None
    limits.check_cells(rows, len(schema), size)
    return ArrowReader(path, unique_labels(schema.names), tuple(schema.types), rows)


def open_dataset(dataset: Any, limits: Limits) -> DatasetReader:
    """Look at the schema; a dataset of Parquet also says how many rows it has, without reading them."""
    schema = dataset.schema
    limits.check_columns(len(schema))
    labels = unique_labels(schema.names)
    rows = None
    if getattr(getattr(dataset, "format", None), "default_extname", "") in ("parquet", "arrow", "feather"):
        size = sum(Path(one).stat().st_size for one in dataset.files if Path(one).is_file())
        try:
            rows = dataset.count_rows()
        except (pa.ArrowException, OSError) as error:
            raise _damaged(error) from None
        limits.check_cells(rows, len(schema), size or 8 * rows * len(schema))
    return DatasetReader(dataset, labels, tuple(schema.types), rows)


def _wanted(chosen: Chosen) -> list[int]:
    return [*chosen.features, *(at for at in (chosen.target, chosen.ids) if at is not None)]


def _open(file: Any, options: pa.ipc.IpcReadOptions | None = None) -> pa.ipc.RecordBatchFileReader:
    return pa.ipc.open_file(file, options=options)


def _damaged(error: Exception) -> InvalidTable:
    # The text of the error may quote a cell or a name, so only its class is told.
    return InvalidTable(f"the Arrow data cannot be read ({type(error).__name__}); is the file complete?")


def _batch_rows(file: Any, count: int) -> Iterator[int]:
    """Yield the number of rows of each record batch, from the messages' headers (nothing is unpacked)."""
    found = 0
    for message in pa.ipc.MessageReader.open_stream(file):
        if message.type == "record batch":
            yield _rows_of(message.metadata.to_pybytes())
            found += 1
            if found == count:
                return


def _rows_of(metadata: bytes) -> int:
    """Read ``Message.header.length`` out of a flatbuffer: root table, field 2 (header), there field 0 (length)."""
    root = struct.unpack_from("<I", metadata, 0)[0]
    header = _field(metadata, root, 2)
    if not header:
        raise IndexError
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    length = _field(metadata, batch, 0)
    rows = struct.unpack_from("<q", metadata, length)[0] if length else 0
    if rows < 0:
        raise IndexError
    return int(rows)


def _field(data: bytes, table: int, number: int) -> int:
    """Position of a field of a flatbuffer table; 0 when it is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    slot = 4 + 2 * number
    offset = struct.unpack_from("<H", data, vtable + slot)[0] if slot + 2 <= size else 0
    return table + offset if offset else 0
