"""How a published vector of parameters answers questions: regressors predict means, classifiers predict classes.

The classes are taken to be public: that somebody alone in a class would make it known is what her infinite loss says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from perinstance.errors import InvalidInput
from perinstance.models.multinomial import ClassifierProblem
from perinstance.models.smooth import SmoothProblem

Floats = NDArray[np.float64]


def is_classifier(problem: Any) -> bool:
    """Tell whether the model's targets are classes."""
    return isinstance(problem, ClassifierProblem) or (
        isinstance(problem, SmoothProblem) and problem.objective.loss.binary
    )


def publish(release: Any, problem: Any, theta: Floats, y: Any) -> None:
    """Set ``coef_``, ``intercept_`` and for a classifier ``classes_``, in scikit-learn's shapes."""
    d = release.n_features_in_
    if hasattr(problem, "published"):  # predictions at public points, parameters of a network
        setattr(release, problem.published, theta)
        return
    if not is_classifier(problem):
        release.coef_ = theta[:d]
        release.intercept_ = float(theta[d]) if len(theta) > d else 0.0
        return
    release.classes_ = np.unique(y)
    rows = theta.reshape(1 if len(release.classes_) == 2 else len(release.classes_), -1)
    release.coef_ = rows[:, :d]
    release.intercept_ = rows[:, d] if rows.shape[1] > d else np.zeros(len(rows))


def predict(release: Any, problem: Any, X: Floats) -> NDArray:
    """Predict with the published parameters."""
    if hasattr(problem, "published"):
        raise InvalidInput(f"this model publishes its numbers as they are: they are in {problem.published}")
    if not is_classifier(problem):
        eta = X @ release.coef_ + release.intercept_
        return problem.objective.loss.mean(eta) if isinstance(problem, SmoothProblem) else eta
    scores = X @ release.coef_.T + release.intercept_
    chosen = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return release.classes_[chosen]


def probabilities(release: Any, X: Floats) -> Floats:
    """Return the probability of each class."""
    scores = X @ release.coef_.T + release.intercept_
    if scores.shape[1] > 1:
        return softmax(scores, axis=1)
    p = expit(scores[:, 0])
    return np.column_stack([1 - p, p])
