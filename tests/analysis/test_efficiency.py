import numpy as np
import pytest

from perinstance.analysis import efficiency, optimisation_error


def world(seed, n=40, d=3):
    rng = np.random.default_rng(seed)
    return rng, rng.standard_normal((n, d)) * [1.0, 0.3, 2.0], rng.standard_normal(d)


@pytest.mark.parametrize("alpha, gamma, sigma", [(0.0, 1.0, 1.0), (3.0, 0.5, 0.7), (20.0, 10.0, 2.0)])
def test_the_error_of_a_sample_is_as_computed(alpha, gamma, sigma):
    rng, X, theta = world(0)
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


def test_cold_and_unregularised_is_least_squares():
    _, X, theta = world(1)
    answer = efficiency(X.T @ X, 0.0, 1e12, 0.5, theta)
    assert answer.relative == pytest.approx(1.0, rel=1e-9)


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
