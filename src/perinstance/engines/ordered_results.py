"""Work on many pieces by several threads; answers in order, never more than a few ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Any, TypeVar

A = TypeVar("A")
T = TypeVar("T")


Job = tuple[Callable[[Any], Any], Any, "Future[Any]"]


class Crew:
    """Threads that stay for the next pass.

    Without jobs they all stand ready before the first piece comes: a pool that starts them one by one, when there is
    work, waits for each while those before it already hold the interpreter; with sixteen that took longer than many a
    pass. A job that hardly needs the interpreter is given at once, and whoever has begun takes it.
    """

    def __init__(self, threads: int, jobs: Sequence[Job] = ()) -> None:
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[Thread] = []
        for job in jobs:
            self._queue.put(job)
        try:
            for k in range(threads):
                thread = Thread(target=_serve, args=(self._queue,), name=f"perinstance_{k}", daemon=True)
                thread.start()
                self._threads.append(thread)
        except BaseException:  # no more threads are to be had, or interrupted
            self.end()
            raise

    def begin(self, work: Callable[[A], T], piece: A) -> Future[T]:
        """Give a piece to whoever is free next."""
        future: Future[T] = Future()
        self.put((work, piece, future))
        return future

    def put(self, job: Job) -> None:
        """Give a job to whoever is free next."""
        self._queue.put(job)

    def dismiss(self) -> None:
        """Let everybody go who finds no more work."""
        for _ in self._threads:
            self._queue.put(None)

    def end(self) -> None:
        """Wait for everybody."""
        self.dismiss()
        for thread in self._threads:
            if thread is not current_thread():  # who may be the last to let go of a table
                thread.join()


def _serve(queue: SimpleQueue[Job | None]) -> None:
    while (job := queue.get()) is not None:
        work, piece, future = job
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work(piece))
            except BaseException as error:  # the caller's to see, whatever it is
                future.set_exception(error)
        del job, work, piece, future  # nothing of a block is held while waiting for the next


def waited_for(jobs: Sequence[Job]) -> None:
    """Wait until all jobs are done; when one fails, or the caller is interrupted, those that have begun are."""
    futures = [job[2] for job in jobs]
    try:
        for future in futures:
            future.result()
    finally:
        wait([future for future in futures if not future.cancel()])


def ordered(
    work: Callable[[A], T], pieces: Iterable[A], threads: int, ahead: int = 1, crew: Crew | None = None
) -> Iterator[T]:
    """Yield ``work(piece)`` in the order of the pieces; at most ``threads + ahead`` are under way or waiting.

    When the caller stops early, is interrupted, or a piece fails, what has not begun is dropped and what runs is
    waited for. Without a crew there is one for this loop alone, and no thread outlives it.
    """
    if threads == 1:
        for piece in pieces:
            yield work(piece)
        return
    mine = Crew(threads) if crew is None else crew
    window: deque[Future[T]] = deque()
    try:
        for piece in pieces:
            window.append(mine.begin(work, piece))
            if len(window) >= threads + ahead:
                yield window.popleft().result()
        while window:
            yield window.popleft().result()
    finally:
        wait([future for future in window if not future.cancel()])
        if crew is None:
            mine.end()
