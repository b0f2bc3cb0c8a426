"""A file of columns as a source of blocks, whatever its format; raw columns go through a recipe, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.data.answer_tables import Flavour
from perinstance.data.checks.cells import NULL, as_floats, column_label, refuse_cells, refuse_types
from perinstance.data.checks.ids import read_file_ids, refuse_duplicates
from perinstance.data.checks.limits import Limits
from perinstance.data.files.reader import Reader, counted
from perinstance.data.memory.column_choice import Chosen, choose_columns
from perinstance.data.recipes.preparation import EXAMPLE_ROWS, Preparation, PreparedRows
from perinstance.data.recipes.recipe import Recipe
from perinstance.data.source import BLOCK_BYTES, Piece, Source, rows_per_block
from perinstance.errors import InvalidTable
from perinstance.folds.block import Block
from perinstance.numerics.array_types import Floats


@dataclass(frozen=True, slots=True)
class Scan:
    """What ``scan`` returns: a file whose header has been read and found harmless. Nothing else has been read."""

    reader: Reader
    limits: Limits

    @property
    def columns(self) -> tuple[Any, ...]:
        """Names of the columns; their numbers in a ``.npy`` file."""
        return self.reader.labels

    @property
    def unnamed(self) -> bool:
        """Whether columns are called by number."""
        return any(isinstance(label, int) for label in self.reader.labels)

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None when only reading to the end tells."""
        return self.reader.n_rows

    def read_ids(self, column: str) -> list[str]:
        """Read one column as ids of people: exactly as written, and refused where one is missing or repeats."""
        self._refuse_numbered(column)
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
        features: Sequence[Any] | None = None,
        preparation: Preparation | None = None,
    ) -> Source:
        """Say which column is what; the types are checked here, the cells while they are read.

        Without a target (None: a mean is asked for) y is zero. A preparation reads columns of any type.
        """
        self._refuse_numbered(ids, preparation)
        if ids is not None and not isinstance(ids, str):
            raise InvalidTable("the ids of a file are one of its columns; pass ids= the name of that column")
        chosen = choose_columns(self.reader.labels, target, ids, features)
        if not chosen.features:
            raise InvalidTable("the file has no features; at least one column besides target and ids is needed")
        if self.n_rows == 0:
            raise InvalidTable("the file has no rows; there is nobody to audit")
        if preparation is not None:
            return _prepared(self, chosen, preparation)
        check_types(self.reader, chosen.numbers)
        named = self.reader.types is not None or target is not None or ids is not None or features is not None
        return FileSource(self.reader, chosen, self.limits, named)

    def _refuse_numbered(self, ids: Any, preparation: Any = None) -> None:
        if self.unnamed and ids is not None:
            raise InvalidTable("a matrix of numbers has no ids; leave ids= away, rows are numbered from 0")
        if self.unnamed and preparation is not None:
            raise InvalidTable("a .npy file has no names for a recipe; load it and pass the matrix, or use Parquet")


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file with its target and ids chosen; see ``Source``."""

    reader: Reader
    chosen: Chosen
    limits: Limits
    named: bool = True  #: whether the labels are names for certain: the first line of a CSV file may be a person
    prepared: PreparedRows | None = None  #: what turns raw columns into numbers
    target: Recipe | None = None  #: declares the target of prepared rows
    ids: None = None  # they come with the blocks

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the features."""
        if self.prepared is not None:
            return self.prepared.names
        names = tuple(self.reader.labels[at] for at in self.chosen.features)
        return None if isinstance(names[0], int) else names

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """Numbers of the features in the file."""
        return self.chosen.features if self.prepared is None else None

    @property
    def first_row(self) -> int:
        """What the file calls the row of its first person."""
        return self.reader.first_row

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.chosen.features if self.prepared is None else self.prepared.names)

    @property
    def n_rows(self) -> int | None:
        """Number of rows, when the file says so."""
        return self.reader.n_rows

    @property
    def rereadable(self) -> bool:
        """See ``Source``."""
        return self.reader.rereadable

    @property
    def has_ids(self) -> bool:
        """Whether a column of ids was chosen."""
        return self.chosen.ids is not None

    @property
    def flavour(self) -> Flavour:
        """How answers are given back."""
        return Flavour("numpy" if isinstance(self.reader.labels[0], int) else "pyarrow")

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """See ``Source``."""
        start = 0
        rows = rows_per_block(self.n_features, block_bytes or BLOCK_BYTES)
        for batch in counted(self.reader, self.limits, self.chosen, rows, threads, raw=self.prepared is not None):
            count, only = batch.num_rows, [batch]
            del batch
            if count:
                yield partial(self._block, start, only)
                start += count
        pa.default_memory_pool().release_unused()  # the decoder's memory is wanted by the passes that follow

    def _block(self, start: int, only: list[pa.RecordBatch]) -> Block:
        batch = only.pop()  # nobody else has it: it goes when it is a matrix, not when the matrix goes
        row = start + self.first_row
        X, y = self._floats(batch, row) if self.prepared is None else self._prepared_floats(batch, row)
        ids = None if self.chosen.ids is None else read_file_ids(batch.column(batch.num_columns - 1), row, self.limits)
        return Block(X, y, start, ids)

    def _floats(self, batch: pa.RecordBatch, row: int) -> tuple[NDArray, Floats]:
        labels = [column_label(at, self.reader.labels[at] if self.named else None) for at in self.chosen.numbers]
        columns = [batch.column(k) for k in range(len(labels))]
        found = zip(labels, columns, strict=True)
        refuse_cells({label: (row + _first_null(one), NULL) for label, one in found if one.null_count})
        arrays = [
            as_floats(one.to_numpy(zero_copy_only=False), row, label)
            for label, one in zip(labels, columns, strict=True)
        ]
        features = arrays[: self.n_features]
        kind = np.float32 if all(array.dtype == np.float32 for array in features) else np.float64
        X = np.empty((batch.num_rows, len(features)), dtype=kind, order="F")
        for at, array in enumerate(features):
            X[:, at] = array
        return X, np.zeros(len(X)) if self.chosen.target is None else np.array(arrays[-1], dtype=np.float64)

    def _prepared_floats(self, batch: pa.RecordBatch, row: int) -> tuple[NDArray, Floats]:
        assert self.prepared is not None and self.target is not None
        X = self.prepared.numbers(_raw_rows(self.reader, self.chosen, batch, self.prepared.steps[0]), row)
        if self.chosen.target is None:
            return X, np.zeros(len(X))
        return X, self.target.target_numbers(batch.column(len(self.chosen.features)), row)


def _prepared(scan: Scan, chosen: Chosen, preparation: Preparation) -> FileSource:
    """Make the steps ready for this file, by its first rows."""
    reader, target = scan.reader, preparation.target
    if target is None:  # a number as it is
        name = "" if chosen.target is None else reader.labels[chosen.target]
        decimal = next((step.decimal for step in preparation.steps if isinstance(step, Recipe)), ".")
        target = Recipe(target={"column": name, "as_is": True}, decimal=decimal)
    first = next(reader.batches(chosen, EXAMPLE_ROWS, 1, raw=True), None)
    if first is None:
        raise InvalidTable("the file has no rows; there is nobody to audit")
    example = _raw_rows(reader, chosen, first.slice(0, EXAMPLE_ROWS), preparation.steps[0])
    return FileSource(reader, chosen, scan.limits, prepared=preparation.on(example), target=target)


def _raw_rows(reader: Reader, chosen: Chosen, batch: pa.RecordBatch, step: Any) -> Any:
    """Return the raw features of a batch under their own names, as what the first step takes."""
    names = [reader.labels[at] for at in chosen.features]
    table = pa.RecordBatch.from_arrays(batch.columns[: len(names)], names=names)
    return table if isinstance(step, Recipe) else table.to_pandas()


def check_types(reader: Reader, columns: Sequence[int]) -> None:
    """Refuse columns whose declared types are not plain numbers, all of them at once."""
    types = reader.types
    if types is not None:
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


def _first_null(array: pa.Array) -> int:
    return int(pc.index(pc.is_null(array), True).as_py())
