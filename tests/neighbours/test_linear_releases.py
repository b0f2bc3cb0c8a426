"""Every linear release against refits: with and without each person, and with outsiders."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

import perinstance as pi
from tests.neighbours.divergence import confirm, gaussian_profiles, one_axis_profiles, shift_profile
from tests.neighbours.refit import distance, gaussians, leave_out, neighbours, to_float

DELTA = 1e-6


def table(seed: int, n: int = 14, d: int = 3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.uniform(0.1, 3.0, size=d)
    X[2] *= 8.0  # somebody who stands out
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    return X, y, rng


def is_posterior_loss(epsilon, truth, gamma):
    with mp.workdps(60):
        P, Q = gaussians(truth, lambda H: mp.inverse(H) / mp.mpf(gamma))
        return confirm(epsilon, DELTA, *gaussian_profiles(P, Q))


def is_shift_loss(epsilon, D):
    with mp.workdps(40):
        return confirm(epsilon, DELTA, shift_profile(D))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_posterior_sample_is_the_divergence_of_two_refits(seed, intercept):
    X, y, rng = table(seed)
    release = pi.PosteriorSample(alpha=0.7, gamma=1.3, fit_intercept=intercept)
    answer = pi.audit(release, X, y, delta=DELTA)
    for i in range(len(y)):
        truth = leave_out(X, y, i, 0.7, intercept)
        assert answer.leverage[i] == pytest.approx(to_float(truth.leverage), rel=1e-11)
        assert answer.residual[i] == pytest.approx(to_float(truth.residual), rel=1e-11)
        assert i % 3 == 1 or is_posterior_loss(answer.epsilon[i], truth, 1.3)
    X_new, y_new = rng.normal(size=(3, 3)) * 4, rng.normal(size=3) * 5
    outside = pi.audit(release, X, y, outsiders=(X_new, y_new), delta=DELTA)
    for i in range(3):
        truth = neighbours(X, y, X_new[i], y_new[i], 0.7, intercept)
        assert is_posterior_loss(outside.epsilon[i], truth, 1.3)


@pytest.mark.parametrize("public", [False, True], ids=["isotropic", "precision"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_output_perturbation_is_the_divergence_of_two_refits(alpha, intercept, public):
    X, y, rng = table(11)
    p = 3 + intercept
    root = rng.normal(size=(p, p))
    A = root @ root.T + np.diag(rng.uniform(0.1, 10, size=p)) if public else np.eye(p)
    A = (A + A.T) / 2
    estimator = Ridge(alpha=alpha, fit_intercept=intercept) if alpha else LinearRegression(fit_intercept=intercept)
    release = pi.OutputPerturbation(estimator, scale=2.5, precision=A if public else None)
    answer = pi.audit(release, X, y, delta=DELTA)
    for i in range(len(y)):
        D = distance(leave_out(X, y, i, alpha, intercept), A) / 2.5
        assert answer.pairs.distance[i] == pytest.approx(D, rel=1e-11)
        assert is_shift_loss(answer.epsilon[i], D)
    X_new, y_new = rng.normal(size=(3, 3)) * 4, rng.normal(size=3) * 5
    outside = pi.audit(release, X, y, outsiders=(X_new, y_new), delta=DELTA)
    for i in range(3):
        D = distance(neighbours(X, y, X_new[i], y_new[i], alpha, intercept), A) / 2.5
        assert is_shift_loss(outside.epsilon[i], D)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("statistic", ["mean", "sum"])
def test_noisy_mean_is_the_divergence_of_two_means(noise, statistic):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(9, 2)) * 10 + 3
    release = pi.NoisyMean(scale=4.0, noise=noise, statistic=statistic)
    order = 1 if noise == "laplace" else 2
    of = np.mean if statistic == "mean" else np.sum

    def is_loss(epsilon, before, after):
        D = np.linalg.norm(of(after, axis=0) - of(before, axis=0), ord=order) / 4.0
        if noise == "gaussian":
            return is_shift_loss(epsilon, D)
        return epsilon == pytest.approx(max(0.0, D + 2 * np.log1p(-DELTA)), rel=1e-9)

    answer = pi.audit(release, X, delta=DELTA)
    for i in range(9):
        assert is_loss(answer.epsilon[i], np.delete(X, i, axis=0), X)
    new = np.array([[100.0, -50.0]])
    outside = pi.audit(release, X, outsiders=(new,), delta=DELTA)
    assert is_loss(outside.epsilon[0], X, np.vstack([X, new]))


def test_all_442_patients_by_refit():
    """scikit-learn's own Ridge, refitted 442 times."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    answer = pi.audit(pi.OutputPerturbation(Ridge(alpha=0.3), scale=50.0), X, y, delta=DELTA)
    sample = pi.audit(pi.PosteriorSample(alpha=0.3, gamma=1e-3, fit_intercept=True), X, y, delta=DELTA)
    whole = Ridge(alpha=0.3, solver="cholesky").fit(X, y)
    theta = np.append(whole.coef_, whole.intercept_)
    Z, penalty = np.hstack([X, np.ones((442, 1))]), np.diag([0.3] * 10 + [0.0])
    for i in range(442):
        keep = np.arange(442) != i
        other = Ridge(alpha=0.3, solver="cholesky").fit(X[keep], y[keep])
        without = np.append(other.coef_, other.intercept_)
        D = np.linalg.norm(theta - without) / 50.0
        assert answer.pairs.distance[i] == pytest.approx(D, rel=1e-9)
        assert is_shift_loss(answer.epsilon[i], answer.pairs.distance[i])
        mu = Z[i] @ np.linalg.solve(Z[keep].T @ Z[keep] + penalty, Z[i])
        r = y[i] - Z[i] @ without
        assert sample.leverage[i] == pytest.approx(mu, rel=1e-10)
        assert sample.residual[i] == pytest.approx(r, rel=1e-9)
        with mp.workdps(30):
            rho = np.sqrt(1e-3) * abs(r)
            variance = mp.mpf(1) + mu  # w in units of Q's deviation: N(rho, mu) against N(rho/(1+mu), mu/(1+mu))
            mean = (rho - rho / (1 + mp.mpf(mu))) / mp.sqrt(mu / (1 + mp.mpf(mu)))
            assert confirm(sample.epsilon[i], DELTA, *one_axis_profiles(mean, variance), rel=mp.mpf("1e-8"))
