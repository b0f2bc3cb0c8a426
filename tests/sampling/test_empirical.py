import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from tests.sampling.empirical import audited_delta, delta_lower_bound, probability_bounds


@pytest.mark.parametrize(("hits", "draws"), [(0, 10), (3, 10), (10, 10), (517, 1000)])
def test_bounds_are_the_binomial_quantiles(hits, draws):
    low, high = probability_bounds(hits, draws, 0.99)
    if hits:
        assert binom.sf(hits - 1, draws, low) == pytest.approx(0.005)
    if hits < draws:
        assert binom.cdf(hits, draws, high) == pytest.approx(0.005)


def test_finds_a_true_violation_and_no_false_one():
    rng, D, epsilon = np.random.default_rng(1), 1.0, 0.5
    truth = norm.cdf(D / 2 - epsilon / D) - math.exp(epsilon) * norm.cdf(-D / 2 - epsilon / D)
    P, Q = rng.standard_normal((100_000, 1)) + D, rng.standard_normal((100_000, 1))
    found = audited_delta(P, Q, epsilon, lambda t: D * t[:, 0] - D * D / 2)
    assert truth / 2 < found <= truth


def test_no_event_no_claim():
    assert delta_lower_bound(np.zeros(50, bool), np.zeros(50, bool), 1.0) == 0.0
