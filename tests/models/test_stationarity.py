"""How far the float64 minimum is from the true one, against mpmath: what releases add exact noise to."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from perinstance.folds.sweep import ArraySweep
from perinstance.models.losses.catalogue import CATALOGUE
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective
from perinstance.models.smooth.newton import whiten
from perinstance.models.smooth.objective_folds import fit_smooth

from .dumb import problem

SLOPES = {
    "logistic": (lambda y, e: 1 / (1 + mpmath.exp(-e)) - y, lambda y, e: mpmath.exp(-e) / (1 + mpmath.exp(-e)) ** 2),
    "poisson": (lambda y, e: mpmath.exp(e) - y, lambda y, e: mpmath.exp(e)),
    "gamma": (lambda y, e: 1 - y * mpmath.exp(-e), lambda y, e: y * mpmath.exp(-e)),
    "squared": (lambda y, e: e - y, lambda y, e: mpmath.mpf(1)),
}


def _true_minimum(name, X, y, alpha, start):
    """Newton's method in 60 digits."""
    slope, curvature = SLOPES[name]
    with mpmath.workdps(60):
        A, theta = mpmath.matrix(X.tolist()), mpmath.matrix(start.tolist())
        for _ in range(6):
            eta = A * theta
            g = [slope(mpmath.mpf(t), e) for t, e in zip(y, eta, strict=True)]
            w = [curvature(mpmath.mpf(t), e) for t, e in zip(y, eta, strict=True)]
            p = len(start)
            gradient = mpmath.matrix(
                [mpmath.fsum(g[j] * A[j, k] for j in range(len(y))) + alpha * theta[k] for k in range(p)]
            )
            H = mpmath.matrix(p, p)
            for k in range(p):
                for m in range(p):
                    H[k, m] = mpmath.fsum(w[j] * A[j, k] * A[j, m] for j in range(len(y))) + (alpha if k == m else 0)
            theta = theta - mpmath.lu_solve(H, gradient)
        assert mpmath.norm(gradient) < mpmath.mpf(10) ** -30
        return theta


@pytest.mark.parametrize("name", SLOPES)
@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_the_float_minimum_is_within_its_proof(name, unit):
    X, y = problem(name, np.random.default_rng(3), 60, 3, spread=0.5)
    X[:, 0] *= unit
    y = y * (unit if name in ("squared", "poisson") else 1)  # huge counts
    fit = fit_smooth(ArraySweep(X, y, rows=17), SmoothObjective(CATALOGUE[name], RidgePenalty(0.25)))
    true = _true_minimum(name, X, y, 0.25, fit.theta)
    around = whiten(fit.hessian)
    with mpmath.workdps(60):
        D = np.array([float(a - b) for a, b in zip(true, fit.theta.tolist(), strict=True)])
    off = float(np.linalg.norm(np.linalg.solve(around.T.T, D)))  # in the H norm
    proof = fit.gradient_bound(around)
    assert off <= proof * (1 + 1e-3)
    assert proof <= 1e-11 * np.sqrt(abs(fit.value) + 1)  # and the proof is worth something
