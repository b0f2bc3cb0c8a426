"""A cluster: the same fold and map over blocks that live in Dask.

``audit(release, DaskTable(X, y), engine=Dask())`` takes X and y as Dask arrays, cut by rows.

The steps are pure functions of one block, so they travel; what comes back of a fold is one small statistic, of a map
the answers of one block at a time. Rows never gather in one place. Dask is optional: ``pip install perinstance[dask]``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from perinstance.data.answer_tables import Flavour
from perinstance.data.checks.cells import as_floats, check_dtype, is_finite, refuse_missing
from perinstance.data.source import Piece, Source
from perinstance.engines.protocol import Progress
from perinstance.errors import InvalidTable
from perinstance.folds.block import Block
from perinstance.folds.sweep import M

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DaskTable:
    """Two Dask arrays, cut into the same blocks of whole rows; a ``Source`` like any other."""

    X: Any
    y: Any
    flavour: Flavour = field(default_factory=lambda: Flavour("numpy"))
    names: None = None
    numbers: None = None
    ids: None = None
    has_ids: bool = False
    rereadable: bool = True
    first_row: int = 0

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.y.ndim != 1 or len(self.X.chunks[1]) != 1:
            raise InvalidTable("X must be a Dask array of whole rows, y one of numbers; rechunk X to (rows, -1)")
        if self.X.chunks[0] != self.y.chunks[0]:
            raise InvalidTable("X and y must be cut at the same rows; rechunk y to the chunks of X")
        if any(np.isnan(rows) for rows in self.X.chunks[0]):
            raise InvalidTable("the sizes of the chunks are not known; call compute_chunk_sizes() on X and y")
        check_dtype(self.X.dtype, "X")
        check_dtype(self.y.dtype, "the target")
        if not self.n_rows or not self.n_features:
            raise InvalidTable("the table needs at least one row and one feature")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """See ``Source``; the cut is that of the arrays."""
        start = 0
        for X, y, rows in zip(self.X.to_delayed().ravel(), self.y.to_delayed().ravel(), self.X.chunks[0], strict=True):
            yield partial(_compute, start, X, y)
            start += rows


def _compute(start: int, X: Any, y: Any) -> Block:
    import dask

    return _block(start, *dask.compute(X, y))


def _block(start: int, X: NDArray, y: NDArray) -> Block:
    return Block(as_floats(X, start), as_floats(y, start, "the target").astype(np.float64, copy=False), start)


@dataclass(frozen=True, slots=True)
class Dask:
    """The engine of a cluster. ``ahead`` is how many blocks of answers may wait to be fetched."""

    ahead: int = 64

    def sweep(self, source: Source, progress: Progress | None = None) -> DaskSweep:
        """Prepare to walk over a table."""
        return DaskSweep(source, progress, self.ahead)


class DaskSweep:
    """One table, walked over by the workers of whatever Dask scheduler is active."""

    def __init__(self, source: Source, progress: Progress | None = None, ahead: int = 64) -> None:
        self.source = source
        self.n_rows = source.n_rows
        self.ids = source.ids
        self._progress = progress
        self._ahead = ahead

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.source.n_features

    def fold(self, step: Callable[[Block], M]) -> M:
        """Return the sum over all blocks: neighbours are added first, in a tree that depends on their number only."""
        import dask

        parts = [dask.delayed(_step)(step, block) for block in self._blocks()]
        while len(parts) > 1:
            odd = parts[-1:] if len(parts) % 2 else []
            parts = [dask.delayed(_add)(*pair) for pair in zip(parts[::2], parts[1::2], strict=False)] + odd
        total = dask.compute(parts[0])[0]
        self.tell("fold", self.n_rows or 0, self.n_rows)
        return total

    def map(self, step: Callable[[Block], T]) -> Generator[T, None, None]:
        """Yield ``step(block)`` of every block, in row order, a window of blocks at a time."""
        import dask

        blocks, done = self._blocks(), 0
        for start in range(0, len(blocks), self._ahead):
            window = [dask.delayed(_counted)(step, block) for block in blocks[start : start + self._ahead]]
            for rows, answer in dask.compute(*window):
                done += rows
                self.tell("map", done, self.n_rows)
                yield answer

    def close(self) -> None:
        """Nothing is kept here."""

    def _blocks(self) -> list[Any]:
        import dask

        if isinstance(self.source, DaskTable):
            table, starts = self.source, np.cumsum((0, *self.source.X.chunks[0]))
            halves = zip(starts, table.X.to_delayed().ravel(), table.y.to_delayed().ravel(), strict=False)
            return [dask.delayed(_block)(int(start), X, y) for start, X, y in halves]
        return [dask.delayed(piece)() for piece in self.source.pieces()]

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Report how far a pass, or the work between two passes, is."""
        if self._progress is not None:
            self._progress(stage, done, total)


def _step(step: Callable[[Block], T], block: Block) -> T:
    """Run on a worker: refuse NaN and infinity, then step."""
    if not is_finite(block.X, block.y):
        refuse_missing(block.X, block.y, block.start)
    return step(block)


def _counted(step: Callable[[Block], T], block: Block) -> tuple[int, T]:
    return len(block), _step(step, block)


def _add(left: Any, right: Any) -> Any:
    return left + right
