"""The engine of a cluster: steps travel to the partitions, and what comes back is small.

A fold adds neighbours first, in a tree that depends on the number of partitions only: however many workers there are,
the bits are the same. Of a map the answers of each block come back in row order; ``each_partition`` brings back what a
step makes of a whole partition, so that nothing of the length of the table has to.

Work reaches the cluster as futures of the client where there is one, else by Dask's scheduler of this process. What
fails for reasons outside the table (a disk that stumbles) is tried again; what the table is refused for is an answer
like any other and is not. Everything can be computed again when a worker dies: nothing is scattered.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from perinstance.data.source import Source
from perinstance.engines.dask.tables import DaskTable, delayed_parts, file_parts
from perinstance.engines.protocol import CellNames, Progress, SourceSweep, checked_step
from perinstance.errors import ClusterTrouble, InvalidInput, PerinstanceError
from perinstance.folds.block import Block
from perinstance.folds.sweep import M

T = TypeVar("T")

RETRIES = 2  #: of a partition whose work failed by itself
KEPT_SHARE = 0.3  #: of the workers' memory may hold decoded partitions between passes; beyond it they spill to disk


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


class DaskSweep(SourceSweep):
    """One table, walked over by the workers of whatever Dask scheduler is active."""

    def __init__(self, source: Source, progress: Progress | None = None, ahead: int = 64) -> None:
        super().__init__(source, progress)
        self._cells = CellNames.of(source)
        self._ahead = ahead
        self._blocks: list[Any] | None = None

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return len(self.blocks())

    def fold(self, step: Callable[[Block], M]) -> M:
        """Return the sum over all blocks: neighbours are added first, in a tree that depends on their number only."""
        import dask

        common = shared(partial(_folded, step, self._cells))
        parts = [dask.delayed(_stepped)(common, k, blocks) for k, blocks in enumerate(self.blocks())]
        while len(parts) > 1:
            odd = parts[-1:] if len(parts) % 2 else []
            parts = [dask.delayed(_added)(pair) for pair in zip(parts[::2], parts[1::2], strict=False)] + odd
        total = result(parts[0])
        if isinstance(total, Refused):
            raise total.told() from None
        rows, value = total
        self.passed(rows, [])
        self.tell("fold", rows, rows)
        return cast(M, value)

    def map(self, step: Callable[[Block], T]) -> Generator[T, None, None]:
        """Yield ``step(block)`` of every block, in row order, some partitions at a time."""
        names: list[pa.Array] = []
        rows = 0
        for answers in self.each_partition(partial(_mapped, step, self._cells), "map"):
            for size, ids, answer in answers:
                rows += size
                if ids is not None:
                    names.append(ids)
                yield answer
        self.passed(rows, names)

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
            return parts[0] if join == 1 else dask.delayed(_added)(parts)

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
                self._blocks = kept(delayed_parts(self.source, parts), size)
            elif isinstance(self.source, DaskTable):
                self._blocks = self.source.delayed_blocks
            else:  # read here, block by block, and sent away
                self._blocks = [dask.delayed((piece(),), traverse=False) for piece in self.source.pieces()]
        return self._blocks

    def close(self) -> None:
        """Let go of what the workers keep."""
        self._blocks = None


def _mapped(step: Callable[[Block], Any], cells: CellNames, number: int, blocks: tuple[Block, ...]) -> list[Any]:
    """Run on a worker: how many people, their ids and the answer of each block of a partition."""
    return [(len(block), block.ids, checked_step(step, block, cells)) for block in blocks]


def _folded(step: Callable[[Block], Any], cells: CellNames, number: int, blocks: tuple[Block, ...]) -> Any:
    """Run on a worker: the statistic of one partition; None where it has no rows."""
    return reduce(add, (checked_step(step, block, cells) for block in blocks)) if blocks else None


def _stepped(step: Callable[[int, tuple[Block, ...]], T], number: int, blocks: Any) -> tuple[int, T] | Refused:
    """Run on a worker: how many rows a partition has, and its answer."""
    if isinstance(blocks, PerinstanceError):
        return Refused(number, blocks)
    # what came over the network may lie where other kernels would read it
    aligned = [replace(b, X=np.require(b.X, requirements="A"), y=np.require(b.y, requirements="A")) for b in blocks]
    try:
        return sum(len(block) for block in blocks), step(number, tuple(aligned))
    except PerinstanceError as error:
        return Refused(number, error)


def _added(parts: Sequence[tuple[int, Any] | Refused]) -> tuple[int, Any] | Refused:
    """Run on a worker: the answers of neighbouring partitions, added; of refusals the first one counts."""
    answers: list[tuple[int, Any]] = []
    for part in parts:
        if isinstance(part, Refused):
            return part
        answers.append(part)
    values = [value for _, value in answers if value is not None]
    return sum(rows for rows, _ in answers), reduce(add, values) if values else None


def active_client() -> Any | None:
    """Return the client that Dask would use; None where no cluster is in use."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def shared(value: Any) -> Any:
    """Put what every task needs where it goes to each worker once, and can be had again when one dies."""
    client = active_client()
    return value if client is None else client.submit(lambda: value, pure=False)


def kept(parts: list[Any], size: int | None) -> list[Any]:
    """Keep decoded partitions in the workers' memory when there is ample room for ``size`` bytes (None: not known)."""
    client = active_client()
    if client is None or size is None:
        return parts
    with typed_errors():
        workers = client.scheduler_info()["workers"].values()
    if size > KEPT_SHARE * sum(worker.get("memory_limit") or 0 for worker in workers):
        return parts
    return list(client.persist(parts))


def result(delayed: Any) -> Any:
    """Compute one thing."""
    client = active_client()
    if client is None:
        return delayed.compute()
    with typed_errors():
        return client.compute(delayed, retries=RETRIES).result()


def results(count: int, task: Callable[[int], Any], ahead: int) -> Generator[Any, None, None]:
    """Yield the results of ``task(0), task(1), ..`` in order; at most ``ahead`` are under way or wait here."""
    client = active_client()
    if client is None:
        import dask

        for start in range(0, count, ahead):
            yield from dask.compute(*(task(k) for k in range(start, min(start + ahead, count))))
        return
    waiting: deque[Any] = deque()
    begun = 0
    try:
        while begun < count or waiting:
            with typed_errors():
                while begun < count and len(waiting) < ahead:
                    waiting.append(client.compute(task(begun), retries=RETRIES))
                    begun += 1
                found = waiting.popleft().result()
            yield found
    finally:
        for future in waiting:
            future.cancel()


@contextmanager
def typed_errors() -> Iterator[None]:
    """Say what became of the cluster, in words that carry no cell."""
    from asyncio import CancelledError as StoppedError
    from concurrent.futures import CancelledError

    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        yield
    except KilledWorker as trouble:
        raise ClusterTrouble(
            f"workers died again and again at one partition (last: {trouble.last_worker.address}); most often its "
            "blocks do not fit into a worker's memory: use smaller partitions, or workers with more memory"
        ) from None
    except (CancelledError, StoppedError, CommClosedError, ClosedClientError, TimeoutError) as trouble:
        raise ClusterTrouble(
            f"the cluster gave the work up ({type(trouble).__name__}): its scheduler restarted, or the client was "
            "closed; nothing was published, start the audit again"
        ) from None
