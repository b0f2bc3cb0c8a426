"""Threads that outlive an audit: all of them make every call, and whoever cannot have them starts their own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import NamedTuple

import numpy as np
import pytest
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

import perinstance as pi
from perinstance.data import read_table
from perinstance.engines import Local, LocalSweep
from perinstance.engines.kept_threads import KEPT, KeptThreads
from perinstance.folds.shared_turns import SharedCall
from perinstance.models.linear.loops.shared_gram import shared_sums
from perinstance.numerics.compilation.outlined_calls import MORE, lead, outlined
from perinstance.numerics.compilation.turn_counters import next_turn
from perinstance.numerics.numba_compile import kernel

RELEASE = pi.PosteriorSample(1.0, 1.0)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr("perinstance.data.memory.table.rows_per_view", lambda n, d: 2500)
    KEPT.end()  # those of other tests in this process
    yield
    KEPT.end()
    assert not kept()


def kept() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("perinstance_kept")]


def table(n: int = 10_000, d: int = 9) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


@kernel
def _count(counter, given, taken):  # pragma: no cover - compiled
    (one, more), room = given, np.zeros(3)
    k = next_turn(counter, 0)
    while k < len(taken):
        taken[k] += one + more[0] + int(room[1])
        k = next_turn(counter, 0)


@kernel
def _led_count(box, arguments):  # pragma: no cover - compiled
    return lead(box, outlined(_count, arguments))


@kernel
def _fail(counter, last):  # pragma: no cover - compiled
    if next_turn(counter, 0) >= last:
        raise ValueError


@kernel
def _led_fail(box, arguments):  # pragma: no cover - compiled
    return lead(box, outlined(_fail, arguments))


@intrinsic
def _references(typingctx, array):
    """Where an array's references are counted; 0: nowhere."""

    def lower(context, builder, signature, arguments):
        found = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.ptrtoint(found.meminfo, ir.IntType(64))

    return types.int64(array), lower


class _Pair(NamedTuple):
    first: np.ndarray
    second: tuple[np.ndarray, int]


@kernel
def _look(counter, pair, counted):  # pragma: no cover - compiled
    k = next_turn(counter, 0)
    half = pair.second[0][1:]
    counted[k] = _references(counter) + _references(pair.first) + _references(half) + _references(counted)
    counted[k] += int(pair.first[0, 1]) + int(half[1]) + pair.second[1]


@kernel
def _led_look(box, arguments):  # pragma: no cover - compiled
    return lead(box, outlined(_look, arguments))


def test_threads_do_not_count_references_to_arrays_of_the_leader():
    """They would all count in the same place: sixteen of them spent a fifth of a pass on it."""
    pair, threads = _Pair(np.arange(6.0).reshape(2, 3), (np.arange(3), 10)), KeptThreads(3)
    before = [sys.getrefcount(array) for array in (pair.first, pair.second[0])]
    for _ in range(50):
        counted = np.full(4, -1)
        assert _led_look(threads.box, (np.zeros(1, dtype=np.int64), pair, counted)) == 0
        assert counted.tolist() == [1 + 2 + 10] * 4
    assert [sys.getrefcount(array) for array in (pair.first, pair.second[0])] == before
    alone = np.full(1, -1)
    _look(np.zeros(1, dtype=np.int64), pair, alone)
    assert alone[0] > 13  # who calls it without a leader counts
    threads.end()


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_all_threads_make_each_call_and_no_turn_is_lost(count, more):
    threads = KeptThreads(count)
    threads.box[MORE] = more  # they do not sleep between the calls, and are let go while they look for the next
    for size in (0, 1, 5, 20_000) * 25:
        counter, taken = np.zeros(1, dtype=np.int64), np.zeros(size, dtype=np.int64)
        assert _led_count(threads.box, (counter, (3, np.full(2, 4)), taken)) == 0
        assert (taken == 7).all() and counter[0] == size + count + 1  # each asked once in vain, and so did the leader
    threads.end()
    assert not kept()


def test_who_expects_a_call_in_vain_sleeps_and_hears_of_the_next():
    threads = KeptThreads(3)
    threads.box[MORE] = True
    for _ in range(3):
        counter, taken = np.zeros(1, dtype=np.int64), np.zeros(5, dtype=np.int64)
        assert _led_count(threads.box, (counter, (3, np.full(2, 4)), taken)) == 0 and (taken == 7).all()
        idle, limit = np.inf, time.monotonic() + 60
        while idle > 0.01 and time.monotonic() < limit:  # until nobody takes time any more
            before = time.process_time()
            time.sleep(0.1)
            idle = time.process_time() - before
        assert idle <= 0.01
    threads.end()


def test_threads_that_fail_are_counted_and_serve_on():
    threads = KeptThreads(4)
    for last, failed in ((5, 0), (4, 1), (0, 5), (5, 0)):  # four and the leader
        assert _led_fail(threads.box, (np.zeros(1, dtype=np.int64), last)) == failed
    with pytest.raises(MemoryError, match="a thread found no memory"):
        SharedCall(_fail, _led_fail, (1,)).lead(threads.box, np.zeros(1, dtype=np.int64))
    threads.end()


def test_they_stay_for_the_next_audit_and_follow_the_number_of_threads():
    X, y = table()
    wanted = pi.audit(RELEASE, X, y, engine=Local(threads=1)).losses
    assert not kept()
    for threads in (3, 3, 2, 4):
        before = kept()
        np.testing.assert_array_equal(pi.audit(RELEASE, X, y, engine=Local(threads=threads)).losses, wanted)
        assert len(kept()) == threads - 1
        assert (set(kept()) == set(before)) == (len(before) == threads - 1)


def test_audits_side_by_side_and_inside_one_another():
    X, y = table(d=24)  # not so small that balls are used, whose precision is the process's
    wanted = pi.audit(RELEASE, X, y, engine=Local(threads=1)).losses
    found: list[np.ndarray] = []

    def again(*_: object) -> None:
        found.append(pi.audit(RELEASE, X, y, engine=Local(threads=2)).losses)

    def several() -> None:
        for _ in range(6):
            pi.audit(RELEASE, X, y, engine=Local(threads=2), progress=again)

    callers = [threading.Thread(target=several) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) >= 4 * 6 * 2
    for losses in found:
        np.testing.assert_array_equal(losses, wanted)
    assert {one.name for one in threading.enumerate() if one.name.startswith("perinstance")} <= {
        one.name for one in kept()
    }


def test_whoever_finds_them_lent_starts_threads_of_their_own():
    X, y = table()
    with KEPT.lent(1) as box, LocalSweep(read_table(X, y), threads=2) as sweep:
        assert box is not None
        with KEPT.lent(1) as nothing:
            assert nothing is None
        own, _ = shared_sums(sweep, sweep.whole_table, intercept=True)
        assert sweep._crew is not None
    with LocalSweep(read_table(X, y), threads=2) as sweep:
        led, _ = shared_sums(sweep, sweep.whole_table, intercept=True)
        assert sweep._crew is None
    for one, another in zip(own, led, strict=True):
        np.testing.assert_array_equal(one, another)


@pytest.mark.parametrize("had", [0, 2])
def test_no_more_threads_are_to_be_had(had, monkeypatch):
    real, begun = threading.Thread.start, []

    def start(thread):
        if len(begun) >= had:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="start new thread"):
        pi.audit(RELEASE, *table(), engine=Local(threads=5))
    assert len(begun) == had and not kept()
    monkeypatch.undo()
    with KEPT.lent(2) as box:  # nobody was left with them
        assert box is not None


CHILD = """
import os, sys, threading
import numpy as np
import perinstance as pi
from perinstance.engines import Local
from perinstance.engines.kept_threads import KEPT
import perinstance.data.memory.table as memory
memory.rows_per_view = lambda n, d: 2500
rng = np.random.default_rng(3)
X = rng.normal(size=(10_000, 9))
y = X @ rng.normal(size=9) + rng.normal(size=10_000)
def losses():
    return pi.audit(pi.PosteriorSample(1.0, 1.0), X, y, engine=Local(threads=3)).losses.tobytes()
def count():
    return sum(one.name.startswith("perinstance_kept") for one in threading.enumerate())
before = losses()
assert count() == 2
with KEPT.lent(2):  # the child is forked while somebody has them
    pid = os.fork()
    if pid == 0:
        ok = count() == 0 and losses() == before and count() == 2
        sys.stdout.flush()
        sys.exit(0 if ok else 3)  # with everything that is done at the end
assert os.waitpid(pid, 0)[1] == 0
assert losses() == before
print("done", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_has_its_own_and_both_end(tmp_path):
    script = tmp_path / "forks.py"
    script.write_text(CHILD)
    for _ in range(3):
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0 and done.stdout == "done\n", done.stderr
