"""Multinomial logistic regression: a loss of K scores, one for each class, its certificate, and the model.

Theta is K x p (classes, then features with the intercept last), laid out row by row. A person's loss is
``logsumexp(eta) - eta_y``, ``eta = Theta x``; the residuals are ``pi - e_y`` and the Hessian in eta
``S = diag(pi) - pi pi'``. Adding the same vector to all classes changes nothing, so wherever no penalty decides, the
classes are made to sum to zero, which is where scikit-learn's solvers end too.

The upper bound is that of ``smooth.certificates``. With whitened ``t = T Z`` (parameters x K) a person's leverages are
K x K matrices ``V_j = t' nu^j t``, and ``G^-1 = H^-1 + H^-1 Z N Z'H^-1``. A row's loss changes its curvature along a
step of the scores by at most ``e^{range of the step}``, and the range is at most ``sqrt(sharpness)`` times the step's
length, ``sharpness = max_{k,m} (e_k - e_m)'V_0 (e_k - e_m)``.
"""

# ruff: noqa: D102 - RowObjective says what the methods are

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import exprel, logsumexp, softmax

from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.class_labels import Classes, CodedSweep, classes_of
from perinstance.folds.sweep import Sweep
from perinstance.models.interface import MovedByPerson, Movement
from perinstance.models.losses.catalogue import Logistic
from perinstance.models.losses.penalised_objective import RidgePenalty, RowObjective, SmoothObjective, design
from perinstance.models.smooth.certificates import HessianBounds, OwnRow, Step, distance_bound, step_ball
from perinstance.models.smooth.movement_bounds import HEAVY, THIN, Neighbourhood, Sensitivity, SmoothModel
from perinstance.models.smooth.newton import Whitening
from perinstance.models.smooth.objective_folds import Folded, SmoothFit, minimum_of
from perinstance.models.smooth.problem import MinimumAudit, SmoothAudit, SmoothProblem, check_fitted, kind_asked
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LEAST_RADIUS, UNIT
from perinstance.pairs.kinds import check_method


@dataclass(frozen=True, slots=True)
class SoftmaxObjective(RowObjective):
    """``sum_j l(y_j, Theta x_j) + alpha |W|^2 / 2`` for K classes coded 0 .. K-1; the intercepts are free."""

    alpha: float
    fit_intercept: bool
    classes: int

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def concordance(self) -> float:
        """Twice the largest change of a score bounds the range of the changes."""
        return 2.0

    def value(self, y: Floats, scores: Floats) -> Floats:
        return logsumexp(scores, axis=-1) - np.take_along_axis(scores, _places(y), axis=-1)[..., 0]

    def residuals(self, y: Floats, scores: Floats) -> Floats:
        """``pi - e_y``, that of y by the others' probabilities: it keeps its digits when the fit is sure of itself."""
        found = softmax(scores, axis=-1)
        np.put_along_axis(found, _places(y), 0.0, axis=-1)
        np.put_along_axis(found, _places(y), -found.sum(axis=-1, keepdims=True), axis=-1)
        return found

    def residual_changes(self, y: Floats, scores: Floats, step: Floats) -> Floats:
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
        K, p = self.classes, len(theta) // self.classes
        scores = self.scores(X, theta[None])[:, 0]
        pi, hessian = softmax(scores, axis=1), np.zeros((K, p, K, p))
        x = design(X, self.fit_intercept)
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

    def penalised(self, theta: Floats, n: float) -> tuple[float, Floats, Floats]:
        P = self._penalty(len(theta))
        return float(theta @ P @ theta) / 2, P @ theta, P

    def penalty_change(self, theta: Floats, D: Floats, n: float) -> Floats:
        return D @ self._penalty(len(theta))

    def penalty_rounding(self, theta: Floats, n: float) -> Floats:
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


#: Numbers in one temporary. Changes only speed.
PIECE = 1 << 20
#: Radii that are tabulated. Changes the width.
RADII = 3


@dataclass(frozen=True, slots=True)
class Sharpest:
    """Over some rows: the largest sharpness, the largest |gradient|_{H^-1}, and ``sum_j sqrt(sharpness_j) Z S Z'``."""

    sharpness: float
    a: float
    weighted: Floats
    finite = True

    def __add__(self, other: Sharpest) -> Sharpest:
        return Sharpest(max(self.sharpness, other.sharpness), max(self.a, other.a), self.weighted + other.weighted)


@dataclass(frozen=True, slots=True)
class Blocks:
    """K x K leverages of some people, and what their losses are made of."""

    V: tuple[Floats, Floats, Floats]
    root: Floats  #: R with S = R R'
    residuals: Floats

    @property
    def sharpness(self) -> Floats:
        """``max_{k,m} (e_k - e_m)'V(e_k - e_m)`` of each person."""
        V = self.V[0]
        diagonal = np.einsum("nkk->nk", V)
        return (diagonal[:, :, None] + diagonal[:, None, :] - 2 * V).max(axis=(1, 2))


def _blocks(fit: SmoothFit, around: Whitening, X: NDArray, y: Floats) -> Blocks:
    objective, nu = fit.objective, around.nu[:, None]
    scores, t = objective.scores(X, fit.theta[None])[:, 0], objective.lift(X, around.T)
    left = t.transpose(0, 2, 1)
    V = (left @ t, left @ (nu * t), left @ (nu * nu * t))
    return Blocks(V, objective.root(y, scores), objective.residuals(y, scores))


def _runs(n: int, fit: SmoothFit) -> list[slice]:
    rows = max(16, PIECE // (fit.objective.classes * len(fit.theta)))
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]


def sharpest(block: Block, fit: SmoothFit, around: Whitening) -> Sharpest:
    """Find what the certificates of everybody need of a block."""
    K, p = fit.objective.classes, len(fit.theta) // fit.objective.classes
    top, steep, weighted = 0.0, 0.0, np.zeros((K, p, K, p))
    for run in _runs(len(block.X), fit):
        x = design(block.X[run], fit.objective.fit_intercept)
        b = _blocks(fit, around, block.X[run], block.y[run])
        sharp = b.sharpness
        top = max(top, float(sharp.max(initial=0.0)))
        a = np.sqrt(np.einsum("nk,nkm,nm->n", b.residuals, b.V[0], b.residuals))
        steep = max(steep, float(a.max(initial=0.0)))
        weight = np.sqrt(sharp)[:, None, None] * (b.root @ b.root.transpose(0, 2, 1))
        for k in range(K):
            for m in range(K):
                weighted[k, :, m, :] += (x * weight[:, k, m, None]).T @ x
    return Sharpest(top, steep, weighted.reshape(K * p, K * p))


def bound_softmax(sweep: Sweep, fit: SmoothFit, around: Whitening) -> HessianBounds:
    """Fold for the constants of all certificates."""
    found: Sharpest = sweep.fold(partial(sharpest, fit=fit, around=around))
    slack = 1 + 4 * around.error
    c = float(np.sqrt(slack * found.sharpness))
    theta = slack * float(np.linalg.eigvalsh(around.T @ found.weighted @ around.T.T)[-1])
    radii = (1.5 * found.a + 10 * fit.decrement + LEAST_RADIUS) * 0.2 ** np.arange(RADII)[::-1]
    # the rise along a step of length r within rho is at most (r/rho) times that at rho, which is convex
    s = c * radii
    with np.errstate(over="ignore"):
        steeper = np.where(s > 0, 2 * (exprel(s) - 1) / np.where(s > 0, s, 1.0), 1.0)
    return HessianBounds(1.0, c, np.asarray(radii), theta * np.maximum(steeper, 1.0))


def softmax_sensitivity(model: SmoothModel, X: NDArray, y: Floats, inside: bool, bounded: bool = True) -> Sensitivity:
    """Map: distances of the people of one block, upper bounds or (not ``bounded``) estimates."""
    fit = model.fit
    if (X.shape[1] + int(fit.objective.fit_intercept)) * fit.objective.classes != len(fit.theta):
        raise InvalidInput(f"the model has another number of features than these rows, which have {X.shape[1]}")
    bounds = model.inside.hessian_bounds if bounded else None
    parts = [_piece(model, bounds, X[run], y[run], inside) for run in _runs(len(X), fit)]
    columns = [np.concatenate([np.zeros(0), *column]) for column in zip(*parts, strict=True)] or [np.zeros(0)] * 3
    opened = np.full(len(X), True) if model.kind == "exact" else ~np.isfinite(columns[0])
    return Sensitivity(columns[0], columns[1], columns[2], opened)


def _piece(
    model: SmoothModel, bounds: HessianBounds | None, X: NDArray, y: Floats, inside: bool
) -> tuple[Floats, Floats, Floats]:
    around, sign = model.inside.around, -1 if inside else 1
    b = _blocks(model.fit, around, X, y)
    V, V1, V2 = b.V
    eye = np.eye(V.shape[1])
    # the largest leverage of the block
    M: Floats = np.asarray(np.linalg.eigvalsh(b.root.transpose(0, 2, 1) @ V @ b.root)[:, -1], dtype=np.float64)
    thin = max(THIN, 1e3 * around.error) > 1 - M if inside else ~(HEAVY > 1 + M) | around.unusable
    root = np.where(thin[:, None, None], 0.0, b.root)
    left = root.transpose(0, 2, 1)
    S, N = root @ left, -sign * root @ np.linalg.inv(eye + sign * left @ V @ root) @ left
    # Delta = H^-1 Z u; g + N V g would cancel for somebody who joins
    u = np.asarray(np.linalg.solve(eye + sign * S @ V, b.residuals[:, :, None]), dtype=np.float64)
    Vu, along = V @ u, V1 @ u
    a = np.sqrt(np.maximum(_quadratic(u, V, u) + sign * _quadratic(Vu, S, Vu), 0))
    size = np.sqrt(np.maximum(_quadratic(u, V1, u), 0))
    inflation: Floats = 1 / np.where(thin, 1.0, 1 - M) if inside else np.ones(len(M))
    leverage = M * inflation if inside else M
    # one number for the residual of a vector: the probability of the other classes, signed like y - mean
    residual = -np.take_along_axis(b.residuals, y.astype(np.intp)[:, None], axis=1)[:, 0] * inflation
    if bounds is None:
        return np.asarray(np.where(thin, np.inf, size), dtype=np.float64), leverage, residual
    dual = np.sqrt(np.maximum(_quadratic(u, V2, u) + float(inside) * _quadratic(along, N, along), 0))
    lam = around.nu[-1] + np.maximum(np.einsum("nkm,nmk->n", N, V1), 0) * float(inside)
    # what T is off moves the step by as much of its own length, in whatever direction
    off = model.inside.gradient_bound * np.sqrt(inflation) + around.lost * inflation * a
    step = Step(a + off, size + np.sqrt(lam) * off, dual + lam * off, lam, inflation)
    own = None
    if not inside:
        sharp = b.sharpness  # in H, an upper bound of that in G
        # their own block is at most M of H and changes within e^{+-sqrt(sharp) r}: third h^1.5 = M sqrt(sharp) e^(...)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            third = np.where(sharp > 0, M / sharp * np.exp(np.outer(bounds.radius, np.sqrt(sharp))), 0.0)
        own = OwnRow(sharp, M, third)
    found = distance_bound(step, step_ball(bounds, step.a, inflation, own)) + 2 * np.sqrt(lam) * off
    distance = np.where(thin, np.inf, (1 + 16 * around.error * inflation) * found)
    return np.asarray(distance, dtype=np.float64), leverage, residual


def _quadratic(u: Floats, M: Floats, v: Floats) -> Floats:
    return (u.transpose(0, 2, 1) @ M @ v)[:, 0, 0]


@dataclass(frozen=True, slots=True)
class ClassifierProblem:
    """LogisticRegression: ``sum l + alpha |W|^2 / 2``; how many classes there are is found in the data."""

    moved: ClassVar[MovedByPerson] = "smooth"
    alpha: float
    fit_intercept: bool
    penalize_intercept: bool = False
    fitted: tuple[tuple[float, ...], ...] | None = None

    def binary(self) -> SmoothProblem:
        """Return the model of two classes."""
        objective = SmoothObjective(
            Logistic(),
            RidgePenalty(self.alpha),
            self.fit_intercept,
            penalize_intercept=self.fit_intercept and self.penalize_intercept,
        )
        return SmoothProblem(objective, None if self.fitted is None else self.fitted[0])

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> Any:
        """Minimise the objective of everyone and fold for what the certificates need."""
        check_method(method)
        classes: Classes = sweep.fold(classes_of)
        K = len(classes.labels)
        if K < 2:
            raise InvalidInput(f"a classifier needs two classes or more, got {K}")
        if K > 2 and not all(label.is_integer() for label in classes.labels):
            raise InvalidInput(
                f"a classifier's target is classes, got {K} numbers that are not whole; choose a regression"
            )
        if K == 2:
            return self.binary().fit(sweep, precision, method)
        if self.penalize_intercept:
            raise RefusedModel("liblinear fits several classes one against the rest; use solver='lbfgs'")
        coded, objective = CodedSweep(sweep, classes), SoftmaxObjective(self.alpha, self.fit_intercept, K)
        start = np.zeros(K * (sweep.n_features + int(self.fit_intercept)))
        fit = minimum_of(Folded(coded, objective, None, sum(classes.counts)), start)
        check_fitted(coded, fit, self.fitted)
        around, kind = fit.whitening(precision), kind_asked(method, fit)
        bounds = bound_softmax(coded, fit, around) if kind == "upper" else None
        side = Neighbourhood(around, np.zeros_like(start), fit.gradient_bound(around), bounds)
        return MinimumAudit(SmoothModel(fit, precision, kind, side, side), classes)

    def movement(self, fit: MinimumAudit, block: Block, inside: bool = True) -> Movement:
        """Map: the people of one block."""
        if isinstance(fit, SmoothAudit):
            return self.binary().movement(fit, block, inside)
        codes = fit.codes(block.y)
        return fit.movement(softmax_sensitivity(fit.model, block.X, codes, inside), codes, inside)

    def refine(self, fit: MinimumAudit, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Refit without (or with) each of these people."""
        if isinstance(fit, SmoothAudit):
            return self.binary().refine(fit, sweep, block, inside)
        first = softmax_sensitivity(fit.model, block.X, fit.codes(block.y), inside, bounded=False)
        return fit.refitted(first, sweep, block, inside)
