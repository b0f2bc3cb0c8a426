"""A file whose raw columns a recipe, or other steps that learn nothing, turn into numbers block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from perinstance.data.aligned_memory import pages
from perinstance.data.answer_tables import Flavour
from perinstance.data.checks.ids import read_file_ids
from perinstance.data.checks.limits import Limits
from perinstance.data.files.reader import Reader, counted
from perinstance.data.memory.column_choice import Chosen
from perinstance.data.recipes.preparation import EXAMPLE_ROWS, Preparation, PreparedRows
from perinstance.data.recipes.recipe import Recipe
from perinstance.data.source import BLOCK_BYTES, Piece, rows_per_block
from perinstance.errors import InvalidTable
from perinstance.folds.block import Block


@dataclass(frozen=True, slots=True)
class PreparedFileSource:
    """See ``Source``."""

    reader: Reader
    chosen: Chosen
    limits: Limits
    prepared: PreparedRows
    target: Recipe  #: declares the target
    flavour: Flavour = field(default_factory=lambda: Flavour("pyarrow"))
    rereadable: bool = False
    ids: pa.ChunkedArray | None = None  # they come with the blocks
    numbers: None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers."""
        return self.prepared.names

    @property
    def first_row(self) -> int:
        """What the file calls the row of its first person."""
        return self.reader.first_row

    @property
    def n_features(self) -> int:
        """Number of columns of numbers."""
        return len(self.prepared.names)

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
        for batch in counted(self.reader, self.limits, self.chosen, rows, threads, raw=True):
            if batch.num_rows:
                yield partial(self._block, start, batch)
                start += batch.num_rows
        pa.default_memory_pool().release_unused()

    def _block(self, start: int, batch: pa.RecordBatch) -> Block:
        raw = _raw_rows(self.reader, self.chosen, batch, self.prepared.steps[0])
        numbers = self.prepared.numbers(raw, start, self.first_row)
        n, middle = batch.num_rows, numbers.nbytes
        whole = pages(middle + 8 * n)  # what is kept for a second pass is written from there without a copy
        X = whole[:middle].view(numbers.dtype).reshape(numbers.shape, order="F")
        X[:] = numbers
        y = whole[middle : middle + 8 * n].view(np.float64)
        y[:] = 0.0
        at = len(self.chosen.features)
        if self.chosen.target is not None:
            y[:] = self.target.target_numbers(batch.column(at), start, self.first_row)
            at += 1
        ids = None
        if self.chosen.ids is not None:
            ids = read_file_ids(batch.column(at), start + self.first_row, self.limits)
        return Block(X, y, start, ids, whole)


def open_prepared(reader: Reader, chosen: Chosen, limits: Limits, preparation: Preparation) -> PreparedFileSource:
    """Make the steps ready for this file, by its first rows."""
    target = preparation.target
    if target is None:  # a number as it is
        name = "" if chosen.target is None else reader.labels[chosen.target]
        target = Recipe(target={"column": name, "as_is": True}, decimal=_decimal(preparation))
    batches = reader.batches(chosen, EXAMPLE_ROWS, 1, raw=True)
    try:
        first = next(batches, None)
    finally:
        batches.close()  # type: ignore[attr-defined]
    if first is None:
        raise InvalidTable("the file has no rows; there is nobody to audit")
    example = _raw_rows(reader, chosen, first.slice(0, EXAMPLE_ROWS), preparation.steps[0])
    return PreparedFileSource(reader, chosen, limits, preparation.on(example), target)


def _raw_rows(reader: Reader, chosen: Chosen, batch: pa.RecordBatch, step: Any) -> Any:
    """Return the raw features of a batch under their own names, as what the first step takes."""
    names = [reader.labels[at] for at in chosen.features]
    table = pa.RecordBatch.from_arrays([batch.column(k) for k in range(len(names))], names=names)
    return table if isinstance(step, Recipe) else table.to_pandas()


def _decimal(preparation: Preparation) -> str:
    return next((step.decimal for step in preparation.steps if isinstance(step, Recipe)), ".")
