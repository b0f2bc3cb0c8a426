"""More columns than people: the n x n road against exact refits, never below, within what it charges for rounding."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, arb_mat, ctx
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.folds.sweep import ArraySweep
from perinstance.models.linear import wide_fit
from perinstance.models.linear.ridge import linear_fit
from tests.neighbours.refit import distance, leave_out, to_float

DESIGNS = ("plain", "spread", "far", "twins", "mean", "zeros")


def table(design, n, p, seed=0):
    rng = np.random.default_rng([seed, n, p])
    X, y = rng.normal(size=(n, p)), rng.normal(size=n)
    if design == "spread":
        X *= 10.0 ** rng.uniform(-2, 2, p)
    elif design == "far":
        X[0] *= 300
        y[1] = 1e4
    elif design == "twins":
        X[1], y[1] = X[0], y[0]
        X[2] = X[0]
    elif design == "mean":
        X += 100
    elif design == "zeros":
        X[0], y[2] = 0.0, 0.0
        X[:, 1] = 0.0
    return X, y


def dual(X, y, alpha, intercept, precision=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wide_fit, "FEW_COLUMNS", 0)
        return linear_fit(ArraySweep(X, y), alpha, intercept, precision, moves=True).answers


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n, p, alpha", [(9, 13, 1.0), (12, 13, 0.01)])
def test_against_exact_refits(design, intercept, n, p, alpha):
    X, y = table(design, n, p)
    d = p + int(intercept)
    root = np.random.default_rng(5).normal(size=(d, d)) / 4 + np.eye(d)
    A = root.T @ root
    A = (A + A.T) / 2
    found = dual(X, y, alpha, intercept, A)
    if found is None:
        assert alpha < 1 and design in ("mean", "spread", "far")  # nothing exact: the primal road answers
        return
    for i in (0, 1, n - 1):
        truth = leave_out(X, y, i, alpha, intercept)
        mu, r = to_float(truth.leverage), to_float(truth.residual)
        assert mu <= found.leverage[i] * (1 + 1e-15)
        assert found.leverage[i] - mu <= 2 * found.error[i] * (1 + mu)
        assert abs(r) <= abs(found.residual[i]) * (1 + 1e-15) or abs(r) < 1e-300
        assert abs(found.residual[i] - r) <= 2 * found.lost[i]
        moved = distance(truth, A)
        assert moved <= abs(found.residual[i]) * found.length[i] * (1 + 1e-14)
        if found.error[i] < 1e-6 and found.lost[i] < 1e-6 * abs(r):
            assert abs(found.residual[i]) * found.length[i] <= moved * (1 + 1e-5)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("alpha", [1.0, 1e-3])
def test_charged_rounding_covers_what_is_seen(design, alpha):
    """In balls of 300 bits: errors stay below a third of the charge, so that other processors have room."""
    n, p = 24, 36
    X, y = table(design, n, p, seed=1)
    found = dual(X, y, alpha, False)
    if found is None:
        assert design in ("spread", "far", "mean") or alpha < 1  # not exact: the primal road answers
        return
    before, ctx.prec = ctx.prec, 300
    try:
        Z = arb_mat([[arb(v) for v in row] for row in X.tolist()])
        K = Z * Z.transpose() + arb(alpha) * arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])
        inverse = K.inv()
        solved = inverse * arb_mat([[arb(v)] for v in y.tolist()])
        mu = [1 / (arb(alpha) * inverse[i, i]) - 1 for i in range(n)]
        r = [solved[i, 0] / inverse[i, i] for i in range(n)]
        over = np.array([float(arb(found.leverage[i]) - mu[i]) for i in range(n)])
        missed = np.array([float(arb(found.residual[i]) - r[i]) for i in range(n)])
        sign = np.array([np.sign(float(one)) for one in r])
    finally:
        ctx.prec = before
    assert (over >= 0).all()
    charged = found.rough / 2 * found.leverage
    assert (np.abs(over - charged) <= charged / 3).all()
    assert (np.abs(missed - np.copysign(found.lost, sign))[sign != 0] <= (found.lost / 3)[sign != 0]).all()


@pytest.mark.parametrize("intercept", [False, True])
def test_audits_agree_with_factorising_without_each_person(monkeypatch, intercept):
    X, y = table("plain", 40, 60)
    for release in (
        pi.PosteriorSample(alpha=1.0, fit_intercept=intercept),
        pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=intercept), scale=1.0),
        pi.ObjectivePerturbation(Ridge(alpha=1.0, fit_intercept=intercept), scale=1.0),
    ):
        quick = pi.audit(release, X, y)
        with monkeypatch.context() as patched:
            patched.setattr("perinstance.models.linear.ridge.dual_fit", lambda *_: None)
            slow = pi.audit(release, X, y)
        np.testing.assert_allclose(quick.losses, slow.losses, rtol=1e-6)
        assert (np.asarray(quick.kind) == "exact").mean() > 0.9


def test_many_columns_end():
    X, y = table("plain", 300, 400)
    audit = pi.audit(pi.PosteriorSample(alpha=1.0), X, y)
    assert np.isfinite(audit.losses).all() and audit.health.factorisation == "dual cholesky"
