"""Objective perturbation against refits: two Gaussians with different covariances, integrated in mpmath."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from sklearn.linear_model import Ridge

import perinstance as pi
from tests.neighbours.divergence import axes, two_axis_profiles
from tests.neighbours.refit import gaussians, leave_out, neighbours

DELTA, SCALE, TOLERANCE = 1e-4, 12.0, mp.mpf("1e-9")


def is_loss(epsilon, truth, scale=SCALE):
    """Whether it is the loss of the two refits: not below it at all, and above it by 1e-9 of itself at most."""
    with mp.workdps(60):
        P, Q = gaussians(truth, lambda H: mp.mpf(scale) ** 2 * mp.inverse(H * H))
        found = axes(P, Q)
        assert len(found) == 2
    with mp.workdps(20):
        # the axis whose variance changes most is the one done in closed form
        profiles = two_axis_profiles(*sorted(found, key=lambda pair: abs(pair[1] - 1)))
        claimed, delta = mp.mpf(float(epsilon)), mp.mpf(DELTA)
        enough = all(profile(claimed) <= delta for profile in profiles)
        return enough and any(profile(claimed * (1 - TOLERANCE)) > delta for profile in profiles)


def table():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(10, 2))
    X[2] *= 2  # somebody who stands out, for the others to live with
    return X, X @ [1.0, -2.0] + rng.normal(size=10)


@pytest.mark.parametrize("intercept", [False, True])
def test_objective_perturbation_is_the_divergence_of_two_refits(intercept):
    X, y = table()
    release = pi.ObjectivePerturbation(Ridge(alpha=0.7, fit_intercept=intercept), scale=SCALE)
    answer = pi.audit(release, X, y, delta=DELTA)
    i = 6 if intercept else 0
    assert is_loss(answer.epsilon[i], leave_out(X, y, i, 0.7, intercept))
    outside = pi.audit(release, X, y, delta=DELTA, outsiders=([[0.5, 1.0]], [-1.0]))
    assert is_loss(outside.epsilon[0], neighbours(X, y, [0.5, 1.0], -1.0, 0.7, intercept))


AWKWARD = {
    "dominant": lambda X, y: (np.vstack([1e3 * X[:1], X[1:]]), y),
    "far off": lambda X, y: (X, y + 100 * (np.arange(len(y)) == 0)),
    "scaled": lambda X, y: (X * [1e4, 1e-4], y),
    "nearly collinear": lambda X, y: (X[:, :1] + [0, 1e-3] * X, y),
    "equal people": lambda X, y: (np.vstack([X[:1], X]), np.append(y[:1], y)),
    "more columns than people": lambda X, y: (np.hstack([X, X**2])[:3], y[:3]),
    "alone": lambda X, y: (X[:2], y[:2]),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_objective_perturbation_on_awkward_tables(name):
    intercept, scale = [(False, 1.0), (True, SCALE)][len(name) % 2]
    X, y = AWKWARD[name](*table())
    release = pi.ObjectivePerturbation(Ridge(alpha=0.7, fit_intercept=intercept), scale=scale)
    answer = pi.audit(release, X, y, delta=DELTA)
    assert is_loss(answer.epsilon[0], leave_out(X, y, 0, 0.7, intercept), scale)
