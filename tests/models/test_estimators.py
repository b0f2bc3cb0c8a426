"""scikit-learn's estimators: the objective is theirs, and the audit of real people agrees with refits."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    HuberRegressor,
    Lasso,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    TweedieRegressor,
)
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeRegressor

import perinstance as pi
from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.models.interface import Problem
from perinstance.models.problem_registry import huber, problem_of

from .dumb import problem, refit, softmax_refit


def _cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y.astype(float)


def _table(name, n=300, d=3):
    return problem(name, np.random.default_rng(4), n, d, spread=0.2)


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (LogisticRegression(C=0.3, tol=1e-10, max_iter=5000), "logistic"),
        (LogisticRegression(C=0.3, fit_intercept=False, solver="newton-cholesky", tol=1e-12), "logistic"),
        (LogisticRegression(C=0.3, solver="liblinear", tol=1e-10, max_iter=5000), "logistic"),
        (LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000), "logistic"),
        (PoissonRegressor(alpha=0.2, tol=1e-10, max_iter=5000), "poisson"),
        (PoissonRegressor(alpha=0.0, fit_intercept=False, tol=1e-10, max_iter=5000), "poisson"),
        (GammaRegressor(alpha=0.1, tol=1e-10, max_iter=5000), "gamma"),
        (TweedieRegressor(power=1, alpha=0.1, tol=1e-10, max_iter=5000), "poisson"),
        (TweedieRegressor(power=0, alpha=0.1, tol=1e-10, max_iter=5000), "squared"),
        (LinearSVC(C=0.4, tol=1e-10, max_iter=200_000), "squared-hinge"),
    ],
    ids=str,
)
def test_the_minimum_is_scikit_learns(estimator, name):
    X, y = _table(name)
    estimator = estimator.fit(X, y)
    fit = problem_of(estimator).fit(ArraySweep(X, y))  # a fitted estimator is checked against our minimum
    theirs = np.append(np.ravel(estimator.coef_), estimator.intercept_ if estimator.fit_intercept else [])
    assert fit.theta == pytest.approx(theirs, rel=2e-4, abs=2e-5)
    assert np.linalg.norm(fit.model.fit.gradient) < 1e-9 * len(X)
    assert fit.model.fit.decrement < 1e-11


def test_penalty_of_older_versions_is_understood():
    """Up to 1.7 the penalty was a word; the attribute is read, whatever the installed version says of it."""
    old = LogisticRegression(C=2.0)
    for penalty, ratio, alpha in (("l2", None, 0.5), (None, None, 0.0), ("deprecated", 0.0, 0.5)):
        old.penalty, old.l1_ratio = penalty, ratio
        assert problem_of(old).alpha == alpha
    for penalty, ratio in (("l1", None), ("elasticnet", 0.5), ("deprecated", 0.2)):
        old.penalty, old.l1_ratio = penalty, ratio
        with pytest.raises(RefusedModel, match="not smooth"):
            problem_of(old)


def test_multi_class_of_older_versions_is_refused():
    old = LogisticRegression()
    old.multi_class = "auto"
    assert problem_of(old).alpha == 1.0
    for word in ("ovr", "multinomial"):
        old.multi_class = word
        with pytest.raises(RefusedModel, match="multi_class"):
            problem_of(old)


def test_multinomial_norm_of_a_precision():
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 3, 200).astype(float)
    root = rng.normal(size=(9, 9))
    A = root @ root.T + np.eye(9)
    model, sweep = problem_of(LogisticRegression(C=1.0)), ArraySweep(X, y)
    fit = model.fit(sweep, A, "upper")
    theta = softmax_refit(X, y, 1.0, 3).ravel()
    bound, exact = model.movement(fit, Block(X[:5], y[:5])), model.refine(fit, sweep, Block(X[:5], y[:5])).distance
    for i in range(5):
        D = softmax_refit(np.delete(X, i, 0), np.delete(y, i), 1.0, 3).ravel() - theta
        assert exact[i] == pytest.approx(np.sqrt(D @ A @ D), rel=1e-8)
        assert np.sqrt(D @ A @ D) * (1 - 1e-9) <= bound.distance[i] <= 1.5 * np.sqrt(D @ A @ D)


def l1_logistic():
    """An l1 penalty in the words of the installed scikit-learn: ``penalty`` until 1.7, ``l1_ratio`` since 1.8."""
    if tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 8):
        return LogisticRegression(l1_ratio=1.0, solver="liblinear")
    return LogisticRegression(penalty="l1", solver="liblinear")


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (Lasso(), "l1 penalty"),
        (ElasticNet(), "l1 penalty"),
        (l1_logistic(), "not smooth"),
        (LogisticRegression(class_weight="balanced"), "class_weight"),
        (LogisticRegressionCV(), "looking at the data"),
        (SVC(), "hinge"),
        (LinearSVC(loss="hinge"), "hinge"),
        (LinearSVC(penalty="l1"), "l1 penalty"),
        (MLPClassifier(), "ReLU"),
        (DecisionTreeRegressor(), "tree"),
        (RandomForestClassifier(), "tree"),
        (TweedieRegressor(power=1.5), "power"),
        (TweedieRegressor(power=0, link="log"), "convex"),
    ],
    ids=str,
)
def test_what_breaks_an_assumption_is_refused_by_name(estimator, reason):
    with pytest.raises(RefusedModel, match=reason):
        problem_of(estimator)


def test_an_estimator_fitted_to_other_data_is_refused():
    X, y = _cancer()
    other = LogisticRegression().fit(X[:200] * 3, y[:200])
    with pytest.raises(InvalidInput, match="not at the minimum"):
        problem_of(other).fit(ArraySweep(X, y))
    with pytest.raises(InvalidInput, match="parameters"):
        problem_of(LogisticRegression().fit(X[:, :5], y)).fit(ArraySweep(X, y))
    with pytest.raises(InvalidInput, match="method"):
        problem_of(LogisticRegression()).fit(ArraySweep(X, y), None, "quick")


def test_separable_classes_without_a_penalty_have_no_minimum():
    X = np.r_[np.linspace(-2, -1, 20), np.linspace(1, 2, 20)][:, None]
    y = np.repeat([0.0, 1.0], 20)
    with pytest.raises(NumericalTrouble, match="separates"):
        problem_of(LogisticRegression(C=np.inf)).fit(ArraySweep(X, y))
    assert np.isfinite(problem_of(LogisticRegression(C=1.0)).fit(ArraySweep(X, y)).theta).all()


def test_flat_directions_without_a_penalty_are_an_error():
    X, y = _table("poisson", n=50)
    doubled = np.column_stack([X, X[:, 0]])
    with pytest.raises(NumericalTrouble, match="alpha > 0"):
        problem_of(PoissonRegressor(alpha=0.0)).fit(ArraySweep(doubled, y))
    with pytest.raises(NumericalTrouble, match="alpha > 0"):  # a column of zeros
        problem_of(PoissonRegressor(alpha=0.0)).fit(ArraySweep(X * [1.0, 1.0, 0.0], y))


def test_whoever_is_alone_in_a_class_moves_it_without_limit():
    """Without her the class is empty and its intercept has no minimum: an infinite distance, not an error."""
    X, y = _table("logistic", n=60)
    y = np.zeros(60)
    y[7] = 1.0
    model, sweep = problem_of(LogisticRegression(C=1.0)), ArraySweep(X, y)
    fit = model.fit(sweep, None, "exact")
    assert np.isinf(model.refine(fit, sweep, Block(X[7:8], y[7:8])).distance[0])
    assert np.isfinite(model.refine(fit, sweep, Block(X[:3], y[:3])).distance).all()
    certified = model.fit(sweep, None, "upper")
    assert model.movement(certified, Block(X, y)).open[7]


@pytest.mark.parametrize(
    ("release", "method", "count"),
    [(pi.OutputPerturbation, method, count) for method in ("exact", "upper", "estimate") for count in (2, 3)]
    + [(pi.LaplacePosterior, "exact", 2), (pi.LaplacePosterior, "estimate", 2), (pi.ObjectivePerturbation, "auto", 2)],
)
def test_whoever_is_alone_in_a_class_is_given_away_by_the_list_of_classes(release, method, count):
    """Also where a penalty keeps everything finite without her: hers would be missing among the published classes."""
    X, _ = _table("logistic", n=60)
    y = np.arange(60.0) % (count - 1)
    y[7] = 9.0
    estimator = LogisticRegression(C=1.0, fit_intercept=False)
    found = pi.audit(release(estimator), X, y, delta=1e-6, method=method)
    assert np.isinf(found.losses[7])
    assert np.isfinite(np.delete(found.losses, 7)).all()
    two = y.copy()
    two[8] = 9.0  # two people in the class: each of them hides the other
    assert np.isfinite(pi.audit(release(estimator), X, two, delta=1e-6, method=method).losses).all()


def test_one_class_and_unknown_classes_are_errors():
    X, y = _table("logistic", n=40)
    model = problem_of(LogisticRegression())
    with pytest.raises(InvalidInput, match="two classes"):
        model.fit(ArraySweep(X, np.ones(40)))
    fit = model.fit(ArraySweep(X, y))
    with pytest.raises(InvalidInput, match="not fitted with"):
        model.movement(fit, Block(X[:2], np.array([0.0, 5.0])), False)
    with pytest.raises(InvalidInput, match="encode"):
        model.fit(ArraySweep(X, np.array(["yes", "no"] * 20)))


@pytest.mark.parametrize("estimator", [LogisticRegression(C=0), LinearSVC(C=0), LinearSVC(C=-1), LinearSVC(C=np.nan)])
def test_a_penalty_that_is_none_is_refused(estimator):
    with pytest.raises(InvalidInput, match="C must be a number > 0"):
        problem_of(estimator)


@pytest.mark.parametrize("estimator", [LogisticRegression(C=np.inf), PoissonRegressor(alpha=0)])
def test_columns_too_small_for_float64_are_an_error_that_says_so(estimator):
    X, y = _table("logistic", n=60)
    with pytest.raises(NumericalTrouble, match="multiply the smallest columns"):
        problem_of(estimator).fit(ArraySweep(X * 1e-150, y))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    "estimator", [PoissonRegressor(alpha=0.5), LinearSVC(), LogisticRegression(), HuberRegressor()]
)
@pytest.mark.parametrize("method", ["exact", "upper"])
def test_tables_of_one_to_three_people(n, estimator, method):
    """An answer that is a number or infinity, or a typed error: never a NaN, never a warning."""
    X = np.random.default_rng(4).normal(size=(n, 2))
    y = np.array([0.0, 1.0, 1.0])[:n]
    try:
        losses = pi.audit(pi.OutputPerturbation(estimator, scale=1.0), X, y, delta=1e-6, method=method).losses
    except (InvalidInput, NumericalTrouble):
        assert n == 1 or isinstance(estimator, HuberRegressor)
    else:
        assert not np.isnan(losses).any() and (losses > 0).all()
        if n == 1:
            assert np.isinf(losses).all()  # alpha weighs a mean over nobody: without her there is no minimum


def test_robust_regression_by_its_own_name():
    X, y = _table("huber")
    model = huber(alpha=0.1, width=1.35)
    assert isinstance(model, Problem)
    assert model.fit(ArraySweep(X, y)).theta == pytest.approx(refit("huber", X, y, 0.1, intercept=True), abs=1e-8)
    smooth = huber(alpha=0.1, width=1.35, smooth=True).fit(ArraySweep(X, y))
    assert smooth.theta == pytest.approx(refit("pseudo-huber", X, y, 0.1, intercept=True), abs=1e-8)
