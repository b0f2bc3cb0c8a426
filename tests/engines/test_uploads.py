"""How rows are cut and sent to a GPU, with a memory copy in the place of CUDA's transfers."""

# ruff: noqa: N802 - the names are CUDA's

from __future__ import annotations

import ctypes
import queue

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the optional extra 'cuda' is not installed")

from perinstance.engines.cuda import host_to_device  # noqa: E402
from perinstance.engines.cuda.host_to_device import Uploads, _Pinned  # noqa: E402
from perinstance.errors import PerinstanceError  # noqa: E402

SLICE_BYTES = 1 << 10


class Runtime:
    """What is asked of CUDA's library, done at once, by functions that have an address."""

    def __init__(self, error=0):
        self.error, self.sizes, self.waited, self.recorded = error, [], [], []
        address = ctypes.c_void_p
        self.cudaMemcpyAsync = ctypes.CFUNCTYPE(ctypes.c_int, address, address, ctypes.c_size_t, ctypes.c_int, address)(
            self.transfer
        )
        self.cudaEventRecord = ctypes.CFUNCTYPE(ctypes.c_int, address, address)(self.record)
        self.cudaEventSynchronize = ctypes.CFUNCTYPE(ctypes.c_int, address)(self.wait)

    def transfer(self, to, source, size, kind, stream):
        assert (kind, stream) == (1, 7)
        self.sizes.append(size)
        ctypes.memmove(to, source, size)
        return self.error

    def record(self, event, stream):
        self.recorded.append(event)
        return 0

    def wait(self, event):
        self.waited.append(event)
        return 0

    def cudaEventQuery(self, event):
        return len(self.sizes) % 2

    def cudaGetLastError(self):
        return 0


class Handle:
    cuda_stream = 7

    def __init__(self, event=3):
        self.cuda_event = event

    def synchronize(self):
        pass

    def record(self, stream):
        pass


def uploads(monkeypatch, runtime):
    monkeypatch.setattr(host_to_device, "SLICE_BYTES", SLICE_BYTES)
    monkeypatch.setattr(host_to_device, "cuda_runtime", lambda: runtime)
    made = Uploads(torch.device("cpu"), 1)
    made._free = queue.SimpleQueue()
    for _ in range(2):
        buffer = _Pinned.__new__(_Pinned)
        buffer.stream = buffer.sent = Handle()
        buffer.pieces = [Handle(10 + k) for k in range(host_to_device.PIECES)]
        buffer.room = torch.full((SLICE_BYTES // 8,), torch.nan, dtype=torch.float64)
        buffer.words = buffer.room.numpy()
        made._free.put(buffer)
    return made


@pytest.mark.parametrize("way", ["calls", "torch"])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(900.0).reshape(300, 3),
        np.asfortranarray(np.arange(900.0).reshape(300, 3)),
        np.arange(900, dtype=np.float32).reshape(300, 3)[::2],
        np.arange(500) % 7,
        np.arange(128.0).reshape(1, 128),
        np.array([2.0]),
    ],
    ids=["rows", "columns", "single", "whole", "one row", "one number"],
)
def test_every_row_arrives_in_its_place(monkeypatch, array, way):
    runtime = Runtime() if way == "calls" else None
    there = torch.full(array.shape, torch.nan, dtype=torch.float64)
    uploads(monkeypatch, runtime)._send(array, there, 1)
    np.testing.assert_array_equal(there.numpy(), array.astype(np.float64))
    if runtime is not None:
        assert sum(runtime.sizes) == 8 * array.size and max(runtime.sizes) <= SLICE_BYTES


def test_numbers_in_a_row_go_by_pieces_in_turn(monkeypatch):
    runtime = Runtime()
    there = torch.full((500,), torch.nan, dtype=torch.float64)
    uploads(monkeypatch, runtime)._send(np.arange(500.0), there, 1)
    np.testing.assert_array_equal(there.numpy(), np.arange(500.0))
    piece = SLICE_BYTES // host_to_device.PIECES
    turns = -(-4000 // piece)
    assert turns > host_to_device.PIECES
    assert runtime.waited == runtime.recorded == [10 + k % host_to_device.PIECES for k in range(turns)]
    assert runtime.sizes == [piece] * (turns - 1) + [4000 - piece * (turns - 1)]


def test_a_refused_transfer_is_told_and_its_buffer_comes_back(monkeypatch):
    made = uploads(monkeypatch, Runtime(error=700))
    with pytest.raises(PerinstanceError, match="700"):
        made._send(np.arange(300.0), torch.empty(300, dtype=torch.float64), 1)
    assert made._free.qsize() == 2
