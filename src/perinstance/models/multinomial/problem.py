"""Per-instance sensitivity of (multinomial) logistic regression; two classes take the faster road of ``smooth``.

The certificate is that of ``newton_step_ball`` with blocks for scalars: ``V = (I (x) x)'H^-1 (I (x) x)`` is a K x K
leverage, and along any step D the person's Hessian stays within ``e^{+-range(D x)}``, because the third derivative of
logsumexp is a third central moment. So ``c = max_j max_{k,m} sqrt((e_k - e_m)'V_j(e_k - e_m))``, the rest is as before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import exprel

from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.class_labels import Classes, CodedSweep, classes_of
from perinstance.folds.sweep import Sweep, refits_told
from perinstance.models.interface.fit_health import FitHealth, ShowsNoValue
from perinstance.models.interface.problem import MovedByPerson, Movement
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective, design
from perinstance.models.losses.smooth import Logistic
from perinstance.models.multinomial.neighbour_refits import softmax_neighbours
from perinstance.models.multinomial.objective import (
    SoftmaxFolded,
    SoftmaxObjective,
    fit_softmax,
    row_slopes,
    softmax_gradient_rounding,
)
from perinstance.models.smooth.certificates import HessianBounds, OwnRow, Step, distance_bound, step_ball
from perinstance.models.smooth.movement_bounds import HEAVY, THIN
from perinstance.models.smooth.neighbour_refits import distances, refit_batch
from perinstance.models.smooth.newton import Minimum, Slopes
from perinstance.models.smooth.problem import SmoothAudit, SmoothProblem, kind_asked
from perinstance.models.smooth.whitening import Whitening, whiten
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import EXACT
from perinstance.numerics.rounding import LEAST_RADIUS
from perinstance.pairs.interface.kinds import Kind, check_method

#: numbers in one temporary
PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Sharpest:
    """Over some rows: the largest squared c, the largest |gradient|_{H^-1}, and ``sum_j c_j S_j (x) x_j x_j'``."""

    c: float
    a: float
    weighted: Floats
    finite = True

    def __add__(self, other: Sharpest) -> Sharpest:
        return Sharpest(max(self.c, other.c), max(self.a, other.a), self.weighted + other.weighted)


@dataclass(frozen=True, slots=True, repr=False)
class SoftmaxAudit(ShowsNoValue):
    """The confidential state of one audit."""

    objective: SoftmaxObjective
    minimum: Minimum
    classes: Classes
    around: Whitening
    gradient_rounding: float  #: what rounding may hide of the gradient, in whitened coordinates
    hessian_bounds: HessianBounds | None
    kind: Kind
    precision: Floats | None

    @property
    def theta(self) -> Floats:
        """K x p parameters, row by row."""
        return self.minimum.theta

    @property
    def gradient_norm(self) -> float:
        """The proof of stationarity."""
        return float(np.linalg.norm(self.minimum.slopes.gradient))

    @property
    def decrement(self) -> float:
        """The Newton decrement at theta."""
        return self.minimum.decrement

    @property
    def health(self) -> FitHealth:
        """How many people it was fitted with."""
        return FitHealth(self.minimum.slopes.n)

    @property
    def gram(self) -> None:
        """None: predictions are not linear in theta."""
        return None


@dataclass(frozen=True, slots=True)
class ClassifierProblem:
    """LogisticRegression: ``sum l + alpha |W|^2 / 2``; how many classes there are is found in the data."""

    alpha: float
    fit_intercept: bool
    penalize_intercept: bool = False
    fitted: tuple[tuple[float, ...], ...] | None = None

    @property
    def moved(self) -> MovedByPerson:
        """The coefficients."""
        return "smooth"

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
        coded = CodedSweep(sweep, classes)
        objective = SoftmaxObjective(self.alpha, self.fit_intercept, K)
        minimum = fit_softmax(coded, objective)
        if self.fitted is not None:
            _check_fitted(coded, objective, minimum, np.array(self.fitted))
        around = whiten(minimum.slopes.hessian, precision)
        kind = kind_asked(method, minimum.slopes.n, len(minimum.theta))
        hessian_bounds = _hessian_bounds(coded, objective, minimum, around) if kind == "upper" else None
        lost = around.norm_bound(softmax_gradient_rounding(coded, objective, minimum.theta))
        return SoftmaxAudit(objective, minimum, classes, around, lost, hessian_bounds, kind, precision)

    def movement(self, fit: Any, block: Block, inside: bool = True) -> Movement:
        """Map: the people of one block."""
        X, y = block.X, block.y
        if isinstance(fit, SmoothAudit):
            return self.binary().movement(fit, block, inside)
        codes = fit.classes.codes(y)
        found = _movement(fit, X, codes, inside)
        alone = fit.classes.alone(codes, inside)
        if not alone.any():
            return found
        opened = alone if found.open is None else found.open | alone
        return replace(found, distance=np.where(alone, np.inf, found.distance), open=opened)

    def refine(self, fit: Any, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Refit without (or with) each of these people."""
        X, y = block.X, block.y
        if isinstance(fit, SmoothAudit):
            return self.binary().refine(fit, sweep, block, inside)
        codes = fit.classes.codes(y)
        first = _movement(fit, X, codes, inside)
        coded = CodedSweep(sweep, fit.classes)
        moved, tell = [], refits_told(coded)
        for part in softmax_neighbours(fit.objective, fit.minimum, fit.around, fit.precision, coded, X, codes, inside):
            refits = refit_batch(part)
            error = refits.error + 2 * part.stretch() * fit.gradient_rounding
            moved.append(distances(replace(refits, error=error), fit.precision))
            tell(sum(len(m.value) for m in moved), len(X))
        alone = fit.classes.alone(codes, inside)  # without them a class is gone: nothing to publish
        distance = np.where(alone, np.inf, np.concatenate([np.zeros(0), *(m.value for m in moved)]))
        kind_code = np.where(alone, EXACT, np.concatenate([np.zeros(0, np.uint8), *(m.kind_code for m in moved)]))
        return Movement(first.leverage, first.residual, distance, kind_code)


def _check_fitted(sweep: Sweep, objective: SoftmaxObjective, minimum: Minimum, rows: Floats) -> None:
    if rows.size != minimum.theta.size:
        raise InvalidInput("the estimator was fitted to other classes or features; pass it unfitted")
    there: Slopes = SoftmaxFolded(sweep, objective, None).at(rows.ravel())
    if not there.value - minimum.slopes.value <= max(0.5, 1e-3 * abs(minimum.slopes.value)):
        raise InvalidInput(
            "the fitted estimator is not at the minimum of its objective on this data; pass the data it was fitted "
            "on, fit it to a smaller tol, or pass it unfitted"
        )


@dataclass(frozen=True, slots=True)
class Blocks:
    """K x K leverages of some people, and what their losses are made of."""

    V: tuple[Floats, Floats, Floats]  #: Z'H^-1Z, Z'H^-1AH^-1Z, Z'H^-1AH^-1AH^-1Z, Z = I (x) x
    S: Floats  #: (n, K, K)
    residual: Floats  #: pi - e_y

    @property
    def sharpness(self) -> Floats:
        """``max_{k,m} (e_k - e_m)'V(e_k - e_m)`` of each person."""
        V = self.V[0]
        diagonal = np.einsum("nkk->nk", V)
        return (diagonal[:, :, None] + diagonal[:, None, :] - 2 * V).max(axis=(1, 2))


def _blocks(objective: SoftmaxObjective, minimum: Minimum, around: Whitening, x: Floats, t: NDArray[np.intp]) -> Blocks:
    K, p = objective.classes, x.shape[1]
    rows = row_slopes(x, t, minimum.theta.reshape(K, p))
    TZ = (x @ around.T.reshape(-1, p).T).reshape(len(x), K * p, K)  # (n, Kp, K)
    left = TZ.transpose(0, 2, 1)
    nu = around.nu[:, None]
    V = (left @ TZ, left @ (nu * TZ), left @ (nu * nu * TZ))
    S = np.einsum("nk,km->nkm", rows.pi, np.eye(K)) - rows.pi[:, :, None] * rows.pi[:, None, :]
    return Blocks(V, S, rows.residual)


def _runs(n: int, width: int) -> list[slice]:
    rows = max(16, PIECE // width)
    return [slice(i, min(i + rows, n)) for i in range(0, n, rows)]


def _sharpest(block: Block, objective: SoftmaxObjective, minimum: Minimum, around: Whitening) -> Sharpest:
    X, y = block.X, block.y
    K, p = objective.classes, objective.width(X.shape[1])
    top, steep, weighted = 0.0, 0.0, np.zeros((K, p, K, p))
    for run in _runs(len(X), K * K * p):
        x = design(X[run], objective.fit_intercept)
        b = _blocks(objective, minimum, around, x, np.asarray(y[run]).astype(np.intp))
        sharp = b.sharpness
        top = max(top, float(sharp.max(initial=0.0)))
        a = np.sqrt(np.einsum("nk,nkm,nm->n", b.residual, b.V[0], b.residual))
        steep = max(steep, float(a.max(initial=0.0)))
        weight = np.sqrt(sharp)[:, None, None] * b.S
        for k in range(K):
            for m in range(K):
                weighted[k, :, m, :] += (x * weight[:, k, m, None]).T @ x
    return Sharpest(top, steep, weighted.reshape(K * p, K * p))


def _hessian_bounds(sweep: Sweep, objective: SoftmaxObjective, minimum: Minimum, around: Whitening) -> HessianBounds:
    found: Sharpest = sweep.fold(partial(_sharpest, objective=objective, minimum=minimum, around=around))
    slack = 1 + 4 * around.error
    c = float(np.sqrt(slack * found.c))
    theta = slack * float(np.linalg.eigvalsh(around.T @ found.weighted @ around.T.T)[-1])
    radii = (1.5 * found.a + 10 * minimum.decrement + LEAST_RADIUS) * 0.2 ** np.arange(3)[::-1]
    # the rise along a step of length r within rho is at most (r/rho) times that at rho, which is convex
    s = c * radii
    with np.errstate(over="ignore"):
        steeper = np.where(s > 0, 2 * (exprel(s) - 1) / np.where(s > 0, s, 1.0), 1.0)
    return HessianBounds(1.0, c, np.asarray(radii), theta * np.maximum(steeper, 1.0))


def _movement(fit: SoftmaxAudit, X: NDArray, y: Floats, inside: bool) -> Movement:
    K, p = fit.objective.classes, fit.objective.width(X.shape[1])
    if K * p != len(fit.theta):
        raise InvalidInput(f"the model has another number of features than these rows, which have {X.shape[1]}")
    parts = [
        _piece(fit, design(X[run], fit.objective.fit_intercept), y[run], inside) for run in _runs(len(X), K * K * p)
    ]
    columns = [np.concatenate([np.zeros(0), *column]) for column in zip(*parts, strict=True)] or [np.zeros(0)] * 3
    leverage, residual, distance = columns
    kind = np.full(len(distance), "estimate" if fit.kind == "estimate" else "upper")
    opened = np.full(len(distance), True) if fit.kind == "exact" else ~np.isfinite(distance)
    return Movement(leverage, residual, distance, kind, opened if opened.any() else None)


def _piece(fit: SoftmaxAudit, x: Floats, y: Floats, inside: bool) -> tuple[Floats, Floats, Floats]:
    b = _blocks(fit.objective, fit.minimum, fit.around, x, y.astype(np.intp))
    V, V1, V2 = b.V
    sign = -1 if inside else 1
    K = b.S.shape[1]
    values, Q = np.linalg.eigh(b.S)
    root = (Q * np.sqrt(np.maximum(values, 0))[:, None, :]) @ Q.transpose(0, 2, 1)
    M = np.linalg.eigvalsh(root @ V @ root)[:, -1]  # the largest leverage of the block
    thin = max(THIN, 1e3 * fit.around.error) > 1 - M if inside else ~(HEAVY > 1 + M) | fit.around.unusable
    safe = np.where(thin[:, None, None], 0.0, root)
    N = -sign * safe @ np.linalg.inv(np.eye(K) + sign * safe @ V @ safe) @ safe  # G^-1 = H^-1 + H^-1 Z N Z'H^-1
    g = b.residual[:, :, None]
    S = np.where(thin[:, None, None], 0.0, b.S)
    # Delta = H^-1 Z u; g + N V g would cancel for somebody who joins
    u = np.asarray(np.linalg.solve(np.eye(K) + sign * S @ V, g), dtype=np.float64)
    Vu, along = V @ u, V1 @ u
    a2 = _quadratic(u, V, u) + sign * _quadratic(Vu, S, Vu)
    size2 = _quadratic(u, V1, u)
    dual2 = _quadratic(u, V2, u) + float(inside) * _quadratic(along, N, along)
    lam = fit.around.nu[-1] + np.maximum(np.einsum("nkm,nmk->n", N, V1), 0) * float(inside)
    inflation = 1 / np.where(thin, 1.0, 1 - M) if inside else np.ones(len(M))
    leverage = M * inflation if inside else M
    # one number for the residual of a vector: the probability of the other classes, signed like y - mean
    residual = -b.residual[np.arange(len(y)), y.astype(np.intp)] * inflation
    if fit.hessian_bounds is None:
        return leverage, residual, np.where(thin, np.inf, np.sqrt(np.maximum(size2, 0)))
    gradient_bound = (fit.minimum.decrement + fit.gradient_rounding) * np.sqrt(inflation)
    # what T is off moves the step by as much of its own length, in whatever direction
    gradient_bound += fit.around.lost * inflation * np.sqrt(np.maximum(a2, 0))
    step = Step(
        np.sqrt(np.maximum(a2, 0)) + gradient_bound,
        np.sqrt(np.maximum(size2, 0)) + np.sqrt(lam) * gradient_bound,
        np.sqrt(np.maximum(dual2, 0)) + lam * gradient_bound,
        lam,
        inflation,
    )
    own = None
    if not inside:
        sharp = b.sharpness  # in H, an upper bound of that in G
        # their own block is at most M of H and changes within e^{+-sqrt(sharp) r}: third h^1.5 = M sqrt(sharp) e^(...)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            third = np.where(sharp > 0, M / sharp * np.exp(np.outer(fit.hessian_bounds.radius, np.sqrt(sharp))), 0.0)
        own = OwnRow(sharp, M, third)
    found = distance_bound(step, step_ball(fit.hessian_bounds, step.a, inflation, own))
    distance = (1 + 16 * fit.around.error * inflation) * (found + 2 * np.sqrt(lam) * gradient_bound)
    return leverage, residual, np.where(thin, np.inf, distance)


def _quadratic(u: Floats, M: Floats, v: Floats) -> Floats:
    return (u.transpose(0, 2, 1) @ M @ v)[:, 0, 0]
