"""How a table in memory is cut, and where the numbers of its blocks are written."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perinstance as pi
from perinstance.auditing.map_people import _Gather
from perinstance.data.source import FEW_BYTES, SHARED_BLOCKS, VIEW_BYTES, rows_per_view
from perinstance.engines import Local, LocalSweep
from perinstance.pairs import PosteriorSamplePair
from perinstance.releases.base.block_losses import BlockLosses


@given(st.integers(1, 10**9), st.integers(1, 3000))
def test_blocks_are_equal_neither_tiny_nor_huge_and_many_enough_to_share(n, d):
    rows = rows_per_view(n, d)
    blocks, size = -(-n // rows), 8 * n * (d + 1)
    assert rows >= 1 and rows * 8 * (d + 1) <= VIEW_BYTES + 8 * (d + 1)
    if size > SHARED_BLOCKS * FEW_BYTES and n > 10_000:
        assert blocks >= SHARED_BLOCKS * 0.99
    assert blocks <= max(1, -(-size // FEW_BYTES))


def part_of(leverage, same):
    pairs = PosteriorSamplePair(leverage if same else leverage.copy(), np.ones(len(leverage)))
    people = SimpleNamespace(leverage=leverage, residual=np.ones(len(leverage)), pairs=pairs, open=None)
    return BlockLosses(people, leverage + 1.0, None)


@pytest.mark.parametrize("same", [(True, True), (True, False), (False, True), (False, False)])
def test_parts_that_come_in_any_order_stand_where_they_belong(same):
    first, second = part_of(np.arange(3.0), same[0]), part_of(np.arange(3.0, 5.0), same[1])
    gather = _Gather(5)
    gather.place(second, 3)
    gather.place(first, 0)
    for part in (first, second):
        gather.add(part, placed=True)
    answer = gather.answer()
    assert answer.leverage.tolist() == answer.pairs.leverage.tolist() == [0, 1, 2, 3, 4]
    assert answer.epsilon.tolist() == [1, 2, 3, 4, 5] and answer.pairs.kinds.tolist() == ["exact"] * 5


def test_whoever_writes_them_the_numbers_are_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5000, 4)), rng.normal(size=5000)
    X[7] *= 1e4  # answered one by one
    found = []
    for threads_write in (True, False):
        monkeypatch.setattr(LocalSweep, "in_this_process", threads_write)
        for release in (pi.PosteriorSample(1.0, 1.0), pi.OutputPerturbation(scale=1.0), pi.NoisyMean()):
            target = () if isinstance(release, pi.NoisyMean) else (y,)
            answer = pi.audit(release, X, *target, engine=Local(threads=3, block_bytes=9000))
            found.append([answer.losses, answer.leverages, answer.residuals, answer.pairs.kinds])
    for one, other in zip(found[:3], found[3:], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
