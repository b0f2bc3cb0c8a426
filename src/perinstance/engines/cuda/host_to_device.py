"""Blocks from the processor's memory to the device: through pinned buffers, several under way at a time.

Copying a block into a pinned buffer is done by the threads that read blocks anyway; the transfer runs on a stream of
its own while the device works on the blocks before.
"""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.folds.block import Block


@dataclass(frozen=True, slots=True)
class DeviceBlock:
    """Some consecutive rows on the device."""

    X: Any
    y: Any
    start: int
    arrived: Any | None  #: the event after which the rows are there; None when they are
    finite = True  #: the device looks at the cells

    def __len__(self) -> int:
        return len(self.y)

    def wait(self) -> None:
        """Make the device's current stream wait until the rows are there."""
        if self.arrived is not None:
            torch = torch_module()
            current = torch.cuda.current_stream(self.X.device)
            current.wait_event(self.arrived)
            self.X.record_stream(current)
            self.y.record_stream(current)


class Uploads:
    """Brings blocks over; ``buffers`` pinned ones are reused in turn."""

    def __init__(self, device: Any, buffers: int) -> None:
        self.device = device
        self.pinned = device.type == "cuda"
        self._free: queue.SimpleQueue[_Pinned] = queue.SimpleQueue()
        if self.pinned:
            torch = torch_module()
            self._stream = torch.cuda.Stream(device)
            for _ in range(buffers):
                self._free.put(_Pinned())

    def __call__(self, block: Block, into: tuple[Any, Any] | None = None) -> DeviceBlock:
        """Bring one block over, into these rows of a table on the device where they are given."""
        torch = torch_module()
        n, d = block.X.shape
        if not self.pinned:
            X, y = (torch.tensor(np.asarray(one, dtype=np.float64)) for one in (block.X, block.y))
            return DeviceBlock(X, y, block.start, None)
        buffer = self._free.get()
        try:
            room = buffer.room(n * (d + 1))
            np.copyto(room[: n * d].reshape(n, d), block.X)
            np.copyto(room[n * d : n * (d + 1)], block.y)
            with torch.cuda.stream(self._stream):
                if into is None:
                    there = torch.empty(n * (d + 1), dtype=torch.float64, device=self.device)
                    there.copy_(buffer.tensor[: n * (d + 1)], non_blocking=True)
                    X, y = there[: n * d].view(n, d), there[n * d :]
                else:
                    X, y = into
                    X.copy_(buffer.tensor[: n * d].view(n, d), non_blocking=True)
                    y.copy_(buffer.tensor[n * d : n * (d + 1)], non_blocking=True)
                buffer.sent.record(self._stream)
            arrived = torch.cuda.Event()
            arrived.record(self._stream)
        finally:
            self._free.put(buffer)
        return DeviceBlock(X, y, block.start, arrived)


class _Pinned:
    """One pinned buffer and the event after which it may be written again."""

    def __init__(self) -> None:
        self.tensor: Any = None
        self.sent: Any = torch_module().cuda.Event()

    def room(self, size: int) -> np.ndarray:
        """Wait for the last transfer out of it, and return it as an array of at least this size."""
        torch = torch_module()
        self.sent.synchronize()
        if self.tensor is None or len(self.tensor) < size:
            self.tensor = torch.empty(size, dtype=torch.float64, pin_memory=True)
        return np.asarray(self.tensor.numpy())
