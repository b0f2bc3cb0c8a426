"""Real draws against the audit's numbers: nothing above delta(epsilon) can be shown, and half of it can be refuted.

The audit states the loss of one person of a small table; the release is drawn many times without and with that person.
"""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.sampling.ideal_laws import settle
from perinstance.sampling.random_bits import SystemBits
from tests.sampling.empirical import audited_delta

pytestmark = pytest.mark.usefixtures("fixed_noise")

rng = np.random.default_rng(8)
X = np.vstack([rng.standard_normal((7, 2)), [1.5, -1.0]])
y = np.append(X[:-1] @ [1.0, 0.5] + 0.3 * rng.standard_normal(7), -1.0)
PERSON = 7
RELEASES = {
    "posterior": pi.PosteriorSample(alpha=1.0, gamma=3.0),
    "output": pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=0.15),
    "shaped output": pi.OutputPerturbation(Ridge(1.0, fit_intercept=False), 0.25, precision=[[3.0, 1.0], [1.0, 2.0]]),
    "objective": pi.ObjectivePerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=2.0),
}


def draws(ideal, count: int) -> np.ndarray:
    points = [settle(ideal, [SystemBits() for _ in range(ideal.d)], -40) for _ in range(count)]
    return np.array(points, dtype=float) * 2.0**-40


def density(release, X, y):
    law = release.law(release.confidential_fit(ArraySweep(X, y)))
    return multivariate_normal(law.mean, law.root @ law.root.T).logpdf


def pair_of_her(release):
    fit = release.confidential_fit(ArraySweep(X, y))
    return release.people(fit, Block(X, y)).pairs[PERSON : PERSON + 1]


@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", list(RELEASES))
def test_linear_releases(name, count):
    release = RELEASES[name]
    without, everyone = (X[:PERSON], y[:PERSON]), (X, y)
    p, q = density(release, *without), density(release, *everyone)
    P, Q = draws(release.ideal(*without), count), draws(release.ideal(*everyone), count)
    pair = pair_of_her(release)
    for epsilon in (0.0, 0.5):
        delta = float(pair.delta(epsilon)[0])
        assert delta > 0.3
        found = audited_delta(P, Q, epsilon, lambda theta: p(theta) - q(theta), 1 - 1e-6)
        assert delta / 2 < found <= delta


@pytest.mark.parametrize("count", [8000, pytest.param(200_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_noisy_mean(noise, count):
    wealth = np.append(np.random.default_rng(9).standard_normal(9), 20.0)[:, None]
    release = pi.NoisyMean(scale=1.0, noise=noise)
    fit = release.confidential_fit(ArraySweep(wealth, np.zeros(10)))
    pair = release.people(fit, Block(wealth, np.zeros(10))).pairs[9:]
    centers = [release.ideal(rows).center[0] for rows in (wealth[:9], wealth)]
    P, Q = (
        draws_of_one(release.ideal(rows), center, count)
        for rows, center in zip((wealth[:9], wealth), centers, strict=True)
    )
    log_density = (
        (lambda t, c: -np.abs(t - float(c))) if noise == "laplace" else (lambda t, c: -((t - float(c)) ** 2) / 2)
    )
    epsilon = 0.3
    delta = float(pair.delta(epsilon)[0])
    found = audited_delta(
        P, Q, epsilon, lambda t: (log_density(t, centers[0]) - log_density(t, centers[1]))[:, 0], 1 - 1e-6
    )
    assert delta > 0.3
    assert delta / 2 < found <= delta


def draws_of_one(ideal, center, count: int) -> np.ndarray:
    many = type(ideal)([center] * count, ideal.scale, ideal.noise)
    return np.array(settle(many, [SystemBits() for _ in range(count)], -40), dtype=float)[:, None] * 2.0**-40
