"""A file that is written and read past the system's cache, by a thread of its own, while others compute.

What goes through the cache is copied, and takes pages that somebody else could use; both cost more than the disk does
where the disk is fast. Where it is slow the cache is better: ``offer`` then says no, and so it does where the file
system knows no direct access (Linux has it, most others do not).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock, Thread
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

PAGE = 4096  #: addresses, offsets and sizes are multiples of it
UNDER_WAY = 2  #: blocks that wait to be written; who comes with more goes to the cache
SLOWEST = 5e8  #: bytes a second; a slower disk is left to the cache
LARGE = 1 << 26  #: bytes of a file that is closed in the background
TRIAL = 3  #: blocks that say how fast the disk is


class DirectFile:
    """Takes over a nameless file; ``try_open`` gives None where it cannot be had."""

    def __init__(self, file: IO[Any]) -> None:
        self._file = file
        self._end = 0
        self._lock = Lock()
        self._room: list[Bytes] = [np.empty(0, dtype=np.uint8)] * UNDER_WAY
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="perinstance-scratch")
        self._written, self._seconds, self._count = 0, 0.0, 0

    @classmethod
    def try_open(cls, file: IO[Any]) -> DirectFile | None:
        """Ask the system for direct access to a file."""
        try:
            _set_direct(file, True)
        except (ImportError, AttributeError, OSError):
            return None
        return cls(file)

    def offer(self, arrays: Sequence[NDArray]) -> tuple[int, Future[None]] | None:
        """Copy the arrays and begin to write them behind each other: where, and when it is done. None: too busy."""
        size = sum(array.nbytes for array in arrays)
        with self._lock:
            slow = self._count >= TRIAL and self._written < SLOWEST * self._seconds
            if slow or not self._room:
                return None
            room = self._room.pop()
            offset, self._end = self._end, self._end + _padded(size)
        if len(room) < _padded(size):
            room = aligned(_padded(size))
        at = 0
        for array in arrays:
            room[at : at + array.nbytes] = flat_bytes(array)
            at += array.nbytes
        room[at : _padded(size)] = 0
        return offset, self._thread.submit(self._write, room, _padded(size), offset)

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

    def _write(self, room: Bytes, size: int, offset: int) -> None:
        start = time.perf_counter()
        try:
            try:
                write(self._file.fileno(), room[:size], offset)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                _set_direct(self._file, False)  # a file system that promised what it does not do
                write(self._file.fileno(), room[:size], offset)
        finally:
            with self._lock:
                self._room.append(room)
                self._written, self._count = self._written + size, self._count + 1
                self._seconds += time.perf_counter() - start

    def _read(self, offset: int, size: int) -> Bytes:
        room = aligned(_padded(size))
        read(self._file.fileno(), room, offset)
        return room[:size]


def _set_direct(file: IO[Any], direct: bool) -> None:
    import fcntl  # not on every system

    flags = fcntl.fcntl(file.fileno(), fcntl.F_GETFL)
    fcntl.fcntl(file.fileno(), fcntl.F_SETFL, flags | os.O_DIRECT if direct else flags & ~os.O_DIRECT)


def aligned(size: int) -> Bytes:
    """Return new memory that begins with a page."""
    room = np.empty(size + PAGE, dtype=np.uint8)
    start = -room.ctypes.data % PAGE
    return room[start : start + size]


def _padded(size: int) -> int:
    return -(-size // PAGE) * PAGE


def flat_bytes(array: NDArray) -> Bytes:
    """See an array as the bytes it is made of; it lies in one piece, in rows or in columns."""
    return array.reshape(-1, order="A").view(np.uint8)


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
