"""How rows are cut and sent to a GPU, and answers taken back, with a memory copy in the place of CUDA's transfers."""

# ruff: noqa: N802 - the names are CUDA's

from __future__ import annotations

import ctypes
import dataclasses

import numpy as np
import pytest

from perinstance.engines.cuda import loss_chunks
from perinstance.engines.cuda.transfers import answer_memory, device_to_host, pinned_buffers
from perinstance.engines.cuda.transfers.device_to_host import Downloads
from perinstance.engines.cuda.transfers.host_to_device import DeviceBlock, Uploads
from perinstance.engines.cuda.transfers.pinned_buffers import PinnedBuffer
from perinstance.errors import PerinstanceError
from perinstance.folds.block import Block
from perinstance.models.linear.row_statistics import Without
from perinstance.releases import PosteriorSample
from perinstance.releases.base.block_losses import AnswerRoom

torch = pytest.importorskip("torch", reason="the optional extra 'cuda' is not installed")

SLICE_BYTES, PIECE_BYTES = 1 << 10, 1 << 8


class Runtime:
    """What is asked of CUDA's library, done at once, by functions that have an address."""

    def __init__(self, error=0, kind=1):
        self.kind = kind
        self.error, self.sizes, self.waited, self.recorded = error, [], [], []
        address = ctypes.c_void_p
        self.cudaMemcpyAsync = ctypes.CFUNCTYPE(ctypes.c_int, address, address, ctypes.c_size_t, ctypes.c_int, address)(
            self.transfer
        )
        self.cudaEventRecord = ctypes.CFUNCTYPE(ctypes.c_int, address, address)(self.record)
        self.cudaEventSynchronize = ctypes.CFUNCTYPE(ctypes.c_int, address)(self.wait)

    def transfer(self, to, source, size, kind, stream):
        assert (kind, stream) == (self.kind, 7)
        self.sizes.append(size)
        ctypes.memmove(to, source, size)
        return self.error

    def record(self, event, stream):
        self.recorded.append(event)
        return 0

    def wait(self, event):
        self.waited.append(event)
        return 0

    def cudaStreamWaitEvent(self, stream, event, flags):
        assert (stream, event, flags) == (7, 3, 0)
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


def with_buffers(monkeypatch, runtime, made):
    monkeypatch.setattr(pinned_buffers, "SLICE_BYTES", SLICE_BYTES)
    monkeypatch.setattr(pinned_buffers, "PIECE_BYTES", PIECE_BYTES)
    for module in (pinned_buffers, device_to_host, loss_chunks):
        monkeypatch.setattr(module, "cuda_runtime", lambda: runtime)
    put = getattr(made._free, "append", None) or made._free.put
    for _ in range(2):
        buffer = PinnedBuffer.__new__(PinnedBuffer)
        buffer.stream = buffer.sent = Handle()
        buffer.whole, buffer.layout = False, None
        buffer.pieces = [Handle(10 + k) for k in range(pinned_buffers.PIECES)]
        buffer.room = torch.full((SLICE_BYTES // 8,), torch.nan, dtype=torch.float64)
        buffer.words = buffer.room.numpy()
        put(buffer)
    return made


def wider(buffer, numbers):
    buffer.room = torch.full((numbers,), torch.nan, dtype=torch.float64)
    buffer.words, buffer.layout = buffer.room.numpy(), None


def uploads(monkeypatch, runtime):
    return with_buffers(monkeypatch, runtime, Uploads(torch.device("cpu"), 1))


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
    there = torch.full((len(array) + 5, *array.shape[1:]), -1.0, dtype=torch.float64)
    uploads(monkeypatch, runtime)._send((array,), (there,), 3)
    np.testing.assert_array_equal(there[3:-2].numpy(), array.astype(np.float64))
    assert (there[:3] == -1.0).all() and (there[-2:] == -1.0).all()
    if runtime is not None:
        assert sum(runtime.sizes) == 8 * array.size and max(runtime.sizes) <= SLICE_BYTES


def test_numbers_in_a_row_go_by_pieces_in_turn(monkeypatch):
    runtime = Runtime()
    there = torch.full((500,), torch.nan, dtype=torch.float64)
    uploads(monkeypatch, runtime)._send((np.arange(500.0),), (there,), 0)
    np.testing.assert_array_equal(there.numpy(), np.arange(500.0))
    piece = PIECE_BYTES
    turns = -(-4000 // piece)
    assert turns > pinned_buffers.PIECES
    assert runtime.waited == runtime.recorded == [10 + k % pinned_buffers.PIECES for k in range(turns)]
    assert runtime.sizes == [piece] * (turns - 1) + [4000 - piece * (turns - 1)]


def test_a_refused_transfer_is_told_and_its_buffer_comes_back(monkeypatch):
    made = uploads(monkeypatch, Runtime(error=700))
    with pytest.raises(PerinstanceError, match="700"):
        made._send((np.arange(300.0),), (torch.empty(300, dtype=torch.float64),), 0)
    assert len(made._free) == 2


def test_blocks_of_all_kinds_go_to_their_rows_of_a_table(monkeypatch):
    X, y = np.arange(400.0).reshape(200, 2), np.arange(200)
    there = torch.full((200, 2), torch.nan, dtype=torch.float64), torch.full((200,), torch.nan, dtype=torch.float64)
    made = uploads(monkeypatch, Runtime())
    for start, stop, order in ((120, 200, "C"), (0, 50, "F"), (50, 120, "C")):
        block = Block(np.array(X[start:stop], order=order), y[start:stop], start)
        sent = made.into(there, block)
        assert (sent.start, sent.stop, sent.finite) == (start, stop, True)
    np.testing.assert_array_equal(there[0].numpy(), X)
    np.testing.assert_array_equal(there[1].numpy(), y)


def test_rows_of_columns_come_back_by_pieces_in_turn(monkeypatch):
    runtime = Runtime(kind=2)
    made = with_buffers(monkeypatch, runtime, Downloads(torch.device("cpu"), 1))
    made.pinned = True
    columns = [torch.arange(700.0, dtype=torch.float64), torch.arange(700).to(torch.uint8)]
    arrays = [np.full(500, np.nan), np.zeros(500, dtype=np.uint8)]
    made(columns, slice(100, 600), arrays, Handle())
    for column, array in zip(columns, arrays, strict=True):
        np.testing.assert_array_equal(array, column[100:600].numpy())
    piece = PIECE_BYTES
    assert runtime.sizes == [piece] * 15 + [4000 - 15 * piece, piece, 500 - piece]
    assert runtime.waited == runtime.recorded == [10 + k % pinned_buffers.PIECES for k in range(18)]
    assert made._free.qsize() == 2


def test_a_download_that_fails_is_told(monkeypatch):
    made = with_buffers(monkeypatch, Runtime(error=700, kind=2), Downloads(torch.device("cpu"), 1))
    made.pinned = True
    with pytest.raises(PerinstanceError, match="700"):
        made([torch.zeros(10, dtype=torch.float64)], slice(0, 10), [np.empty(10)], Handle())
    assert made._free.qsize() == 2


@pytest.mark.parametrize("n", [1, 63, 64, 700, 3001])
def test_people_come_back_to_their_places_finished(monkeypatch, n):
    rng, release = np.random.default_rng(n), PosteriorSample(gamma=4.0)
    mu, r = rng.gamma(1.0, size=n + 9), rng.normal(size=n + 9) * 10.0 ** rng.integers(0, 12, size=n + 9)
    epsilon, codes = rng.gamma(1.0, size=n + 9), rng.integers(0, 2, size=n + 9).astype(np.uint8)
    missing = np.flatnonzero(rng.random(n + 9) < 0.05)
    epsilon[missing] = np.nan
    r[missing[::3]] = np.nan
    made = with_buffers(monkeypatch, Runtime(kind=2), Downloads(torch.device("cpu"), 1))
    made.pinned = True
    monkeypatch.setattr(pinned_buffers, "PIECE_BYTES", 1 << 13)
    monkeypatch.setattr(pinned_buffers.PinnedBuffer, "_widen", wider)
    found = loss_chunks.DeviceLosses(
        *map(torch.tensor, (mu, r)), None, None, *map(torch.tensor, (epsilon, codes)), True
    )
    block = DeviceBlock(torch.zeros((n + 9, 1)), torch.zeros(n + 9), 0, None)
    chunk, room = loss_chunks.LossChunk(block, found, slice(5, 5 + n), Handle()), AnswerRoom.empty(n)
    places = np.empty(20, dtype=np.int64)
    got, seen = loss_chunks.receive_in_place(chunk, made, room, release.standardising, places)
    rows = slice(5, 5 + n)
    plain = release.from_row_statistics(None, Without(mu[rows], r[rows], None, None, codes[rows]))
    for ours, theirs in (
        (room.leverage, mu[rows]),
        (room.residual, r[rows]),
        (room.epsilon, epsilon[rows]),
        (got, codes[rows]),
        (room.parameter, plain.pairs.residual),
        (room.code, plain.pairs._codes),
    ):
        np.testing.assert_array_equal(ours, theirs)
    missing = np.flatnonzero(np.isnan(epsilon[rows]))
    assert (seen.error, seen.worst, seen.unsettled, seen.finished) == (0, codes[rows].max(), len(missing), True)
    np.testing.assert_array_equal(places[: len(missing)], missing[:20])
    people = release.people_in(room)
    assert people.leverage is room.leverage and people.pairs._leverage is room.leverage and people.open is None
    mu[7 : 7 + n] = -1.0
    assert not loss_chunks.receive_in_place(
        dataclasses.replace(chunk, found=dataclasses.replace(found, leverage=torch.tensor(mu)), rows=slice(7, 7 + n)),
        made,
        room,
        release.standardising,
        places,
    )[1].finished


def test_memory_that_is_made_ahead_is_nobody_elses(monkeypatch):
    monkeypatch.setattr(answer_memory, "AT_A_TIME", 1 << 13)
    n = (1 << 17) + 5
    memory = answer_memory.AnswerMemory(n)
    taken = [memory.take(n, dtype) for dtype in answer_memory.COLUMNS]
    for k, one in enumerate(taken):
        one[:] = k
    more = memory.take(n, np.float64)
    assert more.shape == (n,) and more.dtype == np.float64 and memory.take(7, np.uint8).shape == (7,)
    memory.close()
    assert len({one.ctypes.data for one in (*taken, more)}) == len(taken) + 1
    for k, one in enumerate(taken):
        assert one.base is None and one.dtype == answer_memory.COLUMNS[k] and (one == k).all()
