"""What runs a fold and a map. The functions are pure; an engine decides where, and may replace those with a name."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from perinstance.data.source import Source
from perinstance.errors import InvalidTable
from perinstance.folds.block import Block
from perinstance.folds.ids import refuse_duplicates
from perinstance.folds.sweep import Sweep

T = TypeVar("T")

#: ``progress(stage, done, total)``: rows done of this pass, rows in all (None when unknown); stage is "fold", "map" or
#: "refit" (people who are refitted, beside the passes that this takes). ``audit`` adds "compile", once, with no rows.
Progress = Callable[[str, int, "int | None"], None]


class TableSweep(Sweep, Protocol):
    """A sweep that also knows whose rows it walked over."""

    source: Source

    @property
    def n_rows(self) -> int | None:
        """Number of rows; known at the latest after the first pass."""

    @property
    def ids(self) -> pa.ChunkedArray | None:
        """The ids of all people in row order; known at the latest after the first pass."""

    def map(self, step: Callable[[Block], T]) -> Generator[T, None, None]:
        """Yield ``step(block)`` of every block, in row order; closing it ends the work."""

    def close(self) -> None:
        """Give back memory and scratch space."""


@runtime_checkable
class Engine(Protocol):
    """Threads here, a cluster or a GPU elsewhere: whatever can walk over a source."""

    def sweep(self, source: Source, progress: Progress | None = None) -> TableSweep:
        """Prepare to walk over a table."""


class SourceSweep:
    """What every sweep over a source knows, and what a whole pass teaches it."""

    def __init__(self, source: Source, progress: Progress | None) -> None:
        self.source, self._progress = source, progress
        self.n_rows, self.ids = source.n_rows, source.ids

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.source.n_features

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Report how far a pass, or the work between two passes, is."""
        if self._progress is not None:
            self._progress(stage, done, total)

    def passed(self, rows: int, ids: list[pa.Array]) -> None:
        """Remember what a whole pass has taught; refuse a table without rows, and people who occur twice."""
        if rows == 0:
            raise InvalidTable("the table has no rows; there is nobody to audit")
        if self.ids is None and ids:
            everyone = pa.chunked_array(ids)
            refuse_duplicates(everyone)
            self.ids = everyone
        self.n_rows = rows
