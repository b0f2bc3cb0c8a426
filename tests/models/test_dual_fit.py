"""The fit with more columns than people, against exact refits: never below, labels true, nothing p x p."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from flint import arb, arb_mat, ctx
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.errors import InvalidInput
from perinstance.folds.sweep import ArraySweep
from perinstance.models.linear import wide_fit as module
from perinstance.models.linear.ridge import by_columns, fit_by_columns, linear_fit, refined, without
from perinstance.models.linear.wide_fit import DualFit
from perinstance.numerics.rounding import EXACT_PARAMETER
from tests.neighbours.refit import distance, leave_out, neighbours, to_float

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


@pytest.fixture
def any_width(monkeypatch):
    monkeypatch.setattr(module, "FEW_COLUMNS", 0)


def norm(d):
    root = np.random.default_rng(5).normal(size=(d, d)) / 4 + np.eye(d)
    A = root.T @ root
    return (A + A.T) / 2


def check(found, i, truth, A, inside):
    mu, r, moved = to_float(truth.leverage), to_float(truth.residual), distance(truth, A)
    assert mu <= found.leverage[i] * (1 + 1e-15)
    assert abs(r) <= abs(found.residual[i]) * (1 + 1e-15) or abs(r) < 1e-300
    assert moved <= abs(found.residual[i]) * found.length[i] * (1 + 1e-14)
    if found.kind_code[i] == 0:
        assert found.leverage[i] <= mu * (1 + 2 * EXACT_PARAMETER)
        assert abs(found.residual[i]) <= abs(r) * (1 + 3 * EXACT_PARAMETER)
        assert abs(found.residual[i]) * found.length[i] <= moved * (1 + 6 * EXACT_PARAMETER)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 1e-3, 1e7])
@pytest.mark.parametrize("identity", [False, True])
def test_insiders_and_outsiders_against_exact_refits(any_width, design, intercept, alpha, identity):
    n, p = 8, 12
    X, y = table(design, n, p)
    d = p + int(intercept)
    A = np.eye(d) if identity else norm(d)
    sweep = ArraySweep(X, y)
    fit = linear_fit(sweep, alpha, intercept, None if identity else A, moves=True)
    assert isinstance(fit, DualFit)
    some = np.array([0, 1, n - 1])
    other = np.vstack([X[3], np.random.default_rng(1).normal(size=p), np.zeros(p)])
    aims = np.array([y[3], 2.0, 1.0])
    for rows, targets, inside in ((X[some], y[some], True), (other, aims, False)):
        floats = without(fit, rows, targets, inside)
        balls = refined(fit, sweep, rows, targets, inside)
        for i in range(3):
            truth = (
                leave_out(X, y, int(some[i]), alpha, intercept)
                if inside
                else neighbours(X, y, rows[i], targets[i], alpha, intercept)
            )
            check(floats, i, truth, A, inside)
            check(balls, i, truth, A, inside)
            if to_float(truth.residual) != 0:
                assert balls.kind_code[i] == 0


@pytest.mark.parametrize("intercept", [False, True])
def test_where_floats_leave_nothing_certain_balls_answer(any_width, intercept):
    X, y = table("twins", 6, 9)
    X *= 1e12
    sweep = ArraySweep(X, y)
    fit = linear_fit(sweep, 1e-6, intercept, moves=True)
    assert isinstance(fit, DualFit) and fit.system is None
    assert without(fit, X, y).open.all()
    found = refined(fit, sweep, X, y)
    for i in range(len(X)):
        check(found, i, leave_out(X, y, i, 1e-6, intercept), np.eye(9 + int(intercept)), True)
    assert (found.kind_code == 0).all()
    audit = pi.audit(pi.PosteriorSample(alpha=1e-6, fit_intercept=intercept), X, y)
    assert audit.refined == 6 and audit.health.factorisation == "dual, in balls"


@pytest.mark.parametrize("intercept", [False, True])
def test_the_same_estimate_and_matrices_as_by_columns(any_width, intercept):
    X, y = table("plain", 20, 50)
    fit, columns = linear_fit(ArraySweep(X, y), 0.5, intercept), fit_by_columns(ArraySweep(X, y), 0.5, intercept)
    np.testing.assert_allclose(fit.theta, columns.theta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fit.theta[:50], Ridge(0.5, fit_intercept=intercept).fit(X, y).coef_, rtol=1e-8)
    np.testing.assert_allclose(fit.inverse(), columns.inverse(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fit.basis @ fit.basis.T, columns.inverse(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fit.gram, columns.gram, atol=1e-9)
    np.testing.assert_allclose(fit.penalty, columns.penalty)
    assert (fit.rank, fit.n_people, fit.n_features) == (columns.rank, 20, 50)
    assert by_columns(fit).theta.shape == fit.theta.shape and by_columns(columns) is columns


@pytest.mark.parametrize("intercept", [False, True])
def test_one_and_two_people(any_width, intercept):
    X, y = table("plain", 2, 40)
    for n in (1, 2):
        audit = pi.audit(pi.PosteriorSample(alpha=1.0, fit_intercept=intercept), X[:n], y[:n])
        if n == 1 and intercept:  # nobody is left who would determine the constant
            assert np.isinf(audit.losses).all()
            continue
        truth = (
            leave_out(X[:n], y[:n], 0, 1.0, intercept) if n > 1 else neighbours(X[:0], y[:0], X[0], y[0], 1.0, False)
        )
        np.testing.assert_allclose(audit.leverages[0], to_float(truth.leverage), rtol=1e-7)
        np.testing.assert_allclose(audit.residuals[0], to_float(truth.residual), rtol=1e-7)


def test_blocks_and_an_unknown_number_of_rows():
    class Stream(ArraySweep):
        n_rows = None

    X, y = table("plain", 40, 50)
    whole = linear_fit(ArraySweep(X, y), 1.0, False)
    cut = linear_fit(Stream(X, y, rows=7), 1.0, False)
    assert isinstance(whole, DualFit) and isinstance(cut, DualFit)
    np.testing.assert_array_equal(whole.theta, cut.theta)
    shuffled = np.random.default_rng(0).permutation(40)
    np.testing.assert_array_equal(
        without(whole, X, y).leverage[shuffled], without(cut, X[shuffled], y[shuffled]).leverage
    )
    assert not isinstance(linear_fit(Stream(X[:, :35], y, rows=7), 1.0, False), DualFit)


def test_somebody_who_is_not_in_the_data_is_refused():
    X, y = table("plain", 20, 50)
    fit = linear_fit(ArraySweep(X, y), 1.0, False)
    with pytest.raises(InvalidInput, match="inside=False"):
        without(fit, X[:2] + 1, y[:2])


def test_nothing_p_by_p_is_made():
    """4,000 columns: an audit of each release, and of outsiders, holds less than a p x p array would take (128 MB)."""
    releases = (
        pi.PosteriorSample(alpha=1.0),
        pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=1.0),
        pi.ObjectivePerturbation(Ridge(alpha=1.0), scale=1.0),
    )
    small, (X, y) = table("plain", 30, 40), table("plain", 30, 4000)
    for release in releases:
        pi.audit(release, *small)  # compiles
        tracemalloc.start()
        try:
            for asked in (None, (X[:3] + 1, y[:3])):
                audit = pi.audit(release, X, y, outsiders=asked)
                assert np.isfinite(audit.losses).all() and audit.health.rank >= 4000
            assert tracemalloc.get_traced_memory()[1] < 100e6
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("intercept", [False, True])
def test_without_a_penalty_everybody_is_alone_in_a_direction_at_once(intercept):
    X, y = table("plain", 60, 90)
    audit = pi.audit(pi.PosteriorSample(alpha=0.0, fit_intercept=intercept), X, y)
    assert (
        np.isinf(audit.losses).all() and np.isinf(audit.leverages).all() and (np.asarray(audit.kind) == "exact").all()
    )
    X[1], y[1] = X[0], y[0]  # not alone; to find out more of the others takes too long with so many columns
    twins = pi.audit(pi.PosteriorSample(alpha=0.0, fit_intercept=intercept), X, y)
    assert np.isfinite(twins.losses[:2]).all()
    assert np.isinf(twins.losses[2:]).all() and (np.asarray(twins.kind)[2:] == "upper").all()


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("alpha", [1.0, 1e-3])
def test_charged_rounding_covers_what_is_seen(any_width, design, alpha):
    """In balls of 300 bits: errors stay below a third of the charge, so that other processors have room."""
    n, p = 24, 36
    X, y = table(design, n, p, seed=1)
    found = linear_fit(ArraySweep(X, y), alpha, False).answers
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
