"""The private scratch file: nameless, closed to others, gone whatever happens."""

from __future__ import annotations

import gc
import os
import resource
import signal
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perinstance.data import read_table, scan
from perinstance.engines import LocalSweep
from perinstance.engines.scratch_files import Scratch
from perinstance.errors import InvalidTable, ScratchFull
from perinstance.folds.block import Block
from tests.forked import forked


def scratch_files() -> list[str]:
    """Descriptors of this process that are open on unlinked files of ours."""
    found = []
    for one in os.listdir("/proc/self/fd"):
        try:
            goal = os.readlink(f"/proc/self/fd/{one}")
        except OSError:
            continue
        if "(deleted)" in goal and stat.S_ISREG(os.stat(f"/proc/self/fd/{one}").st_mode):
            found.append(one)
    return found


needs_proc = pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="descriptors are listed in /proc on Linux only"
)


@pytest.fixture
def source(tmp_path):
    rng = np.random.default_rng(0)
    pq.write_table(
        pa.table({"a": rng.random(9000), "b": rng.random(9000), "y": rng.random(9000)}), tmp_path / "t.parquet"
    )
    return read_table(scan(tmp_path / "t.parquet"), target="y")


@given(
    st.lists(
        st.tuples(
            arrays(st.sampled_from([np.float64, np.float32]), st.tuples(st.integers(1, 9), st.just(3))),
            st.sampled_from("CF"),
        ),
        max_size=6,
    ),
    st.integers(0, 300),
)
def test_blocks_come_back_bit_for_bit(tmp_path_factory, blocks, memory):
    store = Scratch(memory, tmp_path_factory.mktemp("scratch"))
    originals = []
    for number, (values, order) in enumerate(blocks):
        block = Block(np.asarray(values, order=order), np.arange(len(values), dtype=float), number)
        store.put(number, block)
        originals.append(block)
    for piece, block in zip(store.pieces(), originals, strict=True):
        back = piece()
        assert back.start == block.start and back.X.dtype == block.X.dtype
        assert back.X.tobytes() == block.X.tobytes() and back.y.tobytes() == block.y.tobytes()
    store.close()


@needs_proc
def test_the_file_is_nameless_and_closed_to_others(tmp_path, source):
    before = os.umask(0)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    others = set(scratch_files())
    seen = []

    def look(block):
        seen.extend(
            (os.listdir(scratch), stat.S_IMODE(os.stat(f"/proc/self/fd/{one}").st_mode))
            for one in set(scratch_files()) - others
        )
        return block.y.sum()

    try:
        with LocalSweep(source, threads=1, block_bytes=10_000, memory_bytes=0, scratch=scratch) as sweep:
            first = sweep.fold(look)
            assert sweep.fold(look) == first
    finally:
        os.umask(before)
    assert seen and all(names == [] and mode == 0o600 for names, mode in seen)
    assert set(scratch_files()) == others


@needs_proc
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_file_goes_when_a_pass_fails(source, error):
    others = set(scratch_files())

    def step(block):
        if len(set(scratch_files()) - others):
            raise error
        return block.y.sum()

    for threads in (1, 2):
        sweep = LocalSweep(source, threads=threads, block_bytes=10_000, memory_bytes=0)
        with pytest.raises(error):
            sweep.fold(step)
        assert set(scratch_files()) == others


@needs_proc
def test_the_file_goes_when_the_caller_forgets_it(source):
    others = set(scratch_files())
    sweep = LocalSweep(source, block_bytes=10_000, memory_bytes=0)
    sweep.fold(lambda block: block.y.sum())
    assert set(scratch_files()) - others
    del sweep
    gc.collect()
    assert set(scratch_files()) == others


def killed(path: str, scratch: str) -> None:
    sweep = LocalSweep(read_table(scan(path), target="y"), block_bytes=10_000, memory_bytes=0, scratch=scratch)
    sweep.fold(lambda b: b.y.sum())
    sweep.fold(lambda b: os.kill(os.getpid(), 9))


def test_nothing_is_left_by_a_killed_process(tmp_path, source):
    (tmp_path / "scratch").mkdir()
    assert forked(killed, str(tmp_path / "t.parquet"), str(tmp_path / "scratch"))[0] == -9
    assert not list((tmp_path / "scratch").iterdir())


def on_a_full_disk(path: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
    with pytest.raises(ScratchFull, match="TMPDIR"):
        LocalSweep(read_table(scan(path), target="y"), block_bytes=10_000, memory_bytes=0).fold(lambda b: b.y.sum())
    print("refused")


def test_a_full_disk_is_a_typed_error(source):
    code, out, err = forked(on_a_full_disk, str(source.reader.paths[0]))
    assert (code, out) == (0, "refused\n"), err
    with pytest.raises(ScratchFull):
        LocalSweep(source, memory_bytes=0, scratch="/nothing/here").fold(lambda block: block.y.sum())


def test_parquet_is_decoded_once(source, monkeypatch):
    readings = []
    original = type(source.reader).batches
    monkeypatch.setattr(
        type(source.reader), "batches", lambda self, *a: readings.append(1) or original(self, *a), raising=True
    )
    sweep = LocalSweep(source, block_bytes=10_000, memory_bytes=30_000)
    for _ in range(3):
        sweep.fold(lambda block: block.y.sum())
        list(sweep.map(lambda block: block.y))
    assert len(readings) == 1


def test_an_unfinished_first_pass_is_not_believed(source):
    sweep = LocalSweep(source, threads=1, block_bytes=10_000)
    parts = sweep.map(lambda block: len(block.y))
    next(parts)
    parts.close()
    assert sweep.fold(lambda block: len(block.y)) == 9000
    with pytest.raises(InvalidTable):
        read_table(scan(source.reader.paths[0]), target="nobody")
