"""Passes that threads share: the same bits for any number of threads, the same people as block by block."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import perinstance as pi
from perinstance.data import read_table
from perinstance.engines import Local, LocalSweep
from perinstance.engines.kept_threads import KEPT
from perinstance.errors import InvalidTable
from perinstance.folds import shared_turns
from perinstance.folds.shared_turns import Turns, WholeTable
from perinstance.models.linear.gram_matrix import gram_of_table
from perinstance.models.linear.loops import shared_gram
from perinstance.models.linear.loops.shared_gram import shared_sums
from perinstance.numerics.compilation.turn_counters import next_turn

RNG = np.random.default_rng(5)
BLOCK = 2500


@pytest.fixture(autouse=True)
def same_tables(monkeypatch):
    """Begin every test with the same numbers, whichever tests this process has run before."""
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(5))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr("perinstance.data.memory.table.rows_per_view", lambda n, d: BLOCK)
    monkeypatch.setattr("perinstance.auditing.map_people.TURN_BYTES", 1 << 14)


@pytest.fixture(autouse=True)
def nobody_is_kept():
    KEPT.end()
    yield
    KEPT.end()


def workers() -> set[str]:
    return {one.name for one in threading.enumerate() if one.name.startswith("perinstance")}


def table(n, d):
    X = RNG.normal(size=(n, d)) * 10.0 ** RNG.integers(-2, 3, d)
    return X, X @ RNG.normal(size=d) + RNG.normal(size=n)


@njit(nogil=True)
def _take(counter, taken, mine):
    k = next_turn(counter, 0)
    while k < len(taken):
        taken[k] += mine
        k = next_turn(counter, 0)


def test_no_turn_is_taken_twice_and_none_is_left():
    taken, turns = np.zeros(200_000, dtype=np.int64), Turns.of(np.arange(200_001))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda mine: _take(turns.counter, taken, mine), [1, 10, 100, 1000]))
    assert set(taken.tolist()) <= {1, 10, 100, 1000}


@given(st.integers(1, 40), st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 700))
def test_turns_cover_every_row_once_and_stay_within_their_blocks(blocks, length, last, rows):
    cuts = np.append(length * np.arange(blocks), length * (blocks - 1) + min(last, length))
    whole = WholeTable(np.empty((cuts[-1], 1)), np.empty(cuts[-1]), cuts)
    for found in (whole.graded_turns(1, 1), whole.graded_turns(2, 8), whole.turns_of(rows)):
        assert found[0] == 0 and found[-1] == cuts[-1] and (np.diff(found) >= 0).all()
    assert set(cuts) <= set(whole.graded_turns(2, 8))
    found = np.diff(whole.turns_of(rows))
    assert found.min() >= min(rows, length, cuts[-1]) and found.max() < 2 * rows + min(rows, length)
    laps = list(whole.laps(whole.turns_of(rows), 3, most=4))
    assert [lap.start for lap in laps[1:]] == [lap.stop - 1 for lap in laps[:-1]]
    assert laps[0].start == 0 and laps[-1].stop == len(found) + 1


def statistics(audit):
    return audit.losses, audit.leverages, audit.residuals, audit.pairs.kinds, audit.fit.theta


RELEASES = [
    pi.PosteriorSample(1.0, 1.0),
    pi.PosteriorSample(1.0, 2.0, fit_intercept=True),
    pi.OutputPerturbation(scale=0.1),
]


@pytest.mark.parametrize("d", [5, 9, 70])
@pytest.mark.parametrize("release", RELEASES, ids=lambda r: f"{type(r).__name__}{getattr(r, 'fit_intercept', '')}")
def test_people_are_those_of_the_blocks_whatever_the_threads(release, d, monkeypatch):
    n = 4 * BLOCK + 3  # the last block has too few for the loops
    X, y = table(n, d)
    X[77], y[77] = 0.0, 3.0  # in no equation
    X[6000] *= 5 * np.sqrt(n / d)  # answered one by one
    found = [statistics(pi.audit(release, X, y, engine=Local(threads=threads))) for threads in (1, 2, 5)]
    monkeypatch.setattr(shared_turns, "LAP_BYTES", 100_000)
    monkeypatch.setattr(shared_gram, "SUMS_BYTES", 24 * d * d)
    found.append(statistics(pi.audit(release, X, y, engine=Local(threads=2))))
    for other in found[1:]:
        for one, another in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, another)
    monkeypatch.setattr(LocalSweep, "whole_table", None)
    blocks = statistics(pi.audit(release, X, y, engine=Local(threads=2)))
    np.testing.assert_array_equal(found[0][3], blocks[3])
    for one, another in zip(found[0][:3], blocks[:3], strict=True):
        np.testing.assert_allclose(one, another, rtol=1e-6, atol=1e-12)
    # those who are kept for the next audit, who with the caller are as many as the last one asked for
    assert {f"perinstance_kept_{k}" for k in range(1)} == workers()


@pytest.mark.parametrize("d", [3, 12, 66])
def test_sums_are_those_of_all_rows_to_the_additions_that_are_stated(d):
    X, y = table(3 * BLOCK + 1, d)
    with LocalSweep(read_table(X, y), threads=3) as sweep:
        sums, chain = shared_sums(sweep, sweep.whole_table, intercept=True)
        assert gram_of_table(sweep, True).n == len(X) and sweep.looked_at

    def held(value, products):
        exact, size = math.fsum(products), math.fsum(np.abs(products))
        assert abs(value - exact) <= (chain + 1) * 2.0**-53 * size

    for j, k in [(0, 0), (d - 1, 0), (d - 1, d - 1), (d // 2, d // 3)]:
        held(sums.cross[j, k], X[:, j] * X[:, k])
        held(sums.moment[j], X[:, j] * y)
        held(sums.total[j], X[:, j])
    held(sums.target[0], y * y)
    held(sums.target[1], y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_cell_that_is_no_number_is_named(value):
    X, y = table(3 * BLOCK, 9)
    X[5003, 4] = value
    with pytest.raises(InvalidTable, match="column 4, row 5003"):
        pi.audit(RELEASES[0], X, y, engine=Local(threads=2))
    X[5003, 4], y[5004] = 1.0, value
    with pytest.raises(InvalidTable, match="row 5004"):
        pi.audit(RELEASES[0], X, y, engine=Local(threads=2))


def test_who_shares_is_where_the_table_lies():
    X, y = table(3 * BLOCK, 4)
    assert LocalSweep(read_table(X, y)).whole_table.blocks.tolist() == [0, BLOCK, 2 * BLOCK, 3 * BLOCK]
    for rows, target in [(np.asfortranarray(X), y), (X.astype(np.float32), y), (X, y.astype(int)), (X, y[::-1])]:
        assert LocalSweep(read_table(rows, target)).whole_table is None
    assert LocalSweep(read_table(X[:BLOCK], y[:BLOCK])).whole_table is None  # one block
    assert LocalSweep(read_table(X, y), block_bytes=1 << 20).whole_table is None  # cut as the caller wants it


@pytest.mark.parametrize("threads", [1, 3])
def test_what_goes_wrong_inside_comes_through_and_leaves_no_thread(threads):
    def enter(turns):
        raise KeyboardInterrupt

    sweep = LocalSweep(read_table(*table(3 * BLOCK, 4)), threads=threads)
    with pytest.raises(KeyboardInterrupt):
        sweep.share(enter, sweep.whole_table.blocks, "fold")
    assert not workers()


def test_progress_is_told_after_each_lap(monkeypatch):
    seen = []
    X, y = table(4 * BLOCK, 30)  # not so small that it is folded again
    monkeypatch.setattr(shared_turns, "LAP_BYTES", 600_000)
    pi.audit(RELEASES[0], X, y, engine=Local(threads=2), progress=lambda *news: seen.append(news))
    for stage in ("fold", "map"):
        done = [rows for name, rows, total in seen if name == stage and total == len(X)]
        assert len(done) > 1 and done == sorted(done) and done[-1] == len(X)


@pytest.mark.parametrize("blocks", [[0, 1], [0, 3, 6, 7], [0, 700, 1400, 2100, 2500], list(range(0, 9001, 90))])
def test_cuts_are_those_that_lists_give(blocks):
    table = WholeTable(np.zeros((blocks[-1], 1)), np.zeros(blocks[-1]), np.array(blocks))
    for few, many in ((1, 1), (2, 8), (8, 16)):
        parts = [few if 4 * k < 3 * (len(blocks) - 1) else many for k in range(len(blocks) - 1)]
        wanted = [a + (b - a) * j // of for a, b, of in zip(blocks, blocks[1:], parts, strict=False) for j in range(of)]
        assert table.graded_turns(few, many).tolist() == [*wanted, blocks[-1]]
    for rows in (1, 64, 512, 10_000):
        turns = []
        for a, b in zip(blocks, blocks[1:], strict=False):
            turns += [a + rows * j for j in range(max(1, (b - a) // rows))]
        if len(turns) > 1 and blocks[-1] - turns[-1] < rows:
            turns.pop()
        assert table.turns_of(rows).tolist() == [*turns, blocks[-1]]
