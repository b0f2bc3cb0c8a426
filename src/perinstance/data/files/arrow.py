"""Arrow files (IPC, Feather) and Arrow datasets of any format.

A record batch may be compressed and is unpacked in one piece; how many rows there are, the headers say before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from perinstance.data.checks.cells import unique_labels
from perinstance.data.checks.limits import Limits
from perinstance.data.files.reader import Reader, damaged
from perinstance.data.source import Chosen
from perinstance.errors import InvalidTable

_COUNTED = ("parquet", "arrow", "feather")  # formats of a dataset that know how many rows they have


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetReader(Reader):
    """A ``pyarrow.dataset.Dataset``, or an Arrow file."""

    dataset: Any
    path: Path | None = None  #: of an Arrow file
    starts_quickly: bool = False  #: a batch may be the whole file

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """See ``Reader``."""
        names = [self.labels[at] for at in chosen.wanted]
        try:
            for batch in self._batches(chosen, names, rows, threads > 1):
                batch.validate(full=True)
                yield batch.select(names)
        except (pa.ArrowException, OSError) as error:
            raise damaged("the Arrow data", error) from None

    def _batches(self, chosen: Chosen, names: list[str], rows: int, use_threads: bool) -> Iterator[pa.RecordBatch]:
        if self.path is None:
            ahead = {"batch_readahead": 1, "fragment_readahead": 1}
            yield from self.dataset.to_batches(columns=names, batch_size=rows, use_threads=use_threads, **ahead)
            return
        # not as a dataset: its threads read on after an error, and a mapping that ends under them ends the process
        options = pa.ipc.IpcReadOptions(included_fields=sorted(chosen.wanted), use_threads=use_threads)
        with pa.memory_map(str(self.path)) as mapped, pa.ipc.open_file(mapped, options=options) as file:
            for k in range(file.num_record_batches):
                batch = file.get_batch(k)
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)


def open_arrow(path: Path, limits: Limits) -> DatasetReader:
    """Read the schema and the headers of the batches, and nothing else."""
    from pyarrow import dataset, fs

    with path.open("rb") as file:
        head = file.read(16)
    if len(head) < 16:
        raise InvalidTable(f"{path.name!r} is too short for Arrow; is it complete?")
    # the size of the schema stands behind the magic and, since version 0.15, four bytes 255
    limits.check_header(int.from_bytes(head[12:] if head[8:12] == b"\xff" * 4 else head[8:12], "little"))
    try:
        found = dataset.dataset(str(path.absolute()), format="ipc", filesystem=fs.LocalFileSystem(use_mmap=True))
    except (pa.ArrowException, OSError) as error:
        raise damaged(path.name, error) from None
    reader = replace(open_dataset(found, limits), path=path)
    widths = [kind.bit_width for kind in reader.types or () if _has_width(kind)]
    limits.check_expansion((reader.n_rows or 0) * sum(widths) // 8, reader.stored, limits.text_bytes)
    return reader


def open_dataset(dataset: Any, limits: Limits) -> DatasetReader:
    """Look at the schema; some formats also say how many rows they have, without reading them."""
    schema, rows = dataset.schema, None
    limits.check_columns(len(schema))
    labels = unique_labels(schema.names)
    size = sum(Path(one).stat().st_size for one in getattr(dataset, "files", ()) if Path(one).is_file())
    if getattr(getattr(dataset, "format", None), "default_extname", "") in _COUNTED:
        try:
            rows = dataset.count_rows()
        except (pa.ArrowException, OSError) as error:
            raise damaged("the Arrow data", error) from None
        if rows < 0:
            raise InvalidTable("the Arrow data claims a negative number of rows; it is damaged")
        limits.check_cells(rows, len(schema), size or 8 * rows * len(schema))
    return DatasetReader(labels=labels, types=tuple(schema.types), n_rows=rows, stored=size, dataset=dataset)


def _has_width(kind: pa.DataType) -> bool:
    try:
        return kind.bit_width > 0
    except ValueError:
        return False
