"""Which model answers for which scikit-learn estimator, how its parameters are read, and why others are refused.

A model registers by the name of the estimator's class, so that nothing of scikit-learn is imported before somebody
uses it.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from perinstance.checked_numbers import non_negative
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.models.interface import Problem
from perinstance.models.losses.base import Loss
from perinstance.models.losses.catalogue import Gamma, Huber, Poisson, PseudoHuber, Squared, SquaredHinge
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective
from perinstance.models.smooth.problem import SmoothProblem

_L1 = "the l1 penalty is not smooth: one person can switch a coefficient on or off"


def logistic_problem(estimator: Any) -> Problem:
    """LogisticRegression of scikit-learn 1.6 (``penalty``) and of 1.8 and later (``l1_ratio``, ``C=inf``)."""
    _refuse_weights(estimator)
    penalty = getattr(estimator, "penalty", "deprecated")
    ratio = getattr(estimator, "l1_ratio", None) or 0.0
    if penalty in ("l1", "elasticnet") or (penalty == "deprecated" and ratio > 0):
        raise RefusedModel(f"LogisticRegression with an l1 part is refused: {_L1}; use l1_ratio=0")
    if getattr(estimator, "multi_class", "auto") in ("ovr", "multinomial"):
        raise RefusedModel(
            "LogisticRegression with multi_class set is refused: 'ovr' is several fits, 'multinomial' penalises two "
            "classes twice; leave it at its default"
        )
    alpha = 0.0 if penalty is None else _inverse(estimator.C)
    liblinear = estimator.solver == "liblinear"
    if liblinear and estimator.fit_intercept and float(estimator.intercept_scaling) != 1:
        raise RefusedModel(
            "LogisticRegression(solver='liblinear') with an intercept_scaling other than 1 is refused: "
            "it penalises the intercept by another weight; use solver='lbfgs'"
        )
    from perinstance.models.softmax import ClassifierProblem

    return ClassifierProblem(alpha, bool(estimator.fit_intercept), liblinear, _fitted(estimator))


def glm_problem(estimator: Any) -> Problem:
    """PoissonRegressor, GammaRegressor and TweedieRegressor: alpha weighs a mean, so it leaves with the people."""
    name = type(estimator).__name__
    power = {"PoissonRegressor": 1.0, "GammaRegressor": 2.0}.get(name)
    if power is None:
        power = float(estimator.power)
        identity = estimator.link == "identity" or (estimator.link == "auto" and power <= 0)
        if identity and power != 0:
            raise RefusedModel(f"TweedieRegressor(power={power:g}) with the identity link is refused: it is not convex")
        if not identity and power == 0:
            raise RefusedModel("TweedieRegressor(power=0, link='log') is refused: least squares of exp is not convex")
    known: dict[float, Loss] = {0.0: Squared(), 1.0: Poisson(), 2.0: Gamma()}
    loss = known.get(power)
    if loss is None:
        raise RefusedModel(f"TweedieRegressor is known for power 0, 1 and 2, not for {power:g}")
    alpha = non_negative("alpha", estimator.alpha)
    objective = SmoothObjective(loss, RidgePenalty(alpha), bool(estimator.fit_intercept), mean=True)
    return SmoothProblem(objective, fitted[0] if (fitted := _fitted(estimator)) else None)


def squared_hinge_problem(estimator: Any) -> Problem:
    """LinearSVC with its default loss, the squared hinge; two classes."""
    _refuse_weights(estimator)
    if estimator.loss != "squared_hinge":
        raise RefusedModel("LinearSVC(loss='hinge') is refused: the hinge is not smooth; use loss='squared_hinge'")
    if estimator.penalty != "l2":
        raise RefusedModel(f"LinearSVC(penalty='l1') is refused: {_L1}")
    if estimator.fit_intercept and float(estimator.intercept_scaling) != 1:
        raise RefusedModel("LinearSVC is known with intercept_scaling=1 only: it penalises the intercept")
    penalty = RidgePenalty(_inverse(estimator.C) / 2)
    objective = SmoothObjective(SquaredHinge(), penalty, bool(estimator.fit_intercept), penalize_intercept=True)
    return SmoothProblem(objective, fitted[0] if (fitted := _fitted(estimator)) else None)


def huber(alpha: float = 1e-4, width: float = 1.35, fit_intercept: bool = True, smooth: bool = False) -> SmoothProblem:
    """Robust regression at a fixed scale: ``sum huber_k(y - x'w - c) + alpha |w|^2 / 2``, k = ``width``.

    ``HuberRegressor(epsilon, alpha)`` at its own scale s minimises this with ``width = epsilon s`` and ``alpha s``.
    With ``smooth`` the corner is rounded (pseudo-Huber), which bounds more people without a refit.
    """
    loss = PseudoHuber(width) if smooth else Huber(width)
    return SmoothProblem(SmoothObjective(loss, RidgePenalty(non_negative("alpha", alpha)), fit_intercept))


def _inverse(C: Any) -> float:
    """``1/C``; no penalty for an infinite C."""
    value = float(C)
    if not value > 0:
        raise InvalidInput(f"C must be a number > 0, got {value:g}; try C=1.0")
    return 1 / value


def _refuse_weights(estimator: Any) -> None:
    if getattr(estimator, "class_weight", None) is not None:
        raise RefusedModel(
            f"{type(estimator).__name__} with class_weight is refused: 'balanced' weights change when a person leaves, "
            "and weighted losses are not in the catalogue"
        )


def _fitted(estimator: Any) -> tuple[tuple[float, ...], ...] | None:
    """Return the parameters of an estimator that comes fitted, the intercept last: one row per class, or one row."""
    if not hasattr(estimator, "coef_"):
        return None
    rows = np.atleast_2d(estimator.coef_)
    if estimator.fit_intercept:
        rows = np.column_stack([rows, np.ravel(estimator.intercept_)])
    return tuple(tuple(row) for row in rows)


#: the class name of a scikit-learn estimator -> "module:function"; the function turns the estimator into a Problem
REGISTRY: dict[str, str] = {
    "Ridge": "perinstance.models.linear.ridge:ridge_problem",
    "LinearRegression": "perinstance.models.linear.ridge:ridge_problem",
    "LogisticRegression": "perinstance.models.problem_registry:logistic_problem",
    "PoissonRegressor": "perinstance.models.problem_registry:glm_problem",
    "GammaRegressor": "perinstance.models.problem_registry:glm_problem",
    "TweedieRegressor": "perinstance.models.problem_registry:glm_problem",
    "LinearSVC": "perinstance.models.problem_registry:squared_hinge_problem",
    "HuberRegressor": "perinstance.models.huber_regression:huber_problem",
    "KernelRidge": "perinstance.models.kernel_ridge:refuse_without_points",
    "GaussianProcessRegressor": "perinstance.models.kernel_ridge:refuse_without_points",
}

_CHOSEN = "its penalty is chosen by looking at the data, which is itself a release"
#: why others are refused -> their names
_REASONS = {
    "a release stands at the end of the Pipeline, not around it: make_pipeline(recipe, release)": "Pipeline",
    _L1: "Lasso ElasticNet",
    "selecting variables is not smooth: one person can switch a coefficient on or off": "Lars",
    "the hinge loss is not smooth": "SVC NuSVC",
    "the epsilon-insensitive loss is not smooth": "SVR LinearSVR",
    "the perceptron loss is not smooth": "Perceptron",
    "the pinball loss is not smooth": "QuantileRegressor",
    "a neural network with ReLU units is neither convex nor smooth": "MLPRegressor MLPClassifier",
    f"{_CHOSEN}; pass Ridge with a fixed alpha": "RidgeCV",
    f"{_CHOSEN}, and {_L1}": "LassoCV ElasticNetCV",
    _CHOSEN: "LogisticRegressionCV",
    "its answer is where the last epoch stopped, not the minimum of a smooth objective": "SGDClassifier SGDRegressor",
    "a tree is not smooth: one person can move a split": (
        "DecisionTreeClassifier DecisionTreeRegressor RandomForestClassifier RandomForestRegressor "
        "GradientBoostingClassifier GradientBoostingRegressor HistGradientBoostingClassifier "
        "HistGradientBoostingRegressor"
    ),
    "nearest neighbours are not the minimum of a smooth objective": "KNeighborsClassifier KNeighborsRegressor",
}


def problem_of(estimator: Any) -> Problem:
    """Return the model of an estimator, or refuse it with the reason.

    >>> from sklearn.linear_model import Ridge, Lasso
    >>> problem_of(Ridge(alpha=2.0))
    LinearProblem(alpha=2.0, fit_intercept=True)
    >>> problem_of(Lasso())
    Traceback (most recent call last):
    ...
    perinstance.errors.RefusedModel: Lasso is refused: the l1 penalty is not smooth: one person can switch a ...
    """
    kind = type(estimator)
    name = kind.__name__
    if name in REGISTRY and kind.__module__.split(".")[0] == "sklearn":
        module, function = REGISTRY[name].split(":")
        return getattr(importlib.import_module(module), function)(estimator)
    if not isinstance(estimator, type) and isinstance(estimator, Problem):
        return estimator
    for reason, names in _REASONS.items():
        if name in names.split():
            raise RefusedModel(f"{name} is refused: {reason}")
    known = ", ".join(sorted(REGISTRY))
    raise RefusedModel(
        f"nothing is known about the privacy of {name}; pass one of scikit-learn's {known}, "
        "or a model of perinstance.models"
    )
