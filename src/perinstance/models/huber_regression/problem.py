"""HuberRegressor as a model that releases can publish: its fit, its neighbours, exact, upper or estimated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput, InvalidTable, NumericalTrouble
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep, refits_told
from perinstance.models.huber_regression.objective import (
    HuberFolded,
    HuberObjective,
    TargetMoments,
    huber_rows,
    huber_terms,
    target_moments,
)
from perinstance.models.interface.fit_health import FitHealth, ShowsNoValue
from perinstance.models.interface.problem import MovedByPerson, Movement
from perinstance.models.losses.penalised_objective import design
from perinstance.models.smooth.neighbour_refits import BATCH, PIECE, GradientChanges, Places, measured, refit_batch
from perinstance.models.smooth.newton import Minimum, minimise
from perinstance.models.smooth.objective_folds import Outsider
from perinstance.models.smooth.problem import kind_asked
from perinstance.models.smooth.whitening import Whitening, whiten
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import charge
from perinstance.numerics.rounding import LEAST_DIVISOR
from perinstance.pairs.interface.kinds import Kind, check_method

NO_SCALE = (
    "HuberRegressor fits a scale too, which has no minimum above zero when about as many people as there are "
    "coefficients can be fitted exactly: use a larger epsilon or alpha, or perinstance.models.huber with a fixed scale"
)


@dataclass(frozen=True, slots=True, repr=False)
class HuberFit(ShowsNoValue):
    """The confidential state of one audit."""

    minimum: Minimum
    around: Whitening
    gradient_rounding: float  #: what rounding may hide of the gradient, in whitened coordinates
    precision: Floats | None
    kind: Kind

    @property
    def theta(self) -> Floats:
        """Coefficients and intercept: what is published."""
        return self.minimum.theta[:-1]

    @property
    def scale(self) -> float:
        """Sigma, which stays confidential."""
        return float(self.minimum.theta[-1])

    @property
    def gradient_norm(self) -> float:
        """The proof of stationarity."""
        return float(np.linalg.norm(self.minimum.slopes.gradient))

    @property
    def decrement(self) -> float:
        """The Newton decrement at the minimum."""
        return self.minimum.decrement

    @property
    def health(self) -> FitHealth:
        """How many people it was fitted with."""
        return FitHealth(self.minimum.slopes.n)

    @property
    def gram(self) -> None:
        """None: only the rows near the line are summed."""
        return None


@dataclass(frozen=True, slots=True)
class HuberProblem:
    """``HuberRegressor(epsilon, alpha)`` as a model that releases can publish."""

    objective: HuberObjective
    fitted: tuple[float, ...] | None = None  #: parameters of an estimator that comes fitted, its scale last

    @property
    def moved(self) -> MovedByPerson:
        """The coefficients."""
        return "smooth"

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> HuberFit:
        """Minimise the joint objective of everyone."""
        check_method(method)
        start: TargetMoments = sweep.fold(target_moments)
        if start.n == 0:
            raise InvalidTable("the table has no rows; pass at least one person")
        p = sweep.n_features + int(self.objective.fit_intercept)
        theta = np.zeros(p + 1)
        mean = start.total / start.n if self.objective.fit_intercept else 0.0
        if self.objective.fit_intercept:
            theta[-2] = mean
        theta[-1] = np.sqrt(max(start.square / start.n - mean * mean, 0.0))
        if not theta[-1] > 0:
            raise NumericalTrouble("all targets are equal: the scale of HuberRegressor is zero and has no neighbour")
        folded = HuberFolded(sweep, self.objective, None)
        try:
            minimum = minimise(folded, theta)
        except NumericalTrouble as trouble:
            raise NumericalTrouble(f"{trouble}. {NO_SCALE}") from None
        if self.fitted is not None:
            there = folded.at(np.array(self.fitted)) if len(self.fitted) == p + 1 else None
            if there is None or not there.value - minimum.slopes.value <= 1e-3 * abs(minimum.slopes.value):
                raise InvalidInput(
                    "the fitted estimator is not at the minimum of its objective on this data; pass the data it was "
                    "fitted on, fit it to a smaller tol, or pass it unfitted"
                )
        A = np.zeros((p + 1, p + 1))
        A[:p, :p] = np.eye(p) if precision is None else precision
        around = whiten(minimum.slopes.hessian, A)
        kind = kind_asked(method, minimum.slopes.n, p + 1)
        lost = around.norm_bound(folded.gradient_rounding(minimum.theta))
        return HuberFit(minimum, around, lost, precision, kind)

    def movement(self, fit: HuberFit, block: Block, inside: bool = True) -> Movement:
        """Map: estimates; everybody is left open where more is asked for: no certificate covers the scale."""
        X, y = block.X, block.y
        near = _neighbours(self.objective, fit, None, X, y, inside)
        distance = _norm(fit, -near.solve(np.arange(len(near.x)), near.base)[0])
        open_ = near.hopeless | (fit.kind != "estimate") | ~np.isfinite(distance)  # no certificate knows the scale
        kind = np.full(len(distance), "estimate")
        return Movement(
            near.leverage, near.residual, np.where(open_, np.inf, distance), kind, open_ if open_.any() else None
        )

    def refine(self, fit: HuberFit, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Refit without (or with) each of these people."""
        X, y = block.X, block.y
        parts, tell = [], refits_told(sweep)
        for start in range(0, len(X), BATCH):
            near = _neighbours(self.objective, fit, sweep, X[start : start + BATCH], y[start : start + BATCH], inside)
            found = refit_batch(near)
            error = found.error + 2 * near.stretch() * fit.gradient_rounding
            distance = charge(_norm(fit, found.D), error)
            parts.append((near.leverage, near.residual, distance.value, distance.kind_code))
            tell(min(start + BATCH, len(X)), len(X))
        columns = [np.concatenate([np.zeros(0), *c]) for c in zip(*parts, strict=True)] or [np.zeros(0)] * 4
        return Movement(columns[0], columns[1], columns[2], columns[3].astype(np.uint8))


def huber_gradient_changes(block: Block, objective: HuberObjective, theta: Floats, D: Floats) -> GradientChanges:
    """Sum the changes of the gradient over a block, for every step D."""
    X, y = block.X, block.y
    change = np.zeros_like(D)
    rows = max(64, PIECE // max(len(D), 1))
    sigma = theta[-1] + D[:, -1]
    for start in range(0, len(X), rows):
        x = design(X[start : start + rows], objective.fit_intercept)
        r = (np.asarray(y[start : start + rows], dtype=np.float64) - x @ theta[:-1])[:, None]
        here, there = (
            huber_terms(r, theta[-1], objective.epsilon),
            huber_terms(r - x @ D[:, :-1].T, sigma, objective.epsilon),
        )
        change[:, :-1] += (there[1] - here[1]).T @ x
        change[:, -1] += (there[2] - here[2]).sum(axis=0)
    return GradientChanges(change)


@dataclass(frozen=True, slots=True)
class HuberNeighbours:
    """A batch of people out of, or into, the fit."""

    objective: HuberObjective
    fit: HuberFit
    sweep: Sweep | None
    x: Floats
    y: Floats
    sign: int
    residual: Floats
    curvature: Floats  #: 1/sigma for inliers, else 0
    t: Floats  #: T v
    left: Floats
    base: Floats

    @property
    def width(self) -> int:
        """Coefficients, intercept, sigma."""
        return len(self.fit.minimum.theta)

    @property
    def hopeless(self) -> NDArray[np.bool_]:
        """The others hardly determine the model, or one person outweighs them so much that one rank cancels."""
        return (self.left < 1e-3) | ~(self.left < 1e6)

    @property
    def decrement(self) -> float:
        """The decrement of the fit."""
        return self.fit.minimum.decrement

    @property
    def k(self) -> Floats:
        """``G^-1 = T'(I + k t t')T``."""
        return -self.sign * self.curvature / np.where(self.hopeless, 1.0, self.left)

    @property
    def leverage(self) -> Floats:
        """The out-of-sample leverage."""
        h = self.curvature * np.einsum("ij,ij->i", self.t, self.t)
        return h / np.where(self.hopeless, LEAST_DIVISOR, self.left) if self.sign < 0 else h

    def gradient(self, at: Places, D: Floats) -> Floats:
        """One fold, the person's own change, the penalty's change."""
        g = self.base[at]
        if not D.any():
            return g
        assert self.sweep is not None
        theta = self.fit.minimum.theta
        g = g + self.sweep.fold(partial(huber_gradient_changes, objective=self.objective, theta=theta, D=D)).change
        x, r = self.x[at], self.residual[at]
        moved = r - np.einsum("ij,ij->i", x, D[:, :-1])
        here, there = (
            huber_terms(r, theta[-1], self.objective.epsilon),
            huber_terms(moved, theta[-1] + D[:, -1], self.objective.epsilon),
        )
        g[:, :-1] += self.sign * (there[1] - here[1])[:, None] * x
        g[:, -1] += self.sign * (there[2] - here[2])
        bad = ~(theta[-1] + D[:, -1] > 0)
        g[bad] = np.nan  # outside the domain: a fit of their own
        return g + HuberFolded(self.sweep, self.objective, None).weights(self.width) * D

    def solve(self, at: Places, g: Floats) -> tuple[Floats, Floats]:
        """``G^-1 g``, by one rank."""
        v, t, k = g @ self.fit.around.T.T, self.t[at], self.k[at]
        inner = np.einsum("ij,ij->i", t, v)
        size = np.sqrt(np.maximum(np.einsum("ij,ij->i", v, v) + k * inner * inner, 0))
        return (v + (k * inner)[:, None] * t) @ self.fit.around.T, size

    def length(self, at: Places, D: Floats) -> Floats:
        """``|D|`` in the H norm, near enough for a stopping rule."""
        return np.linalg.norm(np.linalg.solve(self.fit.around.T.T, D.T), axis=0)

    def stretch(self) -> Floats:
        """The root of the largest eigenvalue of A relative to G, at most."""
        return np.sqrt(self.fit.around.nu[-1] + np.maximum(self.k, 0) * (self.t * self.t @ self.fit.around.nu))

    def refit_one(self, i: int) -> tuple[Floats, float]:
        """Newton's method on one neighbour."""
        assert self.sweep is not None
        start, other = self.fit.minimum, Outsider(self.x[i], float(self.y[i]), self.sign)
        found = minimise(HuberFolded(self.sweep, self.objective, other), start.theta)
        A = np.diag(np.append(np.ones(self.width - 1), 0.0))
        if self.fit.precision is not None:
            A[:-1, :-1] = self.fit.precision
        there = whiten(found.slopes.hessian, A)
        lost = there.norm_bound(HuberFolded(self.sweep, self.objective, None).gradient_rounding(found.theta))
        error = (
            4 * np.sqrt(there.nu[-1]) * (found.decrement + lost) + 2 * np.sqrt(self.fit.around.nu[-1]) * self.decrement
        )
        return found.theta - start.theta, float(error)


def _neighbours(
    objective: HuberObjective, fit: HuberFit, sweep: Sweep | None, X: NDArray, y: NDArray, inside: bool
) -> HuberNeighbours:
    theta, around = fit.minimum.theta, fit.around
    x, target = design(X, objective.fit_intercept), np.asarray(y, dtype=np.float64)
    if x.shape[1] + 1 != len(theta):
        raise InvalidInput(f"the model has another number of features than these rows, which have {X.shape[1]}")
    sign = -1 if inside else 1
    _, by_eta, by_sigma, z, inlier = huber_rows(x, target, theta, objective.epsilon)
    t = np.column_stack([x, z]) @ around.T.T
    curvature = inlier / theta[-1]
    left = 1 + sign * curvature * np.einsum("ij,ij->i", t, t)
    own = np.column_stack([by_eta[:, None] * x, by_sigma])
    base = fit.minimum.slopes.gradient + sign * own
    return HuberNeighbours(objective, fit, sweep, x, target, sign, target - x @ theta[:-1], curvature, t, left, base)


def _norm(fit: HuberFit, D: Floats) -> Floats:
    return measured(D[:, :-1], fit.precision)


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
