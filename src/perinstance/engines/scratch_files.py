"""Blocks that were decoded once and are wanted again: in memory while they fit, then in private scratch files.

The files have no name: the operating system makes them 0600 and they are unlinked before the first byte, so nobody else
can open them and nothing is left behind by a crash, a signal or a full disk. One is written past the system's cache
while others compute (``direct.py``). What it cannot take goes through the cache, into as many files as threads write
at the same time: the system lets one thread at a file, and the others would spin.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import IO, Any, Literal

import numpy as np

from perinstance.data.aligned_memory import flat_bytes
from perinstance.data.source import Piece
from perinstance.engines.direct_io import DirectFile, read, write
from perinstance.errors import ScratchFull
from perinstance.folds.block import Block
from perinstance.numerics.array_types import Bytes

DIRECT_BYTES = 1 << 20  #: smaller blocks are not worth a way past the cache
AHEAD = 2  #: blocks that are read before anybody asks for them


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one block lies."""

    start: int
    shape: tuple[int, int]
    dtype: np.dtype
    order: Literal["C", "F"]
    offset: int
    descriptor: int | None  #: None: in the direct file
    written: Future[None] | None  #: when it is there

    @property
    def size(self) -> int:
        """Bytes of X and y, which lie behind each other."""
        return self.shape[0] * (self.shape[1] * self.dtype.itemsize + 8)

    def block(self, room: Bytes) -> Block:
        """See the bytes as what they were."""
        middle = self.size - 8 * self.shape[0]
        X = room[:middle].view(self.dtype).reshape(self.shape, order=self.order)
        return Block(X, room[middle : self.size].view(np.float64), self.start)


class Scratch:
    """Keep blocks by their number; safe for several threads."""

    def __init__(
        self, memory_bytes: int, folder: str | os.PathLike[str] | None = None, direct_bytes: int = DIRECT_BYTES
    ) -> None:
        self._left = memory_bytes
        self._folder = folder
        self._direct_bytes = direct_bytes
        self._kept: dict[int, Block | _Place] = {}
        self._lock = Lock()
        self._direct: DirectFile | None = None
        self._no_direct = False
        self._files: list[IO[Any]] = []
        self._idle: list[tuple[int, int]] = []  # descriptors nobody writes to, and where they end
        self._written = 0

    def put(self, number: int, block: Block) -> None:
        """Keep block ``number``."""
        size = block.X.nbytes + block.y.nbytes
        with self._lock:
            if size <= self._left:
                self._left -= size
                self._kept[number] = Block(block.X, block.y, block.start)
                return
        order: Literal["C", "F"] = "C" if block.X.flags.c_contiguous else "F"
        try:
            descriptor, offset, written = self._put_direct(block) or self._put_cached(block, order)
        except OSError as error:
            raise _full(self._written, error) from None
        shape = (len(block), block.X.shape[1])
        self._kept[number] = _Place(block.start, shape, block.X.dtype, order, offset, descriptor, written)
        with self._lock:
            self._written += size

    def _put_direct(self, block: Block) -> tuple[None, int, Future[None]] | None:
        """Begin to write past the cache; None where that is not to be had."""
        if block.whole is None or len(block.whole) < self._direct_bytes:
            return None
        with self._lock:
            if self._direct is None and not self._no_direct:
                file = self._open()
                self._direct = DirectFile.try_open(file)
                self._no_direct = self._direct is None
                if self._direct is not None:
                    self._files.remove(file)  # closes it itself
        begun = self._direct.offer(block.whole) if self._direct is not None else None
        return None if begun is None else (None, *begun)

    def _put_cached(self, block: Block, order: Literal["C", "F"]) -> tuple[int, int, None]:
        with self._lock:
            descriptor, offset = self._idle.pop() if self._idle else (self._open().fileno(), 0)
        at = offset
        for array in (np.asarray(block.X, order=order), np.ascontiguousarray(block.y)):
            write(descriptor, flat_bytes(array), at)
            at += array.nbytes
        with self._lock:
            self._idle.append((descriptor, at))
        return descriptor, offset, None

    def _open(self) -> IO[Any]:
        file = tempfile.TemporaryFile(  # noqa: SIM115 - lives as long as the sweep
            prefix="perinstance-", dir=self._folder, buffering=0
        )
        self._files.append(file)
        return file

    def pieces(self) -> Iterator[Piece]:
        """Yield one call per block, in row order; the next few are already being read."""
        begun: deque[Piece] = deque()
        for number in range(len(self._kept)):
            begun.append(self._begin(self._kept[number]))
            if len(begun) > AHEAD:
                yield begun.popleft()
        yield from begun

    def _begin(self, kept: Block | _Place) -> Piece:
        if isinstance(kept, Block):
            return lambda: kept
        if self._direct is None or kept.descriptor is not None:
            return partial(_read_cached, kept)
        return partial(_arrived, kept, self._direct.read(kept.offset, kept.size))

    def finish(self) -> None:
        """Wait until everything is written."""
        for kept in self._kept.values():
            if isinstance(kept, _Place) and kept.written is not None:
                try:
                    kept.written.result()
                except OSError as error:
                    raise _full(self._written, error) from None

    def close(self) -> None:
        """Forget everything; a file vanishes with its descriptor."""
        self._kept.clear()
        self._idle.clear()
        if self._direct is not None:
            self._direct.close()
            self._direct = None
        while self._files:
            self._files.pop().close()

    def __del__(self) -> None:
        self.close()


def _read_cached(place: _Place) -> Block:
    room = np.empty(place.size, dtype=np.uint8)
    assert place.descriptor is not None  # otherwise it lies in the direct file
    try:
        read(place.descriptor, room, place.offset)
    except (EOFError, OSError):
        raise _unreadable() from None
    return place.block(room)


def _arrived(place: _Place, room: Future[Bytes]) -> Block:
    try:
        return place.block(room.result())
    except (EOFError, OSError):
        raise _unreadable() from None


def _unreadable() -> ScratchFull:
    return ScratchFull("what was written to the private scratch file cannot be read back; was the disk removed?")


def _full(written: int, error: OSError) -> ScratchFull:
    return ScratchFull(
        f"the private scratch file could not be written beyond {written >> 20} MB ({error.strerror}); point scratch= "
        "or TMPDIR to a disk with more room, or raise memory_bytes"
    )
