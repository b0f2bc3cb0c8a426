"""Work on many pieces by several threads; answers in order, never more than a few ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

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
    pool = ThreadPoolExecutor(threads, thread_name_prefix="perinstance")
    window: deque[Future[T]] = deque()
    try:
        for piece in pieces:
            window.append(pool.submit(work, piece))
            if len(window) >= threads + ahead:
                yield window.popleft().result()
        while window:
            yield window.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
