"""Tables that break careless code: one row, more columns than people, leverage near one, columns 1e8 apart."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from perinstance.errors import NumericalTrouble
from perinstance.models.catalogue import CATALOGUE
from perinstance.models.glm import prepare, sensitivity
from perinstance.models.leave_one_out import distances, leave_one_out
from perinstance.models.newton import fit_smooth
from perinstance.models.objective import RidgePenalty, SmoothObjective
from perinstance.models.problem import problem_of
from perinstance.models.sweep import ArraySweep

from .dumb import problem, refit, softmax_refit

everyone = pytest.mark.parametrize("name", CATALOGUE)


def _refit(name, X, y, weights, unit, start):
    """The dumb road in units in which it can walk."""
    return refit(name, X / unit, y, weights / unit**2, start=start * unit) / unit


def _check(name, X, y, weights, people, rel=1e-8, unit=1.0):
    """Exact agrees with a refit, certified is not below it, whatever the table."""
    weights = np.broadcast_to(np.asarray(weights, dtype=float), (X.shape[1],))
    objective = SmoothObjective(CATALOGUE[name], RidgePenalty(tuple(weights)))
    sweep = ArraySweep(X, y)
    fit = fit_smooth(sweep, objective)
    theta = _refit(name, X, y, weights, unit, fit.theta)
    size = np.sqrt(np.maximum(weights, 1e-300))  # compare in units in which the penalty is one
    assert fit.theta * size == pytest.approx(theta * size, rel=1e-7, abs=1e-9 * np.linalg.norm(theta * size) + 1e-12)
    precision = np.diag(weights)
    certified = sensitivity(prepare(sweep, fit, precision), X[people], y[people])
    exact = distances(leave_one_out(prepare(sweep, fit, precision, "exact"), sweep, X[people], y[people]), precision)
    for k, i in enumerate(people):
        if len(X) == 1:
            D = -theta  # nobody is left: only the penalty speaks
        else:
            D = _refit(name, np.delete(X, i, 0), np.delete(y, i), weights, unit, fit.theta) - theta
        truth = np.linalg.norm(D * size)
        rounding = 1e-9 * (np.linalg.norm(theta * size) + 1e-3)
        assert exact[k] == pytest.approx(truth, rel=rel, abs=rounding)
        assert certified.distance[k] >= truth * (1 - rel) - rounding


@everyone
def test_one_row(name):
    _check(name, np.array([[1.0, -2.0]]), np.array([1.0]), 0.5, [0])


@everyone
def test_more_columns_than_people(name):
    X, y = problem(name, np.random.default_rng(1), 6, 12, spread=0.0)
    _check(name, X, y, 0.7, [0, 3, 5])


@everyone
def test_columns_a_hundred_million_apart(name):
    X, y = problem(name, np.random.default_rng(2), 60, 2, spread=0.0)
    scale = np.array([1e-8, 1.0])
    _check(name, X * scale, y, 0.5 * scale**2, [0, 7, 30], rel=1e-6, unit=scale)


@everyone
def test_leverage_near_one(name):
    """Her row is alone in its column and far out: all that is known of the column comes from her."""
    X, y = problem(name, np.random.default_rng(3), 30, 2, spread=0.0)
    X = np.column_stack([X, np.zeros(30)])
    X[4, 2] = 1e5
    _check(name, X, y, [1.0, 1.0, 1e-2], [3, 4], rel=1e-6)


@everyone
def test_equal_rows_and_rows_of_zeros(name):
    X, y = problem(name, np.random.default_rng(4), 30, 2, spread=0.0)
    X[10:20], y[10:20] = X[10], y[10]
    X[5] = 0.0
    _check(name, X, y, 0.3, [5, 10, 19])


def test_everything_far_out_is_an_error_that_says_so():
    X, y = problem("logistic", np.random.default_rng(5), 40, 2)
    X[0, 0] = 1e200
    with pytest.raises(NumericalTrouble):
        fit_smooth(ArraySweep(X, y), SmoothObjective(CATALOGUE["logistic"], RidgePenalty(1.0)))


@pytest.mark.parametrize("seed", range(3))
def test_multinomial_is_never_below_the_truth(seed):
    rng = np.random.default_rng(50 + seed)
    certified = 0
    for _ in range(8):
        n, d, K = int(rng.integers(40, 120)), int(rng.integers(1, 4)), int(rng.integers(3, 5))
        X = rng.normal(size=(n, d)) * np.exp(0.5 * rng.normal(size=d))
        y = (X @ rng.normal(size=(d, K)) + rng.gumbel(size=(n, K))).argmax(axis=1).astype(float)
        y[:K] = np.arange(K)
        C = float(10 ** rng.uniform(-2, 0.5))
        model, sweep = problem_of(LogisticRegression(C=C, fit_intercept=bool(rng.random() < 0.5))), ArraySweep(X, y)
        fit = model.fit(sweep, None, "certified")
        theta = softmax_refit(X, y, 1 / C, K, intercept=model.fit_intercept)
        for i in rng.choice(np.arange(K, n), 2, replace=False):
            found = model.movement(fit, X[i : i + 1], y[i : i + 1])
            truth = np.linalg.norm(
                softmax_refit(np.delete(X, i, 0), np.delete(y, i), 1 / C, K, intercept=model.fit_intercept) - theta
            )
            certified += np.isfinite(found.distance[0])
            assert found.distance[0] >= truth * (1 - 1e-9)
    assert certified >= 6
