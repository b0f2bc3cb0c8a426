import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perinstance.analysis import bootstrap, efficiency, moments, optimisation_error, quantile, share_above
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


@given(LOSSES, st.integers(0, 100))
def test_there_is_one_definition_of_a_quantile(losses, percent):
    """The smallest attained value that at least a share q does not exceed, whatever q * n is rounded to."""
    q, n, ordered = percent / 100, len(losses), sorted(losses)
    first = next(k for k in range(1, n + 1) if k / n >= q)
    assert attained_quantile(losses, q) == quantile(losses, q) == ordered[first - 1]
    assert attained_quantile([*losses, np.inf], [0.0, 1.0]).tolist() == [ordered[0], np.inf]


def regression(seed, n=40, d=3):
    rng = np.random.default_rng(seed)
    return rng, rng.standard_normal((n, d)) * [1.0, 0.3, 2.0], rng.standard_normal(d)


@pytest.mark.parametrize("alpha, gamma, sigma", [(0.0, 1.0, 1.0), (3.0, 0.5, 0.7), (20.0, 10.0, 2.0)])
def test_the_error_of_a_sample_is_as_computed(alpha, gamma, sigma):
    rng, X, theta = regression(0)
    H = X.T @ X + alpha * np.eye(3)
    draws = 100_000
    y = X @ theta + sigma * rng.standard_normal((draws, len(X)))
    L = np.linalg.cholesky(np.linalg.inv(H) / gamma)
    sample = y @ X @ np.linalg.inv(H) + rng.standard_normal((draws, 3)) @ L.T
    error = ((sample - theta) ** 2).sum(axis=1)
    answer = efficiency(X.T @ X, alpha, gamma, sigma, theta)
    assert error.mean() == pytest.approx(answer.total, abs=5 * error.std() / draws**0.5)
    # the printed formula is something else
    printed = sigma**2 * np.trace(np.linalg.inv(H)) * (1 + 1 / gamma) + answer.bias
    if (alpha, sigma) != (0.0, 1.0):
        assert abs(printed - answer.total) > 20 * error.std() / draws**0.5


@pytest.mark.parametrize("d, gamma", [(1, 1.0), (3, 0.2), (10, 50.0)])
def test_the_optimisation_error_is_a_chi_square(d, gamma):
    rng = np.random.default_rng(d)
    X = rng.standard_normal((30, d))
    y = rng.standard_normal(30)
    alpha = 2.0
    H = X.T @ X + alpha * np.eye(d)
    best = np.linalg.solve(H, X.T @ y)

    def objective(t):
        return 0.5 * ((y - t @ X.T) ** 2).sum(axis=1) + 0.5 * alpha * (t**2).sum(axis=1)

    L = np.linalg.cholesky(np.linalg.inv(H) / gamma)
    gap = objective(best + rng.standard_normal((100_000, d)) @ L.T) - objective(best[None])
    answer = optimisation_error(d, gamma)
    assert gap.mean() == pytest.approx(answer.mean, rel=0.02)
    for share in (0.1, 0.5, 0.99):
        assert np.mean(gap <= answer.quantile(share)) == pytest.approx(share, abs=0.006)
    assert answer.exceeds(answer.quantile(0.9)) == pytest.approx(0.1)
