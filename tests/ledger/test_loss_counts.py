"""Quantiles gathered block by block, against all losses at once."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perinstance.ledger.totals import loss_counts
from perinstance.ledger.totals.loss_counts import LossCounts
from perinstance.numerics.quantiles import attained_quantile

LOSSES = st.lists(st.floats(0.0, 1e300) | st.just(np.inf), min_size=1, max_size=60)


@given(LOSSES, st.integers(1, 9), st.sampled_from([5, 1000]))
@example([0.0, np.inf, np.inf, np.inf, 2.225073858507203e-309, np.inf], 1, 5)
@settings(max_examples=200, deadline=None)
def test_quantiles_of_parts_are_those_of_the_whole_or_a_little_more(losses, size, room):
    before, loss_counts.ROOM = loss_counts.ROOM, room
    try:
        counts = LossCounts()
        for start in range(0, len(losses), size):
            counts.add(np.array(losses[start : start + size]))
        levels = [0.0, 0.3, 0.5, 0.95, 1.0]
        exact, found = attained_quantile(losses, levels), counts.quantiles(levels)
        assert counts.people == len(losses) and counts.infinite == sum(np.isinf(losses))
        assert (found >= exact).all()
        with np.errstate(over="ignore"):
            # the same 36 bits are dropped of losses below the normal floats, where they are 2^-1038
            assert (found <= exact * (1 + 2.0**-15) + 2.0**-1038).all()
        if room == 1000:
            assert (found == exact).all() and counts.above(1.0) == sum(loss > 1.0 for loss in losses)
    finally:
        loss_counts.ROOM = before


def test_nobody_has_no_quantiles():
    assert LossCounts().quantiles([0.5, 1.0]).tolist() == [0.0, 0.0] and LossCounts().people == 0
