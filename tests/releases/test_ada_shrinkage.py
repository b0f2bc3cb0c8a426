"""The estimate that AdaSSP makes of its noisy statistics."""

from __future__ import annotations

import numpy as np
import pytest

from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.adassp.shrinkage import LABEL2, LOCAL2, TAU2, NoisyGram, noisy_gram, posterior_mean
from perinstance.releases.promises.noisy_queries import SimulatedWindow


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


@pytest.mark.parametrize(("n", "limit"), [(3000, 0.15), (300_000, 0.002)])
def test_it_tends_to_least_squares_as_the_data_grows(n, limit):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 3))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.clip(X @ [0.5, -0.4, 0.2] + rng.exponential(0.3, size=n) - 0.3, -1, 1)  # skewed: clipping alone is biased
    theta = adassp_mechanism.run(adassp_mechanism.spend(1.0, 1e-6, 1.0, 1.0, 0.25, 4), SimulatedWindow(X, y, rng)).coef
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    excess = ((y - X @ theta) ** 2).mean() / ((y - X @ best) ** 2).mean() - 1
    assert excess < limit


def test_units_do_not_matter():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2000, 3))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.clip(X @ [0.5, -0.4, 0.2] + rng.normal(size=2000) / 10, -1, 1)
    small = adassp_mechanism.run(
        adassp_mechanism.spend(1.0, 1e-6, 1.0, 1.0, 0.25, 3), SimulatedWindow(X, y, np.random.default_rng(9))
    )
    large = adassp_mechanism.run(
        adassp_mechanism.spend(1.0, 1e-6, 8.0, 100.0, 0.25, 3),
        SimulatedWindow(8 * X, 100 * y, np.random.default_rng(9)),
    )
    np.testing.assert_allclose(large.coef * 8 / 100, small.coef, rtol=1e-6)
