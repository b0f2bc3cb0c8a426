"""Threads over blocks: the same bits for any number of threads, nothing left behind when something fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perinstance.data import read_table
from perinstance.data.source import FEW_BYTES, SHARED_BLOCKS, VIEW_BYTES, rows_per_view
from perinstance.engines import Engine, Local, LocalSweep
from perinstance.engines.local import ONE_BLAS_THREAD, WORTH_THREADS, blas_libraries, ordered, quiet_libraries
from perinstance.errors import InvalidInput, InvalidTable

RNG = np.random.default_rng(2)
X = RNG.normal(size=(4000, 6)) * 10.0 ** RNG.integers(-8, 8, (4000, 1))
Y = RNG.normal(size=4000)


def workers() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("perinstance")]


@pytest.mark.parametrize("block_bytes", [1, 700, 5000, 1 << 20])
def test_threads_do_not_change_a_bit(block_bytes):
    table = read_table(X[:500], Y[:500])
    answers = set()
    for threads in (1, 2, 3, 8):
        sweep = LocalSweep(table, threads=threads, block_bytes=block_bytes)
        gram = sweep.fold(lambda block: block.X.T @ block.X)
        rows = np.concatenate(list(sweep.map(lambda block: block.X @ block.X[0])))
        answers.add((gram.tobytes(), rows.tobytes()))
    assert len(answers) == 1


@given(st.integers(1, 10**9), st.integers(1, 3000))
def test_blocks_are_equal_neither_tiny_nor_huge_and_many_enough_to_share(n, d):
    rows = rows_per_view(n, d)
    blocks, size = -(-n // rows), 8 * n * (d + 1)
    assert rows >= 1 and rows * 8 * (d + 1) <= VIEW_BYTES + 8 * (d + 1)
    if size > SHARED_BLOCKS * FEW_BYTES and n > 10_000:
        assert blocks >= SHARED_BLOCKS * 0.99
    assert blocks <= max(1, -(-size // FEW_BYTES))


def test_a_fold_is_the_sum_over_blocks_in_row_order():
    step = 5000 // 56
    wanted = X[:step].T @ X[:step]
    for start in range(step, len(X), step):
        wanted = wanted + X[start : start + step].T @ X[start : start + step]
    got = LocalSweep(read_table(X, Y), threads=3, block_bytes=5000).fold(lambda block: block.X.T @ block.X)
    np.testing.assert_array_equal(got, wanted)


def test_reading_ahead_is_bounded():
    begun, taken = [], []
    for answer in ordered(lambda k: begun.append(k) or k, range(50), threads=3, ahead=1):
        time.sleep(0.001)
        taken.append(answer)
        assert len(begun) - len(taken) <= 4
    assert taken == list(range(50)) and not workers()


def test_a_crew_stays_for_the_next_pass_and_goes_with_the_table():
    sweep = LocalSweep(read_table(X, Y), threads=3, block_bytes=50_000)
    for _ in range(2):
        sweep.fold(lambda block: block.y.sum())
        assert 1 <= len(workers()) <= 3  # one more is started where none of them is idle
    sweep.close()
    assert not workers()
    sweep.fold(lambda block: block.y.sum())
    del sweep  # nobody closed it
    assert not workers()


def test_no_more_threads_are_to_be_had(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="start new thread"):
        LocalSweep(read_table(X, Y), threads=5, block_bytes=50_000).fold(lambda block: block.y.sum())
    assert not workers()


class Library:
    """Stands for a BLAS library: walks that other tests left unfinished set the real ones back when collected."""

    num_threads = 2

    def set_num_threads(self, threads):
        self.num_threads = threads


def test_blas_has_one_thread_while_anybody_is_inside(monkeypatch):
    assert {one.user_api for one in blas_libraries()} == {"blas"}
    inside, library = type(ONE_BLAS_THREAD)(), Library()
    monkeypatch.setattr("perinstance.engines.local.ONE_BLAS_THREAD", inside)
    monkeypatch.setattr("perinstance.engines.local.blas_libraries", lambda: [library])
    with quiet_libraries(WORTH_THREADS + 1):
        assert library.num_threads == 2
    with quiet_libraries(3):
        outside = threading.Thread(target=inside.__enter__)
        outside.start()
        outside.join()
        with inside:
            assert library.num_threads == 1
        assert library.num_threads == 1
    assert library.num_threads == 1
    inside.__exit__()
    assert library.num_threads == 2
    sweep = LocalSweep(read_table(X, Y), threads=2, block_bytes=50_000)
    assert set(sweep.map(lambda block: library.num_threads)) == {1}
    assert library.num_threads == 2


class PlannedError(Exception):
    pass


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("error", [PlannedError, KeyboardInterrupt, MemoryError])
def test_what_a_step_raises_comes_through(threads, error):
    def step(block):
        if block.y[0] > 1000:
            raise error
        return block.y.sum()

    sweep = LocalSweep(read_table(X, np.arange(4000)), threads=threads, block_bytes=5000)
    with pytest.raises(error):
        sweep.fold(step)
    with pytest.raises(error):
        list(sweep.map(step))
    assert not workers()
    assert sweep.fold(lambda block: block.y.sum()) == np.arange(4000).sum()  # still usable


def test_a_step_that_stumbles_over_nan_blames_the_table():
    bad = X.copy()
    bad[77, 3] = np.nan

    def step(block):
        if np.isnan(block.X).any():
            raise PlannedError
        return block.y.sum()

    with pytest.raises(InvalidTable, match="column 3, row 77"):
        LocalSweep(read_table(bad, Y)).fold(step)


def test_stopping_early_stops_the_threads():
    parts = LocalSweep(read_table(X, Y), threads=3, block_bytes=1000).map(lambda block: len(block.y))
    assert next(parts) == 17
    assert workers()
    parts.close()
    assert not workers()


def test_cells_are_looked_at_once():
    looks = []

    @dataclass
    class Statistic:
        X: np.ndarray

        @property
        def finite(self):
            looks.append(1)
            return True

        def __add__(self, other):
            return self

    sweep = LocalSweep(read_table(X, Y), threads=1, block_bytes=50_000)
    sweep.fold(lambda block: Statistic(block.X))
    once = len(looks)
    sweep.fold(lambda block: Statistic(block.X))
    assert once == len(looks) == 5


def test_a_false_alarm_is_no_refusal():
    class Alarm(float):
        finite = False

        def __add__(self, other):
            return self

    assert LocalSweep(read_table(X, Y)).fold(lambda block: Alarm(1.0)) == 1.0


def test_progress_counts_rows():
    seen = []
    sweep = Local(threads=2, block_bytes=50_000).sweep(read_table(X, Y), lambda *news: seen.append(news))
    sweep.fold(lambda block: 1)
    list(sweep.map(lambda block: 1))
    assert [done for stage, done, total in seen if stage == "fold"] == [892, 1784, 2676, 3568, 4000]
    assert all(total == 4000 for _, _, total in seen) and seen[-1] == ("map", 4000, 4000)


def test_bad_settings():
    table = read_table(X, Y)
    for options in ({"threads": 0}, {"threads": -1}, {"block_bytes": 0}):
        with pytest.raises(InvalidInput):
            LocalSweep(table, **options)
    assert isinstance(Local(), Engine)
    assert LocalSweep(table).threads == len(os.sched_getaffinity(0))


def test_ctrl_c_ends_a_sweep_at_once():
    code = """
import numpy as np, os, threading, time
from perinstance.data import read_table
from perinstance.data.source import FEW_BYTES, SHARED_BLOCKS, VIEW_BYTES, rows_per_view
from perinstance.engines import LocalSweep
def step(block):
    os.write(1, b"begun\\n")  # in one piece, whatever the other thread writes
    time.sleep(0.2)  # the others need 1000 s: whoever ends at once is told from them on a machine that stalls, too
    return 1
try:
    LocalSweep(read_table(np.ones((100000, 1)), np.ones(100000)), threads=2, block_bytes=160).fold(step)
except KeyboardInterrupt:
    # a signal between the start of a thread and its registration leaves it to end by itself, which it does at once
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(5)
    print("interrupted", [t.name for t in threading.enumerate()], flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "begun\n"
    child.send_signal(signal.SIGINT)
    rest = child.communicate(timeout=30)[0]
    assert child.returncode == 0 and "interrupted ['MainThread']" in rest
    assert rest.count("begun") < 50  # of 10,000 blocks
