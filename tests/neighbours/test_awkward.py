"""Awkward tables against refits in exact arithmetic: collinear, huge and tiny columns, dominant people, n < d."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.numerics.rounding import EXACT_PARAMETER
from tests.neighbours.refit import distance, hangs_on_last_bits, leave_out, neighbours, to_float

ENTRY = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.7, 1e-3, 20.0, 1e4])
SCALE = st.sampled_from([1.0, 1.0, 1e8, 1e-8, 1e3])


@st.composite
def tables(draw, smallest=1):
    d = draw(st.integers(1, 3))
    n = draw(st.integers(smallest, 7))
    X = np.array(draw(st.lists(st.lists(ENTRY, min_size=d, max_size=d), min_size=n, max_size=n)))
    y = np.array(draw(st.lists(ENTRY, min_size=n, max_size=n)))
    if n > 1 and draw(st.booleans()):
        X[-1], y[-1] = X[0], y[0]  # two equal people
    return X * np.array(draw(st.lists(SCALE, min_size=d, max_size=d))), y


def check(X, y, alpha, intercept, A, rel):
    """Leverage, residual and movement of everybody, to ``rel`` (of the target's size where the residual is zero)."""
    sample = pi.audit(pi.PosteriorSample(alpha=alpha, gamma=1.0, fit_intercept=intercept), X, y)
    moved = pi.audit(pi.OutputPerturbation(Ridge(alpha=alpha, fit_intercept=intercept), 1.0, A), X, y)
    for i in range(len(y)):
        truth = leave_out(X, y, i, alpha, intercept)
        compare(sample, moved, i, truth, A, rel, np.abs(y).max() + 1e-300)


def compare(sample, moved, i, truth, A, rel, size):
    if truth.leverage is None:
        assert sample.epsilon[i] == np.inf and moved.epsilon[i] == np.inf
        assert sample.leverage[i] == np.inf and np.isnan(sample.residual[i])
        return
    mu, r = to_float(truth.leverage), to_float(truth.residual)
    if np.isinf(sample.leverage[i]):  # singular but for the last bit of the table: infinite is the safe side
        assert mu > 1e20 or sample.health.condition > 1e20
        return
    rel = max(rel, 10 * sample.health.error) if sample.kind[i] == "exact" else 1e-2
    assert sample.leverage[i] == pytest.approx(mu, rel=rel, abs=1e-290)
    assert sample.leverage[i] >= mu * (1 - 1e-15)  # never below the truth
    # the absolute error of a prediction far outside the others' range is that of its leverage
    slack = rel * size * (1 + np.sqrt(mu)) if sample.kind[i] == "exact" else np.inf
    assert sample.residual[i] == pytest.approx(r, rel=rel, abs=slack)
    d = distance(truth, A)
    assert abs(sample.residual[i]) >= abs(r) * (1 - 1e-15)
    assert moved.pairs.distance[i] >= d * (1 - 1e-15)
    if moved.kind[i] == "exact" and r:
        assert moved.pairs.distance[i] == pytest.approx(d, rel=1e-5, abs=slack * d / abs(r))
    assert np.isfinite(sample.epsilon[i]) and np.isfinite(moved.epsilon[i])


@settings(max_examples=50)
@given(tables(), st.sampled_from([1e-6, 0.1, 1.0, 1e3]), st.booleans())
@example((np.array([[0.0]]), np.array([1.0])), 1.0, False)
@example((np.array([[1e4, 0.0], [0.0, 0.0]]), np.array([1.0, 2.0])), 1e-6, True)
@example((np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), np.zeros(4)), 1e-6, False)
def test_ridge_on_awkward_tables(table, alpha, intercept):
    X, y = table
    if intercept and len(y) == 1:
        intercept = False
    # what `exact` means of a parameter, and no more
    check(X, y, alpha, intercept, np.eye(X.shape[1] + intercept), EXACT_PARAMETER)


@settings(max_examples=50)
@given(tables(), st.booleans())
@example((np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]), np.array([1.0, 2.0, 3.0])), False)
@example((np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([1.0, 3.0])), False)
@example((np.array([[0.0, 0.0], [0.0, 0.0]]), np.array([1.0, 3.0])), False)
@example((np.array([[5.0], [5.0], [5.0]]), np.array([1.0, 3.0, 2.0])), True)
@example((np.array([[1e4, 1e-8], [1e4, 1e-8]]), np.array([0.0, 1.0])), False)
def test_least_squares_may_be_singular(table, intercept):
    """Without a penalty: infinite for whoever holds up a direction alone, exact for the others."""
    X, y = table
    assume(not hangs_on_last_bits(X, intercept))  # refused: tests/models/test_span.py
    check(X, y, 0.0, intercept, np.eye(X.shape[1] + intercept), 1e-6)


def test_equal_columns_beside_a_tiny_one():
    """The open direction has nothing to do with the tiny column, whose coefficient is by far the largest."""
    X = np.array([[1.0, 0.0, 3.0], [500.0, 2e-15, 0.0], [2e4, 0.0, 3.0], [1e3, 2e-15, -0.7], [2e4, 2e-16, 1e-3]])
    X = np.hstack([X * 1e5, 2e5 * X[:, :1]])
    check(X, np.array([3.0, 20.0, -1.0, 1e-3, 3.0]), 0.0, False, np.eye(4), 1e-6)


@settings(max_examples=40)
@given(tables(smallest=2), tables(smallest=2), st.sampled_from([0.0, 0.1]), st.booleans())
def test_outsiders_on_awkward_tables(table, others, alpha, intercept):
    X, y = table
    assume(alpha or not hangs_on_last_bits(X, intercept))
    d = X.shape[1]
    X_new = np.resize(others[0], (2, d))
    y_new = np.resize(others[1], 2)
    sample = pi.audit(pi.PosteriorSample(alpha, 1.0, intercept), X, y, outsiders=(X_new, y_new))
    moved = pi.audit(
        pi.OutputPerturbation(Ridge(alpha=alpha, fit_intercept=intercept), 1.0), X, y, outsiders=(X_new, y_new)
    )
    for i in range(2):
        truth = neighbours(X, y, X_new[i], y_new[i], alpha, intercept)
        size = np.abs(np.append(y, y_new)).max() + 1e-300
        compare(sample, moved, i, truth, np.eye(d + intercept), 1e-6, size)


@pytest.mark.parametrize("distance_from_one", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("intercept", [False, True])
def test_leverage_near_one_keeps_its_digits(distance_from_one, intercept):
    """One person determines a coefficient: 1 - m has lost all digits, the answer has not."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 4))
    y = rng.normal(size=40)
    X[7] = np.array([1.0, -2.0, 0.5, 1.0]) * np.sqrt(40 / distance_from_one)
    X[9] = np.array([1.0, 2.0, 0.5, -1.0]) * np.sqrt(40 / distance_from_one)
    sample = pi.audit(pi.PosteriorSample(0.5, 1.0, intercept), X, y)
    moved = pi.audit(pi.OutputPerturbation(Ridge(alpha=0.5, fit_intercept=intercept), 1.0), X, y)
    assert sample.health.refined == (0 if distance_from_one == 1e-3 else 2)  # where floats still know 1 - m
    assert 1 - sample.health.largest_leverage < 2 * distance_from_one
    for i in (7, 9, 0):
        truth = leave_out(X, y, i, 0.5, intercept)
        assert sample.leverage[i] == pytest.approx(to_float(truth.leverage), rel=1e-8)
        assert sample.residual[i] == pytest.approx(to_float(truth.residual), rel=1e-8)  # rounding is charged
        assert sample.leverage[i] >= to_float(truth.leverage) * (1 - 1e-15)
        assert abs(sample.residual[i]) >= abs(to_float(truth.residual)) * (1 - 1e-15)
        assert moved.pairs.distance[i] == pytest.approx(distance(truth, np.eye(4 + intercept)), rel=1e-7)


@pytest.mark.parametrize("kappa", [1e3, 1e6, 1e8])
@pytest.mark.parametrize("alpha", [0.0, 1e-20])
def test_collinear_designs_up_to_condition_1e8(kappa, alpha):
    """Leverages to 1e-6 relative, and the reported error is not smaller than the true one."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 4))
    X[:, 3] = X[:, 0] + X[:, 1] + X[:, 3] / kappa
    y = rng.normal(size=60)
    answer = pi.audit(pi.PosteriorSample(alpha, 1.0), X, y)
    truths = [to_float(leave_out(X, y, i, alpha, False).leverage) for i in range(60)]
    error = np.abs(answer.leverage / truths - 1).max()
    assert error < 1e-6
    assert error <= 2 * answer.health.error  # once for the rounding, once for the rounding up
    assert (answer.leverage >= truths).all()
    assert answer.health.condition == pytest.approx(np.linalg.cond(X / np.linalg.norm(X, axis=0)) ** 2, rel=1e-3)
    assert (answer.health.factorisation == "cholesky") == (answer.health.condition < 1e5)
