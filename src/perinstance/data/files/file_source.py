"""A file of columns as a source of blocks: what Parquet, CSV and Arrow have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.data.aligned_memory import pages
from perinstance.data.answer_tables import Flavour
from perinstance.data.checks.cells import NULL, as_floats, column_label, refuse_cells, refuse_types
from perinstance.data.checks.ids import read_file_ids, refuse_duplicates
from perinstance.data.checks.limits import Limits
from perinstance.data.files.prepared_source import open_prepared
from perinstance.data.files.reader import Reader, counted
from perinstance.data.memory.column_choice import Chosen, choose_columns
from perinstance.data.recipes.preparation import Preparation
from perinstance.data.source import BLOCK_BYTES, Piece, Source, rows_per_block
from perinstance.errors import InvalidTable
from perinstance.folds.block import Block


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

    def read_ids(self, column: str) -> list[str]:
        """Read one column as ids of people: exactly as written, and refused where one is missing or repeats."""
        chosen = choose_columns(self.reader.labels, None, column, ())
        row, found = self.reader.first_row, []  # type: int, list[pa.Array]
        for batch in counted(self.reader, self.limits, chosen, rows_per_block(1, BLOCK_BYTES), 1):
            found.append(read_file_ids(batch.column(0), row, self.limits).cast(pa.large_string()))
            row += batch.num_rows
        ids = pa.chunked_array(found, pa.large_string())
        refuse_duplicates(ids)
        return ids.to_pylist()

    def select_columns(
        self,
        target: Any,
        ids: Any = None,
        features: Sequence[str] | None = None,
        preparation: Preparation | None = None,
    ) -> Source:
        """Say which column is what; the types are checked here, the cells while they are read.

        Without a target (None: a mean is asked for) y is zero. A preparation reads columns of any type.
        """
        if ids is not None and not isinstance(ids, str):
            raise InvalidTable("the ids of a file are one of its columns; pass ids= the name of that column")
        chosen = choose_columns(self.reader.labels, target, ids, features)
        if not chosen.features:
            raise InvalidTable("the file has no features; at least one column besides target and ids is needed")
        if self.n_rows == 0:
            raise InvalidTable("the file has no rows; there is nobody to audit")
        named = self.reader.types is not None or target is not None or ids is not None or features is not None
        if preparation is not None:
            return open_prepared(self.reader, chosen, self.limits, preparation)
        types = self.reader.types
        if types is not None:
            check_types(self.reader, _numbers(chosen))
        return FileSource(self.reader, chosen, self.limits, named)


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file with its target and ids chosen; see ``Source``."""

    reader: Reader
    chosen: Chosen
    limits: Limits
    named: bool = True  #: whether the labels are names for certain: the first line of a CSV file may be a person
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
    def first_row(self) -> int:
        """What the file calls the row of its first person."""
        return self.reader.first_row

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
        for batch in counted(self.reader, self.limits, self.chosen, rows, threads):
            count, only = batch.num_rows, [batch]
            del batch
            if count:
                yield partial(self._block, start, only)
                start += count
        pa.default_memory_pool().release_unused()  # the decoder's memory is wanted by the passes that follow

    def _block(self, start: int, only: list[pa.RecordBatch]) -> Block:
        batch = only.pop()  # nobody else has it: it goes when it is a matrix, not when the matrix goes
        row = start + self.first_row
        self._refuse_nulls(batch, row)
        arrays = [_floats(batch.column(k), row, self._label(at)) for k, at in enumerate(_numbers(self.chosen))]
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
            ids = read_file_ids(batch.column(len(arrays)), row, self.limits)
        return Block(X, y, start, ids, whole)

    def _refuse_nulls(self, batch: pa.RecordBatch, row: int) -> None:
        found = {}
        for k, at in enumerate(_numbers(self.chosen)):
            if batch.column(k).null_count:
                first = int(pc.index(pc.is_null(batch.column(k)), True).as_py())
                found[self._label(at)] = (row + first, NULL)
        refuse_cells(found)

    def _label(self, at: int) -> str:
        return column_label(at, self.reader.labels[at] if self.named else None)


def _numbers(chosen: Chosen) -> tuple[int, ...]:
    """Return the columns that hold numbers, as they come in a batch."""
    return chosen.features if chosen.target is None else (*chosen.features, chosen.target)


def _floats(array: pa.Array, row: int, label: str) -> NDArray:
    return as_floats(array.to_numpy(zero_copy_only=False), row, label)


def check_types(reader: Reader, columns: Sequence[int]) -> None:
    """Refuse columns whose declared types are not plain numbers, all of them at once."""
    types: Any = reader.types
    labels = {at: column_label(at, reader.labels[at]) for at in columns}
    refuse_types({label: kind for at, label in labels.items() if (kind := _not_numbers(types[at]))})


def _not_numbers(kind: pa.DataType) -> str | None:
    """Say what a column holds that is not numbers."""
    t = pa.types
    if t.is_floating(kind) or t.is_integer(kind) or t.is_boolean(kind):
        return None
    if t.is_dictionary(kind):
        return "categories"
    if t.is_temporal(kind):
        return "dates or times"
    if t.is_decimal(kind):
        return "decimals"
    if t.is_string(kind) or t.is_large_string(kind) or t.is_binary(kind) or t.is_large_binary(kind):
        return "text"
    return "something that is not a number"
