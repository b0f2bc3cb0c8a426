"""A file past the system's cache: what was written comes back, and where it cannot be had nobody notices."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import time

import numpy as np
import pytest

from perinstance.data.aligned_memory import PAGE, pages
from perinstance.engines import direct_io, scratch_files
from perinstance.engines.direct_io import UNDER_WAY, DirectFile
from perinstance.engines.scratch_files import Scratch
from perinstance.errors import ScratchFull
from perinstance.folds.block import Block


def whole_block(number: int, n: int = 700, d: int = 3, kind: type = np.float64) -> Block:
    """A block as a file source makes it: X by columns and y behind it, in pages of their own."""
    rng = np.random.default_rng(number)
    middle = n * d * np.dtype(kind).itemsize
    whole = pages(middle + 8 * n)
    X = whole[:middle].view(kind).reshape((n, d), order="F")
    y = whole[middle : middle + 8 * n].view(np.float64)
    X[:], y[:] = rng.normal(size=(n, d)), rng.normal(size=n)
    return Block(X, y, number * n, None, whole)


def same(one: Block, other: Block) -> bool:
    return one.start == other.start and (one.X == other.X).all() and (one.y == other.y).all()


@pytest.fixture
def file(tmp_path):
    opened = DirectFile.try_open(tempfile.TemporaryFile(dir=tmp_path, buffering=0))  # noqa: SIM115 - it closes it
    if opened is None:
        pytest.skip("the file system of the temporary folder knows no direct access")
    yield opened
    opened.close()


def test_pages_begin_and_end_with_a_page():
    for size in (1, PAGE - 1, PAGE, PAGE + 1, 70_001):
        room = pages(size)
        assert room.ctypes.data % PAGE == 0 and len(room) % PAGE == 0 and size <= len(room) < size + PAGE
        assert not room[size:].any()


def test_what_was_written_comes_back(file, monkeypatch):
    monkeypatch.setattr(direct_io, "SLOWEST", 0.0)  # small blocks are slow on any disk
    blocks = [whole_block(number, n=700 + number) for number in range(5)]
    places = []
    for block in blocks:
        places.append(file.offer(block.whole))
        assert places[-1] is not None
        places[-1][1].result()
    for block, (offset, _) in zip(blocks, places, strict=True):
        assert (file.read(offset, len(block.whole)).result() == block.whole).all()
    with pytest.raises(EOFError):
        file.read(1 << 30, PAGE).result()


def test_a_busy_disk_says_no(file, monkeypatch):
    monkeypatch.setattr(direct_io, "SLOWEST", 0.0)
    gate = threading.Event()
    original = direct_io.write
    monkeypatch.setattr(direct_io, "write", lambda *a: gate.wait(60) and original(*a))
    begun = [file.offer(whole_block(k).whole) for k in range(UNDER_WAY + 1)]
    assert begun[-1] is None and None not in begun[:-1]
    gate.set()
    for one in begun[:-1]:
        one[1].result()
    assert file.offer(whole_block(9).whole) is not None


def test_a_slow_disk_is_left_to_the_cache(file, monkeypatch):
    original = direct_io.write
    monkeypatch.setattr(direct_io, "write", lambda *a: time.sleep(0.01) or original(*a))
    answers = []
    for k in range(6):
        answers.append(file.offer(whole_block(k).whole))
        if answers[-1] is not None:
            answers[-1][1].result()
    assert None not in answers[: direct_io.TRIAL] and answers[direct_io.TRIAL :] == [None] * 3


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_blocks_come_back_bit_for_bit(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(direct_io, "SLOWEST", 0.0)
    store = Scratch(0, tmp_path, direct_bytes=1)
    blocks = [whole_block(k, n=501 + k, kind=kind) for k in range(12)]
    for number in np.random.default_rng(0).permutation(12):
        store.put(int(number), blocks[number])
    store.finish()
    for _ in range(2):
        back = [piece() for piece in store.pieces()]
        assert all(same(one, other) for one, other in zip(blocks, back, strict=True))
    assert os.listdir(tmp_path) == []
    store.close()


def test_without_direct_access_everything_goes_through_the_cache(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EINVAL, "no direct access")

    monkeypatch.setattr(direct_io, "_set_direct", refuse)
    store = Scratch(0, tmp_path, direct_bytes=1)
    blocks = [whole_block(k) for k in range(3)]
    for number, block in enumerate(blocks):
        store.put(number, block)
    store.finish()
    assert all(same(one, piece()) for one, piece in zip(blocks, store.pieces(), strict=True))
    store.close()


def test_a_file_system_that_promises_what_it_does_not_do(file, monkeypatch):
    original, calls = direct_io.write, []

    def write(*arguments):
        calls.append(1)
        if len(calls) == 1:
            raise OSError(errno.EINVAL, "not like this")
        original(*arguments)

    monkeypatch.setattr(direct_io, "write", write)
    block = whole_block(1)
    offset, written = file.offer(block.whole)
    written.result()
    assert (file.read(offset, len(block.whole)).result() == block.whole).all()


def test_a_disk_that_fills_up_in_the_background_is_a_typed_error(file, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(direct_io, "write", full)
    store = Scratch(0, tmp_path, direct_bytes=1)
    store.put(0, whole_block(0))
    with pytest.raises(ScratchFull, match="No space left"):
        store.finish()
    with pytest.raises(ScratchFull, match="No space left"):  # and nobody decodes on for nothing
        store.put(1, whole_block(1))
    store.close()


def test_what_cannot_be_read_back_is_a_typed_error(file, tmp_path, monkeypatch):
    for direct_bytes in (1, 1 << 40):
        store = Scratch(0, tmp_path, direct_bytes=direct_bytes)
        store.put(0, whole_block(0))
        store.finish()

        def broken(*_):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patched, pytest.raises(ScratchFull, match="cannot be read back"):
            patched.setattr(direct_io, "read", broken)
            patched.setattr(scratch_files, "read", broken)
            [piece() for piece in store.pieces()]
        store.close()


def test_a_large_file_is_closed_in_the_background(file, monkeypatch):
    monkeypatch.setattr(direct_io, "LARGE", 1)
    file.offer(whole_block(0).whole)[1].result()
    closed, let = threading.Event(), threading.Event()

    class Slow:
        def fileno(self) -> int:
            return 0

        def close(self) -> None:
            let.wait(60)
            closed.set()

    real, file._file = file._file, Slow()
    file.close()
    assert not closed.is_set()
    let.set()
    assert closed.wait(60)
    real.close()
    file._end = 0


def test_a_caller_who_stops_early_leaves_nothing(tmp_path):
    store = Scratch(0, tmp_path, direct_bytes=1)
    for k in range(9):
        store.put(k, whole_block(k))
    store.finish()
    pieces = store.pieces()
    next(pieces)
    assert scratch_files.AHEAD >= 1
    store.close()
    assert os.listdir(tmp_path) == []
