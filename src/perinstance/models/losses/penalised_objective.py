"""The objective that a smooth estimator minimises, with the convention that says what a neighbour's objective is.

    F(theta) = sum_j l(y_j, x_j'theta) + R(theta)            (``mean=False``: LogisticRegression, Ridge)
    F(theta) = sum_j l(y_j, x_j'theta) + n R(theta)          (``mean=True``: PoissonRegressor: alpha weighs a mean)

With ``mean=True`` the penalty belongs to the people: whoever leaves takes ``l_i + R`` away, not only ``l_i``.
theta is the coefficients, then the intercept if there is one (a column of ones behind the others).
"""

# ruff: noqa: D102 - RowObjective says what the methods are

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.errors import InvalidInput
from perinstance.models.losses.base import Loss
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import UNIT


class RowObjective(ABC):
    """What every smooth model minimises: a sum over rows of a convex loss of K scores, and a penalty.

    A generalised linear model has one score ``x'theta``; a classifier one for each class, ``Theta x`` with Theta laid
    out row by row; Huber's regression two, the prediction and the scale. With ``scores = Z(x)'theta`` a row's gradient
    is ``Z r``, r the residuals ``dl/dscores``, and its Hessian ``Z R R' Z'`` with a root R of the loss's own Hessian.
    Rows come without the one of an intercept. ``models.smooth`` folds, fits and refits by these methods alone.
    """

    __slots__ = ()

    fit_intercept: bool

    @property
    def outputs(self) -> int:
        """K, the number of scores."""
        return 1

    @property
    @abstractmethod
    def concordance(self) -> float:
        """Kappa with ``|l'''| <= kappa max_k |score_k| l''`` along a step of the scores; inf where there is none."""

    @abstractmethod
    def value(self, y: Floats, scores: Floats) -> Floats:
        """``l`` of each row; scores have K places at the end."""

    @abstractmethod
    def residuals(self, y: Floats, scores: Floats) -> Floats:
        """``dl/dscores``, in the shape of the scores."""

    @abstractmethod
    def residual_changes(self, y: Floats, scores: Floats, step: Floats) -> Floats:
        """Return by how much the residuals change along a step of the scores, without cancellation."""

    @abstractmethod
    def steepness(self, y: Floats, scores: Floats) -> Floats:
        """Bound by how much each residual changes where all scores change by one, per unit and next to these scores."""

    @abstractmethod
    def root(self, y: Floats, scores: Floats) -> Floats:
        """R of each row, (rows, K, m)."""

    @abstractmethod
    def sums(self, X: NDArray, y: Floats, theta: Floats) -> tuple[float, Floats, Floats]:
        """Sum value, gradient and Hessian of the losses of some rows."""

    @abstractmethod
    def penalised(self, theta: Floats, n: float) -> tuple[float, Floats, Floats]:
        """Value, gradient and Hessian of the penalty among n people."""

    @abstractmethod
    def penalty_change(self, theta: Floats, D: Floats, n: float) -> Floats:
        """Return by how much the penalty's gradient changes along each of many steps D from theta."""

    def penalty_share(self, theta: Floats) -> Floats:
        """Gradient of the penalty that each person brings."""
        return np.zeros_like(theta)

    def penalty_rounding(self, theta: Floats, n: float) -> Floats:
        """Bound what rounding does to the penalty's gradient."""
        return UNIT * np.abs(self.penalised(theta, n)[1])

    def in_domain(self, theta: Floats, start: Floats) -> NDArray[np.bool_]:
        """Tell which of many thetas a search that starts at another one may go to."""
        return np.ones(theta.shape[:-1], dtype=np.bool_)

    def slope_lost(self, X: NDArray, y: Floats, theta: Floats) -> Floats:
        """Bound what rounding does to each residual, (rows, K): through the scores, and in its formula."""
        scores, size = self.scores(X, theta[None])[:, 0], self.scores(np.abs(X), np.abs(theta)[None])[:, 0]
        slopes, width = self.outputs * np.abs(self.residuals(y, scores)), len(theta) // self.outputs
        return slope_rounding(slopes, self.steepness(y, scores), size.max(axis=1, keepdims=True), width)

    def scores(self, X: NDArray, thetas: Floats) -> Floats:
        """``Z(x)'theta`` of each row and theta, (rows, thetas, K)."""
        flat = thetas.reshape(len(thetas) * self.outputs, -1)
        return predictor(X, flat.T, self.fit_intercept).reshape(len(X), len(thetas), self.outputs)

    def gather(self, r: Floats, X: NDArray) -> Floats:
        """``sum_j Z(x_j) r_j``, (thetas, parameters), of r with (rows, thetas, K)."""
        flat = r.reshape(len(X), -1).T
        out = flat @ X
        if self.fit_intercept:
            out = np.column_stack([out, flat.sum(axis=1)])
        return np.asarray(out.reshape(r.shape[1], -1), dtype=np.float64)

    def lift(self, X: NDArray, T: Floats) -> Floats:
        """``T Z(x)`` of each row, (rows, parameters, K)."""
        width = T.shape[1] // self.outputs
        return predictor(X, T.reshape(-1, width).T, self.fit_intercept).reshape(len(X), len(T), self.outputs)


@dataclass(frozen=True, slots=True)
class RidgePenalty:
    """``sum_k w_k theta_k^2 / 2``, one weight for all coefficients or one each.

    Any penalty ``R(theta) = sum_k R_k(theta_k)`` with these methods, one entry per coordinate, takes its place; its
    ``concordance`` is a kappa with ``|R_k'''| <= kappa R_k''``, 0 for a quadratic.
    """

    weight: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        w = np.asarray(self.weight, dtype=np.float64)
        if w.ndim > 1 or not (np.isfinite(w) & (w >= 0)).all():
            raise InvalidInput("the ridge weight must be a number >= 0, or one such number per feature")

    @property
    def concordance(self) -> float:
        return 0.0

    def value(self, theta: Floats) -> Floats:
        return np.asarray(self.weight) * theta * theta / 2

    def slope(self, theta: Floats) -> Floats:
        return np.asarray(self.weight) * theta

    def curvature(self, theta: Floats) -> Floats:
        return np.broadcast_to(np.asarray(self.weight, dtype=np.float64), theta.shape)


@dataclass(frozen=True, slots=True)
class SmoothL1Penalty:
    """``w sum_k (sqrt(theta_k^2 + k^2) - k)``: the lasso's penalty with a smooth corner; ``|R'''| <= 3/(2k) R''``."""

    weight: float = 1.0
    width: float = 0.1

    def __post_init__(self) -> None:
        if not (self.weight >= 0 and self.width > 0):
            raise InvalidInput(f"weight must be >= 0 and width > 0, got {self.weight:g} and {self.width:g}")

    @property
    def concordance(self) -> float:
        return 1.5 / self.width

    def value(self, theta: Floats) -> Floats:
        return self.weight * theta * theta / (np.hypot(theta, self.width) + self.width)

    def slope(self, theta: Floats) -> Floats:
        return self.weight * theta / np.hypot(theta, self.width)

    def curvature(self, theta: Floats) -> Floats:
        return self.weight * self.width**2 / np.hypot(theta, self.width) ** 3


@dataclass(frozen=True, slots=True)
class SmoothObjective(RowObjective):
    """A loss, a penalty on the coefficients and the convention (see above)."""

    loss: Loss
    penalty: Any = field(default_factory=RidgePenalty)  #: a ``RidgePenalty``, or another class with its methods
    fit_intercept: bool = False
    mean: bool = False
    penalize_intercept: bool = False  #: liblinear's habit: the intercept is one more penalised coefficient

    def width(self, n_features: int) -> int:
        """Return the length of theta."""
        return n_features + int(self.fit_intercept)

    def _penalised(self, theta: Floats) -> Floats:
        return theta[..., :-1] if self.fit_intercept and not self.penalize_intercept else theta

    def _pad(self, theta: Floats, part: Floats) -> Floats:
        out = np.zeros_like(theta)
        out[..., : part.shape[-1]] = part
        return out

    def penalty_slope(self, theta: Floats) -> Floats:
        """R', once; zero at a free intercept."""
        return self._pad(theta, self.penalty.slope(self._penalised(theta)))

    def penalty_curvature(self, theta: Floats) -> Floats:
        """R'', once: the diagonal of its Hessian."""
        return self._pad(theta, self.penalty.curvature(self._penalised(theta)))

    def times(self, n: float) -> float:
        """How often R counts in the objective of n people."""
        return float(n) if self.mean else 1.0

    @property
    def concordance(self) -> float:
        return self.loss.concordance

    def value(self, y: Floats, scores: Floats) -> Floats:
        return self.loss.value(y, scores[..., 0])

    def residuals(self, y: Floats, scores: Floats) -> Floats:
        return self.loss.slope(y, scores[..., 0])[..., None]

    def residual_changes(self, y: Floats, scores: Floats, step: Floats) -> Floats:
        return self.loss.slope_change(y, scores[..., 0], step[..., 0])[..., None]

    def steepness(self, y: Floats, scores: Floats) -> Floats:
        return self.loss.curvature(y, scores[..., 0])[..., None]

    def root(self, y: Floats, scores: Floats) -> Floats:
        return np.sqrt(self.steepness(y, scores))[..., None]

    def sums(self, X: NDArray, y: Floats, theta: Floats) -> tuple[float, Floats, Floats]:
        d = X.shape[1]
        eta = predictor(X, theta, self.fit_intercept)
        l1, l2 = self.loss.derivatives(y, eta)
        root, Z, gradient = np.sqrt(l2), np.empty((len(eta), len(theta))), np.empty(len(theta))
        np.multiply(X, root[:, None], out=Z[:, :d])
        gradient[:d] = l1 @ X
        if self.fit_intercept:
            Z[:, d], gradient[d] = root, l1.sum()
        return float(self.loss.value(y, eta).sum()), gradient, Z.T @ Z

    def penalised(self, theta: Floats, n: float) -> tuple[float, Floats, Floats]:
        k = self.times(n)
        value = float(np.sum(self.penalty.value(self._penalised(theta))))
        return k * value, k * self.penalty_slope(theta), np.diag(k * self.penalty_curvature(theta))

    def penalty_change(self, theta: Floats, D: Floats, n: float) -> Floats:
        """Changes of R', as often as it counts; of a quadratic without cancellation."""
        if self.penalty.concordance == 0:
            return self.times(n) * self.penalty_curvature(theta) * D
        return self.times(n) * (self.penalty_slope(theta + D) - self.penalty_slope(theta))

    def penalty_share(self, theta: Floats) -> Floats:
        return self.penalty_slope(theta) if self.mean else np.zeros_like(theta)


def slope_rounding(l1: Floats, l2: Floats, size: Floats, p: int) -> Floats:
    """Bound what rounding does to each ``l'``: through eta = x'theta (``size`` is |x|'|theta|), and in its formula.

    The formula may be a difference of two terms of the size of ``l''`` that cancel, like ``e^eta - y``. A sum of p
    products loses at most ``p + 1`` half units of ``size``, in any order.
    """
    return UNIT / 2 * (l2 * (max(8 * np.sqrt(p), p + 2) * size + 4) + 4 * np.abs(l1))


def design(X: NDArray, intercept: bool) -> Floats:
    """Return the rows as float64, with the column of ones behind them if there is an intercept."""
    if not intercept:
        return np.asarray(X, dtype=np.float64)
    out = np.empty((X.shape[0], X.shape[1] + 1))
    out[:, :-1] = X
    out[:, -1] = 1.0
    return out


def predictor(X: NDArray, theta: ArrayLike, intercept: bool) -> Floats:
    """``X theta`` without copying X for the intercept; theta may be several columns."""
    t = np.asarray(theta, dtype=np.float64)
    return np.asarray(X @ t[:-1] + t[-1] if intercept else X @ t, dtype=np.float64)
