"""Multinomial logistic regression as a loss of K scores, one for each class.

Theta is K x p (classes, then features with the intercept last), laid out row by row. A person's loss is
``logsumexp(eta) - eta_y``, ``eta = Theta x``; the residuals are ``pi - e_y`` and the Hessian in eta
``S = diag(pi) - pi pi'``. Adding the same vector to all classes changes nothing, so wherever no penalty decides, the
classes are made to sum to zero, which is where scikit-learn's solvers end too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from perinstance.models.losses.penalised_objective import RowObjective
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import UNIT


@dataclass(frozen=True, slots=True)
class SoftmaxObjective(RowObjective):
    """``sum_j l(y_j, Theta x_j) + alpha |W|^2 / 2`` for K classes coded 0 .. K-1; the intercepts are free."""

    alpha: float
    fit_intercept: bool
    classes: int

    @property
    def outputs(self) -> int:
        """K."""
        return self.classes

    @property
    def concordance(self) -> float:
        """Twice the largest change of a score bounds the range of the changes."""
        return 2.0

    def value(self, y: Floats, scores: Floats) -> Floats:
        """``logsumexp(eta) - eta_y``."""
        return logsumexp(scores, axis=-1) - np.take_along_axis(scores, _places(y), axis=-1)[..., 0]

    def residuals(self, y: Floats, scores: Floats) -> Floats:
        """``pi - e_y``, that of y by the others' probabilities: it keeps its digits when the fit is sure of itself."""
        found = softmax(scores, axis=-1)
        np.put_along_axis(found, _places(y), 0.0, axis=-1)
        np.put_along_axis(found, _places(y), -found.sum(axis=-1, keepdims=True), axis=-1)
        return found

    def residual_changes(self, y: Floats, scores: Floats, step: Floats) -> Floats:
        """Changes of the probabilities."""
        return probability_change(softmax(scores, axis=-1), step)

    def steepness(self, y: Floats, scores: Floats) -> Floats:
        """``2 pi (1 - pi)``: a score that is off by s moves a probability by at most this times s."""
        pi = softmax(scores, axis=-1)
        return 2 * pi * (1 - pi)

    def root(self, y: Floats, scores: Floats) -> Floats:
        """``diag(s) (I - s s')``, s the roots of the probabilities."""
        s = np.sqrt(softmax(scores, axis=-1))
        return s[:, :, None] * (np.eye(self.classes) - s[:, :, None] * s[:, None, :])

    def sums(self, X: NDArray, y: Floats, theta: Floats) -> tuple[float, Floats, Floats]:
        """Sum value, gradient and Hessian of the losses of some rows."""
        K, p = self.classes, len(theta) // self.classes
        scores = self.scores(X, theta[None])[:, 0]
        pi, hessian = softmax(scores, axis=1), np.zeros((K, p, K, p))
        x = np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X
        for k in range(K):
            for m in range(k, K):
                s = -pi[:, k] * pi[:, m] if m > k else pi[:, k] * (1 - pi[:, k])
                hessian[k, :, m, :] = hessian[m, :, k, :] = (x * s[:, None]).T @ x
        gradient = self.gather(self.residuals(y, scores)[:, None], X)[0]
        return float(self.value(y, scores).sum()), gradient, hessian.reshape(K * p, K * p)

    def _penalty(self, P: int) -> Floats:
        """The ridge, and a unit weight on the sum over classes of every unpenalised feature."""
        K, w = self.classes, np.full(P // self.classes, self.alpha)
        if self.fit_intercept:
            w[-1] = 0.0
        free = np.diag((w == 0).astype(np.float64))
        return np.asarray(np.kron(np.eye(K), np.diag(w)) + np.kron(np.full((K, K), 1 / K), free), dtype=np.float64)

    def penalised(self, theta: Floats, n: int) -> tuple[float, Floats, Floats]:
        """The ridge, and that classes sum to zero."""
        P = self._penalty(len(theta))
        return float(theta @ P @ theta) / 2, P @ theta, P

    def penalty_change(self, theta: Floats, D: Floats, n: int) -> Floats:
        """Both are linear."""
        return D @ self._penalty(len(theta))

    def penalty_rounding(self, theta: Floats, n: int) -> Floats:
        """Of the sums of the classes, which cancel."""
        return 4 * UNIT * np.abs(self._penalty(len(theta))) @ np.abs(theta)


def _places(y: Floats) -> NDArray[np.intp]:
    return np.asarray(y).astype(np.intp)[..., None]


def probability_change(pi: Floats, step: Floats) -> Floats:
    """``softmax(eta + step) - pi``, as ``pi_k (e^{step_k - m} - 1)``, ``e^m = sum pi_k e^{step_k}``."""
    small = step - step.max(axis=-1, keepdims=True)  # <= 0: nothing overflows
    fall = (pi * np.expm1(small)).sum(axis=-1, keepdims=True)
    m = np.log1p(np.maximum(fall, -0.5))
    if (fall < -0.5).any():  # near -1 it has lost the digits of what is left: a class that was certain is no longer
        with np.errstate(divide="ignore"):  # nothing left in float64: infinite, and a refit decides
            m = np.where(fall < -0.5, np.log((pi * np.exp(small)).sum(axis=-1, keepdims=True)), m)
    return pi * np.expm1(small - m)
