"""HuberRegressor with its scale: the joint minimum and every neighbour's, against another optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import HuberRegressor

from perinstance.errors import InvalidInput, NumericalTrouble
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.models.problem_registry import problem_of

from .dumb import problem

EPSILON, ALPHA = 1.35, 0.2
BOUNDS = [(None, None)] * 4 + [(1e-3, None)]


def _gradient(theta, X, y, alpha=ALPHA):
    """The gradient of scikit-learn's objective, written out, for coefficients, intercept, scale."""
    A = np.column_stack([X, np.ones(len(X))])
    sigma, r = theta[-1], y - A @ theta[:-1]
    inside = np.abs(r) <= EPSILON * sigma
    by_eta = np.where(inside, -2 * r / sigma, -2 * EPSILON * np.sign(r))
    g = A.T @ by_eta + 2 * np.append(np.full(X.shape[1], alpha), 0.0) * theta[:-1]
    return np.append(g, np.where(inside, 1 - (r / sigma) ** 2, 1 - EPSILON**2).sum())


def _value(theta, X, y, alpha=ALPHA):
    A = np.column_stack([X, np.ones(len(X))])
    sigma, r = theta[-1], np.abs(y - A @ theta[:-1])
    z = r / sigma
    H = np.where(z <= EPSILON, z * z, 2 * EPSILON * z - EPSILON**2)
    return (sigma + H * sigma).sum() + alpha * (theta[:-2] ** 2).sum()


def _refit(X, y, start, alpha=ALPHA):
    """Quasi-Newton to get near, then Newton with a numerical Hessian until nothing moves."""
    theta = minimize(
        _value, start, args=(X, y, alpha), jac=_gradient, method="L-BFGS-B", bounds=BOUNDS, options={"maxiter": 5000}
    ).x
    for _ in range(12):
        h = 1e-7
        H = np.column_stack(
            [
                (_gradient(theta + h * e, X, y, alpha) - _gradient(theta - h * e, X, y, alpha)) / (2 * h)
                for e in np.eye(len(theta))
            ]
        )
        theta = theta - np.linalg.solve(H, _gradient(theta, X, y, alpha))
    assert np.abs(_gradient(theta, X, y, alpha)).max() < 1e-8
    return theta


def _table():
    X, y = problem("huber", np.random.default_rng(14), 80, 3, spread=0.2)
    y[4] += 15  # far out
    return X, y


def test_the_joint_minimum_is_scikit_learns():
    X, y = _table()
    estimator = HuberRegressor(epsilon=EPSILON, alpha=ALPHA, tol=1e-9, max_iter=5000).fit(X, y)
    fit = problem_of(estimator).fit(ArraySweep(X, y, rows=30))
    assert fit.theta == pytest.approx(np.append(estimator.coef_, estimator.intercept_), abs=1e-4)
    assert fit.scale == pytest.approx(estimator.scale_, rel=1e-4)
    assert fit.model.fit.decrement < 1e-11
    assert np.linalg.norm(fit.model.fit.gradient) < 1e-10
    with pytest.raises(InvalidInput, match="not at the minimum"):
        problem_of(estimator).fit(ArraySweep(X, 3 * y))


@pytest.mark.parametrize("inside", [True, False])
def test_neighbours_against_refits(inside):
    X, y = _table()
    root = np.random.default_rng(0).normal(size=(4, 4))
    A = root @ root.T + np.eye(4)
    model, sweep = problem_of(HuberRegressor(epsilon=EPSILON, alpha=ALPHA)), ArraySweep(X, y)
    everyone = _refit(X, y, np.append(np.zeros(4), 1.0))
    Z, z = (X[:8], y[:8]) if inside else (X[:8] * 1.3, y[:8] + 0.2)
    for precision in (None, A):
        fit = model.fit(sweep, precision)
        assert model.movement(fit, Block(Z, z), inside).open.all()  # "auto" refits a table as small as this
        found = model.refine(fit, sweep, Block(Z, z), inside)
        assert (found.kind == 0).all()  # exact
        rough = model.movement(model.fit(sweep, precision, "estimate"), Block(Z, z), inside)
        assert rough.open is None
        for i in range(8):
            if inside:
                other = _refit(np.delete(X, i, 0), np.delete(y, i), everyone)
            else:
                other = _refit(np.vstack([X, Z[i]]), np.append(y, z[i]), everyone)
            D = (other - everyone)[:-1]
            truth = np.sqrt(D @ (np.eye(4) if precision is None else A) @ D)
            assert found.distance[i] == pytest.approx(truth, rel=1e-7)
            assert rough.distance[i] == pytest.approx(truth, rel=0.5)


@pytest.mark.parametrize("method", ["auto", "upper"])
def test_everybody_who_is_not_estimated_is_refitted(method):
    """No certificate covers the scale."""
    X, y = _table()
    model, sweep = problem_of(HuberRegressor(epsilon=EPSILON, alpha=ALPHA)), ArraySweep(X, y)
    fit = model.fit(sweep, None, method)
    assert model.movement(fit, Block(X, y)).open.all()
    assert np.isinf(model.movement(fit, Block(X, y)).distance).all()


def test_a_line_search_does_not_end_at_scale_zero():
    """Tables on which Newton's method once ran into sigma = 0, far from the minimum, and said that there is none."""
    for seed, n, factor in ((11, 18, 100.0), (12, 15, 0.1), (13, 16, 1.0), (14, 12, 1e-2)):
        for k in range(25):
            rng = np.random.default_rng([seed, k])
            X, y = problem("huber", rng, n, 3, spread=0.3, signal=2.0)
            y *= factor
            fit = problem_of(HuberRegressor(epsilon=EPSILON, alpha=ALPHA)).fit(ArraySweep(X, y), None, "estimate")
            unit = y.std()
            best = _refit(X, y / unit, np.append(np.zeros(4), 1.0), ALPHA * unit)
            assert fit.scale == pytest.approx(unit * best[-1], rel=1e-6)


def test_a_perfect_fit_has_no_scale():
    X = np.linspace(-1, 1, 20)[:, None]
    with pytest.raises(NumericalTrouble):
        problem_of(HuberRegressor(alpha=0.0)).fit(ArraySweep(X, np.ones(20)))
    with pytest.raises(NumericalTrouble):
        problem_of(HuberRegressor(alpha=0.0)).fit(ArraySweep(X, 2 * X[:, 0]))
