"""How rows are cut and sent to a GPU, and answers taken back, with a memory copy in the place of CUDA's transfers."""

# ruff: noqa: N802 - the names are CUDA's

from __future__ import annotations

import ctypes
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from perinstance import PosteriorSample, audit
from perinstance.data import read_table
from perinstance.engines import Cuda, Local
from perinstance.engines.cuda import linear_losses, loss_chunks
from perinstance.engines.cuda.transfers import answer_memory, device_to_host, grouped_uploads, pinned_buffers
from perinstance.engines.cuda.transfers.device_to_host import Downloads
from perinstance.engines.cuda.transfers.host_to_device import DeviceBlock, SharedSlices, Uploads
from perinstance.engines.cuda.transfers.past_cache import copy_past_cache
from perinstance.engines.cuda.transfers.pinned_buffers import PinnedBuffer
from perinstance.errors import PerinstanceError
from perinstance.folds.block import Block
from perinstance.folds.shared_turns import WholeTable
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
        self.cudaStreamWaitEvent = ctypes.CFUNCTYPE(ctypes.c_int, address, address, ctypes.c_uint)(self.follow)

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

    def follow(self, stream, event, flags):
        assert (stream, event, flags or 0) == (7, 3, 0)
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


def with_buffers(monkeypatch, runtime, made, count=2):
    monkeypatch.setattr(pinned_buffers, "SLICE_BYTES", SLICE_BYTES)
    monkeypatch.setattr(pinned_buffers, "PIECE_BYTES", PIECE_BYTES)
    for module in (pinned_buffers, device_to_host, loss_chunks):
        monkeypatch.setattr(module, "cuda_runtime", lambda: runtime)
    put = getattr(made._free, "append", None) or made._free.put
    for _ in range(count):
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


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n", [1, 5, 700])
def test_threads_bring_a_table_over_together(monkeypatch, n, threads):
    monkeypatch.setattr(grouped_uploads, "GROUP_BYTES", 1 << 12)
    X, y = np.arange(3.0 * n).reshape(n, 3), -np.arange(1.0 * n)
    there = tuple(torch.full(one.shape, torch.nan, dtype=torch.float64) for one in (X, y))
    runtime, begun = Runtime(), []
    made = with_buffers(monkeypatch, runtime, Uploads(torch.device("cpu"), 1), 2 * threads)
    with Local(threads).sweep(read_table(X, y)) as host:
        upload = grouped_uploads.SharedUpload(WholeTable(X, y, np.array([0, n])), there, made, host)
        groups = list(grouped_uploads.row_groups(grouped_uploads.block_ends(n, 3, 1 << 10), 3))
        if threads == 1:  # there is no crew, and the engine goes block by block
            assert host.crew() is None
            for rows in groups:
                made.in_turns(SharedSlices.of((X, y), there, rows))
        else:
            assert list(upload.sent(groups, lambda: begun.append(1))) == groups and len(begun) == len(groups)
    assert [rows.start for rows in groups] == [0, *(rows.stop for rows in groups[:-1])] and groups[-1].stop == n
    assert all(rows.start % 16 == 0 for rows in groups) and (len(groups) > 2) == (n == 700)
    for array, tensor in zip((X, y), there, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)
    assert sum(runtime.sizes) == 32 * n and max(runtime.sizes) <= PIECE_BYTES and len(made._free) == 2 * threads


def test_a_table_that_cannot_be_sent_is_told_once_nobody_sends(monkeypatch):
    X, y = np.zeros((900, 2)), np.zeros(900)
    there = torch.empty((900, 2), dtype=torch.float64), torch.empty(900, dtype=torch.float64)
    monkeypatch.setattr(grouped_uploads, "GROUP_BYTES", 1 << 11)
    made = with_buffers(monkeypatch, Runtime(error=700), Uploads(torch.device("cpu"), 1), 4)
    with Local(2).sweep(read_table(X, y)) as host:
        upload = grouped_uploads.SharedUpload(WholeTable(X, y, np.array([0, 900])), there, made, host)
        groups = grouped_uploads.row_groups(range(100, 901, 100), 2)
        with pytest.raises(PerinstanceError, match="700"):
            list(upload.sent(groups, lambda: None))
        assert len(made._free) == 4


def fake_downloads(monkeypatch, runtime):
    """Let the engine on the processor take people back as from a GPU."""

    class Pretended(Downloads):
        def __init__(self, device, threads):
            super().__init__(device, threads)
            with_buffers(monkeypatch, runtime, self, threads)
            self.pinned = True

    monkeypatch.setattr(linear_losses, "Downloads", Pretended)
    monkeypatch.setattr(linear_losses, "event_now", lambda device: Handle())
    monkeypatch.setattr(pinned_buffers.PinnedBuffer, "_widen", wider)


def audited(X, y, threads=3, seen=None):
    release = PosteriorSample(alpha=0.5, gamma=4.0)
    progress = None if seen is None else lambda *news: seen.append(news)
    return audit(release, X, y, delta=1e-6, engine=Cuda("cpu", threads=threads), progress=progress)


def same_bits(ours, theirs):
    for one, other in (
        (ours.losses, theirs.losses),
        (ours.leverages, theirs.leverages),
        (ours.residuals, theirs.residuals),
        (ours.pairs._leverage, theirs.pairs._leverage),
        (ours.pairs._residual, theirs.pairs._residual),
        (ours.pairs._codes, theirs.pairs._codes),
    ):
        np.testing.assert_array_equal(np.asarray(one).view(np.uint8), np.asarray(other).view(np.uint8))
    assert ours.refined == theirs.refined


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000, 3001])
def test_people_come_back_by_turns_as_they_do_by_columns(monkeypatch, n, threads):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n) * 10.0 ** rng.integers(0, 12, size=n)
    monkeypatch.setattr(linear_losses, "ASKED_ROWS", 256)
    plain = audited(X, y)
    runtime = Runtime(kind=2)
    fake_downloads(monkeypatch, runtime)
    monkeypatch.setattr(loss_chunks, "TURN_ROWS", 64)
    monkeypatch.setattr(linear_losses, "LAP_ROWS", 1000)
    same_bits(audited(X, y, threads), plain)
    assert sum(runtime.sizes) == loss_chunks.PERSON * n and max(runtime.sizes) <= 8 * 64


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.01, 0.9])
def test_whom_the_device_left_is_answered_alike(monkeypatch, missing, hard):
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(2000, 3)), rng.normal(size=2000)
    X[[70, 71, 1999]] *= 1e9 if hard else 1.0
    there = linear_losses.LinearWalk.losses

    def losses(walk, X, y):
        found = there(walk, X, y)
        found.epsilon[torch.rand(len(X), generator=torch.Generator().manual_seed(len(X))) < missing] = torch.nan
        return found

    monkeypatch.setattr(linear_losses.LinearWalk, "losses", losses)
    monkeypatch.setattr(linear_losses, "ASKED_ROWS", 1024)
    plain = audited(X, y)
    assert np.isfinite(plain.losses[:70]).all() and (plain.refined > 0) == hard
    fake_downloads(monkeypatch, Runtime(kind=2))
    monkeypatch.setattr(loss_chunks, "TURN_ROWS", 128)
    same_bits(audited(X, y), plain)


def test_leverages_that_are_no_numbers_are_refused_alike(monkeypatch):
    X, y = np.random.default_rng(6).normal(size=(300, 2)), np.zeros(300)
    there = linear_losses.LinearWalk.losses

    def losses(walk, X, y):
        found = there(walk, X, y)
        found.leverage[150] = -1.0
        return found

    monkeypatch.setattr(linear_losses.LinearWalk, "losses", losses)
    with pytest.raises(PerinstanceError) as plain:
        audited(X, y)
    fake_downloads(monkeypatch, Runtime(kind=2))
    with pytest.raises(PerinstanceError) as ours:
        audited(X, y)
    assert str(ours.value) == str(plain.value)


def test_people_who_cannot_come_back_are_told_of(monkeypatch):
    X, y = np.random.default_rng(6).normal(size=(300, 2)), np.zeros(300)
    fake_downloads(monkeypatch, Runtime(error=700, kind=2))
    with pytest.raises(PerinstanceError, match="700"):
        audited(X, y)


def test_places_of_people_without_an_epsilon_are_noted(monkeypatch):
    """Those of a turn with many are looked for; a turn that is made once more is left out."""
    n, most = 640, loss_chunks.NOTED - loss_chunks.FIRST_PLACE
    epsilon = np.ones(n)
    epsilon[[0, 63, 64, 200]] = np.nan
    epsilon[256 : 256 + most] = epsilon[320 : 321 + most] = np.nan
    column, codes = torch.ones(n, dtype=torch.float64), torch.zeros(n, dtype=torch.uint8)
    found = loss_chunks.DeviceLosses(column, column, None, None, torch.tensor(epsilon), codes, True)
    block = DeviceBlock(column[:, None], column, 0, None)
    monkeypatch.setattr(loss_chunks, "TURN_ROWS", 64)
    monkeypatch.setattr(pinned_buffers.PinnedBuffer, "_widen", wider)
    made = with_buffers(monkeypatch, Runtime(kind=2), Downloads(torch.device("cpu"), 1))
    chunk = loss_chunks.LossChunk(block, found, slice(0, n), Handle())
    people = loss_chunks.LossTurns.of([n], AnswerRoom.empty(n))
    people.add(chunk)
    people.receive(made, PosteriorSample().standardising)
    missing = np.flatnonzero(np.isnan(epsilon))
    np.testing.assert_array_equal(np.sort(people.without_epsilon(np.ones(10, dtype=bool))), missing)
    some = np.arange(10) % 2 == 0
    np.testing.assert_array_equal(np.sort(people.without_epsilon(some)), missing[some[missing // 64]])
    assert people.noted[:, loss_chunks.UNSETTLED].tolist() == [2, 1, 0, 1, most, most + 1, 0, 0, 0, 0]


def asked_people(monkeypatch, ends):
    """Return people of whom the device has been asked nothing yet, the chunks with their numbers, and the numbers."""
    rng, n = np.random.default_rng(8), ends[-1]
    mu, r, epsilon = rng.uniform(size=n), rng.normal(size=n), rng.uniform(size=n)
    chunks, start = [], 0
    for end in ends:
        part = [torch.tensor(one[start:end]) for one in (mu, r, epsilon)]
        found = loss_chunks.DeviceLosses(
            *part[:2], None, None, part[2], torch.zeros(end - start, dtype=torch.uint8), True
        )
        block = DeviceBlock(part[0][:, None], part[1], start, None)
        chunks.append(loss_chunks.LossChunk(block, found, slice(0, end - start), Handle()))
        start = end
    monkeypatch.setattr(loss_chunks, "TURN_ROWS", 64)
    monkeypatch.setattr(pinned_buffers.PinnedBuffer, "_widen", wider)
    return loss_chunks.LossTurns.of(ends, AnswerRoom.empty(n)), chunks, (mu, r, epsilon)


def receiving(people, made, count):
    """Begin with the turns, by some threads."""
    pool = ThreadPoolExecutor(count)
    futures = [pool.submit(people.receive, made, PosteriorSample().standardising) for _ in range(count)]
    pool.shutdown(wait=False)
    return futures


def test_threads_wait_until_the_device_is_asked_about_their_people(monkeypatch):
    people, chunks, (mu, r, epsilon) = asked_people(monkeypatch, [100, 400, 401, 1000])
    runtime = Runtime(kind=2)
    made = with_buffers(monkeypatch, runtime, Downloads(torch.device("cpu"), 1), 3)
    made.make_room(loss_chunks.numbers_of_turns(1000))
    futures = receiving(people, made, 3)
    for k, chunk in enumerate(chunks):
        time.sleep(0.05)
        before = chunks[k].start
        assert sum(runtime.sizes) == loss_chunks.PERSON * before and not any(one.done() for one in futures)
        people.add(chunk)
    assert [one.result(60) for one in futures] == [None] * 3 and made._free.qsize() == 3
    room = people.room
    for ours, theirs in ((room.leverage, mu), (room.residual, r), (room.epsilon, epsilon), (room.parameter, abs(r))):
        np.testing.assert_array_equal(ours, theirs)
    cuts = people.turns.cuts
    for turn in range(len(cuts) - 1):
        part, rows = people.part(turn), people.rows(turn)
        assert (
            (part.start, len(part)) == (rows.start, rows.stop - rows.start) == (cuts[turn], cuts[turn + 1] - cuts[turn])
        )
        np.testing.assert_array_equal(part.found.leverage[part.rows].numpy(), mu[rows])


def test_nobody_waits_for_people_whom_the_device_is_not_asked_about(monkeypatch):
    people, chunks, (mu, _, _) = asked_people(monkeypatch, [300, 1000])
    runtime = Runtime(kind=2)
    made = with_buffers(monkeypatch, runtime, Downloads(torch.device("cpu"), 1), 2)
    futures = receiving(people, made, 2)
    people.add(chunks[0])
    while sum(runtime.sizes) < loss_chunks.PERSON * 300:
        time.sleep(0.001)
    people.shut()
    assert [one.result(60) for one in futures] == [None] * 2 and sum(runtime.sizes) == loss_chunks.PERSON * 300
    np.testing.assert_array_equal(people.room.leverage[:300], mu[:300])


def test_codes_are_there_of_turns_that_are_made_once_more(monkeypatch):
    people, chunks, _ = asked_people(monkeypatch, [1000])
    made = with_buffers(monkeypatch, Runtime(kind=2), Downloads(torch.device("cpu"), 1))
    chunks[0].found.leverage[70] = -1.0
    chunks[0].found.code[130] = 1
    people.codes[:] = 77
    people.add(chunks[0])
    people.receive(made, PosteriorSample().standardising)
    expected = np.full(1000, 77)
    expected[64:192] = 0
    expected[130] = 1
    np.testing.assert_array_equal(people.codes, expected)
    assert np.flatnonzero(people.noted[:, loss_chunks.UNSOUND]).tolist() == [1]
    assert np.flatnonzero(people.noted[:, loss_chunks.WORST]).tolist() == [2]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 128, 1000])
def test_copies_past_the_cache_write_what_they_should_and_nothing_else(size):
    rng, copy = np.random.default_rng(size), ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value
    source, before = rng.integers(0, 256, size=1200, dtype=np.uint8), rng.integers(0, 256, size=1200, dtype=np.uint8)
    for offset in (0, 1, 8, 56, 63, 64):
        for out_of in (0, 3, 64):
            target = before.copy()
            copy_past_cache(target.ctypes.data + offset, source.ctypes.data + out_of, size, copy)
            expected = before.copy()
            expected[offset : offset + size] = source[out_of : out_of + size]
            np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_device_that_fails_between_chunks_is_told_of_and_nobody_waits(monkeypatch, threads):
    X, y = np.random.default_rng(6).normal(size=(3000, 2)), np.zeros(3000)
    there, asked = linear_losses.LinearWalk.losses, []

    def losses(walk, X, y):
        asked.append(len(X))
        if len(asked) == 3:
            raise MemoryError("no room there")
        return there(walk, X, y)

    monkeypatch.setattr(linear_losses, "ASKED_ROWS", 512)
    monkeypatch.setattr(loss_chunks, "TURN_ROWS", 64)
    monkeypatch.setattr(linear_losses.LinearWalk, "losses", losses)
    fake_downloads(monkeypatch, Runtime(kind=2))
    before = threading.active_count()
    with pytest.raises(MemoryError, match="no room there"):
        audited(X, y, threads)
    assert asked == [512] * 3 and threading.active_count() <= before


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
