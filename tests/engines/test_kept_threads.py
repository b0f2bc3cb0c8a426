"""Threads that outlive an audit: all of them make every call, and whoever cannot have them starts their own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import perinstance as pi
from perinstance.data import read_table
from perinstance.engines import Local, LocalSweep
from perinstance.engines.kept_threads import KEPT, KeptThreads
from perinstance.folds.shared_turns import SharedCall
from perinstance.models.linear.loops.shared_gram import shared_sums
from perinstance.numerics.compilation.outlined_calls import lead, outlined
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


@pytest.mark.parametrize("count", [1, 2, 7])
def test_all_threads_make_each_call_and_no_turn_is_lost(count):
    threads = KeptThreads(count)
    for size in (0, 1, 5, 20_000) * 25:
        counter, taken = np.zeros(1, dtype=np.int64), np.zeros(size, dtype=np.int64)
        assert _led_count(threads.box, (counter, (3, np.full(2, 4)), taken)) == 0
        assert (taken == 7).all() and counter[0] == size + count  # each asked once in vain
    threads.end()
    assert not kept()


def test_threads_that_fail_are_counted_and_serve_on():
    threads = KeptThreads(4)
    for last, failed in ((4, 0), (3, 1), (0, 4), (4, 0)):
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
        assert len(kept()) == threads
        assert (set(kept()) == set(before)) == (len(before) == threads)


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
    with KEPT.lent(2) as box, LocalSweep(read_table(X, y), threads=2) as sweep:
        assert box is not None
        with KEPT.lent(2) as nothing:
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
assert count() == 3
with KEPT.lent(3):  # the child is forked while somebody has them
    pid = os.fork()
    if pid == 0:
        ok = count() == 0 and losses() == before and count() == 3
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
