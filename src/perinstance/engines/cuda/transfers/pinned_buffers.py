"""One pinned buffer: memory that a GPU reads and writes by itself, and the events that tell when it has."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.transfers.compiled_slices import (
    TO_DEVICE,
    receive_slices,
    send_slices,
    slices_of,
    transfer_addresses,
)
from perinstance.errors import PerinstanceError

#: bytes of a slice that the interpreter sends: with smaller ones threads wait for its lock
SLICE_BYTES = 16 << 20
#: bytes of a piece of a buffer, and pieces that compiled code fills in turn, one while the other is on its way: with
#: more, what is written does not wait in the processor's cache until the device has read it
PIECE_BYTES, PIECES = 4 << 20, 2


class Pieces(NamedTuple):
    """The pieces of a buffer."""

    addresses: NDArray
    events: NDArray
    bytes: int  #: of each


class PinnedBuffer:
    """A buffer and the events after which it, or a piece of it, may be written again."""

    def __init__(self, stream: Any) -> None:
        torch = torch_module()
        self.stream = stream
        self.room: Any = None
        self.words: NDArray = np.empty(0)
        self.layout: Pieces | None = None
        self.pieces: list[Any] = [torch.cuda.Event() for _ in range(PIECES)]
        self.sent: Any = torch.cuda.Event()
        self.whole = False  #: the last transfer was of the whole buffer, and ``sent`` tells its end
        for event in (self.sent, *self.pieces):
            event.record(stream)

    def send_all(self, transfers: list[tuple[int, int, int]], runtime: Any) -> None:
        """Bring what lies at some addresses (from, to, bytes) over, in one compiled call."""
        pieces = self._pieces(max(size for _, _, size in transfers))
        self._send(np.zeros(1, dtype=np.int64), slices_of(transfers, pieces.bytes), pieces, runtime)

    def send_turns(self, counter: NDArray[np.int64], slices: NDArray[np.int64], runtime: Any) -> None:
        """Bring slices of at most ``PIECE_BYTES`` over, until none is left by others who take them too."""
        self._send(counter, slices, self._pieces(PIECES * int(slices[:, 2].max())), runtime)

    def _send(self, counter: NDArray, slices: NDArray, pieces: Pieces, runtime: Any) -> None:
        stream, calls = self.stream.cuda_stream, transfer_addresses(runtime)
        check(send_slices(counter, slices, pieces.addresses, pieces.events, stream, calls))

    def receive_all(self, transfers: list[tuple[int, int, int]], runtime: Any) -> None:
        """Take back what lies at some addresses of the device (from, to, bytes); returns when it is there."""
        buffers, events, piece = self._pieces(max(size for _, _, size in transfers))
        slices = slices_of(transfers, piece)
        check(receive_slices(slices, buffers, events, self.stream.cuda_stream, transfer_addresses(runtime)))

    def numbers(self, count: int) -> tuple[NDArray, NDArray]:
        """Return room for so many numbers, nothing of it on its way, and the events of ``PIECES`` transfers."""
        if len(self.words) < count:
            self._widen(count)
        return self.words[:count], np.array([event.cuda_event for event in self.pieces])

    def _pieces(self, size: int) -> Pieces:
        """Return pieces for transfers of so many bytes in all, or as many as there are."""
        numbers = min(-(-size // 8), PIECES * PIECE_BYTES // 8)
        if len(self.words) < numbers:
            self._widen(numbers)
        if self.whole:
            self.sent.synchronize()
            self.whole = False
        if self.layout is None:
            piece = min(PIECE_BYTES, 8 * len(self.words))
            count = min(PIECES, 8 * len(self.words) // piece)
            addresses = self.words.ctypes.data + piece * np.arange(count)
            self.layout = Pieces(addresses, np.array([event.cuda_event for event in self.pieces[:count]]), piece)
        return self.layout

    def _widen(self, numbers: int) -> None:
        """Make room for so many numbers; what is under way out of the old room ends first."""
        self._wait()
        torch = torch_module()
        self.room = torch.empty(numbers, dtype=torch.float64, pin_memory=True)
        self.words = self.room.numpy()
        self.layout = None

    def _wait(self) -> None:
        for event in (self.sent, *self.pieces):
            event.synchronize()

    def send(self, part: NDArray, tensor: Any, start: int, least: int) -> None:
        """Copy some rows here, and begin their transfer to the rows of a tensor from ``start`` on."""
        runtime = cuda_runtime()
        event, stream = self.sent.cuda_event, self.stream.cuda_stream
        if runtime is None or not self.whole:
            self._wait()
        elif runtime.cudaEventQuery(event):  # the last transfer out of this buffer is still under way
            runtime.cudaGetLastError()  # forget that this was an answer
            self.sent.synchronize()
        self.whole = True
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
        check(begun)


def check(error: int) -> None:
    """Refuse CUDA's errors."""
    if error:
        raise PerinstanceError(
            f"rows or answers could not be copied to or from the GPU: CUDA's error {error}; is it still there?"
        )


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
    library.cudaStreamWaitEvent.argtypes = [pointer, pointer, ctypes.c_uint]
    return library
