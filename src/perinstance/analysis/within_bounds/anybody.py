"""pDP for everyone: the largest loss of anybody in a bounded domain who could join this data set (MATH 5).

The data is fixed, z = (x, y) runs over ``||x|| <= x_bound`` (a ball) or ``|x_j| <= x_bound_j`` (a box), and
``|y| <= y_bound``. The answer is a bracket: ``epsilon`` is never exceeded, ``attained`` is the loss of one person of
the domain. For balls the two agree to the tolerance, so it is the supremum; the maximum over a box is NP-hard in
general: up to ten features its corners are listed, and it is enclosed in its best ellipsoid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from perinstance.analysis.bounds import noisy_mean
from perinstance.analysis.bounds.branch_and_bound import Found, grid, search
from perinstance.analysis.bounds.mechanism import Setting, setting_of
from perinstance.analysis.bounds.trust_region_slices import ellipsoid, enclosing
from perinstance.analysis.within_bounds.box_corners import Box, box
from perinstance.analysis.within_bounds.linear_bounds import climb, sheet
from perinstance.analysis.within_bounds.smooth_models import is_smooth, smooth_bracket
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.pairs.interface.arguments import delta_array
from perinstance.pairs.interface.kinds import Kind

SMOOTH_TOLERANCE = 2e-3


@dataclass(frozen=True, slots=True)
class Everyone:
    """A loss that holds for everybody who could join. Confidential: it depends on the data."""

    epsilon: float  #: nobody in the domain loses more
    attained: float  #: the person (x, y) loses this, or more
    delta: float
    x: Floats
    y: float
    domain: Literal["ball", "box"]
    x_bound: Floats
    y_bound: float
    kind: Kind
    assumptions: tuple[str, ...]

    @property
    def gap(self) -> float:
        """How far the bound may lie above the truth, relatively."""
        if not np.isfinite(self.epsilon):
            return 0.0 if np.isinf(self.attained) else np.inf
        return self.epsilon / self.attained - 1 if self.attained > 0 else (0.0 if self.epsilon == 0 else np.inf)


def everyone(
    release: Any,
    fit: Any,
    delta: float = 1e-6,
    *,
    x_bound: ArrayLike = 1.0,
    y_bound: float = 1.0,
    domain: Literal["ball", "box"] = "ball",
    tolerance: float | None = None,
    sweep: Sweep | None = None,
) -> Everyone:
    """Return the largest loss of anybody in the domain, at delta.

    Parameters
    ----------
    release, fit
        A posterior sample, output perturbation or objective perturbation of ridge regression, or output perturbation of
        a smooth model (logistic, Poisson, ...), and its confidential fit.
    x_bound
        The radius of the ball, or the half width of the box (one number or one per feature). An intercept's constant
        is not counted.
    tolerance
        How far the bound may lie above the person who was found, relatively, before the search stops; None is 1e-5
        for a posterior sample, 2e-3 for smooth models and 1e-3 for the others.
    sweep
        The data of ``fit``. A smooth model needs it to refit people exactly and to expand its objective: without it
        ``attained`` is what the person found loses at least, and the bound lies some percent higher. Linear models do
        not need it.
    """
    delta = float(delta_array(delta, 1, zero=False))
    if tolerance is not None and not 0 < tolerance < np.inf:
        raise InvalidInput(f"tolerance must be a number > 0, got {tolerance:g}; try tolerance=1e-3")
    if noisy_mean.is_mean(release):
        return _mean(release, fit, delta, x_bound, domain)
    if is_smooth(release, fit):
        return _smooth(release, fit, delta, x_bound, y_bound, domain, sweep, tolerance)
    setting = setting_of(release, fit)
    bounds = check_bounds(x_bound, setting.n_features, domain)
    y_bound = check_bound("y_bound", y_bound)
    if tolerance is None:
        tolerance = 1e-5 if setting.mechanism.family == "posterior" else 1e-3
    assumptions = _assumptions(domain)

    def answer(found: Found, y: float, kind: Kind) -> Everyone:
        return Everyone(
            found.upper, found.attained, delta, found.where, y, domain, bounds, float(y_bound), kind, assumptions
        )

    if not setting.proper and bounds.any():
        return answer(Found(np.inf, np.inf, _open_direction(fit, setting, bounds)), float(y_bound), "exact")

    def worst_y(x: Floats) -> Floats:
        prediction = x @ setting.theta[: setting.n_features]
        if setting.mechanism.fit_intercept:
            prediction = prediction + setting.theta[-1]
        return np.where(prediction > 0, -y_bound, y_bound)

    def score(x: Floats) -> Floats:
        joining = Block(np.ascontiguousarray(x), worst_y(x))
        return np.asarray(release.people(fit, joining, inside=False).pairs.epsilon(delta))

    def into(x: Floats) -> Floats:
        if domain == "box":
            return np.clip(x, -bounds, bounds)
        norm = np.linalg.norm(x, axis=-1, keepdims=True)
        return x * np.minimum(1.0, bounds[0] * (1 - 1e-15) / np.where(norm > 0, norm, 1.0))

    def polish(x: Floats) -> Found:
        x = into(x)
        x = np.concatenate([x, climb(setting, x, float(y_bound), into)])
        value = score(x)
        top = int(np.argmax(value))
        return Found(np.inf, float(value[top]), x[top])

    intercept = setting.mechanism.fit_intercept
    origin = np.zeros((1, setting.n_features))
    start = Found(np.inf, float(score(origin)[0]), origin[0])
    if not bounds.any():  # one row only
        return answer(replace(start, upper=start.attained), float(worst_y(origin)[0]), "exact")
    if domain == "ball":
        region = ellipsoid(np.full(setting.n_features, float(bounds[0])), intercept)
        landscape = sheet(setting, region, y_bound, delta, polish)
        found = search(landscape, grid(np.linspace(-1, 1, 65), np.linspace(0, 1, 2)), start, tolerance=tolerance)
    else:
        found = _box(setting, bounds, y_bound, delta, score, polish, start, tolerance)
    y = float(worst_y(found.where[None, :])[0])
    return answer(found, y, "upper")


def _mean(release: Any, fit: Any, delta: float, x_bound: ArrayLike, domain: Any) -> Everyone:
    """Answer for a noisy mean or sum; there is no target."""
    bounds = check_bounds(x_bound, len(fit.theta), domain)
    summed = release.mechanism().moved == "sum"
    centre = np.zeros(len(fit.theta)) if summed else np.asarray(fit.theta)
    x = noisy_mean.farthest(release, centre, bounds, domain)
    epsilon = noisy_mean.loss(release, x if summed else (x - centre) / (fit.n_people + 1), delta)
    return Everyone(epsilon, epsilon, delta, x, 0.0, domain, bounds, 0.0, "exact", _assumptions(domain)[:2])


def _smooth(
    release: Any,
    fit: Any,
    delta: float,
    x_bound: ArrayLike,
    y_bound: float,
    domain: Any,
    sweep: Sweep | None,
    tolerance: float | None,
) -> Everyone:
    """Answer for a smooth model: a certificate for all, refits of those who come close to it."""
    bounds = check_bounds(x_bound, len(fit.theta) - int(fit.model.fit.objective.fit_intercept), domain)
    y_bound = check_bound("y_bound", y_bound)
    tolerance = SMOOTH_TOLERANCE if tolerance is None else tolerance
    found = smooth_bracket(release, fit, delta, bounds, y_bound, domain, sweep, tolerance)
    how = "attained is what she loses at least: pass the data to refit her" if sweep is None else "attained is a refit"
    notes = (*_assumptions(domain), f"the bound is a certificate; {how}")
    return Everyone(found.epsilon, found.attained, delta, found.x, found.y, domain, bounds, y_bound, "upper", notes)


def _assumptions(domain: str) -> tuple[str, ...]:
    return (
        f"somebody with {'||x||' if domain == 'ball' else '|x_j|'} <= x_bound and |y| <= y_bound joins this data set",
        "the data set is fixed; people who are in it already are in the audit",
    )


def _box(
    setting: Setting,
    bounds: Floats,
    y_bound: float,
    delta: float,
    score: Any,
    polish: Any,
    start: Found,
    tolerance: float,
) -> Found:
    """Enclose the box in ellipsoids; climb from corner to corner for a person that comes close."""
    theta = setting.theta[: setting.n_features]
    best = start
    d = setting.n_features
    M = setting.K if setting.mechanism.family == "posterior" else setting.G
    region = enclosing(bounds, M[:d, :d], setting.mechanism.fit_intercept)
    listed = box(bounds, setting.mechanism.fit_intercept)
    for corner in _corners(setting, bounds, listed, y_bound):
        climbed = _climb(corner, bounds, score)
        for found in (climbed, polish(climbed.where[None, :])):
            if found.attained > best.attained:
                best = found

    prepared = sheet(setting, region, y_bound, delta, polish, bounds, listed)
    reach = float(bounds @ np.abs(theta))  # the box does not reach as far along theta as the ellipsoid
    limit = 1.0 if prepared.stretch == 0 else min(1.0, reach / prepared.stretch * (1 + 1e-12))
    cells = grid(np.linspace(-limit, limit, 65), np.linspace(0, 1, 2))
    return search(prepared, cells, best, tolerance=tolerance, rounds=8, most=1000)


def _corners(setting: Setting, bounds: Floats, listed: Box | None, y_bound: float, random: int = 6) -> Floats:
    """Return corners to start from: along theta and the top directions, some fixed pseudo-random ones, the best of all.

    The best of all corners, where they can be listed, are those of the largest leading term (``targets.climb``).
    """
    d = setting.n_features
    M = setting.K if setting.mechanism.family == "posterior" else setting.G
    _, V = np.linalg.eigh(M[:d, :d] * np.outer(bounds, bounds))
    rows = [setting.theta[:d], *V[:, -3:].T]
    rows.extend(np.random.default_rng(d).standard_normal((random, d)))
    starts = np.where(np.array(rows) < 0, -bounds, bounds)
    if listed is None:
        return starts
    x, K = listed.x, setting.K
    damped = 1 + np.einsum("ij,jk,ik->i", x, K, x) if setting.mechanism.family == "output" else 1.0
    size = np.sqrt(np.einsum("ij,jk,ik->i", x, M, x)) / damped
    top = np.argsort(-(y_bound + np.abs(x @ setting.theta)) * size)[:4]
    return np.concatenate([starts[:4], x[top, :d]])


def _climb(corner: Floats, bounds: Floats, score: Any, rounds: int = 200) -> Found:
    """Flip the one coordinate that gains most, until none gains."""
    best, value = corner, float(score(corner[None, :])[0])
    for _ in range(rounds):
        flips = np.tile(best, (len(best), 1))
        np.fill_diagonal(flips, -best)
        values = score(flips)
        top = int(np.argmax(values))
        if values[top] <= value * (1 + 1e-12):
            break
        best, value = flips[top], float(values[top])
    return Found(np.inf, value, best)


def _open_direction(fit: Any, setting: Setting, bounds: Floats) -> Floats:
    """Return a row of the domain with a part in a direction that nothing holds up."""
    direction = (fit.factor.null[:, 0] / fit.factor.scale)[: setting.n_features]
    size = np.abs(direction).max()
    if not size > 0:  # only the intercept is open: anybody moves it
        return np.zeros(setting.n_features)
    return direction / np.linalg.norm(direction) * float(bounds.min())


def check_bounds(x_bound: ArrayLike, d: int, domain: str) -> Floats:
    """Validate the bounds of x: one number for a ball, one or d for a box; returns one per feature for a box."""
    if domain not in ("ball", "box"):
        raise InvalidInput(f"domain must be 'ball' or 'box', got {domain!r}")
    try:
        bounds = np.atleast_1d(np.asarray(x_bound, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidInput("x_bound must be a number, or one per feature of a box; e.g. x_bound=1") from None
    if bounds.ndim != 1 or len(bounds) not in ((1,) if domain == "ball" else (1, d)):
        want = "one number" if domain == "ball" else f"one number or one per feature ({d})"
        raise InvalidInput(f"x_bound must be {want}, got shape {np.shape(x_bound)}")
    if not ((bounds >= 0) & np.isfinite(bounds)).all():
        raise InvalidInput("x_bound must be finite and >= 0; declare what a row may look like, e.g. x_bound=1")
    return np.full(d, bounds[0]) if domain == "box" and len(bounds) == 1 else bounds


def check_bound(name: str, value: Any) -> float:
    """Validate one bound: finite and >= 0."""
    number = float(value)
    if not 0 <= number < np.inf:
        raise InvalidInput(f"{name} must be finite and >= 0, got {number:g}; declare what a row may look like")
    return number
