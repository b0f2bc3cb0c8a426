"""The objective that a smooth estimator minimises, with the convention that says what a neighbour's objective is.

    F(theta) = sum_j l(y_j, x_j'theta) + R(theta)            (``mean=False``: LogisticRegression, Ridge)
    F(theta) = sum_j l(y_j, x_j'theta) + n R(theta)          (``mean=True``: PoissonRegressor: alpha weighs a mean)

With ``mean=True`` the penalty belongs to the people: whoever leaves takes ``l_i + R`` away, not only ``l_i``.
theta is the coefficients, then the intercept if there is one (a column of ones behind the others).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.errors import InvalidInput
from perinstance.models.losses.base import Loss
from perinstance.numerics.array_types import Floats


@runtime_checkable
class Penalty(Protocol):
    """A smooth convex penalty ``R(theta) = sum_k R_k(theta_k)``; user classes may implement it.

    ``concordance`` is a kappa with ``|R_k'''| <= kappa R_k''``: 0 for a quadratic.
    """

    @property
    def concordance(self) -> float:
        """Return kappa."""

    def value(self, theta: Floats) -> Floats:
        """``R_k(theta_k)``, one entry per coordinate."""

    def slope(self, theta: Floats) -> Floats:
        """``R_k'(theta_k)``."""

    def curvature(self, theta: Floats) -> Floats:
        """``R_k''(theta_k)``."""


@dataclass(frozen=True, slots=True)
class RidgePenalty:
    """``sum_k w_k theta_k^2 / 2``, one weight for all coefficients or one each."""

    weight: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        w = np.asarray(self.weight, dtype=np.float64)
        if w.ndim > 1 or not (np.isfinite(w) & (w >= 0)).all():
            raise InvalidInput("the ridge weight must be a number >= 0, or one such number per feature")

    @property
    def concordance(self) -> float:
        """A quadratic has no third derivative."""
        return 0.0

    def value(self, theta: Floats) -> Floats:
        """``w theta^2 / 2``."""
        return np.asarray(self.weight) * theta * theta / 2

    def slope(self, theta: Floats) -> Floats:
        """``w theta``."""
        return np.asarray(self.weight) * theta

    def curvature(self, theta: Floats) -> Floats:
        """``w``."""
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
        """Attained at ``|theta| = k/2``."""
        return 1.5 / self.width

    def value(self, theta: Floats) -> Floats:
        """``w (sqrt(theta^2 + k^2) - k)``."""
        return self.weight * theta * theta / (np.hypot(theta, self.width) + self.width)

    def slope(self, theta: Floats) -> Floats:
        """``w theta / sqrt(theta^2 + k^2)``."""
        return self.weight * theta / np.hypot(theta, self.width)

    def curvature(self, theta: Floats) -> Floats:
        """``w k^2 (theta^2 + k^2)^(-3/2)``."""
        return self.weight * self.width**2 / np.hypot(theta, self.width) ** 3


@dataclass(frozen=True, slots=True)
class SmoothObjective:
    """A loss, a penalty on the coefficients and the convention (see above).

    >>> from perinstance.models.losses.smooth import Logistic
    >>> SmoothObjective(Logistic(), RidgePenalty(1.0), fit_intercept=True).width(3)
    4
    """

    loss: Loss
    penalty: Penalty = field(default_factory=RidgePenalty)
    fit_intercept: bool = False
    mean: bool = False
    penalize_intercept: bool = False  #: liblinear's habit: the intercept is one more penalised coefficient

    def width(self, n_features: int) -> int:
        """Return the length of theta."""
        return n_features + int(self.fit_intercept)

    def _pad(self, theta: Floats, part: Floats) -> Floats:
        out = np.zeros_like(theta)
        out[..., : part.shape[-1]] = part
        return out

    def _penalised(self, theta: Floats) -> Floats:
        return theta[..., :-1] if self.fit_intercept and not self.penalize_intercept else theta

    def penalty_value(self, theta: Floats) -> float:
        """R, once."""
        return float(np.sum(self.penalty.value(self._penalised(theta))))

    def penalty_slope(self, theta: Floats) -> Floats:
        """R', once; zero at a free intercept."""
        return self._pad(theta, self.penalty.slope(self._penalised(theta)))

    def penalty_curvature(self, theta: Floats) -> Floats:
        """R'', once: the diagonal of its Hessian."""
        return self._pad(theta, self.penalty.curvature(self._penalised(theta)))

    def times(self, n: int) -> float:
        """How often R counts in the objective of n people."""
        return float(n) if self.mean else 1.0


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
