"""How published parameters answer questions: regressors predict means, classifiers predict classes.

The classes are taken to be public: that somebody alone in a class would make it known is what their infinite loss says.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from perinstance.errors import InvalidInput
from perinstance.folds.row_order import in_order_of
from perinstance.models.interface import Problem
from perinstance.models.kernel_ridge import KernelProblem
from perinstance.models.smooth.problem import SmoothProblem
from perinstance.models.softmax import ClassifierProblem
from perinstance.numerics.array_types import Floats
from perinstance.releases.base.arguments import refuse_mask, validated
from perinstance.releases.base.model_document import PublishedNumbers
from perinstance.releases.base.publishing import Publishing


def is_classifier(problem: Any) -> bool:
    """Tell whether the model's targets are classes."""
    return isinstance(problem, ClassifierProblem) or (
        isinstance(problem, SmoothProblem) and problem.objective.loss.binary
    )


def _has_probabilities(release: Any) -> bool:
    problem = release.problem()
    return isinstance(problem, ClassifierProblem) or (
        isinstance(problem, SmoothProblem) and problem.objective.loss.predicts_probabilities
    )


class AnsweringModel(Publishing):
    """A release of the parameters of some model: linear, generalised linear, kernel, network."""

    @abstractmethod
    def problem(self) -> Problem:
        """Return the model whose parameters are published."""

    def fit(self, X: Any, y: Any, **refused: Any) -> Publishing:
        """Publish one draw: ``coef_`` and ``intercept_``, and ``classes_`` of a classifier."""
        if y is None or not is_classifier(self.problem()):
            return super().fit(X, y, **refused)
        y = in_order_of(X, y)  # codes have no index any more
        refuse_mask("y", y)
        labels, codes = np.unique(np.asarray(y), return_inverse=True)  # text never reaches a message
        super().fit(X, codes.reshape(np.shape(y)), **refused)
        self.classes_ = labels
        return self

    def _publish(self, theta: Floats, y: Any) -> None:
        problem, d = self.problem(), self.n_features_in_
        if hasattr(problem, "published"):  # predictions at public points, parameters of a network
            setattr(self, problem.published, theta)
        elif is_classifier(problem):
            K = len(np.unique(y))
            rows = theta.reshape(1 if K == 2 else K, -1)
            self.coef_ = rows[:, :d]
            self.intercept_: Any = rows[:, d] if rows.shape[1] > d else np.zeros(len(rows))
        else:
            super()._publish(theta, y)

    def published_numbers(self) -> PublishedNumbers:
        """Return the published parameters, and how they answer."""
        problem = self.problem()
        if isinstance(problem, KernelProblem):
            return PublishedNumbers("values", values=getattr(self, problem.published), points=problem.points)
        if hasattr(problem, "published"):
            raise InvalidInput(
                f"a network's shape is code, which a model file does not hold; its numbers are in {problem.published}"
            )
        if is_classifier(problem):
            likely = _has_probabilities(self)
            return PublishedNumbers(
                "classifier", "", self.coef_, self.intercept_, classes=self.classes_, probabilities=likely
            )
        link = problem.objective.loss.link if isinstance(problem, SmoothProblem) else "identity"
        return PublishedNumbers("regressor", link, self.coef_, self.intercept_)

    def predict(self, X: Any) -> NDArray:
        """Predict with the published parameters: means, or classes."""
        check_is_fitted(self)
        problem = self.problem()
        if hasattr(problem, "published"):
            raise InvalidInput(f"this model publishes its numbers as they are: they are in {problem.published}")
        X = validated(self, X, reset=False, dtype=(np.float64, np.float32), order="C")
        if is_classifier(problem):
            scores = X @ self.coef_.T + self.intercept_
            chosen = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
            return self.classes_[chosen]
        eta = X @ self.coef_ + self.intercept_
        return problem.objective.loss.mean(eta) if isinstance(problem, SmoothProblem) else eta

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class; logistic regression only."""
        check_is_fitted(self)
        X = validated(self, X, reset=False, dtype=(np.float64, np.float32), order="C")
        scores = X @ self.coef_.T + self.intercept_
        if scores.shape[1] > 1:
            return softmax(scores, axis=1)
        p = expit(scores[:, 0])
        return np.column_stack([1 - p, p])

    def score(self, X: Any, y: Any) -> float:  # type: ignore[override]
        """Return the accuracy of a classifier, R^2 of a regressor."""
        if is_classifier(self.problem()):
            return float(np.mean(self.predict(X) == np.asarray(y)))
        return super().score(X, y)
