"""Blocks from the processor's memory to the device: in slices through pinned buffers, several under way at a time.

The threads that read blocks copy them, slice by slice, into pinned buffers. Transfers run on a stream of their own,
while the device works on the rows before.
"""

from __future__ import annotations

import ctypes
import functools
import queue
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.sliced_transfers import TO_DEVICE, send_slices, transfer_addresses
from perinstance.errors import PerinstanceError
from perinstance.folds.block import Block

#: bytes of a slice that the interpreter sends: with smaller ones threads wait for its lock
SLICE_BYTES = 16 << 20
#: pieces of a buffer that compiled code fills in turn: one is filled while the other is on its way
PIECES = 2


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
    """Brings blocks over; two pinned buffers for each thread are reused in turn."""

    def __init__(self, device: Any, threads: int) -> None:
        self.device = device
        self.pinned = device.type == "cuda"
        self._free: queue.SimpleQueue[_Pinned] = queue.SimpleQueue()
        if self.pinned:
            torch = torch_module()
            self._stream = torch.cuda.Stream(device)
            # the room that rows come into may have been somebody else's, whose work is not done yet
            self._stream.wait_stream(torch.cuda.current_stream(device))
            for _ in range(2 * threads):
                self._free.put(_Pinned(self._stream))

    def holds(self, *tensors: Any) -> None:
        """Keep the memory of tensors, should they be let go of, until what is under way has come."""
        for one in tensors:
            one.record_stream(self._stream)

    def close(self) -> None:
        """Wait for what is under way: the buffers are torch's again, which does not know of it."""
        if self.pinned:
            self._stream.synchronize()

    def __call__(self, block: Block, into: tuple[Any, Any] | None = None) -> DeviceBlock:
        """Bring one block over, into these rows of a table on the device where they are given."""
        torch = torch_module()
        n, d = block.X.shape
        if not self.pinned:
            X, y = (torch.tensor(np.asarray(one, dtype=np.float64)) for one in (block.X, block.y))
            return DeviceBlock(X, y, block.start, None)
        with torch.cuda.stream(self._stream):
            if into is None:
                there = torch.empty(n * (d + 1), dtype=torch.float64, device=self.device)
                into = there[: n * d].view(n, d), there[n * d :]
            least = min(n * d, SLICE_BYTES // 8)
            for array, tensor in zip((block.X, block.y), into, strict=True):
                self._send(array, tensor, least)
            arrived = self._stream.record_event()
        return DeviceBlock(*into, block.start, arrived)

    def _send(self, array: NDArray, tensor: Any, least: int) -> None:
        """Bring the rows of an array over; its entries become float64 on the way. Buffers hold ``least`` numbers."""
        runtime = cuda_runtime()
        if runtime is not None and array.flags.c_contiguous and array.dtype == np.float64:
            buffer = self._free.get()
            try:
                buffer.send_all(array, tensor, runtime)
            finally:
                self._free.put(buffer)
            return
        step = max(1, SLICE_BYTES // (8 * (array.shape[1] if array.ndim == 2 else 1)))
        for start in range(0, len(array), step):
            buffer = self._free.get()
            try:
                buffer.send(array[start : start + step], tensor, start, least)
            finally:
                self._free.put(buffer)


class _Pinned:
    """One pinned buffer and the events after which it, or a piece of it, may be written again."""

    def __init__(self, stream: Any) -> None:
        torch = torch_module()
        self.stream = stream
        self.room: Any = None
        self.words: NDArray = np.empty(0)
        self.pieces: list[Any] = [torch.cuda.Event() for _ in range(PIECES)]
        self.sent: Any = torch.cuda.Event()
        for event in (self.sent, *self.pieces):
            event.record(stream)

    def send_all(self, array: NDArray, tensor: Any, runtime: Any) -> None:
        """Bring a whole array of numbers that lie one after the other over, in one compiled call."""
        piece = SLICE_BYTES // (8 * PIECES)
        if len(self.words) < min(array.size, SLICE_BYTES // 8):
            self._widen(min(array.size, SLICE_BYTES // 8))
        count = max(1, min(PIECES, len(self.words) // piece))
        piece = min(piece, len(self.words))
        self.sent.synchronize()
        buffers = self.words.ctypes.data + 8 * piece * np.arange(count)
        events = np.array([event.cuda_event for event in self.pieces[:count]])
        where, there = array.ctypes.data, tensor.data_ptr()
        error = send_slices(
            where, there, array.nbytes, 8 * piece, buffers, events, self.stream.cuda_stream, transfer_addresses(runtime)
        )
        self.sent.record(self.stream)
        _check(error)

    def _widen(self, numbers: int) -> None:
        """Make room for so many numbers; what is under way out of the old room ends first."""
        self.sent.synchronize()
        self.room = torch_module().empty(numbers, dtype=torch_module().float64, pin_memory=True)
        self.words = self.room.numpy()

    def send(self, part: NDArray, tensor: Any, start: int, least: int) -> None:
        """Copy some rows here, and begin their transfer to the rows of a tensor from ``start`` on."""
        runtime = cuda_runtime()
        event, stream = self.sent.cuda_event, self.stream.cuda_stream
        if runtime is None:
            self.sent.synchronize()
        elif runtime.cudaEventQuery(event):  # the last transfer out of this buffer is still under way
            runtime.cudaGetLastError()  # forget that this was an answer
            self.sent.synchronize()
        if len(self.words) < part.size:
            self._widen(max(part.size, least))
        np.copyto(self.words[: part.size].reshape(part.shape), part)
        if runtime is None:
            there = tensor[start : start + len(part)]
            there.copy_(self.room[: part.size].view(there.shape), non_blocking=True)
            self.sent.record(self.stream)
            return
        there = tensor.data_ptr() + 8 * start * (part.size // len(part))
        begun = runtime.cudaMemcpyAsync(there, self.words.ctypes.data, 8 * part.size, TO_DEVICE, stream)
        begun = begun or runtime.cudaEventRecord(event, stream)
        _check(begun)


def _check(error: int) -> None:
    if error:
        raise PerinstanceError(f"rows could not be copied to the GPU: CUDA's error {error}; is it still there?")


@functools.cache
def cuda_runtime() -> Any:
    """Return CUDA's own library, which torch has loaded, with calls that keep the interpreter's lock; None without it.

    Torch's way to begin a transfer lets the lock go several times and waits for it again, which with sixteen threads
    took far longer than the transfer.
    """
    try:
        library = ctypes.PyDLL(f"libcudart.so.{str(torch_module().version.cuda).split('.')[0]}")
    except OSError:  # it is linked into torch, or has another name
        return None
    pointer = ctypes.c_void_p
    library.cudaMemcpyAsync.argtypes = [pointer, pointer, ctypes.c_size_t, ctypes.c_int, pointer]
    library.cudaEventRecord.argtypes = [pointer, pointer]
    library.cudaEventQuery.argtypes = [pointer]
    return library
