"""Work on many pieces by several threads; answers in order, never more than a few ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

A = TypeVar("A")
T = TypeVar("T")


def ordered(work: Callable[[A], T], pieces: Iterable[A], threads: int, ahead: int = 1) -> Iterator[T]:
    """Yield ``work(piece)`` in the order of the pieces; at most ``threads + ahead`` are under way or waiting.

    When the caller stops early, is interrupted, or a piece fails, what has not begun is dropped and what runs is
    waited for: no thread outlives the loop.
    """
    if threads == 1:
        for piece in pieces:
            yield work(piece)
        return
    crew = _Crew(work, threads)
    window: deque[Future[T]] = deque()
    try:
        for piece in pieces:
            window.append(crew.begin(piece))
            if len(window) >= threads + ahead:
                yield window.popleft().result()
        while window:
            yield window.popleft().result()
    finally:
        for future in window:
            future.cancel()
        crew.end()


class _Crew(Generic[A, T]):
    """Threads that all stand ready before the first piece comes.

    A pool that starts them one by one, when there is work, waits for each while those before it already hold the
    interpreter: with sixteen that took longer than many a pass.
    """

    def __init__(self, work: Callable[[A], T], threads: int) -> None:
        self._work = work
        self._queue: SimpleQueue[tuple[A, Future[T]] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        try:
            for k in range(threads):
                thread = Thread(target=self._run, name=f"perinstance_{k}", daemon=True)
                thread.start()
                self._threads.append(thread)
        except BaseException:  # no more threads are to be had, or interrupted
            self.end()
            raise

    def begin(self, piece: A) -> Future[T]:
        """Give a piece to whoever is free next."""
        future: Future[T] = Future()
        self._queue.put((piece, future))
        return future

    def end(self) -> None:
        """Wait for everybody."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            piece, future = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._work(piece))
            except BaseException as error:  # the caller's to see, whatever it is
                future.set_exception(error)
            del job, piece, future  # nothing of a block is held while waiting for the next
