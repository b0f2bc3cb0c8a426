"""The linear fit and its folds: layouts, types, blocks, peers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from perinstance.folds.block import Block
from perinstance.models import ArraySweep
from perinstance.models.linear.cholesky_qr import factorise
from perinstance.models.linear.gram_matrix import gram
from perinstance.models.linear.ridge import LinearProblem, linear_fit


def table(n=500, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 2.0
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_the_fit_is_that_of_scikit_learn(alpha, intercept):
    X, y = table()
    fit = linear_fit(ArraySweep(X, y), alpha, intercept)
    peer = Ridge(alpha=alpha, fit_intercept=intercept, solver="svd").fit(X, y)
    assert fit.coef == pytest.approx(peer.coef_, rel=1e-10)
    assert fit.intercept == pytest.approx(peer.intercept_, rel=1e-10)
    Z = np.hstack([X, np.ones((len(X), 1))]) if intercept else X
    assert pytest.approx(Z.T @ Z + np.diag(fit.penalty), rel=1e-13) == fit.H
    assert fit.inverse() @ fit.H == pytest.approx(np.eye(len(fit.theta)), abs=1e-10)
    assert pytest.approx(fit.H, rel=1e-12) == fit.factor.R.T @ fit.factor.R


@pytest.mark.parametrize("rows", [1, 64, 10_000])
@pytest.mark.parametrize("intercept", [False, True])
def test_blocks_do_not_matter(rows, intercept):
    X, y = table()
    problem = LinearProblem(0.5, intercept)
    one = problem.movement(problem.fit(ArraySweep(X, y)), Block(X, y))
    fit = problem.fit(ArraySweep(X, y, rows))
    parts = list(ArraySweep(X, y, rows).map(lambda block: problem.movement(fit, block)))
    for name in ("leverage", "residual", "distance"):
        many = np.concatenate([getattr(part, name) for part in parts])
        assert many == pytest.approx(getattr(one, name), rel=1e-10)


def test_no_temporary_of_the_size_of_the_table():
    X, y = table(200_000, 20)
    for layout in (X, np.asfortranarray(X)):
        problem = LinearProblem(1.0, True)
        fit = problem.fit(ArraySweep(layout, y))
        problem.movement(fit, Block(layout, y))  # what is compiled once is no temporary
        tracemalloc.start()
        problem.fit(ArraySweep(layout, y))
        problem.movement(fit, Block(layout, y))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < X.nbytes / 3  # four numbers a person and a few pieces; a copy would be all of it


def test_a_gram_matrix_shows_what_is_not_finite():
    X, y = table(50)
    assert gram(Block(X, y), True).finite
    for bad in (np.nan, np.inf, -np.inf):
        Z = X.copy()
        Z[17, 3] = bad
        with np.errstate(invalid="ignore"):
            assert not gram(Block(Z, y), True).finite
        t = y.copy()
        t[3] = bad
        assert not gram(Block(X, t), True).finite


def test_the_condition_chooses_the_factorisation():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 5))
    y = rng.normal(size=300)
    names = []
    for gap in (1.0, 1e-3, 1e-5, 1e-9, 0.0):
        Z = X.copy()
        Z[:, 4] = Z[:, 0] + gap * Z[:, 4]
        solved = factorise(ArraySweep(Z, y, 77), np.zeros(5), False)
        names.append((solved.factor.method, solved.factor.rank))
    assert names[0] == ("cholesky", 5)
    assert names[1] == names[2] == ("cholesky-qr2", 5)
    assert names[3][0].startswith("shifted cholesky-qr") and names[3][1] == 5
    assert names[4][1] == 4


@pytest.mark.parametrize("intercept", [False, True])
def test_columns_of_zeros_are_silent(capfd, intercept):
    """No column is left to fit: nothing is asked of a library, which would print what it thinks of that."""
    y = np.array([1.0, 2.0, 4.0, 9.0])
    fit = linear_fit(ArraySweep(np.zeros((4, 2)), y), 0.0, intercept)
    assert fit.coef.tolist() == [0.0, 0.0] and fit.intercept == pytest.approx(4.0 if intercept else 0.0, rel=1e-15)
    assert capfd.readouterr() == ("", "")
