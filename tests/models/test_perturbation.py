"""Objective perturbation of logistic regression: ex post against densities, certificates against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import perinstance as pi
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep

RNG = np.random.default_rng(21)
N, D = 1200, 2
X = RNG.normal(size=(N, D))
Y = (RNG.random(N) < expit(X @ [1.0, -0.5] + 0.2)).astype(float)
ALPHA, SCALE = 2.0, 3.0


def _log_density(theta, rows, targets, scale=SCALE, linear=False):
    """``log phi_s(grad F) + log det H``, all written out."""
    A = np.column_stack([rows, np.ones(len(rows))])
    L = np.diag([ALPHA] * D + [0.0])
    p = A @ theta if linear else expit(A @ theta)
    w = np.ones(len(rows)) if linear else p * (1 - p)
    gradient = A.T @ (p - targets) + L @ theta
    return -gradient @ gradient / (2 * scale**2) + np.linalg.slogdet((A.T * w) @ A + L)[1]


def _hessians(A, p):
    """One matrix per row of p, as a single product."""
    outer = (A[:, :, None] * A[:, None, :]).reshape(len(A), -1)
    return ((p * (1 - p)) @ outer).reshape(-1, D + 1, D + 1) + np.diag([ALPHA] * D + [0.0])


def _draws(rows, targets, count, rng):
    """Perturbed minima by Newton's method, and the noise that made them."""
    A = np.column_stack([rows, np.ones(len(rows))])
    L = np.append(np.full(D, ALPHA), 0.0)
    b = SCALE * rng.normal(size=(count, D + 1))
    theta = np.zeros((count, D + 1))
    for _ in range(9):
        p = expit(theta @ A.T)
        gradient = (p - targets) @ A + theta * L + b
        theta = theta - np.clip(np.linalg.solve(_hessians(A, p), gradient[..., None])[..., 0], -1, 1)
    assert np.abs(gradient).max() < 1e-6
    return theta


@pytest.mark.parametrize("linear", [False, True])
def test_ex_post_loss_is_the_ratio_of_densities(linear):
    estimator = Ridge(alpha=ALPHA) if linear else LogisticRegression(C=1 / ALPHA)
    release = pi.ObjectivePerturbation(estimator, scale=SCALE)
    for theta in np.random.default_rng(22).normal(size=(4, D + 1)):
        found = release.ex_post(X, Y, theta)
        for i in (0, 3, 77):
            without = _log_density(theta, np.delete(X, i, 0), np.delete(Y, i), linear=linear)
            assert found[i] == pytest.approx(without - _log_density(theta, X, Y, linear=linear), rel=1e-9, abs=1e-11)


def test_certified_pairs_bound_the_simulated_profile():
    """Hockey-stick divergences by Monte Carlo over the exact loss, in both directions."""
    release = pi.ObjectivePerturbation(LogisticRegression(C=1 / ALPHA), scale=SCALE)
    fit = release.confidential_fit(ArraySweep(X, Y))
    people = release.people(fit, Block(X, Y))
    pairs, rng = people.pairs, np.random.default_rng(5)
    assert pairs.kind == "upper"
    assert (pairs.tail > 0).mean() > 0.95  # nearly everyone has a certificate, not the global bound
    outer = release.people(fit, Block(X[:1] * 1.1, 1 - Y[:1]), inside=False).pairs
    cases = [(pairs[i], np.delete(X, i, 0), np.delete(Y, i), X, Y, i) for i in np.argsort(-pairs.distance)[[0]]]
    more, targets = np.vstack([X, X[:1] * 1.1]), np.append(Y, 1 - Y[0])
    cases.append((outer, X, Y, more, targets, N))
    for pair, smaller, y_smaller, larger, y_larger, i in cases:
        for direction, sign, rows, y in (("without", 1, smaller, y_smaller), ("with", -1, larger, y_larger)):
            theta = _draws(rows, y, 1_500, rng)
            A = np.column_stack([larger, np.ones(len(larger))])
            p = expit(theta @ A.T)
            gradient = (p - y_larger) @ A + theta * np.append(np.full(D, ALPHA), 0.0)
            H = _hessians(A, p)
            x, slope, curvature = A[i], p[:, i] - y_larger[i], p[:, i] * (1 - p[:, i])
            m = curvature * np.einsum("i,kij,j->k", x, np.linalg.inv(H), x)
            L = (2 * slope * (gradient @ x) - slope**2 * (x @ x)) / (2 * SCALE**2) + np.log1p(-m)
            for epsilon in (0.0, 0.1, 0.3, 0.8):
                gains = np.maximum(-np.expm1(epsilon - sign * L), 0)
                simulated = gains.mean() - 4 * gains.std() / np.sqrt(len(L))
                assert simulated <= pair.delta(epsilon, direction)[0]
                if epsilon == 0.1:  # and it is not idle: within a factor of the truth
                    assert pair.delta(epsilon, direction)[0] < 4 * max(gains.mean(), 0.02)


def test_audits_and_refusals():
    release = pi.ObjectivePerturbation(LogisticRegression(C=1 / ALPHA), scale=SCALE)
    audit = pi.audit(release, X, Y, delta=1e-6)
    assert set(np.atleast_1d(audit.kind)) == {"upper"}
    assert np.isfinite(audit.epsilon).all()
    for free in (LogisticRegression(C=1 / ALPHA), LogisticRegression(C=np.inf, fit_intercept=False)):
        with pytest.raises(RefusedModel, match="penalty on every coefficient"):
            pi.ObjectivePerturbation(free, scale=SCALE).fit(X, Y)
    with pytest.raises(RefusedModel, match="known for linear"):
        pi.ObjectivePerturbation(PoissonRegressor()).confidential_fit(ArraySweep(X, Y))
    with pytest.raises(InvalidInput, match="two classes"):
        release.confidential_fit(ArraySweep(X, np.arange(N) % 3))
