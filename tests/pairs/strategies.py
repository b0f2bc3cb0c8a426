"""Batches of people for hypothesis: whole ranges of the promise, corners included."""

from __future__ import annotations

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


def scale(low: float, high: float, *corners: float) -> st.SearchStrategy[float]:
    """Numbers spread evenly over the orders of magnitude between low and high, and some exact corners."""
    spread = st.floats(np.log10(low), np.log10(high)).map(lambda power: float(10**power))
    return st.one_of(spread, spread, spread, st.sampled_from([low, high, *corners]))


def batch(elements: st.SearchStrategy[float], n: int) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, n, elements=elements, fill=st.nothing())


LEVERAGES = scale(1e-16, 1e6, 0.0, 1.0, 1e-12)
RESIDUALS = scale(1e-8, 1e6, 0.0, 1.0, 1e-160)
DISTANCES = scale(1e-14, 1e4, 0.0, 1.0, 1e-119)
DELTAS = st.one_of(
    scale(1e-300, 1e-10),
    scale(1e-10, 0.5, 1e-6),
    st.floats(-15.9, -0.31).map(lambda power: 1.0 - float(10**power)),
    st.sampled_from([1e-300, 1e-6, 0.5, float(np.nextafter(0.5, 1)), float(np.nextafter(1, 0))]),
)
RATES = st.one_of(scale(1e-12, 0.5), st.floats(-12, -0.31).map(lambda power: 1.0 - float(10**power)))


def examples(count: int) -> settings:
    """So many batches, not shrunk: a failure names the person, and shrinking whole batches takes minutes."""
    return settings(max_examples=count, phases=(Phase.explicit, Phase.generate))
