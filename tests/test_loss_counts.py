"""Counts of losses against the losses themselves: exact, rounded up beyond some room, and sketches of a cluster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perinstance.auditing.loss_statistics import QUANTILE_ERROR, LossCounts, share_above, summary_of
from perinstance.errors import InvalidInput
from perinstance.numerics.quantiles import attained_quantile

LOSSES = arrays(
    np.float64, st.integers(1, 60), elements=st.floats(0, 1e300) | st.just(np.inf) | st.sampled_from([0.0, 1.0, 5e-324])
)
LEVELS = np.array([0.0, 0.1, 0.3, 0.5, 0.95, 0.99, 1.0])


@given(LOSSES, st.integers(1, 9), st.sampled_from([(0, 10), (5, 16), (1000, 16)]), st.floats(0, 1e300))
@example(np.array([0.0, np.inf, np.inf, np.inf, 2.225073858507203e-309, np.inf]), 1, (5, 16), 1.0)
@settings(max_examples=200)
def test_parts_are_the_whole_or_a_little_more(losses, size, how, limit):
    room, bits = how
    codes = (np.arange(len(losses)) % 3).astype(np.uint8)
    counts = LossCounts(room, bits)
    for start in range(0, len(losses), size):
        counts.add(losses[start : start + size], codes[start : start + size])
    assert counts.people == len(losses) and counts.infinite == np.isinf(losses).sum()
    assert counts.maximum == losses.max() and (counts.kinds == np.bincount(codes, minlength=3)).all()
    exact, found = attained_quantile(losses, LEVELS), counts.quantile(LEVELS)
    assert (found >= exact).all() and counts.quantile(1.0) == losses.max()
    with np.errstate(over="ignore"):  # as many bits are dropped of losses below the normal floats
        assert (found <= exact * (1 + 2.0**-bits) + 2.0 ** (-1022 - bits)).all()
    above = counts.share_above(limit)
    assert share_above(losses, limit) - 1e-12 <= above == pytest.approx(counts.above(limit) / len(losses))
    less = limit / (1 + 2.0**-bits) - 2.0 ** (-1022 - bits)
    assert above <= share_above(losses, less) + 1e-12
    if room == 1000:
        assert (found == exact).all() and counts.above(limit) == (losses > limit).sum()


@given(LOSSES, st.integers(0, 60))
def test_two_halves_are_the_whole(losses, cut):
    codes = (np.arange(len(losses)) % 3).astype(np.uint8)
    whole = LossCounts.rounded(losses, codes)
    both = LossCounts.rounded(losses[:cut], codes[:cut]) + LossCounts.rounded(losses[cut:], codes[cut:])
    for one, other in zip(both.weighted(), whole.weighted(), strict=True):
        assert (one == other).all()
    assert both.maximum == whole.maximum and (both.kinds == whole.kinds).all()
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(both.powers, whole.powers, rtol=1e-12)


def test_a_summary_says_what_the_losses_say():
    losses = np.random.default_rng(0).lognormal(size=10_000)
    sketch, true = LossCounts.rounded(losses, np.zeros(10_000, dtype=np.uint8)), summary_of(losses, 1e-6, "exact")
    found = sketch.summary(1e-6)
    assert (found.people, found.kind, found.maximum, found.infinite) == (10_000, "exact", true.maximum, 0)
    assert found.mean == pytest.approx(true.mean, rel=1e-13) and sketch.total == pytest.approx(losses.sum())
    assert true.p95 <= found.p95 <= true.p95 * (1 + QUANTILE_ERROR)
    assert sketch.moments(2) == pytest.approx([np.mean(losses), np.mean(losses**2)], rel=1e-13)
    assert len(sketch.weighted()[0]) < 8000
    some = LossCounts.rounded(np.array([1.0, np.inf]), np.array([0, 2], dtype=np.uint8))
    assert some.summary(0.1).infinite == 1 and some.kind == "estimate" and some.total == 1.0
    for bad in (lambda: sketch.quantile(1.5), lambda: sketch.share_above(np.nan), lambda: sketch.moments(5)):
        with pytest.raises(InvalidInput):
            bad()
    assert LossCounts().quantile([0.5, 1.0]).tolist() == [0.0, 0.0] and LossCounts().people == 0
