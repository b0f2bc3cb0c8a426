"""Per-instance sensitivity of a smooth fit: what the audit's map asks for each block of people.

Inside, G = H - l''_i x x' (minus R'' when the penalty belongs to the people); for an outsider, plus. With the whitening
``t = T x`` of the common part of G, everything is a sum over t: no solve per person.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.base import Loss
from perinstance.models.losses.penalised_objective import design, predictor
from perinstance.models.smooth.certificates.hessian_bounds import HessianBounds, bound_hessian
from perinstance.models.smooth.certificates.near_knot_step import undecided_by_size
from perinstance.models.smooth.certificates.newton_step_ball import OwnRow, Step, distance_bound, step_ball
from perinstance.models.smooth.certificates.second_step import PeopleNearFit
from perinstance.models.smooth.fit.objective_folds import SmoothFit, slope_rounding
from perinstance.models.smooth.fit.whitening import Whitening, whiten
from perinstance.models.smooth.products_of_rows import Multipliers, RowProducts, row_products
from perinstance.numerics.array_types import Floats
from perinstance.pairs.interface.kinds import Kind

#: with less than this left of a person's information in the others, only a refit is trusted
THIN = 1e-4
#: with more than this times the others' information in one direction, one person settles it alone: a refit again
HEAVY = 1e6
#: numbers in the largest temporary: it stays in the second-level cache, and a call's overhead does not show
PIECE = 1 << 18
#: a bound that is longer than the first step by more than this factor is worth a second correction
LOOSE = 1.01


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
    own = fit.objective.penalty_curvature(fit.theta) if fit.objective.mean else None
    inside = _neighbourhood(sweep, fit, precision, kind, own, -1)
    outside = inside if own is None else _neighbourhood(sweep, fit, precision, kind, own, +1)
    return SmoothModel(fit, precision, kind, inside, outside)


def _neighbourhood(
    sweep: Sweep, fit: SmoothFit, precision: Floats | None, kind: Kind, own: Floats | None, sign: int
) -> Neighbourhood:
    H = fit.hessian if own is None else fit.hessian + sign * np.diag(own)
    around = whiten(H, precision, fit.chain)
    gradient = fit.objective.penalty_slope(fit.theta) if fit.objective.mean else np.zeros_like(fit.theta)
    return Neighbourhood(
        around,
        around.T @ gradient,
        fit.gradient_bound(around),
        bound_hessian(fit.walk(sweep), fit, around) if kind == "upper" else None,
    )


def sensitivity(model: SmoothModel, X: NDArray, y: NDArray, inside: bool = True) -> Sensitivity:
    """Map: distances of the people of one block, upper bounds or estimates."""
    fit = model.fit
    if X.shape[1] + int(fit.objective.fit_intercept) != len(fit.theta):
        raise InvalidInput(f"the model has another number of features than these rows, which have {X.shape[1]}")
    rows, by = max(256, PIECE // len(fit.theta)), multipliers(model, inside)
    with np.errstate(over="ignore", invalid="ignore"):  # of an outsider so far out that only a refit can tell
        runs = (slice(i, i + rows) for i in range(0, len(X), rows))
        return _joined([_piece(model, row_products(by, X[run], y[run]), inside) for run in runs])


def sensitivity_of(model: SmoothModel, products: RowProducts, inside: bool = True) -> Sensitivity:
    """Return the same of people whose products were computed elsewhere."""
    with np.errstate(over="ignore", invalid="ignore"):
        starts = range(0, len(products), PIECE // 8)
        return _joined([_piece(model, products[i : i + PIECE // 8], inside) for i in starts])


def multipliers(model: SmoothModel, inside: bool) -> Multipliers:
    """Return what rows are multiplied by."""
    side, fit = model.inside if inside else model.outside, model.fit
    nu, kinked = side.around.nu, not np.isfinite(fit.objective.loss.concordance)
    powers = np.stack([np.ones_like(nu), nu, nu * nu], axis=1)
    share = powers * side.share[:, None] if side.share.any() else None
    # the rounding of an insider's own slope is part of the fit's; at a knot it decides which side they are on
    sizes = kinked or (not inside and side.hessian_bounds is not None)
    return Multipliers(fit.theta, side.around.T, powers, share, None, fit.objective.fit_intercept, sizes)


def _joined(parts: list[Sensitivity]) -> Sensitivity:
    if not parts:
        none = np.zeros(0)
        return Sensitivity(none, none, none, np.zeros(0, dtype=bool))
    return Sensitivity(
        np.concatenate([p.distance for p in parts]),
        np.concatenate([p.leverage for p in parts]),
        np.concatenate([p.residual for p in parts]),
        np.concatenate([p.open for p in parts]),
    )


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """The first Newton step Delta = G^-1 q of some people, and what its norms are made of: one entry each."""

    y: Floats
    eta: Floats
    slope: Floats
    curvature: Floats
    h: Floats  #: x'H^-1x
    left: Floats  #: det G / det H; 1 where ``thin``
    thin: NDArray[np.bool_]  #: only a refit is trusted
    a2: Floats  #: squared: |q| in the G^-1 norm
    size2: Floats  #: squared: |Delta|_A
    dual2: Floats  #: squared: |A Delta| in the G^-1 norm
    lam: Floats  #: bound on the largest eigenvalue of A relative to G


def _first_steps(fit: SmoothFit, side: Neighbourhood, products: RowProducts, inside: bool) -> FirstSteps:
    loss, nu = fit.objective.loss, side.around.nu
    target, eta = products.y, products.eta
    l1, l2 = loss.derivatives(target, eta)
    cross = np.zeros((len(target), 3)) if products.cross is None else products.cross
    whole = side.share**2 @ np.stack([np.ones_like(nu), nu, nu * nu], axis=1)
    h0, h1, h2 = products.squares.T

    sign = -1.0 if inside else 1.0
    left = 1 + sign * l2 * h0  # what remains without somebody who leaves
    thin = left < max(THIN, 1e3 * side.around.error) if inside else ~(left < HEAVY) | side.around.unusable
    if not np.isfinite(loss.concordance):  # rounding decides whether H has the person's curvature
        assert products.size is not None
        thin = thin | undecided_by_size(loss.knot_distance(target, eta), target, products.size)
    left = np.where(thin, 1.0, left)
    k = -sign * l2 / left  # G^-1 = T'(I + k t t')T
    # whitened, q is l' t + share, so Delta is b t + share: nothing cancels, however large the curvature is
    b = (l1 - sign * l2 * cross[:, 0]) / left
    d0, d1, d2 = (b * b * h + 2 * b * x + w for h, x, w in zip((h0, h1, h2), cross.T, whole, strict=True))
    inner, along = (l1 * h0 + cross[:, 0]) / left, b * h1 + cross[:, 1]  # t'Delta, t'nu Delta
    a2 = np.maximum(d0 + sign * l2 * inner * inner, 0)
    dual2 = np.maximum(d2 + np.maximum(k, 0) * along * along, 0)  # k < 0, for somebody who joins, only shortens it
    lam = nu[-1] + np.maximum(k, 0) * h1
    return FirstSteps(target, eta, l1, l2, h0, left, thin, a2, np.maximum(d1, 0), dual2, lam)


def _piece(model: SmoothModel, products: RowProducts, inside: bool) -> Sensitivity:
    side = model.inside if inside else model.outside
    first = _first_steps(model.fit, side, products, inside)
    leverage = first.curvature * first.h / first.left if inside else first.curvature * first.h
    residual = -first.slope / first.left if inside else -first.slope
    if side.hessian_bounds is None:
        distance = np.sqrt(first.size2)
        # where almost nothing is left without the person, even an estimate needs the refit
        opened = first.thin | (model.kind == "exact")
        return Sensitivity(np.where(first.thin, np.inf, distance), leverage, residual, opened)
    distance = _bounded(model, side, products, first, inside)
    return Sensitivity(distance, leverage, residual, ~np.isfinite(distance))


def _bounded(model: SmoothModel, side: Neighbourhood, products: RowProducts, first: FirstSteps, inside: bool) -> Floats:
    """Bound the distances; inf where only a refit can tell."""
    assert side.hessian_bounds is not None
    loss, lam, inflation = model.fit.objective.loss, first.lam, np.maximum(1 / first.left, 1.0)
    # what T is off moves the step by as much of its own length, in whatever direction
    off = side.gradient_bound * np.sqrt(inflation) + side.around.lost * inflation * np.sqrt(first.a2)
    if not inside:  # the rounding of an insider's own slope is part of the fit's
        assert products.size is not None
        lost = slope_rounding(first.slope, first.curvature, products.size, len(model.fit.theta))
        off = off + lost * np.sqrt(first.h / first.left)
    step = Step(
        np.sqrt(first.a2) + off,
        np.sqrt(first.size2) + np.sqrt(lam) * off,
        np.sqrt(first.dual2) + lam * off,
        lam,
        inflation,
    )
    own, third = None, np.asarray(np.inf)
    if not inside:
        own = _own(side.hessian_bounds, loss, first.y, first.eta, first.h / first.left, first.curvature)
    if side.hessian_bounds.second is not None:
        third = np.abs(loss.third(first.y, first.eta)) * first.h**1.5
    found = distance_bound(step, step_ball(side.hessian_bounds, step.a, inflation, own, third))
    slack = 1 + 16 * side.around.error * inflation
    distance = np.where(first.thin, np.inf, slack * (found + 2 * np.sqrt(lam) * off))
    if side.hessian_bounds.second is not None:
        loose = np.flatnonzero(~first.thin & ~(distance <= LOOSE * step.size))
        if len(loose):
            better = _corrected(model, side, products.X[loose], first.y[loose], inside)
            distance[loose] = np.minimum(distance[loose], slack[loose] * better)
    return distance


def _corrected(model: SmoothModel, side: Neighbourhood, X: NDArray, y: Floats, inside: bool) -> Floats:
    """Take a second step with the people whose first bound is loose or missing."""
    assert side.hessian_bounds is not None and side.hessian_bounds.second is not None
    objective = model.fit.objective
    x, sign = design(X, objective.fit_intercept), -1 if inside else 1
    t, eta = x @ side.around.T.T, x @ model.fit.theta
    l1, l2 = objective.loss.derivatives(y, eta)
    lost = np.zeros(len(y)) if inside else _slope_rounding(model.fit, X, l1, l2) * np.linalg.norm(t, axis=1)
    people = PeopleNearFit(sign, y, eta, t, -sign * (l1[:, None] * t + side.share), l2, lost)
    return side.hessian_bounds.second.distance(people, objective.loss, side.around, side.gradient_bound)


def _slope_rounding(fit: SmoothFit, X: NDArray, l1: Floats, l2: Floats) -> Floats:
    """Bound the rounding of each slope."""
    return slope_rounding(l1, l2, predictor(np.abs(X), np.abs(fit.theta), fit.objective.fit_intercept), len(fit.theta))


def _own(hessian_bounds: HessianBounds, loss: Loss, y: Floats, eta: Floats, h: Floats, curvature: Floats) -> OwnRow:
    radii = np.zeros(0) if hessian_bounds.average is None else hessian_bounds.average.radius
    third = [loss.largest_third(y, eta, rho * np.sqrt(h)) for rho in radii]
    return OwnRow(h, curvature, np.array(third).reshape(len(radii), len(y)))
