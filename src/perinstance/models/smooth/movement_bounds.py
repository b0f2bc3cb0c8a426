"""Per-instance sensitivity of a smooth fit: what the audit's map asks for each block of people.

Inside, G = H - l''_i x x' (minus R'' when the penalty belongs to the people); for an outsider, plus. With the whitening
``t = T x`` of the common part of G, everything is arithmetic on a few products of each row (``RowProducts``): no solve
per person. Each product is a sum of p terms, of which any order and any use of fused multiply-adds loses at most
``p u`` of the absolute values, so an engine may compute them wherever the rows are; the bounds charge for that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import predictor, slope_rounding
from perinstance.models.smooth.certificates import (
    HessianBounds,
    Step,
    bound_hessian,
    distance_bound,
    own_row,
    step_ball,
    undecided,
)
from perinstance.models.smooth.newton import Whitening, whiten
from perinstance.models.smooth.objective_folds import SmoothFit
from perinstance.numerics.array_types import Floats
from perinstance.pairs.kinds import Kind

#: With less than this left of a person's information in the others, only a refit is trusted. Changes the width.
THIN = 1e-4
#: With more than this times the others' information in one direction, only a refit is trusted. Changes the width.
HEAVY = 1e6
#: Numbers in the largest temporary, which stays in the second-level cache. Changes only speed.
PIECE = 1 << 18


@dataclass(frozen=True, slots=True)
class RowProducts:
    """One entry, or row, per person."""

    y: Floats
    eta: Floats  #: x'theta
    squares: Floats  #: (people, 3): ``sum_k nu_k^j t_k^2``; the first is x'H^-1x
    cross: Floats | None  #: (people, 3): ``sum_k nu_k^j t_k share_k``
    size: Floats | None  #: |x|'|theta|, where it is wanted


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """All that is common to the neighbours on one side (people out, or people in)."""

    around: Whitening  #: of H -+ R'' (the person's own share of a penalty that belongs to the people)
    share: Floats  #: T times that share's gradient; zeros when the penalty is not shared
    gradient_bound: float  #: |what is left of the gradient, and its rounding|, in whitened coordinates
    hessian_bounds: HessianBounds | None


@dataclass(frozen=True, slots=True)
class SmoothModel:
    """A fit and the two neighbourhoods: the state of a confidential audit."""

    fit: SmoothFit
    precision: Floats | None
    kind: Kind
    inside: Neighbourhood
    outside: Neighbourhood


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One entry per person."""

    distance: Floats  #: |theta_with - theta_without| in the norm of the precision; inf where open
    leverage: Floats  #: l'' x'G^-1x, the out-of-sample leverage
    residual: Floats  #: -l' taken out of sample to first order
    open: NDArray[np.bool_]  #: wants an exact refit


def prepare(sweep: Sweep, fit: SmoothFit, precision: Floats | None = None, kind: Kind = "upper") -> SmoothModel:
    """Fold for the constants of the certificates (nothing to fold for the other kinds)."""
    objective = fit.objective
    own = objective.penalty_curvature(fit.theta) if objective.mean else np.zeros_like(fit.theta)

    def side(sign: int) -> Neighbourhood:
        around = whiten(fit.hessian + sign * np.diag(own), precision, fit.chain)
        bounds = bound_hessian(fit.walk(sweep), fit, around) if kind == "upper" else None
        return Neighbourhood(around, around.T @ objective.penalty_share(fit.theta), fit.gradient_bound(around), bounds)

    inside = side(-1)
    return SmoothModel(fit, precision, kind, inside, side(+1) if objective.mean else inside)


def sensitivity(model: SmoothModel, X: NDArray, y: NDArray, inside: bool = True) -> Sensitivity:
    """Map: distances of the people of one block, upper bounds or estimates."""
    fit = model.fit
    if X.shape[1] + int(fit.objective.fit_intercept) != len(fit.theta):
        raise InvalidInput(f"the model has another number of features than these rows, which have {X.shape[1]}")
    rows = max(256, PIECE // len(fit.theta))
    with np.errstate(over="ignore", invalid="ignore"):  # of an outsider so far out that only a refit can tell
        runs = (slice(i, i + rows) for i in range(0, len(X), rows))
        return _joined([_piece(model, row_products(model, X[run], y[run], inside), inside) for run in runs])


def row_products(model: SmoothModel, X: NDArray, y: NDArray, inside: bool, sizes: bool = False) -> RowProducts:
    """Multiply some rows; ``sizes``: ``|x|'|theta|`` is wanted in any case."""
    side, fit = model.inside if inside else model.outside, model.fit
    nu, intercept = side.around.nu, fit.objective.fit_intercept
    powers, t = np.stack([np.ones_like(nu), nu, nu * nu], axis=1), predictor(X, side.around.T.T, intercept)
    cross = t @ (powers * side.share[:, None]) if side.share.any() else None
    np.multiply(t, t, out=t)
    # the rounding of an insider's own slope is part of the fit's; at a knot it decides which side they are on
    sizes = sizes or not np.isfinite(fit.objective.loss.concordance) or not (inside or side.hessian_bounds is None)
    size = predictor(np.abs(X), np.abs(fit.theta), intercept) if sizes else None
    eta = predictor(X, fit.theta, intercept)
    return RowProducts(np.asarray(y, dtype=np.float64), eta, t @ powers, cross, size)


def _joined(parts: list[Sensitivity]) -> Sensitivity:
    none = np.zeros(0)
    distance, leverage, residual = (
        np.concatenate([none, *(getattr(p, name) for p in parts)]) for name in ("distance", "leverage", "residual")
    )
    return Sensitivity(distance, leverage, residual, np.concatenate([np.zeros(0, bool), *(p.open for p in parts)]))


def _piece(model: SmoothModel, products: RowProducts, inside: bool) -> Sensitivity:
    """Take the first Newton step Delta = G^-1 q of each person, and bound what is left of the way."""
    side, loss = model.inside if inside else model.outside, model.fit.objective.loss
    around, bounds, nu = side.around, side.hessian_bounds, side.around.nu
    y, eta = products.y, products.eta
    l1, l2 = loss.derivatives(y, eta)
    cross = np.zeros((len(y), 3)) if products.cross is None else products.cross
    whole = side.share**2 @ np.stack([np.ones_like(nu), nu, nu * nu], axis=1)
    h0, h1, h2 = products.squares.T

    sign = -1.0 if inside else 1.0
    left = 1 + sign * l2 * h0  # det G / det H: what remains without somebody who leaves
    thin = left < max(THIN, 1e3 * around.error) if inside else ~(left < HEAVY) | around.unusable
    if not np.isfinite(loss.concordance):  # rounding decides whether H has the person's curvature
        assert products.size is not None
        thin = thin | undecided(loss, y, eta, products.size)
    left = np.where(thin, 1.0, left)
    # whitened, q is l' t + share, so Delta is b t + share: nothing cancels, however large the curvature is
    b = (l1 - sign * l2 * cross[:, 0]) / left
    d0, d1, d2 = (b * b * h + 2 * b * x + w for h, x, w in zip((h0, h1, h2), cross.T, whole, strict=True))
    size = np.sqrt(np.maximum(d1, 0))  # |Delta|_A
    leverage, residual = (l2 * h0 / left, -l1 / left) if inside else (l2 * h0, -l1)
    if bounds is None:
        # where almost nothing is left without the person, even an estimate needs the refit
        return Sensitivity(np.where(thin, np.inf, size), leverage, residual, thin | (model.kind == "exact"))

    inner, along = (l1 * h0 + cross[:, 0]) / left, b * h1 + cross[:, 1]  # t'Delta, t'nu Delta
    k = np.maximum(-sign * l2 / left, 0)  # G^-1 = T'(I + k t t')T; k < 0, for somebody who joins, only shortens
    a = np.sqrt(np.maximum(d0 + sign * l2 * inner * inner, 0))
    lam, inflation = nu[-1] + k * h1, np.maximum(1 / left, 1.0)
    # what T is off moves the step by as much of its own length, in whatever direction
    off = side.gradient_bound * np.sqrt(inflation) + around.lost * inflation * a
    own = None
    if not inside:  # the rounding of an insider's own slope is part of the fit's
        assert products.size is not None
        off = off + slope_rounding(l1, l2, products.size, len(nu)) * np.sqrt(h0 / left)
        own = own_row(bounds, loss, y, eta, h0 / left, l2)
    dual = np.sqrt(np.maximum(d2 + k * along * along, 0))
    step = Step(a + off, size + np.sqrt(lam) * off, dual + lam * off, lam, inflation)
    found = distance_bound(step, step_ball(bounds, step.a, inflation, own)) + 2 * np.sqrt(lam) * off
    distance = np.where(thin, np.inf, (1 + 16 * around.error * inflation) * found)
    return Sensitivity(distance, leverage, residual, ~np.isfinite(distance))
