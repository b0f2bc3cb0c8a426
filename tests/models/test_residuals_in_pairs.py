"""People whom the estimate fits almost exactly: their residual by one fold in pairs, against refits in rationals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.models import ArraySweep
from perinstance.models.linear import open_people
from perinstance.models.linear.residuals_in_pairs import sharper_estimate
from perinstance.models.linear.ridge import linear_fit, refined
from tests.neighbours.refit import distance, leave_out, rational, solve, to_float


def almost_fitted(seed, n, d, near, factor=1.0, offset=0.0):
    """Some people's targets are next to what the others predict."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) + offset) * factor
    y = 3 * rng.normal(size=n) + X @ (rng.normal(size=d) / factor)
    for k in range(4):
        others = np.arange(n) != k
        theta = np.linalg.lstsq(X[others], y[others], rcond=None)[0]
        y[k] = X[k] @ theta + near * (-1) ** k
    return X, y


def _no_balls(*_):
    raise AssertionError("nobody needed X'X in pairs")


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("near", "factor", "offset"), [(1e-6, 1.0, 0.0), (1e-9, 1e30, 0.0), (1e-8, 2.0**-40, 30.0)])
def test_a_fold_settles_those_of_whom_only_the_residual_is_not_known(monkeypatch, near, factor, offset, intercept):
    monkeypatch.setattr(open_people, "_apart", _no_balls)
    X, y = almost_fitted(1, 120, 3, near, factor, offset)
    alpha = 1e-9 * factor**2
    fit = linear_fit(ArraySweep(X, y, 50), alpha, intercept, np.eye(3 + intercept))
    got = refined(fit, ArraySweep(X, y, 50), X[:4], y[:4])
    assert not got.kind_code.any()
    for i in range(4):
        truth = leave_out(X, y, i, alpha, intercept)
        r, D = to_float(truth.residual), distance(truth, np.eye(3 + intercept))
        assert 0 <= np.sign(r) * got.residual[i] - abs(r) <= 1e-6 * abs(r)
        assert D <= abs(got.residual[i]) * got.length[i] <= D * (1 + 1e-6)


@pytest.mark.parametrize("method", ["sharpened", "measured"])
def test_an_estimate_in_pairs_is_off_by_less_than_it_says(method, monkeypatch):
    if method == "measured":
        monkeypatch.setattr("perinstance.models.linear.cholesky_qr.SMALL_TABLE", 0)
    X, y = almost_fitted(2, 700, 4, 1e-3, offset=5.0)
    fit = linear_fit(ArraySweep(X, y, 300), 0.5, True)
    found = sharper_estimate(fit, ArraySweep(X, y, 300))
    assert found is not None
    theta = solve(X, y, 0.5, True).theta
    roots = np.sqrt(np.einsum("ij,ij->i", *[np.hstack([X, np.ones((700, 1))]) @ fit.factor.W] * 2))
    e, lost = found.residuals(X, y, roots)
    for i in range(0, 700, 23):
        exact = rational(y[i]) - sum(
            (rational(v) * theta[j, 0] for j, v in enumerate([*X[i], 1.0])), start=rational(0.0)
        )
        assert abs(to_float(rational(e[i]) - exact)) <= lost[i] < 2.3e-16 * abs(e[i]) + 1e-16
    assert found.per_root < 1e-17 and found.per_size < 1e-28


def test_where_it_is_not_enough_balls_and_rationals_answer():
    X, y = almost_fitted(3, 90, 2, 0.0)
    y = X @ np.array([0.5, -2.0])
    y[7:] += np.random.default_rng(3).normal(size=83)
    X[0], y[0] = 0.0, 0.0  # no residual whatever the estimate is
    X[1] *= 1e9  # dominates
    answer = pi.audit(pi.OutputPerturbation(Ridge(alpha=1e-3, fit_intercept=False), 1.0), X, y)
    for i in (0, 1, 2):
        D = distance(leave_out(X, y, i, 1e-3, False), np.eye(2))
        assert D <= answer.pairs.distance[i] <= D * (1 + 1e-6)


def test_columns_too_long_or_dependent_are_left_to_the_balls():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    for table, alpha in ((X * [1.0, 2.0**300], 1.0), (np.hstack([X, X]), 0.0)):
        assert sharper_estimate(linear_fit(ArraySweep(table, y), alpha, False), ArraySweep(table, y)) is None
