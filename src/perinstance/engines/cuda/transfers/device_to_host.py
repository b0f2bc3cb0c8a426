"""Answers from the device: columns into arrays of the host, through pinned buffers with a stream each."""

from __future__ import annotations

import functools
import queue
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from numpy.typing import NDArray

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.transfers.pinned_buffers import PinnedBuffer, check, cuda_runtime


class Downloads:
    """Brings columns back, for several threads at a time; none waits for the rows behind its own."""

    def __init__(self, device: Any, threads: int) -> None:
        self._free: queue.SimpleQueue[PinnedBuffer] = queue.SimpleQueue()
        self.pinned = device.type == "cuda" and cuda_runtime() is not None
        if self.pinned:
            for _ in range(threads):
                self._free.put(PinnedBuffer(torch_module().cuda.Stream(device)))

    def make_room(self, numbers: int) -> None:
        """Have so many numbers' pinned memory ready in each buffer; nobody has been lent one yet."""
        for _ in range(self._free.qsize()):
            buffer = self._free.get()
            buffer.numbers(numbers)
            self._free.put(buffer)

    def __call__(self, columns: list[Any], rows: slice, arrays: list[NDArray], ready: Any) -> None:
        """Write some rows of columns to arrays, once the event ``ready`` has come."""
        if not self.pinned:
            for column, array in zip(columns, arrays, strict=True):
                array[:] = column[rows].cpu().numpy()
            return
        transfers = [
            (column.data_ptr() + array.itemsize * rows.start, array.ctypes.data, array.nbytes)
            for column, array in zip(columns, arrays, strict=True)
        ]
        with self.lent() as buffer:
            check(cuda_runtime().cudaStreamWaitEvent(buffer.stream.cuda_stream, ready.cuda_event, 0))
            buffer.receive_all(transfers, cuda_runtime())

    @contextmanager
    def lent(self) -> Iterator[PinnedBuffer]:
        """Lend a buffer. Nothing is on its way to it when it comes back, also when a transfer failed."""
        buffer = self._free.get()
        try:
            yield buffer
        except BaseException:
            with suppress(RuntimeError):  # a device that is gone sends nothing any more
                buffer.stream.synchronize()
            raise
        finally:
            self._free.put(buffer)


def event_now(device: Any) -> Any:
    """Return the event after which what was asked of a GPU so far is done; None on a processor."""
    return torch_module().cuda.current_stream(device).record_event() if device.type == "cuda" else None


@functools.cache
def _downwards(device: Any) -> Any:
    """Return the stream on which answers come back, so that none waits for the rows behind it."""
    return torch_module().cuda.Stream(device)


def to_host(*tensors: Any, ready: Any = None) -> list[Any]:
    """Return tensors as numpy arrays of their own; from a GPU through pinned memory, after the event ``ready``."""
    torch = torch_module()
    if tensors[0].device.type != "cuda":
        return [one.numpy().copy() for one in tensors]
    device = tensors[0].device
    stream, ready = _downwards(device), event_now(device) if ready is None else ready
    there = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in tensors]
    with torch.cuda.stream(stream):
        stream.wait_event(ready)
        for one, other in zip(there, tensors, strict=True):
            one.copy_(other, non_blocking=True)
        done = stream.record_event()
    done.synchronize()
    return [one.numpy() for one in there]
