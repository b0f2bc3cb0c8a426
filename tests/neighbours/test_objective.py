"""Objective perturbation against refits: two Gaussians with different covariances, integrated in mpmath."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from sklearn.linear_model import Ridge

import perinstance as pi
from tests.neighbours.divergence import axes, confirm, two_axis_profiles
from tests.neighbours.refit import gaussians, leave_out, neighbours

DELTA, SCALE = 1e-4, 12.0


def is_loss(epsilon, truth):
    with mp.workdps(30):
        P, Q = gaussians(truth, lambda H: mp.mpf(SCALE) ** 2 * mp.inverse(H * H))
        found = axes(P, Q)
        assert len(found) == 2
    with mp.workdps(17):
        # the axis whose variance changes most is the one done in closed form
        first, second = sorted(found, key=lambda pair: abs(pair[1] - 1))
        return confirm(epsilon, DELTA, *two_axis_profiles(first, second), rel=mp.mpf("2e-9"))


@pytest.mark.parametrize("intercept", [False, True])
def test_objective_perturbation_is_the_divergence_of_two_refits(intercept):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(10, 2))
    X[2] *= 2  # somebody who stands out, for the others to live with
    y = X @ [1.0, -2.0] + rng.normal(size=10)
    release = pi.ObjectivePerturbation(Ridge(alpha=0.7, fit_intercept=intercept), scale=SCALE)
    answer = pi.audit(release, X, y, delta=DELTA)
    for i in (0, 6):
        assert is_loss(answer.epsilon[i], leave_out(X, y, i, 0.7, intercept))
    outside = pi.audit(release, X, y, delta=DELTA, targets=([[0.5, 1.0]], [-1.0]))
    assert is_loss(outside.epsilon[0], neighbours(X, y, [0.5, 1.0], -1.0, 0.7, intercept))
