"""Blocks that were decoded once and are wanted again: in memory while they fit, then in a private scratch file.

The file has no name: the operating system makes it 0600 and it is unlinked before the first byte, so nobody else can
open it and nothing is left behind by a crash, a signal or a full disk.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import IO, Any, Literal

import numpy as np

from perinstance.data.source import Piece
from perinstance.errors import ScratchFull
from perinstance.folds.block import Block


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one block lies: X, and y behind it."""

    start: int
    shape: tuple[int, int]
    dtype: np.dtype
    order: Literal["C", "F"]
    offset: int
    descriptor: int

    def block(self) -> Block:
        """Read it back."""
        middle = self.shape[0] * self.shape[1] * self.dtype.itemsize
        room = np.empty(middle + 8 * self.shape[0], dtype=np.uint8)
        left, offset = room.data, self.offset
        try:
            while len(left):
                done = os.preadv(self.descriptor, [left], offset)
                if not done:
                    raise EOFError
                left, offset = left[done:], offset + done
        except (EOFError, OSError):
            raise ScratchFull(
                "what was written to the private scratch file cannot be read back; was the disk removed?"
            ) from None
        X = room[:middle].view(self.dtype).reshape(self.shape, order=self.order)
        return Block(X, room[middle:].view(np.float64), self.start)


class Scratch:
    """Keep blocks by their number; safe for several threads."""

    def __init__(self, memory_bytes: int, folder: str | os.PathLike[str] | None = None) -> None:
        self._left = memory_bytes
        self._folder = folder
        self._kept: dict[int, Block | _Place] = {}
        self._lock = Lock()
        self._file: IO[Any] | None = None
        self._end = 0  # of what is written, or about to be

    def put(self, number: int, block: Block) -> None:
        """Keep block ``number``."""
        size = block.X.nbytes + 8 * len(block)
        with self._lock:
            if size <= self._left:
                self._left -= size
                self._kept[number] = Block(block.X, block.y, block.start)
                return
        try:
            with self._lock:
                if self._file is None:  # it lives as long as the sweep
                    self._file = tempfile.TemporaryFile(prefix="perinstance-", dir=self._folder, buffering=0)  # noqa: SIM115
                descriptor, offset = self._file.fileno(), self._end
                self._end += size
            order: Literal["C", "F"] = "C" if block.X.flags.c_contiguous else "F"
            at = offset
            for array in (np.asarray(block.X, order=order), np.ascontiguousarray(block.y, dtype=np.float64)):
                left = array.reshape(-1, order=order).view(np.uint8).data
                while len(left):
                    done = os.pwrite(descriptor, left, at)
                    left, at = left[done:], at + done
        except OSError as error:
            raise ScratchFull(
                f"the private scratch file could not be written beyond {self._end >> 20} MB ({error.strerror}); "
                "point scratch= or TMPDIR to a disk with more room, or raise memory_bytes"
            ) from None
        shape = len(block), block.X.shape[1]
        self._kept[number] = _Place(block.start, shape, block.X.dtype, order, offset, descriptor)

    def pieces(self) -> Iterator[Piece]:
        """Yield one call per block, in row order."""
        for number in range(len(self._kept)):
            kept = self._kept[number]
            yield kept.block if isinstance(kept, _Place) else partial(Block, kept.X, kept.y, kept.start)

    def close(self) -> None:
        """Forget everything; a file vanishes with its descriptor."""
        self._kept.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        self.close()
