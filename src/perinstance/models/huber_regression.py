"""scikit-learn's HuberRegressor: coefficients, intercept and scale sigma fitted together, as it does.

It minimises ``sum_j [sigma + H(r_j/sigma) sigma] + alpha |w|^2``, ``H(z) = z^2`` up to epsilon and
``2 epsilon |z| - epsilon^2`` beyond: jointly convex. Half of it is, with ``r = y - x'theta``,

    inlier  |r| <= epsilon sigma:  sigma/2 + r^2/(2 sigma),        Hessian (1/sigma) v v',  v = (x, r/sigma)
    outlier:                       epsilon |r| + (1 - epsilon^2) sigma/2,   no curvature

The scores are ``x'theta`` and sigma, the last parameter. The curvature changes with sigma, which
``smooth.certificates`` do not cover: people are refitted. Only the coefficients and the intercept are published and
measured; sigma is not.
"""

# ruff: noqa: D102 - RowObjective says what the methods are

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput, InvalidTable, NumericalTrouble
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.interface import MovedByPerson, Movement
from perinstance.models.losses.base import REAL_TARGETS
from perinstance.models.losses.penalised_objective import RowObjective, predictor, slope_rounding
from perinstance.models.smooth.movement_bounds import Neighbourhood, Sensitivity, SmoothModel
from perinstance.models.smooth.neighbour_refits import Neighbours, measured, neighbours
from perinstance.models.smooth.objective_folds import Folded, Values, minimum_of
from perinstance.models.smooth.problem import MinimumAudit, check_fitted, kind_asked
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LEAST_DIVISOR, UNIT
from perinstance.pairs.kinds import check_method

NO_SCALE = (
    "HuberRegressor fits a scale too, which has no minimum above zero when about as many people as there are "
    "coefficients can be fitted exactly: use a larger epsilon or alpha, or perinstance.models.huber with a fixed scale"
)
#: The share of sigma that a step must leave: a search that may go as far as zero ends there, far from the minimum.
SIGMA_KEPT = 0.2


@dataclass(frozen=True, slots=True)
class HuberObjective(RowObjective):
    """The parameters of ``HuberRegressor``."""

    epsilon: float
    alpha: float
    fit_intercept: bool

    @property
    def concordance(self) -> float:
        """Infinite: between its knots the loss is a parabola in theta."""
        return np.inf

    def scores(self, X: NDArray, thetas: Floats) -> Floats:
        eta = predictor(X, thetas[:, :-1].T, self.fit_intercept)
        return np.stack([eta, np.broadcast_to(thetas[:, -1], eta.shape)], axis=2)

    def gather(self, r: Floats, X: NDArray) -> Floats:
        parts = [r[..., 0].T @ X, *([r[..., 0].sum(axis=0)[:, None]] if self.fit_intercept else [])]
        return np.column_stack([*parts, r[..., 1].sum(axis=0)])

    def lift(self, X: NDArray, T: Floats) -> Floats:
        by_eta = predictor(X, T[:, :-1].T, self.fit_intercept)
        return np.stack([by_eta, np.broadcast_to(T[:, -1], by_eta.shape)], axis=2)

    def _standard(self, y: Floats, scores: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Residual, residual over sigma, and who is an inlier."""
        r, sigma = y - scores[..., 0], scores[..., 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            return r, r / sigma, np.abs(r) <= self.epsilon * sigma

    def value(self, y: Floats, scores: Floats) -> Floats:
        (r, z, inlier), sigma, k = self._standard(y, scores), scores[..., 1], self.epsilon
        value = np.where(inlier, sigma / 2 + r * z / 2, k * np.abs(r) + (1 - k**2) * sigma / 2)
        return np.where(sigma > 0, value, np.inf)

    def residuals(self, y: Floats, scores: Floats) -> Floats:
        z = np.clip(self._standard(y, scores)[1], -self.epsilon, self.epsilon)
        return np.stack([-z, (1 - z * z) / 2], axis=-1)

    def residual_changes(self, y: Floats, scores: Floats, step: Floats) -> Floats:
        """Differences: both slopes are bounded, and constant beyond the knots."""
        return self.residuals(y, scores + step) - self.residuals(y, scores)

    def steepness(self, y: Floats, scores: Floats) -> Floats:
        """``(1 + |z|)/sigma`` and ``|z|`` times that, of inliers."""
        _, z, inlier = self._standard(y, scores)
        steep = np.where(inlier, (1 + np.abs(z)) / scores[..., 1], 0.0)
        return np.stack([steep, np.where(inlier, np.abs(z), 0.0) * steep], axis=-1)

    def slope_lost(self, X: NDArray, y: Floats, theta: Floats) -> Floats:
        """Bound what rounding does to each residual; that of the target's difference is in the first."""
        _, z, inlier = self._standard(y, self.scores(X, theta[None])[:, 0])
        z, size = np.clip(np.abs(z), 0, self.epsilon), predictor(np.abs(X), np.abs(theta[:-1]), self.fit_intercept)
        lost = slope_rounding(z, inlier / theta[-1], size + np.abs(y), len(theta))
        return np.stack([lost, z * lost + 4 * UNIT], axis=-1)

    def root(self, y: Floats, scores: Floats) -> Floats:
        """``(1, z)/sqrt(sigma)`` of inliers."""
        _, z, inlier = self._standard(y, scores)
        return (np.stack([np.ones_like(z), z], axis=1) * (inlier / np.sqrt(scores[..., 1]))[:, None])[:, :, None]

    def sums(self, X: NDArray, y: Floats, theta: Floats) -> tuple[float, Floats, Floats]:
        if not theta[-1] > 0:
            return np.inf, np.zeros(len(theta)), np.eye(len(theta))
        scores = self.scores(X, theta[None])[:, 0]
        v = (self.lift(X, np.eye(len(theta))) @ self.root(y, scores))[:, :, 0]
        return float(self.value(y, scores).sum()), self.gather(self.residuals(y, scores)[:, None], X)[0], v.T @ v

    def _weights(self, p: int) -> Floats:
        w = np.full(p, self.alpha)
        w[p - 1 - int(self.fit_intercept) :] = 0.0
        return w

    def penalised(self, theta: Floats, n: float) -> tuple[float, Floats, Floats]:
        w = self._weights(len(theta))
        return float((w * theta * theta).sum()) / 2, w * theta, np.diag(w)

    def penalty_change(self, theta: Floats, D: Floats, n: float) -> Floats:
        return self._weights(len(theta)) * D

    def in_domain(self, theta: Floats, start: Floats) -> NDArray[np.bool_]:
        return theta[..., -1] > SIGMA_KEPT * start[-1]


class TargetMoments(Values):
    """Of the first fold, which must look at every cell."""

    __slots__ = ()
    finite = None


def target_moments(block: Block) -> TargetMoments:
    """Sum one, the target and its square over a block: where to start from."""
    t = np.asarray(block.y, dtype=np.float64)
    REAL_TARGETS.check(t)
    return TargetMoments(np.array([len(t), t.sum(), t @ t]))


class HuberAudit(MinimumAudit):
    """The confidential state of one audit; sigma stays confidential."""

    __slots__ = ()

    @property
    def theta(self) -> Floats:
        """Coefficients and intercept: what is published."""
        return self.model.fit.theta[:-1]

    @property
    def scale(self) -> float:
        """Sigma."""
        return float(self.model.fit.theta[-1])


@dataclass(frozen=True, slots=True)
class HuberProblem:
    """``HuberRegressor(epsilon, alpha)`` as a model that releases can publish."""

    moved: ClassVar[MovedByPerson] = "smooth"
    objective: HuberObjective
    fitted: tuple[float, ...] | None = None  #: parameters of an estimator that comes fitted, its scale last

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> HuberAudit:
        """Minimise the joint objective of everyone."""
        check_method(method)
        n, total, square = sweep.fold(target_moments).values
        if n == 0:
            raise InvalidTable("the table has no rows; pass at least one person")
        p = sweep.n_features + int(self.objective.fit_intercept)
        theta, mean = np.zeros(p + 1), 0.0
        if self.objective.fit_intercept:
            theta[-2] = mean = total / n
        theta[-1] = np.sqrt(max(square / n - mean * mean, 0.0))
        if not theta[-1] > 0:
            raise NumericalTrouble("all targets are equal: the scale of HuberRegressor is zero and has no neighbour")
        try:
            fit = minimum_of(Folded(sweep, self.objective, None, int(n)), theta)
        except NumericalTrouble as trouble:
            raise NumericalTrouble(f"{trouble}. {NO_SCALE}") from None
        check_fitted(sweep, fit, self.fitted)
        A = np.zeros((p + 1, p + 1))
        A[:p, :p] = np.eye(p) if precision is None else precision
        around = fit.whitening(A)
        side = Neighbourhood(around, np.zeros(p + 1), fit.gradient_bound(around), None)
        return HuberAudit(SmoothModel(fit, A, kind_asked(method, fit), side, side))

    def movement(self, fit: HuberAudit, block: Block, inside: bool = True) -> Movement:
        """Map: estimates; everybody is left open where more is asked for: no certificate covers the scale."""
        return fit.movement(self._estimates(fit, block, inside), np.asarray(block.y, dtype=np.float64), inside)

    def refine(self, fit: HuberAudit, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Refit without (or with) each of these people."""
        return fit.refitted(self._estimates(fit, block, inside), sweep, block, inside)

    def _estimates(self, fit: HuberAudit, block: Block, inside: bool) -> Sensitivity:
        if block.X.shape[1] + int(self.objective.fit_intercept) + 1 != len(fit.model.fit.theta):
            raise InvalidInput(f"the model has another number of features than these rows, {block.X.shape[1]}")
        near: Neighbours = neighbours(fit.model, None, block.X, block.y, inside)
        step = near.solve(np.arange(len(near.left)), near.base)[0]
        distance, leverage = measured(step, fit.model.precision), (near.u**2).sum(axis=(1, 2))
        if inside:
            leverage = leverage / np.where(near.hopeless, LEAST_DIVISOR, near.left)
        opened = near.hopeless | (fit.model.kind != "estimate") | ~np.isfinite(distance)
        return Sensitivity(np.where(opened, np.inf, distance), leverage, near.block.y - near.scores[:, 0], opened)


def huber_problem(estimator: Any) -> HuberProblem:
    """Read a ``HuberRegressor``."""
    epsilon, alpha = float(estimator.epsilon), float(estimator.alpha)
    if not epsilon >= 1 or not alpha >= 0:
        raise InvalidInput(f"epsilon must be at least 1 and alpha at least 0, got {epsilon:g} and {alpha:g}")
    problem = HuberProblem(HuberObjective(epsilon, alpha, bool(estimator.fit_intercept)))
    if not hasattr(estimator, "coef_"):
        return problem
    theta = np.append(estimator.coef_, estimator.intercept_) if estimator.fit_intercept else estimator.coef_
    return replace(problem, fitted=tuple(np.append(theta, estimator.scale_)))
