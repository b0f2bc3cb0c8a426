"""Rows in groups: the device works on some while the next are on their way, and wants more at a time than a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from perinstance.data.source import rows_per_block
from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.transfers.host_to_device import DeviceBlock, SharedSlices, Uploads
from perinstance.engines.local import LocalSweep
from perinstance.engines.ordered_results import Job, waited_for
from perinstance.folds.shared_turns import WholeTable

#: bytes of the rows that are worked on at a time
GROUP_BYTES = 1 << 30
#: groups that are given to the threads before the first is waited for
GROUPS_AHEAD = 2


def block_ends(n: int, columns: int, block_bytes: int) -> Iterator[int]:
    """Return where the blocks of a table in memory end."""
    step = rows_per_block(columns, block_bytes)
    return (min(start + step, n) for start in range(0, n, step))


def row_groups(ends: Iterable[int], columns: int) -> Iterator[slice]:
    """Put blocks, of which the ends are given, together."""
    begin = end = 0
    for end in ends:
        cut = end // 16 * 16  # rows begin at whole lines of memory, whatever the number of columns
        if 8 * (cut - begin) * columns >= GROUP_BYTES:
            yield slice(begin, cut)
            begin = cut
    if begin < end:
        yield slice(begin, end)


@dataclass(frozen=True, slots=True)
class SharedUpload:
    """A table that lies in memory as it will on the device, brought over by all threads of a sweep together.

    Where each thread brings blocks of its own over, they begin and end at different times, and the link waits: with
    twelve threads and 8 GB for a tenth of the time.
    """

    table: WholeTable
    room: tuple[Any, Any]
    uploads: Uploads
    host: LocalSweep

    def sent(self, groups: Iterable[slice], begun: Callable[[], None]) -> Generator[slice, None, None]:
        """Yield the groups that are on their way or there; ``begun`` is called when the threads have work."""
        waiting: deque[tuple[slice, list[Job]]] = deque()
        try:
            for rows in groups:
                waiting.append((rows, self._given(rows)))
                begun()
                if len(waiting) > GROUPS_AHEAD:
                    yield _sent(*waiting.popleft())
            while waiting:
                yield _sent(*waiting.popleft())
        finally:
            wait([future for _, jobs in waiting for *_, future in jobs if not future.cancel()])

    def _given(self, rows: slice) -> list[Job]:
        """Give some rows to the threads."""
        work = SharedSlices.of((self.table.X, self.table.y), self.room, rows)
        jobs: list[Job] = [(self.uploads.in_turns, work, Future()) for _ in range(self.host.threads)]
        self.host.crew(jobs)
        return jobs


def _sent(rows: slice, jobs: list[Job]) -> slice:
    waited_for(jobs)
    return rows


def joined_groups(blocks: Iterator[DeviceBlock]) -> Iterator[DeviceBlock]:
    """Put blocks together: a device wants more rows at a time than a thread does."""
    waiting: list[DeviceBlock] = []
    for block in blocks:
        waiting.append(block)
        if 8 * sum(map(len, waiting)) * block.X.shape[1] >= GROUP_BYTES:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(blocks: list[DeviceBlock]) -> DeviceBlock:
    torch = torch_module()
    for block in blocks:
        block.wait()
    if len(blocks) == 1:
        return blocks[0]
    X, y = torch.cat([one.X for one in blocks]), torch.cat([one.y for one in blocks])
    return DeviceBlock(X, y, blocks[0].start, None)
