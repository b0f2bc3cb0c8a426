"""Multinomial logistic regression: the sums that its Newton fit folds, and each person's block of the Hessian.

Theta is K x p (classes, then features with the intercept last), laid out row by row. A person's loss is
``logsumexp(eta) - eta_y``, ``eta = Theta x``; the gradient is ``(pi - e_y) (x) x`` and the Hessian ``S (x) xx'`` with
``S = diag(pi) - pi pi'``. Adding the same vector to all classes changes nothing, so wherever no penalty decides, the
classes are made to sum to zero, which is where scikit-learn's solvers end too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from perinstance.folds.block import Block, pieces
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import design
from perinstance.models.smooth.newton import LENGTHS, Minimum, Slopes, minimise
from perinstance.models.smooth.objective_folds import GradientRounding, Outsider, Values, farthest, slope_rounding
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import UNIT


@dataclass(frozen=True, slots=True)
class SoftmaxObjective:
    """``sum_j l(y_j, Theta x_j) + alpha |W|^2 / 2`` for K classes coded 0 .. K-1; the intercepts are free."""

    alpha: float
    fit_intercept: bool
    classes: int

    def width(self, n_features: int) -> int:
        """The number of parameters of one class."""
        return n_features + int(self.fit_intercept)

    def weights(self, p: int) -> Floats:
        """Return the penalty of each feature."""
        w = np.full(p, self.alpha)
        if self.fit_intercept:
            w[-1] = 0.0
        return w

    def penalty_hessian(self, p: int) -> Floats:
        """The ridge, and a unit weight on the sum over classes of every unpenalised feature."""
        K, w = self.classes, self.weights(p)
        free = np.diag((w == 0).astype(np.float64))
        return np.asarray(np.kron(np.eye(K), np.diag(w)) + np.kron(np.full((K, K), 1 / K), free), dtype=np.float64)


def softmax_slopes(block: Block, objective: SoftmaxObjective, theta: Floats, out: Outsider | None = None) -> Slopes:
    """Sum value, gradient and Hessian over a block but for rows equal to ``out`` (see ``objective_folds.slopes``)."""
    X, y = block.X, block.y
    K = objective.classes
    p = objective.width(X.shape[1])
    value, gradient, hessian, left_out = 0.0, np.zeros((K, p)), np.zeros((K, p, K, p)), 0
    for run in pieces(X, K + 2 * p):
        x, t = design(X[run], objective.fit_intercept), np.asarray(y[run]).astype(np.intp)
        if out is not None:
            same = (t == int(out.y)) & (x == out.x).all(axis=1)
            left_out += int(same.sum())
            x, t = x[~same], t[~same]
        part = row_slopes(x, t, theta.reshape(K, p))
        value += part.value
        gradient += part.residual.T @ x
        for k in range(K):
            for m in range(k, K):
                s = -part.pi[:, k] * part.pi[:, m] if m > k else part.pi[:, k] * (1 - part.pi[:, k])
                product = (x * s[:, None]).T @ x
                hessian[k, :, m, :] += product
                if m > k:
                    hessian[m, :, k, :] += product
    return Slopes(len(X), value, gradient.ravel(), hessian.reshape(K * p, K * p), left_out)


@dataclass(frozen=True, slots=True)
class RowSlopes:
    """Probabilities and residuals ``pi - e_y`` of some rows."""

    value: float
    pi: Floats
    residual: Floats


def row_slopes(x: Floats, t: NDArray[np.intp], theta: Floats) -> RowSlopes:
    """Return what one person's loss is made of, for each row."""
    eta = x @ theta.T
    pi = softmax(eta, axis=1)
    residual = pi.copy()
    rows = np.arange(len(t))
    # pi_y - 1 by the others' probabilities: it keeps its digits when the fit is sure of itself
    residual[rows, t] = 0.0
    residual[rows, t] = -residual.sum(axis=1)
    return RowSlopes(float((logsumexp(eta, axis=1) - eta[rows, t]).sum()), pi, residual)


def softmax_block_rounding(block: Block, objective: SoftmaxObjective, theta: Floats) -> GradientRounding:
    """Bound what rounding does to the gradient of a block (see ``objective_folds.gradient_rounding``).

    A score that is off by s moves a probability by at most ``2 pi (1 - pi) s``.
    """
    X, y = block.X, block.y
    K, p = objective.classes, objective.width(X.shape[1])
    total = np.zeros((K, p))
    for run in pieces(X, K + 2 * p):
        x, t = design(X[run], objective.fit_intercept), np.asarray(y[run]).astype(np.intp)
        part = row_slopes(x, t, theta.reshape(K, p))
        x, slope = np.abs(x), np.abs(part.residual)
        scores = (x @ np.abs(theta.reshape(K, p)).T).max(axis=1, keepdims=True)
        in_sum = 4 * UNIT * np.sqrt(len(t) + len(X) / max(len(t), 1)) * slope
        total += (in_sum + slope_rounding(K * slope, 2 * part.pi * (1 - part.pi), scores, p)).T @ x
    return GradientRounding(total.ravel())


def softmax_along(block: Block, objective: SoftmaxObjective, theta: Floats, step: Floats) -> Values:
    """Sum the loss over a block at all the lengths."""
    X, y = block.X, block.y
    x, t = design(X, objective.fit_intercept), np.asarray(y).astype(np.intp)
    shape = (objective.classes, -1)
    at, by = x @ theta.reshape(shape).T, x @ step.reshape(shape).T
    rows = np.arange(len(t))
    values = []
    for s in LENGTHS:
        eta = at + s * by
        values.append(float((logsumexp(eta, axis=1) - eta[rows, t]).sum()))
    return Values(np.array(values))


@dataclass(frozen=True, slots=True)
class SoftmaxFolded:
    """F of everyone, or with one person out or in."""

    sweep: Sweep
    objective: SoftmaxObjective
    other: Outsider | None

    def at(self, theta: Floats) -> Slopes:
        """Value, gradient and Hessian."""
        objective, other = self.objective, self.other
        out = other if other is not None and other.sign < 0 else None
        s: Slopes = self.sweep.fold(partial(softmax_slopes, objective=objective, theta=theta, out=out))
        value, gradient, hessian, n = s.value, s.gradient, s.hessian, s.n
        if other is not None:
            n += other.sign
            times = other.sign + s.left_out
            row = row_slopes(other.x[None], np.array([int(other.y)]), theta.reshape(objective.classes, -1))
            S = np.diag(row.pi[0]) - np.outer(row.pi[0], row.pi[0])
            value = value + times * row.value
            gradient = gradient + times * np.kron(row.residual[0], other.x)
            hessian = hessian + times * np.kron(S, np.outer(other.x, other.x))
        P = objective.penalty_hessian(len(theta) // objective.classes)
        return Slopes(n, value + float(theta @ P @ theta) / 2, gradient + P @ theta, hessian + P)

    def along(self, theta: Floats, step: Floats) -> Floats:
        """Values on a line."""
        objective, other = self.objective, self.other
        total = self.sweep.fold(partial(softmax_along, objective=objective, theta=theta, step=step)).values
        if other is not None:
            one = softmax_along(
                Block(other.x[None, : self.sweep.n_features], np.array([other.y])), objective, theta, step
            )
            total = total + other.sign * one.values
        P = objective.penalty_hessian(len(theta) // objective.classes)
        return total + np.array([float((theta + s * step) @ P @ (theta + s * step)) / 2 for s in LENGTHS])

    def curvature_change(self, step: Floats) -> float:
        """Twice the largest change of a score bounds the range of the changes."""
        rows = step.reshape(self.objective.classes, -1).T
        return 2 * self.sweep.fold(partial(farthest, step=rows, intercept=self.objective.fit_intercept)).h


def softmax_gradient_rounding(sweep: Sweep, objective: SoftmaxObjective, theta: Floats) -> Floats:
    """Bound how far each entry of the gradient at theta may be off."""
    found: GradientRounding = sweep.fold(partial(softmax_block_rounding, objective=objective, theta=theta))
    P = objective.penalty_hessian(len(theta) // objective.classes)
    return found.vector + 4 * UNIT * np.abs(P) @ np.abs(theta)


def fit_softmax(
    sweep: Sweep, objective: SoftmaxObjective, start: Floats | None = None, other: Outsider | None = None
) -> Minimum:
    """Minimise the objective of everyone, or with one person out or in."""
    theta = np.zeros(objective.classes * objective.width(sweep.n_features)) if start is None else start
    return minimise(SoftmaxFolded(sweep, objective, other), theta)
