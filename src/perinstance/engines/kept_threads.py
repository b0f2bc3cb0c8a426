"""Threads that outlive an audit: they wait in compiled code for the next pass that threads share.

To start sixteen threads takes the interpreter 1.5 ms and more, which is as long as a small table's pass. There is one
set of them in a process, and one caller at a time has it; whoever comes meanwhile starts threads of their own. A child
process that was forked has none of them and makes its own. They are let go when the interpreter ends.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Thread

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.compilation.outlined_calls import let_go, mailbox, serve

Mailbox = NDArray[np.int64]


class KeptThreads:
    """So many threads that serve a mailbox."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.box = mailbox(count)
        self._threads: list[Thread] = []
        try:
            for k in range(count):
                thread = Thread(target=serve, args=(self.box,), name=f"perinstance_kept_{k}", daemon=True)
                thread.start()
                self._threads.append(thread)
        except BaseException:  # no more threads are to be had, or interrupted
            self.end()
            raise

    def end(self) -> None:
        """Let them go, and wait for them."""
        let_go(self.box)
        for thread in self._threads:
            thread.join()


class _Kept:
    """The set of this process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin without threads, and with a lock that nobody holds: a forked child has neither of its parent's."""
        self._lock = Lock()
        self._threads: KeptThreads | None = None

    @contextmanager
    def lent(self, count: int) -> Iterator[Mailbox | None]:
        """Lend so many threads for one call; None: somebody else has them, or the system's are not known here."""
        lock = self._lock  # a child that is forked meanwhile has another
        if os.name != "posix" or not lock.acquire(blocking=False):
            yield None
            return
        try:
            if self._threads is not None and self._threads.count != count:
                self._end()
            if self._threads is None:
                self._threads = KeptThreads(count)
            yield self._threads.box
        finally:
            lock.release()

    def end(self) -> None:
        """Let all go, unless somebody has them: a thread of the caller's that is still at work when all ends."""
        if self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    def _end(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.end()


KEPT = _Kept()
atexit.register(KEPT.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=KEPT.forget)
