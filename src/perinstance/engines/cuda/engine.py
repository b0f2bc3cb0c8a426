"""The engine of a GPU: rows that lie there, or that stream over in blocks; what it has no operation for runs here."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.data.memory.table import Table
from perinstance.data.source import Source
from perinstance.engines.cuda.device_tables import DeviceTable, torch_module
from perinstance.engines.cuda.operations.run_sums import all_finite
from perinstance.engines.cuda.transfers import grouped_uploads
from perinstance.engines.cuda.transfers.answer_memory import AnswerMemory
from perinstance.engines.cuda.transfers.device_to_host import Downloads
from perinstance.engines.cuda.transfers.grouped_uploads import SharedUpload, block_ends, joined_groups, row_groups
from perinstance.engines.cuda.transfers.host_to_device import DeviceBlock, Uploads
from perinstance.engines.cuda.transfers.pinned_buffers import cuda_runtime
from perinstance.engines.first_look import CellNames
from perinstance.engines.local import Local, LocalSweep, available_cores, blas_libraries
from perinstance.engines.protocol import Progress
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.shared_turns import WholeTable
from perinstance.folds.sweep import M
from perinstance.releases.base.block_losses import AnswerPlaces

T = TypeVar("T")

#: share of the device's free memory that a streamed table may take to stay there for the next pass
KEPT_SHARE = 0.7
#: bytes of a block that streams over; where nothing is read or converted, fewer returns to the interpreter are better
STREAMED_BYTES, VIEWED_BYTES = 32 << 20, 64 << 20
#: people whose answers are worth asking the system for memory ahead
MANY_ANSWERS = 1 << 20


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
            raise InvalidInput(f"device must be 'cuda', 'cuda:0', ... or 'cpu', got {self.device!r}") from None
        if device.type not in ("cuda", "cpu"):
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
        self.device = source.device if isinstance(source, DeviceTable) else device
        self.host: LocalSweep = Local(threads, _block_bytes(source)).sweep(source, progress)
        self._kept: tuple[Any, Any] | None = (source.X, source.y) if isinstance(source, DeviceTable) else None
        self._checked = False
        self._answers: AnswerMemory | None = None
        self._downloads: Downloads | None = None
        self._expected = 0  #: answers whose memory is touched while rows are on their way
        # between the passes there are small matrices only: threads of a library that wait for each other cost more
        self._one_thread = blas_libraries().limit(limits=1, user_api="blas")

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
        if self._answers is not None:
            self._answers.close()
            self._answers = None
        self._downloads = None
        self.host.close()
        self._one_thread.restore_original_limits()

    def __enter__(self) -> CudaSweep:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def expect_answers(self) -> None:
        """Have the host's memory for everybody's answers ready when the rows have come over."""
        if self.device.type == "cuda" and self._kept is None and (self.n_rows or 0) >= MANY_ANSWERS:
            self._expected = self.n_rows or 0

    def answer_array(self, n: int, dtype: Any) -> NDArray:
        """Return an array for n answers."""
        return np.empty(n, dtype=dtype) if self._answers is None else self._answers.take(n, dtype)

    def fold(self, step: Callable[[Block], M]) -> M:
        """Return the sum of ``step(block)`` over all blocks, by the device's own operation where it has one."""
        from perinstance.engines.cuda.operations.catalogue import device_fold

        there = device_fold(step)
        if there is None:
            return self.host.fold(step)
        total: Any = None
        with closing(self._blocks("fold")) as blocks:
            for block in blocks:
                block.wait()
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
        return self.map_placed(step, None)

    def map_placed(self, step: Callable[[Block], T], places: AnswerPlaces | None) -> Generator[T, None, None]:
        """As ``map``; the thread that made a part puts it into its place before it is yielded."""
        from perinstance.engines.cuda.operations.catalogue import device_walk

        walk = device_walk(step, self.device)
        if walk is None:
            return self.host.map(step if places is None else partial(_placed, step=step, places=places))
        return self._losses(walk, places)

    def _losses(self, walk: Any, places: AnswerPlaces | None) -> Generator[Any, None, None]:
        crew = None if self._kept is None else self.host.crew()  # whom nobody else needs then
        try:
            with closing(self._blocks("map")) as blocks:
                yield from walk.walk(self._looked_at(blocks), self.host.threads, places, crew, self._downloads)
        finally:
            if crew is not None:  # who may have been told to go
                self.host.dismiss()
        self._checked = True

    def _looked_at(self, blocks: Iterator[DeviceBlock]) -> Iterator[DeviceBlock]:
        """Refuse cells that are not finite, where no fold has looked at them."""
        for block in blocks:
            if not self._checked:
                block.wait()
                if not all_finite(block.X, block.y):
                    rows = Block(block.X.cpu().numpy(), block.y.cpu().numpy(), block.start)
                    CellNames.of(self.source).refuse(rows)
            yield block

    def _blocks(self, stage: str) -> Generator[DeviceBlock, None, None]:
        """Hand out the rows on the device: all at once when they lie there, else as they come over."""
        if self._kept is not None:
            X, y = self._kept
            yield DeviceBlock(X, y, 0, None)
            self.tell(stage, len(y), len(y))
            return
        room = self._room()
        uploads = Uploads(self.device, self.host.threads)
        if room is None:
            self._touch_answers()
            with closing(uploads), closing(self.host.map(uploads)) as blocks:
                yield from joined_groups(blocks)
            return
        uploads.holds(*room)
        with closing(uploads), closing(self._sent_groups(room, uploads, stage)) as groups:
            for rows in groups:
                uploads.arrived()
                yield DeviceBlock(room[0][rows], room[1][rows], rows.start, None)
        self._kept = room

    def _sent_groups(self, room: tuple[Any, Any], uploads: Uploads, stage: str) -> Generator[slice, None, None]:
        """Bring all rows to their places; yields those that are on their way or there."""
        table = self._shared_table()
        if table is None:
            self._touch_answers()
            with closing(self.host.map(partial(uploads.into, room))) as sent:
                yield from row_groups((one.stop for one in sent), self.n_features)
            return
        ends = block_ends(len(table.y), self.n_features, VIEWED_BYTES)
        groups = row_groups(ends, self.n_features)
        with closing(SharedUpload(table, room, uploads, self.host).sent(groups, self._touch_answers)) as sent_rows:
            for rows in sent_rows:
                self.tell(stage, rows.stop, self.n_rows)
                yield rows

    def _shared_table(self) -> WholeTable | None:
        """Return the table where threads can take turns to bring it over."""
        whole = getattr(self.source, "whole", None) if cuda_runtime() is not None and self.host.threads > 1 else None
        return None if whole is None else whole()

    def _touch_answers(self) -> None:
        """Use the time while rows are on their way: for the answers' memory here, and what they come back through."""
        from perinstance.engines.cuda.linear_losses import MOST_THREADS
        from perinstance.engines.cuda.loss_chunks import numbers_of_turns

        if self._expected and self._answers is None:
            self._answers = AnswerMemory(self._expected)
            if 8 * self._expected * self.n_features >= grouped_uploads.GROUP_BYTES:
                self._downloads = Downloads(self.device, min(self.host.threads, MOST_THREADS))
                self._downloads.make_room(numbers_of_turns(self._expected))

    def _room(self) -> tuple[Any, Any] | None:
        """Make room for the whole table where it fits, so that it comes over once."""
        if self.device.type != "cuda" or self.n_rows is None:
            return None
        torch = torch_module()
        free, _ = torch.cuda.mem_get_info(self.device)
        free += torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)  # torch's, unused
        if 8 * self.n_rows * (self.n_features + 1) > KEPT_SHARE * free:
            return None
        X = torch.empty((self.n_rows, self.n_features), dtype=torch.float64, device=self.device)
        return X, torch.empty(self.n_rows, dtype=torch.float64, device=self.device)


def _block_bytes(source: Source) -> int | None:
    """Return the bytes of a block of the host; None for a table on a device."""
    if isinstance(source, DeviceTable):
        return None
    viewed = isinstance(source, Table) and source.columns.viewed
    return VIEWED_BYTES if viewed else STREAMED_BYTES


def _placed(block: Block, step: Callable[[Block], Any], places: AnswerPlaces) -> Any:
    part = step(block)
    places.place(part, block.start)
    return part
