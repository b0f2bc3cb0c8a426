"""A published model as a plain scikit-learn estimator, for tools that know those: ``skl2onnx`` and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perinstance.errors import InvalidInput

if TYPE_CHECKING:
    from perinstance.published.model import PublishedModel


def plain_estimator(model: PublishedModel) -> Any:
    """Return ``LinearRegression``, ``PoissonRegressor``, ``LogisticRegression`` or ``LinearSVC`` with these numbers.

    Each is fitted to zeros first, so that it has every attribute that its own version of scikit-learn sets.
    """
    from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
    from sklearn.svm import LinearSVC

    numbers, d = model.numbers, model.n_features
    if numbers.task == "values":
        raise InvalidInput("this release is numbers as they are: there is no estimator to make of it")
    estimator: Any
    if numbers.task == "regressor":
        estimator = (PoissonRegressor() if numbers.link == "log" else LinearRegression()).fit(np.zeros((2, d)), [1, 1])
    else:
        classes = numbers.classes
        estimator = (LogisticRegression() if numbers.probabilities else LinearSVC()).fit(
            np.zeros((len(classes), d)), classes
        )
    estimator.coef_ = numbers.coef
    estimator.intercept_ = np.asarray(numbers.intercept)[()]  # a numpy number, as scikit-learn has it
    if model.features is not None:
        estimator.feature_names_in_ = np.array(model.features, dtype=object)
    return estimator
