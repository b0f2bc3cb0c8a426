"""Certified bounds, exact refits and estimates of smooth models against brute-force refits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor

import perinstance as pi
from perinstance.folds.sweep import ArraySweep
from perinstance.models.losses.catalogue import CATALOGUE
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothL1Penalty, SmoothObjective
from perinstance.models.smooth.movement_bounds import prepare, sensitivity
from perinstance.models.smooth.neighbour_refits import distances, leave_one_out
from perinstance.models.smooth.objective_folds import fit_smooth

from .dumb import problem, refit

everyone = pytest.mark.parametrize("name", CATALOGUE)
conventions = pytest.mark.parametrize("mean", [False, True], ids=["sum", "mean"])


def _norm(D, A):
    return np.sqrt(np.einsum("...i,ij,...j->...", D, A, D))


def _neighbour(name, X, y, i, alpha, mean, intercept, inside, outsiders=None):
    if inside:
        return refit(name, np.delete(X, i, 0), np.delete(y, i), alpha, intercept=intercept, mean=mean)
    Xo, yo = outsiders
    return refit(name, np.vstack([X, Xo[i]]), np.append(y, yo[i]), alpha, intercept=intercept, mean=mean)


@everyone
@conventions
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
def test_against_brute_force(name, mean, inside):
    rng = np.random.default_rng(7)
    n, d = 120, 4
    X, y = problem(name, rng, n, d, spread=0.5)
    alpha = 0.02 if mean else 1.0
    A = np.cov(rng.normal(size=(30, d + 1)), rowvar=False)
    objective = SmoothObjective(CATALOGUE[name], RidgePenalty(alpha), fit_intercept=True, mean=mean)
    sweep = ArraySweep(X, y, rows=37)
    fit = fit_smooth(sweep, objective)
    theta = refit(name, X, y, alpha, intercept=True, mean=mean)
    assert fit.theta == pytest.approx(theta, rel=1e-8, abs=1e-9)
    assert fit.decrement < 1e-11
    people = np.arange(0, n, 6)
    Xi, yi = (X[people], y[people]) if inside else (X[people] * 1.1 + 0.1, y[people])
    truth = np.array(
        [
            _neighbour(name, X, y, i if inside else k, alpha, mean, True, inside, (Xi, yi)) - theta
            for k, i in enumerate(people)
        ]
    )
    for precision in (None, A):
        norm = _norm(truth, np.eye(d + 1) if precision is None else A)
        rounding = 1e-10 * np.linalg.norm(theta)
        certified = sensitivity(prepare(sweep, fit, precision), Xi, yi, inside)
        assert (certified.distance >= norm * (1 - 1e-9) - rounding).all()
        assert (certified.open == np.isinf(certified.distance)).all()
        ways = leave_one_out(prepare(sweep, fit, precision, "exact"), sweep, Xi, yi, inside)
        exact = distances(ways, precision).value
        assert exact == pytest.approx(norm, rel=1e-8, abs=rounding)
        assert (exact >= norm * (1 - 1e-9) - rounding).all()
        estimate = sensitivity(prepare(sweep, fit, precision, "estimate"), Xi, yi, inside)
        assert np.median(np.abs(estimate.distance / np.maximum(norm, rounding) - 1)) < 0.25


@everyone
def test_within_five_percent_for_most_people_when_there_are_many(name):
    """n = 100 d: 95% of the people's bounds are within 5% of the truth, in the isotropic norm."""
    rng = np.random.default_rng(11)
    d = 8
    n = 100 * d
    X, y = problem(name, rng, n, d, spread=0.3)
    objective = SmoothObjective(CATALOGUE[name], RidgePenalty(1.0))
    sweep = ArraySweep(X, y)
    fit = fit_smooth(sweep, objective)
    certified = sensitivity(prepare(sweep, fit), X, y)
    exact = distances(leave_one_out(prepare(sweep, fit, kind="exact"), sweep, X, y), None).value
    moved = exact > 1e-12
    ratio = certified.distance[moved] / exact[moved]
    assert ratio.min() >= 1 - 1e-9
    assert np.quantile(ratio, 0.95) <= 1.05
    assert not certified.open.any()


def test_outliers_do_not_spoil_everybodys_bound():
    """One far row makes max_j h_j large; the averaged constant hardly notices."""
    rng = np.random.default_rng(5)
    X, y = problem("logistic", rng, 3000, 5, spread=0.0)
    X[17] *= 40
    sweep = ArraySweep(X, y)
    fit = fit_smooth(sweep, SmoothObjective(CATALOGUE["logistic"], RidgePenalty(1.0)))
    model = prepare(sweep, fit)
    constants = model.inside.hessian_bounds
    assert constants.theta[:-1].max() < 0.6 * constants.c  # the last radius is beyond everybody in the table
    some = slice(0, 300)
    exact = distances(leave_one_out(model, sweep, X[some], y[some]), None).value
    ratio = sensitivity(model, X[some], y[some]).distance / exact
    assert ratio.min() >= 1 - 1e-9
    assert np.quantile(ratio[np.isfinite(ratio)], 0.95) < 1.05


def test_blocks_do_not_matter():
    rng = np.random.default_rng(9)
    X, y = problem("poisson", rng, 300, 3)
    objective = SmoothObjective(CATALOGUE["poisson"], RidgePenalty(0.1), True, mean=True)
    answers = []
    for rows in (7, 300):
        sweep = ArraySweep(X, y, rows=rows)
        model = prepare(sweep, fit_smooth(sweep, objective))
        answers.append(np.concatenate([s.distance for s in sweep.map(lambda b, m=model: sensitivity(m, b.X, b.y))]))
    assert answers[0] == pytest.approx(answers[1], rel=1e-9)
    single = sensitivity(model, X.astype(np.float32), y)
    assert single.distance == pytest.approx(answers[1], rel=1e-3)


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), PoissonRegressor(), HuberRegressor(), "three classes"], ids=str
)
def test_an_audit_tells_how_many_people_it_has_refitted(estimator):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(600, 2))
    y = rng.integers(0, 3 if estimator == "three classes" else 2, 600).astype(float)
    if isinstance(estimator, HuberRegressor):
        y += 0.1 * rng.normal(size=600)
    model = LogisticRegression() if estimator == "three classes" else estimator
    seen = []
    pi.audit(
        pi.OutputPerturbation(model, scale=1.0),
        X,
        y,
        delta=1e-6,
        method="exact",
        progress=lambda *told: seen.append(told),
    )
    refits = [told for told in seen if told[0] == "refit"]
    assert [done for _, done, _ in refits] == sorted(done for _, done, _ in refits)
    assert refits[0][1] < 600 and refits[-1] == ("refit", 600, 600)


def test_curved_penalties_are_never_below_the_truth():
    """The penalty turns as well as the losses, in both conventions, for people inside and outside."""
    rng = np.random.default_rng(77)
    certified = 0
    for k in range(48):
        name = list(CATALOGUE)[k % len(CATALOGUE)]
        n, d, mean, inside = int(rng.integers(20, 120)), int(rng.integers(1, 4)), bool(k % 2), bool(rng.random() < 0.6)
        X, y = problem(name, rng, n, d, spread=0.3)
        weight, width = float(10 ** rng.uniform(-1, 0.7)) / (n if mean else 1), float(10 ** rng.uniform(-1.3, 0))
        objective = SmoothObjective(CATALOGUE[name], SmoothL1Penalty(weight, width), mean=mean)
        sweep = ArraySweep(X, y)
        fit = fit_smooth(sweep, objective)
        Z, z = (X, y) if inside else problem(name, rng, 5, d, spread=0.3)
        found = sensitivity(prepare(sweep, fit), Z[:2], z[:2], inside)
        for i in np.flatnonzero(~found.open):
            certified += 1
            if inside:
                other = ArraySweep(np.delete(X, i, 0), np.delete(y, i))
            else:
                other = ArraySweep(np.vstack([X, Z[i]]), np.append(y, z[i]))
            truth = np.linalg.norm(fit_smooth(other, objective).theta - fit.theta)
            assert found.distance[i] >= truth * (1 - 1e-9) - 1e-14 * np.linalg.norm(fit.theta)
    assert certified > 60
