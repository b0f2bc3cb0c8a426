"""The engine of a GPU: rows that lie there, or that stream over in blocks; what it has no operation for runs here."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from perinstance.data.memory.table import Table
from perinstance.data.source import Source
from perinstance.engines.cuda.device_tables import DeviceTable, torch_module
from perinstance.engines.cuda.newton_sums import all_finite
from perinstance.engines.cuda.transfers import DeviceBlock, Uploads, in_groups, to_host
from perinstance.engines.local import ONE_BLAS_THREAD, Local, LocalSweep, available_cores
from perinstance.engines.protocol import CellNames, Progress
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import M

T = TypeVar("T")

#: share of the device's free memory that a streamed table may take to stay there for the next pass
KEPT_SHARE = 0.7
#: bytes of a block that streams over; where nothing is read or converted, fewer returns to the interpreter are better
STREAMED_BYTES, VIEWED_BYTES = 32 << 20, 64 << 20


@dataclass(frozen=True, slots=True)
class Cuda:
    """The engine of one GPU (torch). Tables that lie on it are used where they are, others stream over in blocks.

    ``device`` is torch's name of it ("cuda", "cuda:1"); "cpu" runs the same code through torch on the processor, for
    tests. ``threads`` (None: three quarters of the cores this process may use) read and convert blocks of host tables.
    """

    device: str = "cuda"
    threads: int | None = None

    def sweep(self, source: Source, progress: Progress | None = None) -> CudaSweep:
        """Prepare to walk over a table."""
        torch = torch_module()
        try:
            device = torch.device(self.device)
        except RuntimeError:
            device = None
        if device is None or device.type not in ("cuda", "cpu"):
            raise InvalidInput(f"device must be 'cuda', 'cuda:0', ... or 'cpu', got {self.device!r}")
        if device.type == "cuda" and not torch.cuda.is_available():
            raise InvalidInput(
                "torch sees no CUDA device here; leave engine= away, or use Cuda(device='cpu') to try the code"
            )
        cores = available_cores()  # one in four is left to what drives the device: with all of them uploads are slower
        return CudaSweep(source, device, self.threads or cores - cores // 4, progress)


class CudaSweep:
    """One table, walked over by a GPU; steps without an operation there are walked by threads (``host``)."""

    def __init__(self, source: Source, device: Any, threads: int | None, progress: Progress | None) -> None:
        self.source = source
        there = isinstance(source, DeviceTable)
        self.device = source.device if isinstance(source, DeviceTable) else device
        viewed = isinstance(source, Table) and source.columns.viewed
        block_bytes = None if there else VIEWED_BYTES if viewed else STREAMED_BYTES
        self.host: LocalSweep = Local(threads, block_bytes).sweep(source, progress)
        #: the rows, once they are there to stay
        self._kept = [DeviceBlock(source.X, source.y, 0)] if isinstance(source, DeviceTable) else None
        self._checked = False
        # between the passes there are small matrices only: threads of a library that wait for each other cost more
        self._libraries = ExitStack()
        self._libraries.enter_context(ONE_BLAS_THREAD)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.source.n_features

    @property
    def n_rows(self) -> int | None:
        """Number of rows; known at the latest after the first pass."""
        return self.host.n_rows

    @property
    def ids(self) -> pa.ChunkedArray | None:
        """The ids of all people in row order; known at the latest after the first pass."""
        return self.host.ids

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Report how far a pass, or the work between two passes, is."""
        self.host.tell(stage, done, total)

    def close(self) -> None:
        """Give back memory and scratch space."""
        if not isinstance(self.source, DeviceTable):
            self._kept = None
        self.host.close()
        self._libraries.close()

    def __enter__(self) -> CudaSweep:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fold(self, step: Callable[[Block], M]) -> M:
        """Return the sum of ``step(block)`` over all blocks, by the device's own operation where it has one."""
        from perinstance.engines.cuda.catalogue import device_fold

        there = device_fold(step)
        if there is None:
            return self.host.fold(step)
        total: Any = None
        with closing(self._blocks("fold")) as blocks:
            for block in blocks:
                part = there(block.X, block.y)
                total = part if total is None or part is None else total + part
                if part is None or not self._finite(total, block):
                    break
            else:
                self._checked = True
                self.host.all_finite()
                return total  # type: ignore[no-any-return]  # the device's part of an operation is of its type
        # a look by the processor names the cell or the target, or finds that sums of finite cells overflow
        with LocalSweep(self.source) as again:
            return again.fold(step)

    def _finite(self, total: Any, block: DeviceBlock) -> bool:
        """Tell whether a block that nobody has looked at is finite; a statistic may show it by itself."""
        finite = getattr(total, "finite", None)
        if finite is not None or self._checked:
            return finite is None or bool(finite)
        return all_finite(block.X, block.y)

    def map(self, step: Callable[[Block], T]) -> Generator[T, None, None]:
        """Yield ``step(block)`` of every block, in row order, by the device's own operation where it has one."""
        from perinstance.engines.cuda.catalogue import device_walk

        walk = device_walk(step, self.device)
        return self.host.map(step) if walk is None else self._losses(walk)

    def _losses(self, walk: Any) -> Generator[Any, None, None]:
        pool = None if self._kept is None else self.host.pool()  # which nobody else needs then
        with closing(self._blocks("map")) as blocks:
            yield from walk.walk(self._looked_at(blocks), self.host.threads, pool)
        self._checked = True

    def _looked_at(self, blocks: Iterator[DeviceBlock]) -> Iterator[DeviceBlock]:
        """Refuse cells that are not finite, where no fold has looked at them."""
        for block in blocks:
            if not self._checked and not all_finite(block.X, block.y):
                X, y = to_host(block.X, block.y)
                CellNames.of(self.source).refuse(Block(X, y, block.start))
            yield block

    def _blocks(self, stage: str) -> Generator[DeviceBlock, None, None]:
        """Hand out the rows on the device, groups of blocks; they stay there where there is room for all."""
        if self._kept is not None:
            for block in self._kept:
                yield block
                self.tell(stage, block.start + len(block), self.n_rows)
            return
        kept: list[DeviceBlock] | None = [] if self._room() else None
        with closing(self.host.walk(Uploads(self.device), stage)) as blocks:
            for group in in_groups(blocks):
                yield group
                if kept is not None:
                    kept.append(group)
        self._kept = kept

    def _room(self) -> bool:
        """Tell whether the whole table fits there, so that it comes over once."""
        if self.device.type != "cuda" or self.n_rows is None:
            return False
        cuda = torch_module().cuda
        free, _ = cuda.mem_get_info(self.device)
        free += cuda.memory_reserved(self.device) - cuda.memory_allocated(self.device)  # torch's, unused
        return bool(8 * self.n_rows * (self.n_features + 1) <= KEPT_SHARE * free)
