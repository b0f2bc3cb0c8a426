"""The engine of a cluster: steps travel to the partitions, and what comes back is small.

A fold adds neighbours first, in a tree that depends on the number of partitions only: however many workers there are,
the bits are the same. Of a map the answers of each block come back in row order; ``each_partition`` brings back what a
step makes of a whole partition, so that nothing of the length of the table has to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from perinstance.data.checks.ids import refuse_duplicates
from perinstance.data.source import Source
from perinstance.engines.dask.graph_runs import kept, result, results, shared
from perinstance.engines.dask.parquet_parts import file_parts, read_part
from perinstance.engines.dask.tables import blocks_or_refusal
from perinstance.engines.first_look import CellNames, checked_step
from perinstance.engines.protocol import Progress
from perinstance.errors import InvalidInput, InvalidTable, PerinstanceError
from perinstance.folds.block import Block
from perinstance.folds.sweep import M

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dask:
    """The engine of a cluster. ``ahead`` is how many partitions may be under way or wait to be fetched in a map."""

    ahead: int = 64

    def __post_init__(self) -> None:
        if self.ahead < 1:
            raise InvalidInput(f"ahead must be at least 1, got {self.ahead}")

    def sweep(self, source: Source, progress: Progress | None = None) -> DaskSweep:
        """Prepare to walk over a table."""
        return DaskSweep(source, progress, self.ahead)


@dataclass(frozen=True, slots=True)
class Refused:
    """What one partition was refused for: an answer, so that the cluster does not try again."""

    partition: int
    error: PerinstanceError

    def told(self) -> PerinstanceError:
        """Return the error that names the partition too."""
        return type(self.error)(f"partition {self.partition}: {self.error}")


@dataclass(frozen=True, slots=True)
class PartitionSum:
    """The statistic of some partitions, and of how many rows; None of none."""

    rows: int
    value: Any


class DaskSweep:
    """One table, walked over by the workers of whatever Dask scheduler is active."""

    def __init__(self, source: Source, progress: Progress | None = None, ahead: int = 64) -> None:
        self.source = source
        self.n_rows = source.n_rows
        self.ids: pa.ChunkedArray | None = source.ids
        self._cells = CellNames.of(source)
        self._progress = progress
        self._ahead = ahead
        self._blocks: list[Any] | None = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.source.n_features

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return len(self.blocks())

    def fold(self, step: Callable[[Block], M]) -> M:
        """Return the sum over all blocks: neighbours are added first, in a tree that depends on their number only."""
        import dask

        common = shared((step, self._cells))
        parts = [dask.delayed(_folded)(common, k, blocks) for k, blocks in enumerate(self.blocks())]
        while len(parts) > 1:
            odd = parts[-1:] if len(parts) % 2 else []
            parts = [dask.delayed(_add)(*pair) for pair in zip(parts[::2], parts[1::2], strict=False)] + odd
        total = result(parts[0])
        if isinstance(total, Refused):
            raise total.told() from None
        if not total.rows:
            raise InvalidTable("the table has no rows; there is nobody to audit")
        self.n_rows = total.rows
        self.tell("fold", total.rows, total.rows)
        return cast(M, total.value)

    def map(self, step: Callable[[Block], T]) -> Generator[T, None, None]:
        """Yield ``step(block)`` of every block, in row order, some partitions at a time."""
        names: list[pa.Array] = []
        rows = 0
        for answers in self.each_partition(_Mapped(step, self._cells), "map"):
            for size, ids, answer in answers:
                rows += size
                if ids is not None:
                    names.append(ids)
                yield answer
        if not rows:
            raise InvalidTable("the table has no rows; there is nobody to audit")
        if self.ids is None and names:
            everyone = pa.chunked_array(names)
            refuse_duplicates(everyone)
            self.ids = everyone
        self.n_rows = rows

    def each_partition(
        self, step: Callable[[int, tuple[Block, ...]], T], stage: str, only: list[int] | None = None, join: int = 1
    ) -> Generator[T, None, None]:
        """Yield ``step(number, blocks)`` of every partition, or of some, in order; ``join`` neighbours are added."""
        import dask

        blocks, common = self.blocks(), shared(step)
        wanted = list(range(len(blocks))) if only is None else only

        def joined(at: int) -> Any:
            numbers = wanted[at * join : (at + 1) * join]
            parts = [dask.delayed(_stepped)(common, number, blocks[number]) for number in numbers]
            return parts[0] if join == 1 else dask.delayed(_joined)(parts)

        found = results(-(-len(wanted) // join), joined, self._ahead)
        done = 0
        try:
            for answer in found:
                if isinstance(answer, Refused):
                    raise answer.told() from None
                rows, value = answer
                done += rows
                self.tell(stage, done, self.n_rows)
                yield value
        finally:
            found.close()

    def blocks(self) -> list[Any]:
        """Return what gives the blocks of each partition, on a worker; they are made once."""
        import dask

        if self._blocks is None:
            parts = file_parts(self.source)
            if parts is not None:
                size = None if self.n_rows is None else 8 * self.n_rows * (self.n_features + 1)
                reads = [(part, part.first_row - self.source.first_row) for part in parts]
                self._blocks = kept([dask.delayed(blocks_or_refusal)(read_part, *read) for read in reads], size)
            elif hasattr(self.source, "delayed_blocks"):
                self._blocks = self.source.delayed_blocks()
            else:  # read here, block by block, and sent away
                self._blocks = [dask.delayed(_one)(piece()) for piece in self.source.pieces()]
        return self._blocks

    def close(self) -> None:
        """Let go of what the workers keep."""
        self._blocks = None

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Report how far a pass, or the work between two passes, is."""
        if self._progress is not None:
            self._progress(stage, done, total)


@dataclass(frozen=True, slots=True)
class _Mapped:
    """The step of a map over each block of a partition."""

    step: Callable[[Block], Any]
    cells: CellNames

    def __call__(self, number: int, blocks: tuple[Block, ...]) -> list[tuple[int, pa.Array | None, Any]]:
        return [(len(block), block.ids, checked_step(self.step, block, self.cells)) for block in blocks]


def _settled(block: Block) -> Block:
    """Put what came over the network where it would lie otherwise: other kernels read what is not aligned."""
    return Block(np.require(block.X, requirements="A"), np.require(block.y, requirements="A"), block.start, block.ids)


def _one(block: Block) -> tuple[Block, ...]:
    return (block,)


def _stepped(step: Callable[[int, tuple[Block, ...]], T], number: int, blocks: Any) -> tuple[int, T] | Refused:
    """Run on a worker."""
    if isinstance(blocks, PerinstanceError):
        return Refused(number, blocks)
    try:
        return sum(len(block) for block in blocks), step(number, tuple(map(_settled, blocks)))
    except PerinstanceError as error:
        return Refused(number, error)


def _joined(parts: list[tuple[int, Any] | Refused]) -> tuple[int, Any] | Refused:
    """Run on a worker: the answers of neighbouring partitions, added; of refusals the first one counts."""
    answers = []
    for part in parts:
        if isinstance(part, Refused):
            return part
        answers.append(part)
    return sum(rows for rows, _ in answers), reduce(add, (value for _, value in answers))


def _folded(common: tuple[Callable[[Block], Any], CellNames], number: int, blocks: Any) -> PartitionSum | Refused:
    """Run on a worker: the statistic of one partition."""
    if isinstance(blocks, PerinstanceError):
        return Refused(number, blocks)
    step, cells = common
    total, rows = None, 0
    try:
        for block in map(_settled, blocks):
            part = checked_step(step, block, cells)
            total = part if total is None else total + part
            rows += len(block)
    except PerinstanceError as error:
        return Refused(number, error)
    return PartitionSum(rows, total)


def _add(left: PartitionSum | Refused, right: PartitionSum | Refused) -> PartitionSum | Refused:
    """Run on a worker: of two refusals the first one counts."""
    if isinstance(left, Refused):
        return left
    if isinstance(right, Refused):
        return right
    if left.value is None or right.value is None:
        return left if right.value is None else right
    return PartitionSum(left.rows + right.rows, left.value + right.value)
