"""pDP for everyone under ridge regression: branch and bound over slices of the domain, and the person who comes close.

For balls the two ends of the bracket agree to the tolerance, so it is the supremum; the maximum over a box is NP-hard
in general: up to ten features its corners are listed, and it is enclosed in its best ellipsoid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perinstance.analysis.bounds.branch_and_bound import Bracket, Found, grid, search
from perinstance.analysis.bounds.declared_bounds import DeclaredBounds, Setting
from perinstance.analysis.bounds.refitted_people import ascend_corners
from perinstance.analysis.bounds.trust_region_slices import ellipsoid, enclosing
from perinstance.analysis.within_bounds.box_corners import Box, box
from perinstance.analysis.within_bounds.linear_bounds import leading_term_ascent, slice_landscape
from perinstance.errors import NumericalTrouble
from perinstance.folds.block import Block
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP
from perinstance.pairs import Pairs

#: steps over the corners of a box
FLIPS = 200
#: pseudo-random corners to start from
RANDOM = 6


@dataclass(frozen=True, slots=True)
class JoiningPeople:
    """Rows that join one data set with their worst targets, and what they lose."""

    release: Any
    fit: Any
    setting: Setting
    bounds: DeclaredBounds
    delta: float

    def worst_y(self, x: Floats) -> Floats:
        """Return the target farthest from each prediction."""
        theta, d = self.setting.theta, self.setting.n_features
        prediction = x @ theta[:d]
        if self.setting.mechanism.fit_intercept:
            prediction = prediction + theta[-1]
        return np.where(prediction > 0, -self.bounds.y, self.bounds.y)

    def pairs(self, x: Floats) -> Pairs:
        """Return the pairs of these rows."""
        joining = Block(np.ascontiguousarray(x), self.worst_y(x))
        return self.release.people(self.fit, joining, inside=False).pairs

    def best_of(self, x: Floats) -> Found:
        """Return the one of these rows who loses most."""
        value = np.asarray(self.pairs(x).epsilon(self.delta))
        top = int(np.argmax(value))
        return Found(np.inf, float(value[top]), x[top])

    def polished(self, x: Floats) -> Found:
        """Return the best of these rows and of where they get to by ascent, in the domain."""
        x = self.bounds.nearest(x)
        return self.best_of(np.concatenate([x, leading_term_ascent(self.setting, x, self.bounds)]))

    def bracket(self, found: Found, alone: bool = False) -> Bracket:
        """Name the person found: a loss that rounding may have raised is not attained; ``alone``: the only person."""
        x = found.where[None, :]
        kind = self.pairs(x).kind
        attained = found.attained if kind == "exact" else 0.0
        return Bracket(found.upper, attained, found.where, float(self.worst_y(x)[0]), kind if alone else "upper")


def linear_bracket(people: JoiningPeople, tolerance: float | None) -> Bracket:
    """Return an epsilon for everybody in the domain, and somebody who comes close."""
    setting, bounds = people.setting, people.bounds
    if tolerance is None:
        tolerance = 1e-5 if setting.mechanism.family == "posterior" else 1e-3
    if not setting.proper:
        open_row = _undetermined_row(people)
        if open_row is not None:
            return Bracket(np.inf, np.inf, open_row, bounds.y, "exact")
    start = people.best_of(np.zeros((1, setting.n_features)))
    if not bounds.x.any():  # one row only
        return people.bracket(replace(start, upper=start.attained), alone=True)
    return people.bracket((_ball if bounds.domain == "ball" else _box)(people, start, tolerance))


def _ball(people: JoiningPeople, start: Found, tolerance: float) -> Found:
    """Search the slices of a ball."""
    setting, bounds = people.setting, people.bounds
    region = ellipsoid(np.full(setting.n_features, float(bounds.x[0])), setting.mechanism.fit_intercept)
    landscape = slice_landscape(setting, region, bounds.y, people.delta, people.polished)
    return search(landscape, grid(np.linspace(-1, 1, 65), np.linspace(0, 1, 2)), start, tolerance=tolerance)


def _box(people: JoiningPeople, start: Found, tolerance: float) -> Found:
    """Enclose the box in ellipsoids; go from corner to corner for a person that comes close."""
    setting, bounds = people.setting, people.bounds.x
    d, intercept = setting.n_features, setting.mechanism.fit_intercept
    region = enclosing(bounds, _form(setting)[:d, :d], intercept)
    listed = box(bounds, intercept)
    best = start
    for corner in _corners(people, listed):
        at = people.best_of(corner[None, :])
        at = ascend_corners(at, people.best_of, lambda found: found.attained, lambda found: found.where, FLIPS)
        for found in (at, people.polished(at.where[None, :])):
            if found.attained > best.attained:
                best = found
    landscape = slice_landscape(setting, region, people.bounds.y, people.delta, people.polished, listed)
    farthest = float(bounds @ np.abs(setting.theta[:d]))  # a box extends less far along theta than its ellipsoid
    limit = 1.0 if landscape.stretch == 0 else min(1.0, farthest / landscape.stretch * BOUND_UP)
    cells = grid(np.linspace(-limit, limit, 65), np.linspace(0, 1, 2))
    return search(landscape, cells, best, tolerance=tolerance, rounds=8, most=1000)


def _form(setting: Setting) -> Floats:
    """Return the quadratic form in the leading term of the loss."""
    return setting.K if setting.mechanism.family == "posterior" else setting.G


def _corners(people: JoiningPeople, listed: Box | None) -> Floats:
    """Return corners to start from: along theta and the top directions, some fixed pseudo-random ones, the best of all.

    The best of all corners, where they can be listed, are those of the largest leading term (``leading_term_ascent``).
    """
    setting, bounds = people.setting, people.bounds.x
    d, M = setting.n_features, _form(setting)
    _, V = np.linalg.eigh(M[:d, :d] * np.outer(bounds, bounds))
    rows = [setting.theta[:d], *V[:, -3:].T]
    rows.extend(np.random.default_rng(d).standard_normal((RANDOM, d)))
    starts = np.where(np.array(rows) < 0, -bounds, bounds)
    if listed is None:
        return starts
    x, K = listed.x, setting.K
    damped = 1 + np.einsum("ij,jk,ik->i", x, K, x) if setting.mechanism.family == "output" else 1.0
    size = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", x, M, x), 0.0)) / damped
    top = np.argsort(-(people.bounds.y + np.abs(x @ setting.theta)) * size)[:4]
    return np.concatenate([starts[:4], x[top, :d]])


def _undetermined_row(people: JoiningPeople) -> Floats | None:
    """Return a row of the domain with a part in a direction that neither data nor penalty determine; None: no row has.

    The rows of the domain are combinations of those with one feature, so these decide, and without rounding.
    """
    fit, d = people.fit, people.setting.n_features
    if fit.penalty[:d].any():
        raise NumericalTrouble(
            "the penalty is so small beside the data that float64 lost it in some direction, where somebody's loss may "
            "be as large as any number; use a larger alpha, or scale the columns by public constants"
        )
    rows = np.vstack([np.zeros(d), np.diag(np.broadcast_to(people.bounds.x, d))])
    outside = ~fit.span.contains(rows, fit.fit_intercept)
    return rows[int(np.argmax(outside))] if outside.any() else None
