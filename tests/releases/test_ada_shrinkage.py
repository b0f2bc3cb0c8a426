"""The estimate that AdaSSP makes of its noisy statistics."""

from __future__ import annotations

import numpy as np
import pytest

import perinstance as pi
from perinstance.releases.adassp.mechanism import LABEL2, LOCAL2, TAU2, NoisyGram, noisy_gram, posterior_mean
from perinstance.releases.promises.estimator import simulated_coefficients


def slow_posterior_mean(gram: NoisyGram, moment, scale):
    """The double average written out: over public hyperparameters, and over local factors of each direction."""
    g, z, d = gram.values, gram.vectors.T @ moment, len(moment)
    total, weights = np.zeros(d), 0.0
    for p in (np.ones(d), g / g.mean()):
        for label2 in LABEL2:
            for tau2 in TAU2:
                density, mean = np.ones(d), np.zeros(d)
                for j in range(d):
                    noise = scale**2 + gram.scale**2 * d * tau2 / 2 + label2 * g[j]
                    parts = []
                    for local2 in LOCAL2:
                        prior = tau2 * p[j] * local2
                        variance = prior * g[j] ** 2 + noise
                        likelihood = np.exp(-(z[j] ** 2) / (2 * variance)) / np.sqrt(variance)
                        parts.append((likelihood, prior * g[j] / variance * z[j]))
                    density[j] = sum(a for a, _ in parts)
                    mean[j] = sum(a * b for a, b in parts) / density[j]
                weights += density.prod()
                total += density.prod() * mean
    return gram.vectors @ (total / weights)


def test_posterior_mean_against_loops():
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    gram = NoisyGram(np.array([0.0, 20.0, 90.0]), V, 5.0, 110.0)
    moment = rng.normal(size=3) * 30
    np.testing.assert_allclose(posterior_mean(gram, moment, 4.0), slow_posterior_mean(gram, moment, 4.0), rtol=1e-10)


def test_without_noise_it_is_the_solution():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 4)) / 3
    theta = np.array([0.5, -0.3, 0.2, 0.1])
    G = X.T @ X
    estimate = posterior_mean(noisy_gram(G, 1e-6), G @ theta, 1e-6)
    np.testing.assert_allclose(estimate, theta, atol=0.003)


def test_drowned_in_noise_it_falls_back_to_nothing():
    rng = np.random.default_rng(2)
    G, lengths = np.eye(5) * 3.0, []
    for _ in range(50):
        Z = rng.normal(size=(5, 5))
        noisy = noisy_gram(G + 50 * (Z + Z.T) / 2, 50.0)
        lengths.append(np.linalg.norm(posterior_mean(noisy, 50 * rng.normal(size=5), 50.0)))
    assert np.mean(lengths) < 0.25  # plain least squares would be of length about 1 and more


def test_a_gram_matrix_without_any_signal_is_no_trouble():
    estimate = posterior_mean(noisy_gram(-np.eye(3) * 100, 1.0), np.ones(3), 1.0)
    assert np.isfinite(estimate).all()
    assert np.isfinite(posterior_mean(noisy_gram(np.array([[-5.0]]), 1.0), np.ones(1), 1.0)).all()


def test_denoised_eigenvalues_are_closer_to_what_the_eigenvectors_carry():
    rng = np.random.default_rng(3)
    d, scale, raw, better = 30, 8.0, 0.0, 0.0
    G = np.diag(np.linspace(5, 120, d) ** 1.2)
    for _ in range(40):
        Z = rng.normal(size=(d, d))
        noisy = G + scale * (Z + Z.T) / 2
        gram, w = noisy_gram(noisy, scale), np.linalg.eigvalsh(noisy)
        carried = np.einsum("ji,jk,ki->i", gram.vectors, G, gram.vectors)
        raw, better = raw + ((w - carried) ** 2).sum(), better + ((gram.values - carried) ** 2).sum()
        assert (np.diff(gram.values) >= 0).all()
    assert better < 0.8 * raw


@pytest.mark.parametrize("x_bound", [1.0, [1.0, 1.0, (-1.0, 1.0)]])
@pytest.mark.parametrize(("n", "limit"), [(3000, 0.15), (300_000, 0.002)])
def test_it_tends_to_least_squares_as_the_data_grows(x_bound, n, limit):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 3))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.clip(X @ [0.5, -0.4, 0.2] + rng.exponential(0.3, size=n) - 0.3, -1, 1)  # skewed: clipping alone is biased
    theta = simulated_coefficients(pi.AdaSSP(1.0, 1e-6, x_bound, 1.0), X, y, rng)
    Z = np.column_stack([X, np.ones(n)])
    best = np.linalg.lstsq(Z, y, rcond=None)[0]
    excess = ((y - Z @ theta) ** 2).mean() / ((y - Z @ best) ** 2).mean() - 1
    assert excess < limit


@pytest.mark.parametrize("release", [pi.AdaSSP, pi.AdaOPS])
@pytest.mark.parametrize("intercept", [True, False])
def test_units_do_not_matter(release, intercept):
    """Columns 1 to 1e6 apart cost nothing: the same seed makes the same error; powers of two make the same bits."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(2000, 3))
    y = np.clip(X @ [0.5, -0.4, 0.2] + rng.normal(size=2000) / 10, -1, 1)
    factors, unit = np.array([1.0, 1e3, 1e6]), 100.0
    for scale, factor in ((factors, unit), (2.0 ** np.array([0, 10, 20]), 2.0**7)):
        ranges, scaled = [(-1.0, 1.0)] * 3, [(-f, f) for f in scale]
        small, large = (
            simulated_coefficients(
                release(x_bound=bounds, y_bound=label, fit_intercept=intercept, n_public=2000),
                X * columns,
                y * by,
                np.random.default_rng(9),
            )
            for bounds, label, columns, by in ((ranges, 1.0, 1.0, 1.0), (scaled, factor, scale, factor))
        )
        back = large * np.append(scale, 1.0)[: len(large)] / factor
        errors = [((y - X @ t[:3] - t[3:].sum()) ** 2).mean() for t in (small, back)]
        assert errors[1] == pytest.approx(errors[0], rel=1e-9)
        if factor == 2.0**7:
            assert (back == small).all()
