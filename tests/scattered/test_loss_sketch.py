"""Sketches against the losses themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perinstance.auditing.loss_sketch import QUANTILE_ERROR, LossSketch
from perinstance.auditing.loss_statistics import share_above, summary_of
from perinstance.errors import InvalidInput
from perinstance.numerics.quantiles import attained_quantile

LOSSES = arrays(
    np.float64, st.integers(1, 60), elements=st.floats(0, 1e300) | st.just(np.inf) | st.sampled_from([0.0, 1.0, 5e-324])
)
SHARES = np.array([0.0, 0.1, 0.5, 0.95, 0.99, 1.0])


def codes(losses):
    return (np.arange(len(losses)) % 3).astype(np.uint8)


@given(LOSSES, st.integers(0, 60))
def test_two_halves_are_the_whole(losses, cut):
    whole = LossSketch.of(losses, codes(losses))
    both = LossSketch.of(losses[:cut], codes(losses)[:cut]) + LossSketch.of(losses[cut:], codes(losses)[cut:])
    assert (both.bins == whole.bins).all() and (both.counts == whole.counts).all()
    assert both.maximum == whole.maximum and (both.kinds == whole.kinds).all()


@given(LOSSES)
def test_quantiles_are_never_below_and_hardly_above(losses):
    sketch = LossSketch.of(losses, codes(losses))
    found, true = sketch.quantile(SHARES), attained_quantile(losses, SHARES)
    assert (found >= true).all()
    normal = (true > 1e-300) & np.isfinite(true)
    assert (found[normal] <= true[normal] * (1 + QUANTILE_ERROR)).all()
    assert sketch.quantile(1.0) == losses.max()


@given(LOSSES, st.floats(0, 1e300))
def test_tails_count_at_least_those_above(losses, limit):
    sketch = LossSketch.of(losses, codes(losses))
    assert share_above(losses, limit) - 1e-12 <= sketch.share_above(limit)
    above = share_above(losses, limit * (1 - 2 * QUANTILE_ERROR)) + np.mean(losses == 0)
    assert sketch.share_above(limit) <= above + 1e-12 or limit < 1e-300  # bins of numbers next to zero are wider
    assert sketch.share_above(losses.max()) == 0.0 and sketch.share_above(-1.0) in (0.0, 1.0)


def test_a_summary_says_what_the_losses_say():
    losses = np.random.default_rng(0).lognormal(size=10_000)
    sketch, true = LossSketch.of(losses, np.zeros(10_000, dtype=np.uint8)), summary_of(losses, 1e-6, "exact")
    found = sketch.summary(1e-6)
    assert (found.people, found.kind, found.maximum, found.infinite) == (10_000, "exact", true.maximum, 0)
    assert found.mean == pytest.approx(true.mean, rel=1e-13)
    assert sketch.moments(2) == pytest.approx([np.mean(losses), np.mean(losses**2)], rel=1e-13)
    assert LossSketch.of(np.array([1.0, np.inf]), np.array([0, 2], dtype=np.uint8)).summary(0.1).infinite == 1
    for bad in (lambda: sketch.quantile(1.5), lambda: sketch.share_above(np.nan), lambda: sketch.moments(5)):
        with pytest.raises(InvalidInput):
            bad()
