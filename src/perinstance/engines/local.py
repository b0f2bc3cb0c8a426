"""Threads of this machine over blocks of rows: the default engine."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from threadpoolctl import ThreadpoolController

from perinstance.data.source import Piece, Source
from perinstance.engines.protocol import CellNames, Progress, SourceSweep, checked_step
from perinstance.engines.scratch_files import Scratch
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import M

A = TypeVar("A")
T = TypeVar("T")

WAITING = 3  #: pieces that wait for a thread, so that none waits for a piece; changes only speed
#: matrices of more columns are worth a library's own threads, between the passes over the rows; changes only speed
WORTH_THREADS = 512
MEMORY_BYTES = 16 << 20  #: of decoded blocks that are kept in memory; the rest goes to the scratch file


@dataclass(frozen=True, slots=True)
class Local:
    """The engine of one machine.

    ``threads`` (None: the cores this process may use) never changes a bit of an answer. ``memory_bytes`` bounds the
    decoded blocks that are kept in memory between passes; beyond it they go to a nameless private file in
    ``scratch`` (None: the system's folder for temporary files).
    """

    threads: int | None = None
    block_bytes: int | None = None
    memory_bytes: int = MEMORY_BYTES
    scratch: str | os.PathLike[str] | None = None

    def sweep(self, source: Source, progress: Progress | None = None) -> LocalSweep:
        """Prepare to walk over a table."""
        return LocalSweep(source, self.threads, self.block_bytes, self.memory_bytes, self.scratch, progress)


class LocalSweep(SourceSweep):
    """One table, walked over by threads. Use as a context manager, or ``close`` it, to give scratch space back."""

    def __init__(
        self,
        source: Source,
        threads: int | None = None,
        block_bytes: int | None = None,
        memory_bytes: int = MEMORY_BYTES,
        scratch: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise InvalidInput(f"threads must be at least 1, got {threads}; None means all cores of this process")
        if block_bytes is not None and block_bytes < 1:
            raise InvalidInput(f"block_bytes must be at least 1, got {block_bytes}; None is what suits the table")
        super().__init__(source, progress)
        self.threads = threads or available_cores()
        self._block_bytes = block_bytes
        self._memory_bytes = memory_bytes
        self._folder = scratch
        self._store: Scratch | None = None  # all blocks, once the first pass is through
        self._checked = False
        self._pool: ThreadPoolExecutor | None = None

    def fold(self, step: Callable[[Block], M]) -> M:
        """Return the sum of ``step(block)`` over all blocks, added in row order."""
        total: M | None = None
        with closing(self.walk(step, "fold")) as parts:
            for part in parts:
                total = part if total is None else total + part
        assert total is not None  # a table without rows was refused by the walk
        return total

    def map(self, step: Callable[[Block], T]) -> Generator[T, None, None]:
        """Yield ``step(block)`` of every block, in row order."""
        return self.walk(step, "map")  # a caller who stops early closes it, or lets it go

    def all_finite(self) -> None:
        """Take note that a pass over all rows saw finite cells only."""
        self._checked = True

    def close(self) -> None:
        """Give back memory, scratch space and threads; a later pass reads the source again."""
        self.dismiss()
        if self._store is not None:
            self._store.close()
            self._store = None

    def __enter__(self) -> LocalSweep:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def walk(self, step: Callable[[Block], T], stage: str) -> Generator[T, None, None]:
        """Yield ``step(block)`` of every block, in row order, and report the rows as those of a stage."""
        keep = None if self.source.rereadable or self._store else Scratch(self._memory_bytes, self._folder)
        pieces = self._store.pieces() if self._store else self.source.pieces(self._block_bytes, self.threads)

        cells = CellNames.of(self.source)

        def work(numbered: tuple[int, Piece]) -> tuple[int, pa.Array | None, T]:
            number, piece = numbered
            block = piece()
            part = step(block) if self._checked else checked_step(step, block, cells)
            if keep is not None:
                keep.put(number, block)
            return len(block), block.ids, part

        # a piece of a file that waits has been decoded already; of memory, nobody waits for a thread that was held up
        ahead = max(WAITING, self.threads) if keep is None else 1
        rows, names = 0, []
        try:
            # One BLAS thread: spinning ones would take the cores from the threads over blocks.
            with ONE_BLAS_THREAD:
                for size, ids, part in ordered(work, enumerate(pieces), self.threads, ahead, self.pool()):
                    rows += size
                    if ids is not None:
                        names.append(ids)
                    self.tell(stage, rows, self.n_rows)
                    yield part
            self.passed(rows, names)
            self._checked, self._store = True, keep or self._store
        except BaseException:  # also when interrupted, or when the caller stops early: a part of a table is of no use
            self.dismiss()
            if keep is not None:
                keep.close()
            raise

    def pool(self) -> ThreadPoolExecutor | None:
        """Return the threads, who wait for the next pass until this is closed, let go of, or a pass fails."""
        if self._pool is None and self.threads > 1:
            self._pool = ThreadPoolExecutor(self.threads, THREAD_NAME)
            weakref.finalize(self, _let_go, self._pool)
        return self._pool

    def dismiss(self) -> None:
        """Let the threads go; a later pass begins with new ones."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


THREAD_NAME = "perinstance"


def _let_go(pool: ThreadPoolExecutor) -> None:
    """Wait for the threads of a table that nobody holds any more, unless one of them was the last to."""
    pool.shutdown(wait=not threading.current_thread().name.startswith(THREAD_NAME))


def ordered(
    work: Callable[[A], T],
    pieces: Iterable[A],
    threads: int,
    ahead: int = 1,
    pool: ThreadPoolExecutor | None = None,
) -> Iterator[T]:
    """Yield ``work(piece)`` in the order of the pieces; at most ``threads + ahead`` are under way or waiting.

    When the caller stops early, is interrupted, or a piece fails, what has not begun is dropped and what runs is
    waited for. Without a pool there is one for this loop alone, and no thread outlives it.
    """
    if threads == 1:
        for piece in pieces:
            yield work(piece)
        return
    workers = ThreadPoolExecutor(threads, THREAD_NAME) if pool is None else pool
    window: deque[Future[T]] = deque()
    try:
        for piece in pieces:
            window.append(workers.submit(work, piece))
            if len(window) >= threads + ahead:
                yield window.popleft().result()
        while window:
            yield window.popleft().result()
    finally:
        wait([future for future in window if not future.cancel()])
        if pool is None:
            workers.shutdown(cancel_futures=True)


def quiet_libraries(width: int) -> AbstractContextManager[Any]:
    """Hold BLAS to one thread while a table of so many columns is audited.

    After every product its threads go on spinning for some hundredths of a second, and small matrices, between the
    passes over the rows, are enough to wake them: threads over blocks would share the cores with them.
    """
    return nullcontext() if width > WORTH_THREADS else ONE_BLAS_THREAD


class _OneBlasThread:
    """Holds BLAS to one thread while anybody is inside; whoever comes in later finds it done.

    Libraries are asked by themselves: ``ThreadpoolController.limit`` describes each first, which takes ten times as
    long, and every pass of an audit asks once more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = [(one, one.num_threads) for one in blas_libraries()]
                for one, _ in self._before:
                    one.set_num_threads(1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for one, threads in self._before:
                    one.set_num_threads(threads)
                self._before = []


ONE_BLAS_THREAD = _OneBlasThread()


@functools.cache
def blas_libraries() -> list[Any]:
    """Find the BLAS libraries once: looking for them takes milliseconds, and a pass over a small table takes less."""
    import scipy.linalg  # noqa: F401 - whose library compiled code calls: it has to be among them

    return [one for one in ThreadpoolController().lib_controllers if one.user_api == "blas"]


def available_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
