"""Parquet, Arrow files (IPC, Feather) and Arrow datasets of any format, decoded in batches.

Parquet is one file, a folder of files with the same columns, or files behind a URL (by fsspec). What the footer claims
(columns, rows, bytes of each column unpacked) is compared with the limits before decoding. A record batch of an Arrow
file may be compressed and is unpacked in one piece; how many rows there are, the headers say before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from perinstance.data.checks.cells import unique_labels
from perinstance.data.files.reader import Limits, Reader, damaged
from perinstance.data.source import Chosen
from perinstance.errors import InvalidTable, TooLarge
from perinstance.folds.ids import is_text

_BUFFER = 1 << 16  # bytes: a row group is read through buffers of this size per column, not in one piece
_LEAST_LIST = 100_000  # elements of a list in a footer (columns, row groups) that are read, to be counted
_COUNTED = ("parquet", "arrow", "feather")  # formats of a dataset that know how many rows they have


@dataclass(frozen=True, slots=True)
class RemotePath:
    """One file of a file system that fsspec knows, as much of ``Path`` as is needed; workers of a cluster open it."""

    files: Any  #: the file system
    place: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.place.rstrip("/").rpartition("/")[2]

    def open(self, mode: str = "rb") -> Any:
        """Open the file."""
        return self.files.open(self.place, mode)

    def stat(self) -> SimpleNamespace:
        """Return the size, under the name that ``os.stat`` gives it."""
        return SimpleNamespace(st_size=int(self.files.size(self.place)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetReader(Reader):
    """One file, or several with the same columns."""

    paths: tuple[Path | RemotePath, ...]
    row_groups: tuple[int, int] | None = None  #: of the only file: the first one, and the one behind the last

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """See ``Reader``."""
        names = [self.labels[at] for at in chosen.wanted]
        # pyarrow takes "a.b" for a path into a record, so a name with a dot would find nothing: take all then
        columns = None if any("." in name for name in names) else names
        # texts of a recipe's columns and ids are handed on as codes of their words, as the file keeps them: a long word
        # that a million rows share is in memory once, until whoever reads it has counted
        asked = (*(chosen.features if raw else ()), *(() if chosen.ids is None else (chosen.ids,)))
        texts = [self.labels[at] for at in asked if self.types and is_text(self.types[at])]
        for path in self.paths:
            with _open(path, self.limits, texts) as file:
                groups = range(file.num_row_groups) if self.row_groups is None else range(*self.row_groups)
                self._refuse_long_texts(file.metadata, groups, texts, rows)
                for batch in file.iter_batches(rows, list(groups), columns=columns, use_threads=threads > 1):
                    only = [batch.select(names)]
                    del batch  # whoever asks for it is to have the only one
                    yield only.pop()

    def _refuse_long_texts(self, footer: Any, groups: range, texts: list[str], rows: int) -> None:
        """Refuse texts of which one batch would hold more than the limit, as the footer tells."""
        for group in (footer.row_group(k) for k in groups if texts):
            share = min(1.0, rows / max(group.num_rows, 1))
            for column in (group.column(k) for k in range(group.num_columns)):
                if column.path_in_schema in texts:
                    self.limits.check_text(int(share * column.total_uncompressed_size))

    def parts(self, rows: int) -> Iterator[ParquetReader]:
        """Yield readers of some row groups of one file each, about ``rows`` rows, which count as this one does."""
        before = self.first_row
        for path in self.paths:
            with _open(path, self.limits) as file:
                sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
            first, count = 0, 0
            for k, size in enumerate([*sizes, 0]):
                if count and (k == len(sizes) or count + size > rows):
                    yield replace(self, paths=(path,), n_rows=count, first_row=before, row_groups=(first, k))
                    before, first, count = before + count, k, 0
                count += size


def open_parquet(paths: Sequence[Path | RemotePath], limits: Limits) -> ParquetReader:
    """Read the footers, and nothing else."""
    rows = size = 0
    schema: pa.Schema | None = None
    for path in paths:
        with path.open("rb") as file:  # it ends with the length of its footer and ``PAR1``: before anything parses it
            end = file.seek(0, 2)
            file.seek(max(0, end - 8))
            tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] == b"PARE":
            raise InvalidTable(f"{path.name!r} is encrypted; decrypt it first")
        if tail[4:] != b"PAR1" or length > end - 12:
            raise InvalidTable(f"{path.name!r} does not end as a Parquet file does; is it complete?")
        limits.check_header(length)  # statistics of many row groups are honest reasons for a long one, up to a point
        with _open(path, limits) as parquet:
            limits.check_columns(len(parquet.schema))
            mine, count = parquet.schema_arrow, parquet.metadata.num_rows
        if schema is None:
            schema = mine
        elif not mine.equals(schema):
            raise InvalidTable(f"the files of the folder differ in their columns, at {path.name!r}; audit them apart")
        if count < 0:
            raise InvalidTable(f"{path.name!r} claims a negative number of rows; the file is damaged")
        rows, size = rows + count, size + path.stat().st_size
    assert schema is not None
    limits.check_cells(rows, len(schema), size)
    labels, types = unique_labels(schema.names), tuple(schema.types)
    return ParquetReader(labels=labels, types=types, n_rows=rows, stored=size, paths=tuple(paths), limits=limits)


@contextmanager
def _open(path: Path | RemotePath, limits: Limits, texts: list[str] | None = None) -> Iterator[pq.ParquetFile]:
    most = max(10 * limits.columns, _LEAST_LIST)
    try:
        with pq.ParquetFile(
            path if isinstance(path, Path) else path.open(),
            buffer_size=_BUFFER,
            pre_buffer=False,
            read_dictionary=texts,
            thrift_string_size_limit=max(limits.header_bytes, 1),
            thrift_container_size_limit=most,
        ) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        if "size limit" in str(error):
            raise TooLarge(f"the footer lists more than {most} columns or row groups") from None
        raise damaged(path.name, error) from None


def parquet_below(place: str, found: Sequence[str]) -> list[str]:
    """Return the data files among those ``found`` below a folder, in order; hidden and marker files are no data."""
    shown = [one for one in found if not any(part.startswith((".", "_")) for part in one[len(place) :].split("/"))]
    return sorted(one for one in shown if one.endswith(".parquet"))


def remote_parquet(url: str) -> tuple[RemotePath, ...]:
    """Return the Parquet file at a URL, or all of them below a folder, in the order of their names."""
    try:
        import fsspec
    except ImportError:
        raise InvalidTable("files behind a URL are read by fsspec; pip install 'perinstance[dask]'") from None
    try:
        files, place = fsspec.core.url_to_fs(url)
        found = [place] if files.isfile(place) else parquet_below(place, files.find(place))
    except Exception as error:  # whatever a storage provider raises; its words may hold a key
        raise InvalidTable(
            f"the URL cannot be opened ({type(error).__name__}); check it and your credentials"
        ) from None
    if not found:
        raise InvalidTable("there is no Parquet file at this URL; name a file, or a folder of .parquet files")
    return tuple(RemotePath(files, one) for one in found)


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
    return DatasetReader(
        labels=labels, types=tuple(schema.types), n_rows=rows, stored=size, limits=limits, dataset=dataset
    )


def _has_width(kind: pa.DataType) -> bool:
    try:
        return kind.bit_width > 0
    except ValueError:
        return False
