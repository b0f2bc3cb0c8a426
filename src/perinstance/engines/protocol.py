"""What runs a fold and a map. The functions are pure; an engine decides where, and may replace those with a name.

Whoever walks over a block that nobody has looked at yet refuses NaN and infinity, by row and column.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa

from perinstance.data.checks.cells import is_finite, refuse_missing
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


@dataclass(frozen=True, slots=True)
class CellNames:
    """What refusals call the rows and columns of a source; it travels to wherever the steps run."""

    first_row: int
    names: tuple[str, ...] | None
    numbers: tuple[int, ...] | None

    @classmethod
    def of(cls, source: Source) -> CellNames:
        """Take them from a source."""
        return cls(source.first_row, source.names, source.numbers)

    def refuse(self, block: Block) -> None:
        """Refuse what is not finite; return when everything is."""
        refuse_missing(block.X, block.y, block.start + self.first_row, self.names, self.numbers)


def checked_step(step: Callable[[Block], T], block: Block, cells: CellNames) -> T:
    """Step over a block, and refuse NaN and infinity.

    A statistic that shows them by itself (a Gram matrix does) says so by ``finite``, which saves a look at X.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            part = step(block)
    except Exception:
        try:
            cells.refuse(block)
        except InvalidTable as refusal:
            raise refusal from None  # the cause lies in the table, and the step's words may quote it
        raise
    finite = getattr(part, "finite", None)
    if not (is_finite(block.X, block.y) if finite is None else finite):
        cells.refuse(block)
    return part
