"""Accuracy with and without privacy: the same folds refitted by hand, and what is refused."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import perinstance as pi
from perinstance.analysis import compare_accuracy
from perinstance.errors import InvalidInput
from tests.releases.catalogue import CATALOGUE

RNG = np.random.default_rng(4)
X = RNG.uniform(-0.5, 0.5, size=(400, 3))
Y = X @ [0.5, -0.3, 0.2] + 0.05 * RNG.normal(size=400)


@pytest.mark.usefixtures("fixed_noise")
def test_the_side_without_privacy_is_scikit_learn_on_the_same_folds():
    found = compare_accuracy(pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0), X, Y, parts=4)
    part = np.random.default_rng(0).permutation(400) % 4
    squares, constant = [], []
    for k in range(4):
        model = LinearRegression().fit(X[part != k], Y[part != k])
        squares.append(np.mean((model.predict(X[part == k]) - Y[part == k]) ** 2))
        constant.append(np.mean((Y[part != k].mean() - Y[part == k]) ** 2))
    assert found.not_private == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-12)
    assert found.constant == pytest.approx(np.sqrt(np.mean(constant)), rel=1e-12)
    assert found.private > found.not_private and found.measure == "root mean square error"


def test_noise_that_vanishes_gives_the_same_accuracy():
    found = compare_accuracy(pi.PosteriorSample(alpha=1.0, gamma=1e30, grid=2.0**-120), X, Y)
    assert found.private == pytest.approx(found.not_private, rel=1e-9)


def test_classes_are_counted():
    release = pi.OutputPerturbation(LogisticRegression(C=1e4), scale=1e-6)
    found = compare_accuracy(release, X, np.where(Y > 0, "yes", "no"))
    assert found.measure == "share of wrong classes"
    assert found.private == pytest.approx(found.not_private, abs=0.01) and found.not_private < 0.2 < found.constant
    assert found.rescaled(100.0) == found


def test_the_release_itself_is_not_fitted_and_nothing_is_told(caplog):
    caplog.set_level(logging.DEBUG, logger="perinstance")
    release = pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0)
    found = compare_accuracy(release, X, Y)
    assert not hasattr(release, "coef_") and repr(found) == "AccuracyComparison(confidential)"
    assert "held-out" in str(found) and "confidential" in str(found)
    assert not any(f"{found.not_private:.3g}" in record.getMessage() for record in caplog.records)
    assert found.rescaled(-2.0).private == 2 * found.private


@pytest.mark.parametrize("name", ["mean", "gaussian sum", "process"])
def test_what_predicts_nothing_is_refused(name):
    with pytest.raises(InvalidInput, match="predicts nothing"):
        compare_accuracy(CATALOGUE[name].release, X, Y)


@pytest.mark.parametrize("arguments", [(X[:3], Y[:3]), (X, Y[:5]), (X, Y, 1), (X, Y, 2.5)])
def test_bad_tables_are_refused(arguments):
    with pytest.raises(InvalidInput):
        compare_accuracy(pi.PosteriorSample(), *arguments)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_columns_go_by_name_where_the_release_knows_them(container):
    """Bounds of .01 and 10 on the wrong columns clip nearly everything away."""
    frames = pytest.importorskip(container)
    x = np.random.default_rng(1).uniform(-1, 1, (2000, 2)) * [0.01, 10.0]
    y = 50.0 * x[:, 0] + x[:, 1] / 20
    release = pi.AdaSSP(epsilon=1e4, delta=1e-6, x_bound=[0.01, 10.0], y_bound=1.0)
    release.fit(frames.DataFrame({"a": x[:, 0], "b": x[:, 1]}), y)
    turned = frames.DataFrame({"b": x[:, 1], "a": x[:, 0]})
    found = compare_accuracy(release, turned, y)
    assert found.private < 0.1 * found.constant
    with pytest.raises(pi.errors.InvalidTable, match="other columns"):
        compare_accuracy(release, frames.DataFrame({"b": x[:, 1], "c": x[:, 0]}), y)
