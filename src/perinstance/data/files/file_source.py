"""A file of columns as a source of blocks: what Parquet, CSV and Arrow have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.data.aligned_memory import pages
from perinstance.data.answer_tables import Flavour
from perinstance.data.checks.cells import as_floats, column_label, refuse_null, refuse_type
from perinstance.data.checks.ids import read_ids
from perinstance.data.checks.limits import Limits
from perinstance.data.memory.column_choice import Chosen, choose_columns
from perinstance.data.source import BLOCK_BYTES, Piece, rows_per_block
from perinstance.errors import InvalidTable, TooLarge
from perinstance.folds.block import Block


class Reader(Protocol):
    """One file format: names, types and batches of chosen columns."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of all columns."""

    @property
    def types(self) -> tuple[pa.DataType, ...] | None:
        """Types of all columns; None where the format has none (CSV), and numbers are parsed strictly."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, when the file says so."""

    def batches(self, chosen: Chosen, rows: int, threads: int) -> Iterator[pa.RecordBatch]:
        """Yield the features, then the target, then the ids (if chosen), at most ``rows`` rows at a time."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What ``scan`` returns: a file whose header has been read and found harmless. Nothing else has been read."""

    reader: Reader
    limits: Limits

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.reader.labels

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None when only reading to the end tells."""
        return self.reader.n_rows

    def select_columns(self, target: Any, ids: Any = None, features: Sequence[str] | None = None) -> FileSource:
        """Say which column is what; the types are checked here, the cells while they are read.

        Without a target (None: a mean is asked for) y is zero.
        """
        if ids is not None and not isinstance(ids, str):
            raise InvalidTable("the ids of a file are one of its columns; pass ids= the name of that column")
        chosen = choose_columns(self.reader.labels, target, ids, features)
        if not chosen.features:
            raise InvalidTable("the file has no features; at least one column besides target and ids is needed")
        if self.n_rows == 0:
            raise InvalidTable("the file has no rows; there is nobody to audit")
        types = self.reader.types
        if types is not None:
            for at in _numbers(chosen):
                check_type(types[at], column_label(at, self.reader.labels[at]))
        return FileSource(self.reader, chosen, self.limits)


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file with its target and ids chosen; see ``Source``."""

    reader: Reader
    chosen: Chosen
    limits: Limits
    flavour: Flavour = field(default_factory=lambda: Flavour("pyarrow"))
    rereadable: bool = False
    ids: pa.ChunkedArray | None = None  # they come with the blocks

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the features."""
        return tuple(self.reader.labels[at] for at in self.chosen.features)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the features in the file."""
        return self.chosen.features

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.chosen.features)

    @property
    def n_rows(self) -> int | None:
        """Number of rows, when the file says so."""
        return self.reader.n_rows

    @property
    def has_ids(self) -> bool:
        """Whether a column of ids was chosen."""
        return self.chosen.ids is not None

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """See ``Source``."""
        start = 0
        rows = rows_per_block(self.n_features, block_bytes or BLOCK_BYTES)
        for batch in self.reader.batches(self.chosen, rows, threads):
            count, only = batch.num_rows, [batch]
            del batch
            if count:
                yield partial(self._block, start, only)
                start += count
        pa.default_memory_pool().release_unused()  # the decoder's memory is wanted by the passes that follow

    def _block(self, start: int, only: list[pa.RecordBatch]) -> Block:
        batch = only.pop()  # nobody else has it: it goes when it is a matrix, not when the matrix goes
        arrays = [_floats(batch.column(k), start, self._label(at)) for k, at in enumerate(_numbers(self.chosen))]
        features = arrays[: self.n_features]
        kind = np.dtype(np.float32 if all(array.dtype == np.float32 for array in features) else np.float64)
        n = batch.num_rows
        middle = n * len(features) * kind.itemsize
        whole = pages(middle + 8 * n)
        X = whole[:middle].view(kind).reshape((n, len(features)), order="F")
        for at, array in enumerate(features):
            X[:, at] = array
        y = whole[middle : middle + 8 * n].view(np.float64)
        y[:] = 0.0 if self.chosen.target is None else arrays[-1]
        ids = None
        if self.chosen.ids is not None:
            column = batch.column(len(arrays))
            if column.nbytes > self.limits.text_bytes:
                raise TooLarge(f"the ids from row {start} on take {column.nbytes} bytes; an id is a short text")
            ids = read_ids(column, start)
        return Block(X, y, start, ids, whole)

    def _label(self, at: int) -> str:
        # The header of a CSV file may be a row of cells, when it was forgotten: only its number is ever named.
        return column_label(at, self.reader.labels[at] if self.reader.types is not None else None)


def _numbers(chosen: Chosen) -> tuple[int, ...]:
    """Return the columns that hold numbers, as they come in a batch."""
    return chosen.features if chosen.target is None else (*chosen.features, chosen.target)


def _floats(array: pa.Array, start: int, label: str) -> NDArray:
    if array.null_count:
        refuse_null(label, start + int(pc.index(pc.is_null(array), True).as_py()))
    return as_floats(array.to_numpy(zero_copy_only=False), start, label)


def check_type(kind: pa.DataType, label: str) -> None:
    """Refuse arrow types that are not plain numbers."""
    t = pa.types
    if t.is_floating(kind) or t.is_integer(kind) or t.is_boolean(kind):
        return
    if t.is_dictionary(kind):
        refuse_type(label, "categories")
    if t.is_temporal(kind):
        refuse_type(label, "dates or times")
    if t.is_decimal(kind):
        refuse_type(label, "decimals")
    if t.is_string(kind) or t.is_large_string(kind) or t.is_binary(kind) or t.is_large_binary(kind):
        refuse_type(label, "text")
    refuse_type(label, "something that is not a number")
