"""A file that is written and read past the system's cache, by a thread of its own, while others compute.

What goes through the cache is copied, and takes pages that somebody else could use; both cost more than the disk does
where the disk is fast. Where it is slow the cache is better: ``offer`` then says no, and so it does where the file
system knows no direct access (Linux has it, most others do not).
"""

from __future__ import annotations

import errno
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock, Thread
from typing import IO, Any

from perinstance.data.aligned_memory import pages
from perinstance.numerics.array_types import Bytes

UNDER_WAY = 3  #: blocks that wait to be written; who comes with more goes to the cache
SLOWEST = 5e8  #: bytes a second; a slower disk is left to the cache
TRIAL = 3  #: blocks that say how fast the disk is
LARGE = 1 << 26  #: bytes of a file that is closed in the background


class DirectFile:
    """Takes over a nameless file; ``try_open`` gives None where it cannot be had."""

    def __init__(self, file: IO[Any]) -> None:
        self._file = file
        self._end = 0
        self._lock = Lock()
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="perinstance-scratch")
        self._written, self._seconds, self._count = 0, 0.0, 0
        self._failure: OSError | None = None

    @classmethod
    def try_open(cls, file: IO[Any]) -> DirectFile | None:
        """Ask the system for direct access to a file."""
        try:
            _set_direct(file, True)
        except (ImportError, AttributeError, OSError):
            return None
        return cls(file)

    def offer(self, whole: Bytes) -> tuple[int, Future[None]] | None:
        """Begin to write some pages: where, and when it is done. None: too busy. Raises what befell those before."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            slow = self._count >= TRIAL and self._written < SLOWEST * self._seconds
            if slow or self._waiting == UNDER_WAY:
                return None
            self._waiting += 1
            offset, self._end = self._end, self._end + len(whole)
        return offset, self._thread.submit(self._write, whole, offset)

    def read(self, offset: int, size: int) -> Future[Bytes]:
        """Begin to read."""
        return self._thread.submit(self._read, offset, size)

    def close(self) -> None:
        """Forget everything: what is under way is waited for, and the file vanishes with its descriptor.

        A disk can take its time to give the room of a large file back; nobody has to wait for that.
        """
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._end < LARGE:
            self._file.close()
        else:
            Thread(target=self._file.close, name="perinstance-scratch-close", daemon=True).start()

    def _write(self, whole: Bytes, offset: int) -> None:
        start = time.perf_counter()
        try:
            self._write_somehow(whole, offset)
        except OSError as error:
            self._failure = error
            raise
        finally:
            with self._lock:
                self._waiting -= 1
                self._written, self._count = self._written + len(whole), self._count + 1
                self._seconds += time.perf_counter() - start

    def _write_somehow(self, whole: Bytes, offset: int) -> None:
        try:
            write(self._file.fileno(), whole, offset)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            _set_direct(self._file, False)  # a file system that promised what it does not do
            write(self._file.fileno(), whole, offset)

    def _read(self, offset: int, size: int) -> Bytes:
        whole = pages(size)
        read(self._file.fileno(), whole, offset)
        return whole


def _set_direct(file: IO[Any], direct: bool) -> None:
    import fcntl  # not on every system

    flags = fcntl.fcntl(file.fileno(), fcntl.F_GETFL)
    fcntl.fcntl(file.fileno(), fcntl.F_SETFL, flags | os.O_DIRECT if direct else flags & ~os.O_DIRECT)


def write(descriptor: int, room: Bytes, offset: int) -> None:
    """Write all of it, or raise OSError."""
    view = room.data
    while len(view):
        done = os.pwrite(descriptor, view, offset)
        view, offset = view[done:], offset + done


def read(descriptor: int, room: Bytes, offset: int) -> None:
    """Fill the room, or raise OSError; EOFError when the file ends before."""
    view = room.data
    while len(view):
        done = os.preadv(descriptor, [view], offset)
        if not done:
            raise EOFError
        view, offset = view[done:], offset + done
