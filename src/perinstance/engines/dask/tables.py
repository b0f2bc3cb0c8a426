"""Dask arrays and data frames as sources: one partition is what one worker turns into blocks of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa

from perinstance.data.checks.cells import as_floats, refuse_types, type_word
from perinstance.data.memory.table import Table, read_table
from perinstance.data.recipes.preparation import EXAMPLE_ROWS, Preparation
from perinstance.data.source import Flavour, Piece, Source
from perinstance.errors import InvalidTable, PerinstanceError
from perinstance.folds.block import Block


def is_dask(X: Any) -> bool:
    """Tell whether this is an array or a data frame of Dask's."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "to_delayed")


def zeros_for(X: Any) -> Any:
    """Return a target of zeros, cut as X is: for a mean, which has none."""
    if hasattr(X, "columns"):
        return X.map_partitions(_zeros, meta=("zeros", float))
    import dask.array as da

    return da.zeros(X.shape[0], chunks=(X.chunks[0],))


def _zeros(rows: Any) -> Any:
    import pandas as pd

    return pd.Series(0.0, index=rows.index, name="zeros")


def dask_source(
    X: Any,
    y: Any = None,
    *,
    target: Any = None,
    ids: Any = None,
    features: Any = None,
    preparation: Preparation | None = None,
    classes: tuple[str, ...] | None = None,
) -> Source:
    """Make a source of a Dask collection; the arguments are those of ``read_table``."""
    if not hasattr(X, "columns"):
        if y is None or not is_dask(y):
            raise InvalidTable("a Dask array X wants its target as a Dask array y, cut at the same rows")
        if target is not None or ids is not None or features is not None or preparation is not None:
            raise InvalidTable("a Dask array has no names; pass a Dask data frame to choose columns, ids or a recipe")
        return DaskTable(X, y)
    if y is not None and not is_dask(y):
        raise InvalidTable("beside a Dask data frame y must be a Dask series; or name the column: target=")
    if ids is not None and not isinstance(ids, str):
        raise InvalidTable("the ids of a Dask data frame are one of its columns; pass ids= the name of that column")
    if classes is not None and not classes:
        classes = _classes(X[target] if y is None and target is not None else y)
    choice = FrameChoice(target, ids, features, preparation, classes)
    parts = () if y is None else (y,)
    if y is not None and y.npartitions != X.npartitions:
        raise InvalidTable(f"X has {X.npartitions} partitions and y has {y.npartitions}; repartition y like X")
    examples = [one.head(EXAMPLE_ROWS, npartitions=-1) for one in (X, *parts)]
    if not len(examples[0]):
        raise InvalidTable("the table has no rows; there is nobody to audit")
    like = choice.read(*examples)
    return DaskFrame(X, y, choice, like.names, like.numbers, like.n_features)


def _classes(column: Any) -> tuple[str, ...] | None:
    """Return the words of a classifier's target; they are published with it. None: the target is numbers."""
    if column is None or column.dtype.kind in "fiub":
        return None
    return tuple(sorted(str(word) for word in column.dropna().unique().compute()))


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
        refuse_types({"X": type_word(self.X.dtype), "the target": type_word(self.y.dtype)})
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

    def delayed_blocks(self) -> list[Any]:
        """Return what gives the blocks of each partition, on a worker."""
        import dask

        starts = np.cumsum((0, *self.X.chunks[0])).tolist()
        halves = zip(starts, self.X.to_delayed().ravel(), self.y.to_delayed().ravel(), strict=False)
        return [dask.delayed(blocks_or_refusal)(_array_blocks, start, X, y) for start, X, y in halves]

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """See ``Source``; the cut is that of the arrays."""
        yield from (partial(_computed, blocks) for blocks in self.delayed_blocks())


def _array_blocks(start: int, X: Any, y: Any) -> tuple[Block, ...]:
    target = as_floats(np.asarray(y), start, "the target").astype(np.float64, copy=False)
    return (Block(as_floats(np.asarray(X), start), target, start),)


@dataclass(frozen=True, slots=True)
class FrameChoice:
    """Which columns of a data frame are what; it travels to the workers."""

    target: Any
    ids: str | None
    features: Any
    preparation: Preparation | None
    classes: tuple[str, ...] | None

    def read(self, frame: Any, y: Any = None) -> Source:
        """Take one partition as a table in memory."""
        return read_table(
            frame,
            y,
            target=self.target,
            ids=self.ids,
            features=self.features,
            preparation=self.preparation,
            classes=self.classes,
        )


@dataclass(frozen=True, slots=True)
class DaskFrame:
    """A Dask data frame whose target, ids and features are chosen. Rows are counted within each partition."""

    frame: Any
    y: Any
    choice: FrameChoice
    names: tuple[str, ...] | None
    numbers: tuple[int, ...] | None
    n_features: int
    flavour: Flavour = field(default_factory=lambda: Flavour("pandas"))
    ids: None = None  # they come with the blocks
    n_rows: None = None  # only reading tells
    rereadable: bool = True
    first_row: int = 0

    @property
    def has_ids(self) -> bool:
        """Whether a column of ids was chosen."""
        return self.choice.ids is not None

    @property
    def classes(self) -> tuple[str, ...]:
        """The words that the target's codes stand for."""
        return self.choice.classes or ()

    def delayed_blocks(self) -> list[Any]:
        """Return what gives the blocks of each partition, on a worker."""
        import dask

        columns = [self.frame.to_delayed(), *([] if self.y is None else [self.y.to_delayed()])]
        return [
            dask.delayed(blocks_or_refusal)(_frame_blocks, self.choice, *parts) for parts in zip(*columns, strict=True)
        ]

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """See ``Source``; the cut is that of the frame."""
        yield from (partial(_computed, blocks) for blocks in self.delayed_blocks())

    def labels(self, column: str) -> list[Any]:
        """Return what gives one column of each partition, on a worker."""
        if column not in self.frame.columns:
            raise InvalidTable("the column to group by is not among the columns of the table; check its name")
        return list(self.frame[column].to_delayed())


def _frame_blocks(choice: FrameChoice, frame: Any, y: Any = None) -> tuple[Block, ...]:
    """Run on a worker; a partition without rows has no blocks."""
    if not len(frame):
        return ()
    source = choice.read(frame, y)
    assert isinstance(source, Table)
    blocks = []
    for piece in source.pieces():
        block = piece()
        ids = None
        if source.ids is not None:
            ids = source.ids.slice(block.start, len(block)).combine_chunks()
            ids = ids.chunk(0) if isinstance(ids, pa.ChunkedArray) else ids
        blocks.append(Block(block.X, block.y, block.start, ids))
    return tuple(blocks)


def blocks_or_refusal(read: Callable[..., tuple[Block, ...]], *args: Any) -> tuple[Block, ...] | PerinstanceError:
    """Run on a worker: return what the table is refused for, so that the cluster does not try again."""
    try:
        return read(*args)
    except PerinstanceError as error:
        return error


def _computed(delayed: Any) -> Block:
    """Compute one partition here, as one block."""
    blocks = delayed.compute()
    if isinstance(blocks, PerinstanceError):
        raise blocks
    if len(blocks) == 1:
        return cast(Block, blocks[0])
    raise InvalidTable("this engine takes Dask collections of one block per partition; leave engine= away")
