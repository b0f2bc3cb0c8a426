"""Rows to a device and answers back, through memory that a GPU reads and writes by itself.

A thread that reads a block copies it, slice by slice, into two pinned buffers in turn; each is sent while the other is
filled. Transfers run on streams of their own, while the device works on the rows before.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.folds.block import Block

#: bytes of a pinned buffer: with larger ones, what is written does not wait in the processor's cache until the device
#: has read it; with smaller ones threads wait for the interpreter. Changes only speed
SLICE_BYTES = 16 << 20
GROUP_BYTES = 1 << 30  #: of the rows that a device works on at a time; changes only speed


@dataclass(frozen=True, slots=True)
class DeviceBlock:
    """Some consecutive rows on the device."""

    X: Any
    y: Any
    start: int
    arrived: Any | None = None  #: the event after which the rows are there; None when they are
    finite = True  #: the device looks at the cells

    def __len__(self) -> int:
        return len(self.y)

    def wait(self) -> None:
        """Make the device's current stream wait until the rows are there."""
        if self.arrived is not None:
            current = torch_module().cuda.current_stream(self.X.device)
            current.wait_event(self.arrived)
            self.X.record_stream(current)
            self.y.record_stream(current)


class _PinnedBuffer:
    """A buffer and the event after which it may be written again."""

    def __init__(self, numbers: int) -> None:
        torch = torch_module()
        self.room = torch.empty(numbers, dtype=torch.float64, pin_memory=True)
        self.sent = torch.cuda.Event()

    def send(self, part: NDArray, tensor: Any) -> None:
        """Copy some rows here, and begin their transfer to a tensor."""
        self.sent.synchronize()
        here = self.room[: part.size].view(tensor.shape)
        np.copyto(here.numpy(), part)
        tensor.copy_(here, non_blocking=True)
        self.sent.record()


class Uploads:
    """Brings blocks over, in float64; called by several threads."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self._own = threading.local()
        self._stream = torch_module().cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, block: Block) -> DeviceBlock:
        """Bring one block over."""
        torch = torch_module()
        if self._stream is None:
            X, y = (torch.tensor(np.asarray(one, dtype=np.float64)) for one in (block.X, block.y))
            return DeviceBlock(X, y, block.start)
        with torch.cuda.stream(self._stream):
            X, y = (torch.empty(one.shape, dtype=torch.float64, device=self.device) for one in (block.X, block.y))
            self._send(block.X, X)
            self._send(block.y, y)
            return DeviceBlock(X, y, block.start, self._stream.record_event())

    def _send(self, array: NDArray, tensor: Any) -> None:
        width = array[:1].size
        step = max(1, SLICE_BYTES // (8 * width))
        if getattr(self._own, "numbers", 0) < step * width:
            self._own.numbers = step * width
            self._own.buffers = cycle([_PinnedBuffer(step * width) for _ in range(2)])
        for start in range(0, len(array), step):
            next(self._own.buffers).send(array[start : start + step], tensor[start : start + step])


def in_groups(blocks: Iterator[DeviceBlock]) -> Iterator[DeviceBlock]:
    """Put blocks together: a device wants more rows at a time than a thread does."""
    waiting: list[DeviceBlock] = []
    for block in blocks:
        waiting.append(block)
        if sum(one.X.nbytes for one in waiting) >= GROUP_BYTES:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(blocks: list[DeviceBlock]) -> DeviceBlock:
    for block in blocks:
        block.wait()
    X, y = (torch_module().cat(parts) for parts in ([one.X for one in blocks], [one.y for one in blocks]))
    return DeviceBlock(X, y, blocks[0].start)


def event_now(device: Any) -> Any:
    """Return the event after which what was asked of a GPU so far is done; None on a processor."""
    return torch_module().cuda.current_stream(device).record_event() if device.type == "cuda" else None


@functools.cache
def _downwards(device: Any) -> Any:
    """Return the stream on which answers come back, so that none waits for the rows behind it."""
    return torch_module().cuda.Stream(device)


def to_host(*tensors: Any, ready: Any = None) -> list[Any]:
    """Return tensors as numpy arrays of their own; from a GPU through pinned memory, after the event ``ready``."""
    torch, device = torch_module(), tensors[0].device
    if device.type != "cuda":
        return [one.numpy().copy() for one in tensors]
    stream, ready = _downwards(device), event_now(device) if ready is None else ready
    with torch.cuda.stream(stream):
        stream.wait_event(ready)
        there = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in tensors]
        for one, other in zip(there, tensors, strict=True):
            one.copy_(other, non_blocking=True)
        done = stream.record_event()
    done.synchronize()
    return [one.numpy() for one in there]
