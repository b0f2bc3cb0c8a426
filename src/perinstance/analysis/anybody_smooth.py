"""pDP for everyone under output perturbation of a smooth model (logistic, Poisson, ...): certificates and refits.

Somebody who joins adds a gradient ``s z`` to that of the others' objective, ``|s| <= |l'(y, z'theta)|``. The plain
certificate needs nothing but what the fit has folded already: over a slice of ``eta = z'theta`` and all y of the domain
``|l'|`` is largest at a corner (l' grows with eta, by convexity, and is monotone in y), and ``z'H^-1z``,
``z'H^-1AH^-1z``, ``z'H^-1AH^-1AH^-1z`` are at most their trust-region maxima (``trust_region_slices``); each step of
``models.smooth.certificates`` grows with them. With the data at hand people who come close are refitted. The
certificate from above and the refit from below are some percent apart (2 to 15 at 400 to 1,000 people), more for
fifty.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from perinstance.analysis.branch_and_bound import Bracket, Found, shift_upper
from perinstance.analysis.declared_bounds import DeclaredBounds
from perinstance.analysis.trust_region_slices import Domain, ellipsoid, enclosing, slices
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.class_labels import CodedSweep
from perinstance.folds.sweep import Sweep
from perinstance.models.smooth.certificates import Step, distance_bound, step_ball
from perinstance.models.smooth.movement_bounds import prepare
from perinstance.models.smooth.newton import Slopes
from perinstance.models.smooth.objective_folds import slopes
from perinstance.models.smooth.problem import SmoothAudit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, PREDICTOR_ERROR, TINY
from perinstance.releases.base.release import mechanism_of

#: slices of the plain certificate
CELLS = 512
#: slices whose people are tried
TRIED = 8
#: lengths of rows that are tried, relative to the domain
LENGTHS = (1.0, 0.8, 0.6)
#: steps from the best of them, relative to the row, and directions tried at each
STEPS, DIRECTIONS = (0.2, 0.06, 0.02, 0.006), 16


def is_smooth(release: Any, fit: Any) -> bool:
    """Tell whether this is output perturbation of a smooth model, which has certificates."""
    mechanism = mechanism_of(release)
    return mechanism.family == "output" and mechanism.noise == "gaussian" and isinstance(fit, SmoothAudit)


def smooth_bracket(release: Any, fit: Any, delta: float, bounds: DeclaredBounds, sweep: Sweep | None) -> Bracket:
    """Return an epsilon for everybody in the domain, and somebody who comes close."""
    model = fit.model
    if sweep is not None:  # data that the model was not fitted on is refused
        coded = sweep if fit.classes is None else CodedSweep(sweep, fit.classes)
        here, objective = model.fit, model.fit.objective
        if sweep.n_features + int(objective.fit_intercept) != len(here.theta):
            raise InvalidInput(f"the model was fitted on another number of features than {sweep.n_features}")
        s: Slopes = coded.fold(partial(slopes, objective=objective, theta=here.theta))
        moved = model.outside.around.norm(s.gradient + objective.times(here.n) * objective.penalty_slope(here.theta))
        if s.n != here.n or not moved <= 1e-6 * (1 + np.sqrt(np.abs(here.value))) + 2 * here.decrement:
            raise InvalidInput("this is not the table that the model was fitted on; pass the one that was audited")
        if model.outside.hessian_bounds is None:  # the fit has no certificates
            model = prepare(coded, here, model.precision, "upper")
            fit = replace(fit, model=model)
    side, objective = model.outside, model.fit.objective
    if side.hessian_bounds is None or not np.isfinite(objective.loss.concordance):
        raise InvalidInput(
            "everyone() needs the certificates of a smooth model with |l'''| <= kappa l'' (logistic, Poisson, ...): "
            "pass the data that was fitted, or fit with method='upper'"
        )
    theta = np.asarray(model.fit.theta)
    intercept = bool(objective.fit_intercept)
    d = len(theta) - int(intercept)
    T = side.around.T
    region = (
        ellipsoid(np.full(d, float(bounds.x[0])), intercept)
        if bounds.domain == "ball"
        else enclosing(bounds.x, ((T.T * side.around.nu) @ T)[:d, :d], intercept)
    )
    ys = _targets(objective.loss, bounds.y)
    labels = ys if fit.classes is None else np.asarray(fit.classes.labels)
    distance, rows = _plain(side, objective.loss, theta, region, ys)
    scale = release.mechanism().scale
    upper = _epsilon(distance / scale, delta)
    start = bounds.nearest(np.concatenate([t * rows[:, :d] for t in LENGTHS]))
    if sweep is None:
        return Bracket(upper, 0.0, start[0], float(labels[0]))
    if bounds.domain == "box":
        start = np.concatenate([start, np.where(start < 0, -bounds.x, bounds.x)])

    def best(x: Floats, y: Floats) -> Found:
        """Return the one of these people who moves the model farthest, the target behind the row."""
        x = np.ascontiguousarray(bounds.nearest(x))
        moved = np.asarray(release.refine(fit, sweep, Block(x, y), inside=False).pairs.distance)
        top = int(np.argmax(moved))
        return Found(np.inf, float(moved[top]), np.append(x[top], y[top]))

    found = best(np.tile(np.concatenate([start, -start]), (len(labels), 1)), np.repeat(labels, 2 * len(start)))
    directions = np.random.default_rng(d).standard_normal((DIRECTIONS, d))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    for step in STEPS:
        at = found.where[:d]
        around = at + step * np.linalg.norm(at) * np.concatenate([directions, -directions])
        found = max(found, best(around, np.full(len(around), found.where[d])), key=lambda one: one.attained)
    attained = _epsilon(found.attained, delta)
    return Bracket(max(upper, attained), attained, found.where[:d], float(found.where[d]))


def _epsilon(distance: float, delta: float) -> float:
    return float(shift_upper(np.array([distance]), delta)[0])


def _plain(side: Any, loss: Any, theta: Floats, region: Domain, ys: Floats) -> tuple[float, Floats]:
    """Bound ``|theta' - theta|_A`` over the domain by the constants of the fit; and rows that come close to it."""
    T, nu, error = side.around.T, side.around.nu, side.gradient_bound
    forms = [slices(region, theta, (T.T * nu**j) @ T) for j in range(3)]
    edges = np.linspace(-1, 1, CELLS + 1)
    low, high = edges[:-1], edges[1:]
    h0, h1, h2 = (np.maximum(form.upper(low, high), 0.0) * (1 + 16 * side.around.error) for form in forms)
    centre, stretch = float(region.x0 @ theta), float(np.linalg.norm(region.T.T @ theta))
    # where the penalty is an average over people everybody brings a share of it, which shifts the predictor as well: by
    # |t||share|/lo at most, and nothing is said where lo is below one half
    share = [float(np.sqrt(side.share**2 @ nu**j)) for j in range(3)]
    shift = 2 * np.sqrt(h0) * share[0] + PREDICTOR_ERROR
    ends = [centre + stretch * low - shift, centre + stretch * high + shift]
    slopes = np.array([[loss.derivatives(np.full(CELLS, y), eta)[0] for eta in ends] for y in ys])
    steep = np.abs(slopes).max(axis=(0, 1)) * BOUND_UP
    step = Step(
        steep * np.sqrt(h0) + share[0] + error,
        steep * np.sqrt(h1) + share[1] + np.sqrt(nu[-1]) * error,
        steep * np.sqrt(h2) + share[2] + nu[-1] * error,
        np.full(CELLS, nu[-1]),
        np.ones(CELLS),
    )
    ball = step_ball(side.hessian_bounds, step.a, step.inflation, None)
    with np.errstate(invalid="ignore"):
        distance = distance_bound(step, ball) + 2 * np.sqrt(nu[-1]) * error
    distance = np.where(np.isnan(distance) | ((ball.low < 0.5) & (share[0] > 0)), np.inf, distance)
    distance = distance * (1 + 16 * side.around.error)
    guess = steep * np.sqrt(h1)
    sigma = 0.5 * (low + high)[np.argsort(-guess)[:TRIED]]
    rows = np.concatenate([region.rows(form.maximisers(sigma)) for form in forms[:2]])
    return float(distance.max()), rows


def _targets(loss: Any, y_bound: float) -> Floats:
    """Return the extreme targets, that of the largest slope first: both classes, or the ends that the loss allows."""
    if loss.binary:
        return np.array([0.0, 1.0])
    for least in (-y_bound, 0.0, TINY):
        ends = np.array([least, max(y_bound, least)])
        try:
            loss.check(ends)
        except InvalidInput:
            continue
        return ends
    raise InvalidInput(f"the model allows no target with |y| <= {y_bound:g}")
