"""Dask arrays, data frames and files as sources: a partition is what one worker turns into blocks of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import pyarrow as pa

from perinstance.data import read_labels
from perinstance.data.checks.cells import as_floats, refuse_types, type_word
from perinstance.data.memory.table import read_table
from perinstance.data.persons import by_person
from perinstance.data.recipes.preparation import EXAMPLE_ROWS
from perinstance.data.source import Flavour, Piece, Source
from perinstance.errors import InvalidInput, InvalidTable, PerinstanceError
from perinstance.folds.block import Block

TARGET = "perinstance target"  #: the name of a target that travels with a shuffled frame
PART_BYTES = 64 << 20  #: of numbers in one partition of a file, or one row group where that is more


def is_dask(X: Any) -> bool:
    """Tell whether this is an array or a data frame of Dask's."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "to_delayed")


def zeros_for(X: Any) -> Any:
    """Return a target of zeros, cut as X is: for a mean, which has none."""
    if hasattr(X, "columns"):
        import pandas as pd

        return X.map_partitions(lambda rows: pd.Series(0.0, rows.index, name="zeros"), meta=("zeros", float))
    import dask.array as da

    return da.zeros(X.shape[0], chunks=(X.chunks[0],))


def dask_source(
    X: Any, y: Any = None, *, target: Any = None, ids: Any = None, features: Any = None, **how: Any
) -> DaskTable:
    """Make a source of a Dask collection; the arguments are those of ``read_table``."""
    if not hasattr(X, "columns"):
        if y is None or not is_dask(y):
            raise InvalidTable("a Dask array X wants its target as a Dask array y, cut at the same rows")
        if any(one is not None for one in (target, ids, features, how.get("preparation"))):
            raise InvalidTable("a Dask array has no names; pass a Dask data frame to choose columns, ids or a recipe")
        if X.ndim != 2 or y.ndim != 1 or len(X.chunks[1]) != 1:
            raise InvalidTable("X must be a Dask array of whole rows, y one of numbers; rechunk X to (rows, -1)")
        if X.chunks[0] != y.chunks[0]:
            raise InvalidTable("X and y must be cut at the same rows; rechunk y to the chunks of X")
        if any(np.isnan(rows) for rows in X.chunks[0]):
            raise InvalidTable("the sizes of the chunks are not known; call compute_chunk_sizes() on X and y")
        refuse_types({"X": type_word(X.dtype), "the target": type_word(y.dtype)})
        n, d = X.shape
        if not n or not d:
            raise InvalidTable("the table needs at least one row and one feature")
        starts = np.cumsum((0, *X.chunks[0]))[:-1].tolist()
        blocks = _delayed(_array_blocks, starts, X.to_delayed().ravel(), y.to_delayed().ravel())
        return DaskTable(blocks, n_features=int(d), n_rows=int(n))
    if y is not None and not is_dask(y):
        raise InvalidTable("beside a Dask data frame y must be a Dask series; or name the column: target=")
    if ids is not None and not isinstance(ids, str):
        raise InvalidTable("the ids of a Dask data frame are one of its columns; pass ids= the name of that column")
    if y is not None and y.npartitions != X.npartitions:
        raise InvalidTable(f"X has {X.npartitions} partitions and y has {y.npartitions}; repartition y like X")
    choice = {"target": target, "ids": ids, "features": features, **how}
    if choice.get("classes") == ():  # a classifier's target may be words, which are published with it
        column = X[target] if y is None and target is not None else y
        words = None if column is None or column.dtype.kind in "fiub" else column.dropna().unique().compute()
        choice["classes"] = None if words is None else tuple(sorted(str(word) for word in words))
    columns = (X,) if y is None else (X, y)
    examples = [one.head(EXAMPLE_ROWS, npartitions=-1) for one in columns]
    if not len(examples[0]):
        raise InvalidTable("the table has no rows; there is nobody to audit")
    like = read_table(*examples, **choice, several=True)
    return DaskTable(
        delayed_blocks=_delayed(partial(_frame_blocks, choice), *(one.to_delayed() for one in columns)),
        n_features=like.n_features,
        n_rows=None,
        flavour=Flavour("pandas"),
        names=like.names,
        numbers=like.numbers,
        has_ids=ids is not None,
        classes=choice.get("classes") or (),
        frame=X,
        by_person=partial(_shuffled, columns, choice),
    )


def _shuffled(columns: tuple[Any, ...], choice: dict[str, Any]) -> DaskTable:
    """Bring each person's rows into one partition, by a shuffle of the cluster."""
    frame, others = columns[0], {name: one for name, one in choice.items() if name != "target"}
    if len(columns) == 2:  # the target travels with its rows
        frame, target = frame.assign(**{TARGET: columns[1]}), TARGET
    else:
        target = choice["target"]
    source = dask_source(frame.shuffle(choice["ids"]), target=target, **others)
    read = partial(_frame_blocks, {**choice, "target": target, "several": True})
    return replace(source, delayed_blocks=_delayed(read, source.frame.to_delayed()), by_person=None)


def dask_by_person(source: Source) -> DaskTable | None:
    """Return a data frame in which people have several rows with each person's in one place; None of other sources."""
    shuffled = getattr(source, "by_person", None)
    return None if shuffled is None else shuffled()


def _delayed(read: Callable[..., tuple[Block, ...]], *columns: Iterable[Any]) -> list[Any]:
    """Return what gives the blocks of each partition, on a worker."""
    import dask

    return [dask.delayed(blocks_or_refusal)(read, *parts) for parts in zip(*columns, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class DaskTable(Source):
    """A Dask array or data frame with its target; a ``Source`` like any other.

    Rows of a data frame are counted within each partition, and its ids come with the blocks.
    """

    delayed_blocks: list[Any]  #: what gives the blocks of each partition, on a worker
    frame: Any = None  #: the data frame, for its other columns
    by_person: Callable[[], DaskTable] | None = None  #: gives the table with each person's rows in one partition

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """See ``Source``; the cut is that of the collection."""
        yield from (partial(_computed, blocks) for blocks in self.delayed_blocks)


def _array_blocks(start: int, X: Any, y: Any) -> tuple[Block, ...]:
    """Run on a worker."""
    target = as_floats(np.asarray(y), start, "the target").astype(np.float64, copy=False)
    return (Block(as_floats(np.asarray(X), start), target, start),)


def _frame_blocks(choice: dict[str, Any], *columns: Any) -> tuple[Block, ...]:
    """Run on a worker; a partition without rows has no blocks."""
    if not len(columns[0]):
        return ()
    if choice.get("several"):  # a shuffle leaves the order of rows open, and a partition may be read twice
        columns = (columns[0].sort_values(choice["ids"], kind="stable"), *columns[1:])
    source = read_table(*columns, **choice)
    source = by_person(source) if choice.get("several") else source
    blocks, person = [], 0
    for piece in source.pieces():
        block = piece()
        names = None if source.ids is None else source.ids.slice(person, block.n_people)
        blocks.append(replace(block, ids=None if names is None else pa.concat_arrays(names.chunks)))
        person += block.n_people
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


def file_parts(source: Source) -> list[Source] | None:
    """Cut a file source into sources of some row groups each; None where the format cannot be read from the middle."""
    reader: Any = getattr(source, "reader", None)
    if not hasattr(reader, "parts"):
        return None
    rows = max(1, PART_BYTES // (8 * (source.n_features + 1)))
    table: Any = source
    return [replace(table, reader=part, n_rows=part.n_rows, first_row=part.first_row) for part in reader.parts(rows)]


def delayed_parts(source: Source, parts: list[Source]) -> list[Any]:
    """Return what gives the blocks of each part of a file source, on a worker."""
    return _delayed(_part_blocks, parts, [part.first_row - source.first_row for part in parts])


def _part_blocks(part: Source, offset: int) -> tuple[Block, ...]:
    """Run on a worker: read one part, ``offset`` rows behind the first one of the table."""
    blocks = (piece() for piece in part.pieces())
    return tuple(Block(block.X, block.y, block.start + offset, block.ids) for block in blocks)


def partition_labels(source: Source, column: str) -> list[Any]:
    """Return what gives one column of each partition of a table, on a worker."""
    import dask

    if isinstance(source, DaskTable) and source.frame is not None:
        if column not in source.frame.columns:
            raise InvalidTable("the column to group by is not among the columns of the table; check its name")
        return list(source.frame[column].to_delayed())
    parts: Any = file_parts(source)
    if parts is None:
        raise InvalidInput("this table has no columns to group by; audit a data frame or Parquet")
    return [dask.delayed(read_labels)(part.reader, column) for part in parts]
