"""The estimate that AdaSSP makes of its noisy statistics."""

from __future__ import annotations

import numpy as np

from perinstance.releases.adassp.mechanism import LABEL2, LOCAL2, TAU2, NoisyGram, noisy_gram, posterior_mean


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
