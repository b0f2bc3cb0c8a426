"""Objective perturbation of logistic regression: ``theta = argmin F(theta) + b'theta``, ``b ~ N(0, s^2 I)``.

The map from theta to ``b = -grad F(theta)`` is one to one, so theta has the density ``phi_s(grad F) det H`` at theta.
For a person with row x, with F of everyone, f = grad F(theta) and ``m = l'' x'H^-1x`` at the released theta,

    L(theta) = log p_without/p_with = [2 l' x'f - l'^2 |x|^2] / (2 s^2) + log(1 - m)          (ex post, exact)

a linear term and a log-determinant. In either world one of the two gradients is the noise, so with
``z = x'noise/(s |x|)`` and ``D >= |l'| |x| / s`` the loss is at most ``max(D z + D^2/2, 0)`` without the person and
the same plus ``log(1 + mu)`` with the person (the sign of l' is fixed by the target). D and mu are bounded on an event
of probability 1 - tail on which theta stays close to the fit, by the certificate with ``q - b`` for q: a first step
and a ball,

    |x'(theta - fit)| <= centre (s z |G^-1x| + |x'Delta|) + half a sqrt(x'G^-1x),   a >= |b|_{G^-1} + |q|_{G^-1}.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import SmoothObjective, design, predictor
from perinstance.models.smooth.certificates import bound_hessian, own_row, step_ball
from perinstance.models.smooth.movement_bounds import (
    Neighbourhood,
    SmoothModel,
    row_products,
)
from perinstance.models.smooth.newton import Slopes, whiten
from perinstance.models.smooth.objective_folds import SmoothFit, slopes
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import HALF_UNIT, PERTURBATION_TAIL, PREDICTOR_ROUNDING, WHOLE_LEVERAGE

#: a person's own step, relative to the noise, that the tabulated radii leave room for
ROOM = 2.5


@dataclass(frozen=True, slots=True)
class Perturbed:
    """Bounds for each person: one entry each."""

    distance: Floats  #: D
    leverage: Floats  #: mu at most
    tail: Floats
    length: Floats  #: of the features, without an intercept


def check_perturbable(objective: SmoothObjective) -> None:
    """Refuse losses whose slope has no bound or no fixed sign, and those without a bound of the curvature's change."""
    loss = objective.loss
    stated = loss.slope_keeps_sign and np.isfinite([loss.slope_supremum, loss.curvature_supremum, loss.concordance])
    if not np.all(stated) or objective.mean:
        raise RefusedModel(
            "objective perturbation is known for ridge and logistic regression: the slope of a person's loss must "
            "have a bound and a fixed sign; use OutputPerturbation"
        )


def noise_radius(nu: Floats, scale: float) -> float:
    """Bound ``|b|`` in the H^-1 norm, up to half of the tail (Laurent and Massart 2000): ``|b|^2 = s^2 sum nu z^2``."""
    log = -np.log(PERTURBATION_TAIL / 2)
    return scale * float(np.sqrt(nu.sum() + 2 * np.sqrt((nu * nu).sum() * log) + 2 * nu[-1] * log))


def prepare_perturbed(sweep: Sweep, fit: SmoothFit, scale: float) -> SmoothModel:
    """Fold for the constants, tabulated as far out as the noise carries the minimum."""
    check_perturbable(fit.objective)
    around = fit.whitening()
    constants = bound_hessian(fit.walk(sweep), fit, around, ROOM * noise_radius(around.nu, scale))
    side = Neighbourhood(around, np.zeros_like(fit.theta), fit.gradient_bound(around), constants)
    return SmoothModel(fit, None, "upper", side, side)


def ex_post(sweep: Sweep, objective: SmoothObjective, theta: Floats, scale: float, X: NDArray, y: NDArray) -> Floats:
    """Return ``log p_without/p_with`` of each of these people of the data at a released theta: exact, confidential."""
    if objective.mean:
        raise RefusedModel("the penalty belongs to the people here (alpha weighs a mean); use OutputPerturbation")
    s: Slopes = sweep.fold(partial(slopes, objective=objective, theta=theta))
    k = objective.times(s.n)
    gradient = s.gradient + k * objective.penalty_slope(theta)
    around = whiten(s.hessian + np.diag(k * objective.penalty_curvature(theta)))
    x = design(X, objective.fit_intercept)
    l1, l2 = objective.loss.derivatives(np.asarray(y, dtype=np.float64), x @ theta)
    t = x @ around.T.T
    m = l2 * np.einsum("ij,ij->i", t, t)
    if (m >= WHOLE_LEVERAGE).any():
        raise InvalidInput("somebody alone determines a direction at this parameter; use a penalty: a finite C")
    square = np.einsum("ij,ij->i", x, x)
    return (2 * l1 * (x @ gradient) - l1 * l1 * square) / (2 * scale**2) + np.log1p(-m)


def perturbed(model: SmoothModel, X: NDArray, y: NDArray, scale: float, inside: bool = True) -> Perturbed:
    """Bound D and mu of each person in both worlds; where it cannot be done, by the loss's own bounds."""
    fit, objective = model.fit, model.fit.objective
    side = model.inside if inside else model.outside
    around, constants = side.around, side.hessian_bounds
    if constants is None:
        raise InvalidInput("objective perturbation of a smooth loss has upper bounds only; use method='upper'")
    products, intercept = row_products(model, X, y, inside, sizes=True), float(objective.fit_intercept)
    assert products.size is not None
    target, eta, n = products.y, products.eta, len(y)
    l1, l2 = objective.loss.derivatives(target, eta)
    nu = around.nu  # eigenvalues of H^-1 (the precision is the identity)
    h, h1, _ = products.squares.T
    h1 = (np.sqrt(h1) + np.sqrt(nu[-1]) * around.lost * np.sqrt(h)) ** 2  # H^-1 x where T is off, in whatever direction
    noise = noise_radius(nu, scale)
    z = -float(ndtri(PERTURBATION_TAIL / 4))  # the other half of the tail, for x'H^-1b
    with np.errstate(over="ignore", invalid="ignore"):
        cells = np.square(np.asarray(X, dtype=np.float64))
        features, length = np.sqrt(cells.sum(axis=1)), np.sqrt(cells.sum(axis=1) + intercept)

    # the smaller data set: without the person (inside), the fit's own (outside); the larger one vice versa
    left = np.maximum(1 - l2 * h, 0.0) if inside else 1 + l2 * h
    thin = (left < 1e-3) | around.unusable
    safe = np.where(thin, 1.0, left)
    f = 1 / safe if inside else np.ones(n)
    none = np.zeros(n)
    worlds = [(False, np.ones(n), h, h1, none)]  # the fit's own world: no step, only noise
    if inside:  # G = H - l'' x x'
        worlds.append((False, f, h * f, h1 * f * f, np.abs(l1)))
    else:  # G = H + l'' x x'
        worlds.append((True, f, h / safe, h1 / safe**2, np.abs(l1)))
    radius, shrink = np.zeros(n), np.ones(n)
    for joins, inflation, hG, h1G, slope in worlds:
        a = np.sqrt(inflation) * (noise + side.gradient_bound) + slope * np.sqrt(hG)
        own = own_row(constants, objective.loss, target, eta, hG, l2) if joins else None
        ball = step_ball(constants, a, inflation, own)
        centre, half = (1 / ball.low + 1 / ball.high) / 2, (1 / ball.low - 1 / ball.high) / 2
        with np.errstate(invalid="ignore"):
            first = scale * z * np.sqrt(h1G) + slope * hG + side.gradient_bound * np.sqrt(inflation * hG)
            moved = centre * first + half * a * np.sqrt(hG)
            radius = np.maximum(radius, np.where(np.isfinite(ball.radius), moved, np.inf))
            # curvature of H along the step: within e^{-c r} of that at the fit
            shrink = np.maximum(shrink, np.exp(constants.c * np.sqrt(inflation) * ball.radius))
    radius = np.where(thin, np.inf, radius) + PREDICTOR_ROUNDING * np.abs(eta)
    radius = radius + HALF_UNIT * (len(fit.theta) + 2) * products.size  # a sum of products, in any order
    steepest = objective.loss.largest_slope(target, eta, radius)
    without = h * f if inside else h
    with np.errstate(over="ignore", invalid="ignore"):
        mu = objective.loss.largest_curvature(target, eta, radius) * without * shrink
    weight, by_penalty = objective.penalty_curvature(np.zeros(len(fit.theta))), np.full(n, np.inf)
    if objective.penalty.concordance == 0 and (weight > 0).all():
        # l'' x'H^-1x with nothing but a quadratic penalty in H: what holds wherever theta is
        by_penalty = objective.loss.curvature_supremum * predictor(cells, 1 / weight, objective.fit_intercept)
    mu = np.minimum(np.where(np.isfinite(radius), mu, np.inf), by_penalty)
    slack = 1 + 16 * around.error * f
    return Perturbed(
        slack * steepest * length / scale, slack * mu, np.where(np.isfinite(radius), PERTURBATION_TAIL, 0.0), features
    )
