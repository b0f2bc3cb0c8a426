import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perinstance.analysis import bootstrap, moments, quantile, share_above
from perinstance.numerics.quantiles import attained_quantile

LOSSES = st.lists(st.floats(0.0, 50.0), min_size=1, max_size=60)


@given(LOSSES)
def test_moments_are_sums(losses):
    m = moments(losses, 4)
    assert np.allclose(m.raw, [sum(v**j for v in losses) / len(losses) for j in range(1, 5)])
    assert m.variance == pytest.approx(np.var(losses), abs=1e-6)
    assert m.central(3) == pytest.approx(np.mean((np.array(losses) - np.mean(losses)) ** 3), abs=1e-4 * (1 + m.raw[2]))


@given(LOSSES, st.floats(0.01, 60.0))
def test_tail_bounds_hold(losses, t):
    """P(eps >= t) is never above what the moments allow."""
    assert np.mean(np.array(losses) >= t) <= moments(losses, 4).tail_bound(t) + 1e-9


@given(LOSSES, st.floats(0.0, 1.0))
def test_a_quantile_is_not_exceeded_by_more_than_its_share(losses, q):
    value = float(quantile(losses, q))
    assert np.mean(np.array(losses) <= value) >= q - 1e-12
    assert value in losses
    assert share_above(losses, value) <= 1 - q + 1e-12


def test_bootstrap_covers():
    """Intervals of the mean and of the median of an exponential population cover about as often as they say."""
    rng = np.random.default_rng(0)
    hits = np.zeros(2)
    for _ in range(300):
        sample = rng.exponential(size=200)
        mean = bootstrap(sample, k=1, draws=200, rng=rng)
        median = bootstrap(sample, 0.5, draws=400, rng=rng)
        hits += [mean.low[0] <= 1 <= mean.high[0], median.low[0] <= np.log(2) <= median.high[0]]
    assert ((hits / 300 > 0.90) & (hits / 300 < 0.99)).all()


def test_a_bootstrapped_quantile_is_that_of_resamples():
    """The Beta shortcut against resampling for real."""
    rng = np.random.default_rng(1)
    sample = rng.exponential(size=30)
    quick = bootstrap(sample, 0.9, draws=20_000, rng=rng)
    slow = [np.quantile(rng.choice(sample, 30), 0.9, method="inverted_cdf") for _ in range(20_000)]
    for value, share in ((quick.low[0], 0.025), (quick.high[0], 0.975)):
        low, high = np.quantile(slow, [share - 0.005, share + 0.005], method="inverted_cdf")
        assert low <= value <= high


@given(LOSSES, st.integers(0, 100))
def test_there_is_one_definition_of_a_quantile(losses, percent):
    """The smallest attained value that at least a share q does not exceed, whatever q * n is rounded to."""
    q, n, ordered = percent / 100, len(losses), sorted(losses)
    first = next(k for k in range(1, n + 1) if k / n >= q)
    assert attained_quantile(losses, q) == quantile(losses, q) == ordered[first - 1]
    assert attained_quantile([*losses, np.inf], [0.0, 1.0]).tolist() == [ordered[0], np.inf]
