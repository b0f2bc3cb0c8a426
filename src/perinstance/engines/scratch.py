"""Blocks that were decoded once and are wanted again: in memory while they fit, then in a private scratch file.

The file has no name: the operating system makes it 0600 and it is unlinked before the first byte, so nobody else can
open it and nothing is left behind by a crash, a signal or a full disk.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from perinstance.data.source import Block
from perinstance.errors import ScratchFull


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one block lies in the file."""

    start: int
    shape: tuple[int, int]
    dtype: np.dtype
    order: Literal["C", "F"]
    offset: int


class Scratch:
    """Keep blocks by their number; safe for several threads."""

    def __init__(self, memory_bytes: int, folder: str | os.PathLike[str] | None = None) -> None:
        self._left = memory_bytes
        self._folder = folder
        self._kept: dict[int, Block | _Place] = {}
        self._lock = Lock()
        self._file: IO[Any] | None = None
        self._end = 0

    def put(self, number: int, block: Block) -> None:
        """Keep block ``number``."""
        size = block.X.nbytes + block.y.nbytes
        with self._lock:
            if size <= self._left:
                self._left -= size
                self._kept[number] = Block(block.start, block.X, block.y)
                return
            offset, self._end = self._end, self._end + size
            try:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(  # noqa: SIM115 - lives as long as the sweep
                        prefix="perinstance-", dir=self._folder, buffering=0
                    )
            except OSError as error:
                raise _full(offset, error) from None
            descriptor = self._file.fileno()
        order: Literal["C", "F"] = "C" if block.X.flags.c_contiguous else "F"
        matrix = np.asarray(block.X, order=order)
        try:
            _write(descriptor, matrix, offset)
            _write(descriptor, np.ascontiguousarray(block.y), offset + matrix.nbytes)
        except OSError as error:
            raise _full(offset, error) from None
        self._kept[number] = _Place(block.start, (len(block), matrix.shape[1]), matrix.dtype, order, offset)

    def pieces(self) -> list[Callable[[], Block]]:
        """Return one call per block, in row order."""
        return [partial(self._get, number) for number in range(len(self._kept))]

    def _get(self, number: int) -> Block:
        kept = self._kept[number]
        if isinstance(kept, Block):
            return kept
        assert self._file is not None  # a place exists only in a file
        X = np.empty(kept.shape, dtype=kept.dtype, order=kept.order)
        y = np.empty(kept.shape[0])
        _read(self._file.fileno(), X, kept.offset)
        _read(self._file.fileno(), y, kept.offset + X.nbytes)
        return Block(kept.start, X, y)

    def close(self) -> None:
        """Forget everything; the file vanishes with its descriptor."""
        self._kept.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        self.close()


def _full(offset: int, error: OSError) -> ScratchFull:
    return ScratchFull(
        f"the private scratch file could not be written beyond {offset >> 20} MB ({error.strerror}); point scratch= "
        "or TMPDIR to a disk with more room, or raise memory_bytes"
    )


def _bytes(array: NDArray) -> memoryview:
    return array.reshape(-1, order="A").view(np.uint8).data


def _write(descriptor: int, array: NDArray, offset: int) -> None:
    view = _bytes(array)
    while len(view):
        done = os.pwrite(descriptor, view, offset)
        view, offset = view[done:], offset + done


def _read(descriptor: int, array: NDArray, offset: int) -> None:
    view = _bytes(array)
    while len(view):
        done = os.preadv(descriptor, [view], offset)
        if not done:
            raise ScratchFull("the private scratch file is shorter than what was written; was the disk removed?")
        view, offset = view[done:], offset + done
