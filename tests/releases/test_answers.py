"""What published models answer: shapes and words of scikit-learn's own estimators."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

import perinstance as pi
from perinstance.models import huber

X, Y = load_iris(return_X_y=True)
QUIET = 1e-9  # noise that does not show


def test_classes_may_be_words():
    words = np.array(["setosa", "versicolor", "virginica"])[Y]
    theirs = LogisticRegression(tol=1e-10, max_iter=5000).fit(X, words)
    ours = pi.OutputPerturbation(LogisticRegression(), scale=QUIET).fit(X, words)
    assert list(ours.classes_) == list(theirs.classes_)
    assert ours.coef_ == pytest.approx(theirs.coef_, abs=1e-4)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-3)
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert ours.predict_proba(X) == pytest.approx(theirs.predict_proba(X), abs=1e-4)
    assert ours.score(X, words) == theirs.score(X, words)


@pytest.mark.parametrize("estimator", [LogisticRegression(tol=1e-10), LinearSVC(tol=1e-10, max_iter=100_000)])
def test_two_classes(estimator):
    rows, y = X[:100, :2], Y[:100] * 3 + 1
    theirs, ours = clone(estimator).fit(rows, y), pi.OutputPerturbation(estimator, scale=QUIET).fit(rows, y)
    assert ours.coef_ == pytest.approx(theirs.coef_, abs=1e-3)
    assert (ours.predict(rows) == theirs.predict(rows)).all()
    assert hasattr(ours, "predict_proba") == hasattr(theirs, "predict_proba")


def test_means():
    theirs = PoissonRegressor(alpha=0.1, tol=1e-10).fit(X, Y)
    ours = pi.OutputPerturbation(PoissonRegressor(alpha=0.1), scale=QUIET).fit(X, Y)
    assert ours.predict(X) == pytest.approx(theirs.predict(X), rel=1e-4)
    assert not hasattr(ours, "predict_proba")
    robust = pi.OutputPerturbation(huber(alpha=0.01), scale=QUIET).fit(X, Y.astype(float))
    assert robust.predict(X).shape == (150,)
    ridge = pi.OutputPerturbation(Ridge(), scale=QUIET).fit(X, Y.astype(float))
    assert ridge.predict(X) == pytest.approx(Ridge().fit(X, Y).predict(X), abs=1e-6)
