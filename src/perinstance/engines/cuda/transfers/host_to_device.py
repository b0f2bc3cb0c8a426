"""Blocks from the processor's memory to the device: in slices through pinned buffers, several under way at a time.

The threads that read blocks copy them, slice by slice, into pinned buffers. Transfers run on a stream of their own,
while the device works on the rows before.
"""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.transfers import pinned_buffers
from perinstance.engines.cuda.transfers.compiled_slices import slices_of
from perinstance.engines.cuda.transfers.pinned_buffers import PinnedBuffer
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


@dataclass(frozen=True, slots=True)
class SentRows:
    """Consecutive rows on their way to their places in a table on the device."""

    start: int
    stop: int
    finite = True  #: the device looks at the cells


@dataclass(frozen=True, slots=True)
class SharedSlices:
    """Some rows of a table that lies in memory as it will on the device, cut: threads take slice after slice."""

    counter: NDArray[np.int64]
    slices: NDArray[np.int64]

    @classmethod
    def of(cls, arrays: tuple[NDArray, ...], tensors: tuple[Any, ...], rows: slice) -> SharedSlices:
        """Cut some rows of arrays (C-contiguous, float64) that go to the same rows of tensors."""
        transfers = []
        for one, there in zip(arrays, tensors, strict=True):
            row = 8 * _width(one)
            start, size = row * rows.start, row * (rows.stop - rows.start)
            transfers.append((one.ctypes.data + start, there.data_ptr() + start, size))
        return cls(np.zeros(1, dtype=np.int64), slices_of(transfers, pinned_buffers.PIECE_BYTES))


class Uploads:
    """Brings blocks over; of two pinned buffers for each thread, compiled calls take the one that was used last."""

    def __init__(self, device: Any, threads: int) -> None:
        self.device = device
        self.pinned = device.type == "cuda"
        self._free: deque[PinnedBuffer] = deque()
        if self.pinned:
            torch = torch_module()
            self._stream = torch.cuda.Stream(device)
            # the room that rows come into may have been somebody else's, whose work is not done yet
            self._stream.wait_stream(torch.cuda.current_stream(device))
            for _ in range(2 * threads):
                self._free.append(PinnedBuffer(self._stream))

    def holds(self, *tensors: Any) -> None:
        """Keep the memory of tensors, should they be let go of, until what is under way has come."""
        for one in tensors:
            one.record_stream(self._stream)

    def close(self) -> None:
        """Wait for what is under way: the buffers are torch's again, which does not know of it."""
        if self.pinned:
            self._stream.synchronize()

    def arrived(self) -> None:
        """Make the device's current stream wait for all rows that are on their way."""
        torch_module().cuda.current_stream(self.device).wait_event(self._stream.record_event())

    def __call__(self, block: Block) -> DeviceBlock:
        """Bring one block over, to a place of its own."""
        torch = torch_module()
        n, d = block.X.shape
        if not self.pinned:
            X, y = (torch.tensor(np.asarray(one, dtype=np.float64)) for one in (block.X, block.y))
            return DeviceBlock(X, y, block.start, None)
        with torch.cuda.stream(self._stream):
            there = torch.empty(n * (d + 1), dtype=torch.float64, device=self.device)
            into = there[: n * d].view(n, d), there[n * d :]
            self._send((block.X, block.y), into, 0)
            arrived = self._stream.record_event()
        return DeviceBlock(*into, block.start, arrived)

    def in_turns(self, work: SharedSlices) -> None:
        """Bring slices over, side by side with other threads who take them too."""
        buffer = self._free.pop()
        try:
            buffer.send_turns(work.counter, work.slices, pinned_buffers.cuda_runtime())
        finally:
            self._free.append(buffer)

    def into(self, table: tuple[Any, Any], block: Block) -> SentRows:
        """Bring one block to its rows of a table on the device."""
        self._send((block.X, block.y), table, block.start)
        return SentRows(block.start, block.start + len(block))

    def _send(self, arrays: tuple[NDArray, ...], tensors: tuple[Any, ...], start: int) -> None:
        """Bring arrays over, to the rows of tensors from ``start`` on; their entries become float64 on the way."""
        runtime = pinned_buffers.cuda_runtime()
        if runtime is not None and all(one.flags.c_contiguous and one.dtype == np.float64 for one in arrays):
            transfers = [
                (one.ctypes.data, there.data_ptr() + 8 * start * _width(one), one.nbytes)
                for one, there in zip(arrays, tensors, strict=True)
            ]
            buffer = self._free.pop()
            try:
                buffer.send_all(transfers, runtime)
            finally:
                self._free.append(buffer)
            return
        least = min(max(one.size for one in arrays), pinned_buffers.SLICE_BYTES // 8)
        by_torch = self.pinned and runtime is None
        with torch_module().cuda.stream(self._stream) if by_torch else nullcontext():
            for one, there in zip(arrays, tensors, strict=True):
                self._send_slices(one, there[start : start + len(one)], least)

    def _send_slices(self, array: NDArray, tensor: Any, least: int) -> None:
        """Bring an array over, a slice at a time. Buffers hold ``least`` numbers."""
        step = max(1, pinned_buffers.SLICE_BYTES // (8 * _width(array)))
        for start in range(0, len(array), step):
            buffer = self._free.popleft()
            try:
                buffer.send(array[start : start + step], tensor, start, least)
            finally:
                self._free.append(buffer)


def _width(array: NDArray) -> int:
    return int(array.shape[1]) if array.ndim == 2 else 1
