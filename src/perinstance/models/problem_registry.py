"""Which model answers for which scikit-learn estimator, and why others are refused.

A model registers by the name of the estimator's class, so that nothing of scikit-learn is imported before somebody
uses it.
"""

from __future__ import annotations

import importlib
from typing import Any

from perinstance.errors import RefusedModel
from perinstance.models.interface import Problem

#: the class name of a scikit-learn estimator -> "module:function"; the function turns the estimator into a Problem
REGISTRY: dict[str, str] = {
    "Ridge": "perinstance.models.linear.ridge:ridge_problem",
    "LinearRegression": "perinstance.models.linear.ridge:ridge_problem",
    "LogisticRegression": "perinstance.models.sklearn_estimators:logistic_problem",
    "PoissonRegressor": "perinstance.models.sklearn_estimators:glm_problem",
    "GammaRegressor": "perinstance.models.sklearn_estimators:glm_problem",
    "TweedieRegressor": "perinstance.models.sklearn_estimators:glm_problem",
    "LinearSVC": "perinstance.models.sklearn_estimators:squared_hinge_problem",
    "HuberRegressor": "perinstance.models.huber_regression:huber_problem",
    "KernelRidge": "perinstance.models.kernel_ridge:refuse_without_points",
    "GaussianProcessRegressor": "perinstance.models.kernel_ridge:refuse_without_points",
}

_L1 = "the l1 penalty is not smooth: one person can switch a coefficient on or off"
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
