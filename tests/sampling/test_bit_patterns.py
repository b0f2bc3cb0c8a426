"""Threat T19: the bits of a floating-point release tell whose data it was; the bits of ours do not.

The attacker knows both neighbouring data sets (that is what differential privacy grants him) and asks of an output
whether ``fl(theta_hat + fl(s z))`` can produce its bits at all. Under the right estimate some z always can; under the
neighbour's estimate often none can, whatever the size of the noise.
"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from perinstance.sampling import ExactGram, ExactOutput
from perinstance.sampling.ideal_laws import settle
from perinstance.sampling.random_bits import SystemBits
from tests.sampling.empirical import delta_lower_bound

EPSILON, SCALE = 1.0, 1.9

rng = np.random.default_rng(4)
X = rng.standard_normal((30, 8))
y = X @ rng.standard_normal(8) + rng.standard_normal(30)
NEIGHBOURS = [ExactGram.of(X, y).normal_equations(1.0), ExactGram.of(X[:-1], y[:-1]).normal_equations(1.0)]


def ridge(X, y):
    return np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ y)


ESTIMATES = [ridge(X, y), ridge(X[:-1], y[:-1])]


def explained(outputs: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """Which outputs could be ``estimate + SCALE * z`` in float64, in every coordinate."""
    z = (outputs - estimate) / SCALE
    found = estimate + SCALE * z == outputs
    for direction in (-math.inf, math.inf):
        candidate = z
        for _ in range(8):
            candidate = np.nextafter(candidate, direction)
            found |= estimate + SCALE * candidate == outputs
    return found.all(axis=1)


def classified_delta(outputs: list[np.ndarray]) -> float:
    """The best lower bound on delta(1) that the classifier proves, both directions, both hypotheses."""
    P, Q = outputs
    events = [lambda o: explained(o, ESTIMATES[0]), lambda o: ~explained(o, ESTIMATES[1])]
    events += [lambda o: explained(o, ESTIMATES[1]), lambda o: ~explained(o, ESTIMATES[0])]
    return max(delta_lower_bound(event(a), event(b), EPSILON, 0.9999) for event in events for a, b in ((P, Q), (Q, P)))


def float_outputs(estimate: np.ndarray, count: int, seed: int) -> np.ndarray:
    return estimate + SCALE * np.random.default_rng(seed).standard_normal((count, len(estimate)))


def our_outputs(equations, count: int) -> np.ndarray:
    ideal = ExactOutput(equations, SCALE)
    points = [settle(ideal, [SystemBits() for _ in range(ideal.d)], -40) for _ in range(count)]
    return np.array(points, dtype=float) * 2.0**-40


def claimed_delta() -> float:
    D = np.linalg.norm(ESTIMATES[0] - ESTIMATES[1]) / SCALE
    return norm.cdf(D / 2 - EPSILON / D) - math.exp(EPSILON) * norm.cdf(-D / 2 - EPSILON / D)


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("count", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_classifier_breaks_floats_and_finds_nothing_in_ours(count):
    assert claimed_delta() < 3e-6
    assert classified_delta([float_outputs(e, count, i) for i, e in enumerate(ESTIMATES)]) > 0.21
    assert classified_delta([our_outputs(e, count) for e in NEIGHBOURS]) == 0.0
