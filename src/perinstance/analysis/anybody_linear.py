"""pDP for everyone under ridge regression: branch and bound over slices of the domain, and the person who comes close.

A slice is an interval of ``x'theta``; y is the worst one, ``|r| <= y_bound + |x'theta|``. Inside a slice the losses of
the three mechanisms are functions of ``k = x'Kx`` and ``g = x'Gx``, whose joint range is bounded by
``g <= W_psi + psi k`` for any psi, ``W_psi`` the trust-region maximum of ``x'(G - psi K)x`` (``trust_region_slices``):
tight where psi is the slope at the best target.

For balls the two ends of the bracket agree to the tolerance, so it is the supremum. The maximum over a box is NP-hard
in general: the box is enclosed in its best ellipsoid, and the gap is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perinstance.analysis.branch_and_bound import Bracket, Found, grid, search
from perinstance.analysis.declared_bounds import DeclaredBounds, Setting
from perinstance.analysis.trust_region_slices import Domain, Slices, ellipsoid, enclosing, slices
from perinstance.errors import NumericalTrouble
from perinstance.folds.block import Block
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, GAIN, SHORTEST_ROW
from perinstance.pairs import Pairs
from perinstance.releases.base.release import Mechanism

#: Slopes psi that are quantiles of those at rows that are largest. Changes the width.
QUANTILES = 24
#: Multiples of their median; negative ones are tight where the leverage is near its largest. Changes the width.
MULTIPLES = np.array([0.1, 0.3, 3.0, 10.0, -0.3, -1.0, -3.0, -10.0])
#: Lengths of rows that are tried, relative to the domain. Changes the width.
LENGTHS = (1.0, 0.7, 0.4, 0.2)
#: Steps over the corners of a box, and of an ascent from rows, at most. Changes the width.
FLIPS = 200
ROUNDS = 60
#: Pseudo-random corners of a box to start from. Changes the width.
RANDOM = 6


@dataclass(frozen=True, slots=True)
class SliceLandscape:
    """One mechanism over one domain: a landscape over sigma (the slice) and the share of its largest ``x'Kx``."""

    setting: Setting
    domain: Domain
    y_bound: float
    delta: float
    leverage: Slices
    movement: tuple[tuple[float, Slices], ...]  #: (psi, slices of G - psi K)
    centre: float  #: x'theta = centre + stretch * sigma
    stretch: float
    polish: Callable[[Floats], Found]  #: from rows near good ones to a person of the domain

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism whose loss is bounded."""
        return self.setting.mechanism

    @property
    def geometric(self) -> tuple[bool | None, ...]:
        """Halve slices; halve the leverage too where the loss does not grow with it."""
        return (False, None if self.mechanism.family == "posterior" else False)

    def parameters(self, cells: Floats) -> tuple[Floats, ...]:
        """Bound the mechanism's parameters in each cell."""
        low, high, least, most = cells
        c, error = self.mechanism, 1 + 8 * self.setting.error
        highest = np.maximum(self.leverage.upper(low, high), 0.0) * error
        k1, k2 = least * highest, most * highest
        s = np.maximum(np.abs(self.centre + self.stretch * low), np.abs(self.centre + self.stretch * high))
        r = (self.y_bound + s) * BOUND_UP + 4 * self.setting.error * np.sqrt(k2) * self.setting.length
        if c.family == "posterior":
            return k2, r / c.scale
        moved = np.min([self._moved(psi, form.upper(low, high), k1, k2) for psi, form in self.movement], axis=0) * error
        return (r * moved,) if c.family == "output" else (r * np.sqrt(self.domain.square) / c.scale, k2, moved)

    def _moved(self, psi: float, W: Floats, k1: Floats, k2: Floats) -> Floats:
        """Bound ``sqrt(g)/(1+k)`` (output) or ``sqrt(x'x v'v - k^2)`` (objective) if k1 <= k <= k2, g <= W + psi k."""
        if self.mechanism.family == "output":
            best = np.clip(1 - 2 * W / psi, k1, k2) if psi > 0 else k1
            return np.sqrt(np.maximum(W + psi * best, 0.0)) / (1 + best)
        unit = self.domain.square * self.mechanism.scale**2
        best = np.clip(0.5 * unit * psi, k1, k2)
        return np.sqrt(np.maximum(unit * (W + psi * best) - best**2, 0.0))

    def explore(self, cells: Floats) -> Found:
        """Try the people at the trust-region maxima of these slices."""
        sigma = np.unique(0.5 * (cells[0] + cells[1]))
        forms = [self.leverage] if self.mechanism.family == "posterior" else [f for _, f in self.movement[::6]]
        u = np.concatenate([form.maximisers(sigma) for form in forms])
        if self.mechanism.family == "output":  # a long row damps its own movement
            u = np.concatenate([t * u for t in LENGTHS])
        return self.polish(self.domain.rows(u)[:, : self.setting.n_features])


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
        prediction = x @ theta[:d] + (theta[-1] if self.setting.mechanism.fit_intercept else 0.0)
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
        return self.best_of(np.concatenate([x, _leading_term_ascent(self.setting, x, self.bounds)]))

    def landscape(self, domain: Domain) -> SliceLandscape:
        """Prepare the trust regions of one domain."""
        setting, c = self.setting, self.setting.mechanism
        theta, K, G = setting.theta, setting.K, setting.G
        leverage = slices(domain, theta, K)
        movement: tuple[tuple[float, Slices], ...] = ()
        if c.family != "posterior":
            plain = slices(domain, theta, G)
            x = domain.rows(np.vstack([f.maximisers(np.linspace(-1, 1, 33)) for f in (plain, leverage)]))
            k, g = np.einsum("ij,jk,ik->i", x, K, x), np.einsum("ij,jk,ik->i", x, G, x)
            # where sqrt(g)/(1+k) is stationary (output), or x'x v'v - mu^2 (objective)
            slope = 2 * g / (1 + k) if c.family == "output" else 2 * k / (domain.square * c.scale**2)
            psis = np.concatenate([np.quantile(slope, np.linspace(0, 1, QUANTILES)), np.median(slope) * MULTIPLES])
            movement = ((0.0, plain), *((float(psi), slices(domain, theta, G - psi * K)) for psi in psis if psi != 0))
        centre, stretch = float(domain.x0 @ theta), float(np.linalg.norm(domain.T.T @ theta))
        return SliceLandscape(
            setting, domain, self.bounds.y, self.delta, leverage, movement, centre, stretch, self.polished
        )


def linear_bracket(people: JoiningPeople, tolerance: float | None) -> Bracket:
    """Return an epsilon for everybody in the domain, and somebody who comes close."""
    setting, bounds = people.setting, people.bounds
    if tolerance is None:
        tolerance = 1e-5 if setting.mechanism.family == "posterior" else 1e-3
    if not setting.proper:
        fit, d = people.fit, setting.n_features
        if fit.penalty[:d].any():
            raise NumericalTrouble(
                "the penalty is so small beside the data that float64 lost it in some direction, where somebody's loss "
                "may be as large as any number; use a larger alpha, or scale the columns by public constants"
            )
        # rows of the domain are combinations of those with one feature, so these decide, and without rounding, whether
        # one has a part in a direction that neither data nor penalty determine
        rows = np.vstack([np.zeros(d), np.diag(np.broadcast_to(bounds.x, d))])
        outside = ~fit.span.contains(rows, fit.fit_intercept)
        if outside.any():
            return Bracket(np.inf, np.inf, rows[int(np.argmax(outside))], bounds.y, "exact")
    found = people.best_of(np.zeros((1, setting.n_features)))
    alone = not bounds.x.any()  # one row only
    if alone:
        found = replace(found, upper=found.attained)
    elif bounds.domain == "box":
        found = _box(people, found, tolerance)
    else:
        region = ellipsoid(np.full(setting.n_features, float(bounds.x[0])), setting.mechanism.fit_intercept)
        cells = grid(np.linspace(-1, 1, 65), np.linspace(0, 1, 2))
        found = search(people.landscape(region), cells, found, tolerance=tolerance)
    kind = people.pairs(found.where[None]).kind
    # a loss that rounding may have raised is not attained
    attained, y = found.attained if kind == "exact" else 0.0, float(people.worst_y(found.where[None])[0])
    return Bracket(found.upper, attained, found.where, y, kind if alone else "upper")


def _box(people: JoiningPeople, start: Found, tolerance: float) -> Found:
    """Enclose the box in an ellipsoid; go from corner to corner for a person that comes close."""
    setting, bounds, d = people.setting, people.bounds.x, people.setting.n_features
    M = (setting.K if setting.mechanism.family == "posterior" else setting.G)[:d, :d]
    landscape = people.landscape(enclosing(bounds, M, setting.mechanism.fit_intercept))
    # along theta, along the top directions of the leading term, and some at random
    _, V = np.linalg.eigh(M * np.outer(bounds, bounds))
    rows = np.vstack([setting.theta[:d], V[:, -3:].T, np.random.default_rng(d).standard_normal((RANDOM, d))])
    best = start
    for corner in np.where(rows < 0, -bounds, bounds):
        at = people.best_of(corner[None])
        for _ in range(FLIPS):  # the sign of the coordinate that gains most
            found = people.best_of(np.where(np.eye(d, dtype=bool), -at.where, at.where))
            if not found.attained > at.attained * GAIN:
                break
            at = found
        best = max(best, at, people.polished(at.where[None]), key=lambda found: found.attained)
    farthest = float(bounds @ np.abs(setting.theta[:d]))  # a box extends less far along theta than its ellipsoid
    limit = 1.0 if landscape.stretch == 0 else min(1.0, farthest / landscape.stretch * BOUND_UP)
    cells = grid(np.linspace(-limit, limit, 65), np.linspace(0, 1, 2))
    return search(landscape, cells, best, tolerance=tolerance, rounds=8, most=1000)


def _leading_term_ascent(setting: Setting, x: Floats, bounds: DeclaredBounds) -> Floats:
    """Ascend from each row inside the domain, on the logarithm of the leading term of the loss.

    ``(y_bound + |x'theta|) sqrt(x'Gx) / (1 + x'Kx)`` is the movement of output perturbation itself. For the other two
    it is a guide only: ``(y_bound + |x'theta|) sqrt(x'Kx)`` (posterior), ``(y_bound + |x'theta|) ||x||`` (objective).
    """
    d, family, y_bound = setting.n_features, setting.mechanism.family, bounds.y
    M = {"output": setting.G, "posterior": setting.K, "objective": np.eye(len(setting.theta))}[family]
    damping = 1.0 if family == "output" else 0.0
    ones = np.ones((len(x), len(setting.theta) - d))

    def value(rows: Floats) -> tuple[Floats, Floats]:
        z = np.concatenate([rows, ones], axis=1)
        s = z @ setting.theta
        zG, zK = z @ M, damping * (z @ setting.K)
        g, k = np.einsum("ij,ij->i", z, zG), np.einsum("ij,ij->i", z, zK)
        with np.errstate(divide="ignore", invalid="ignore"):
            f = np.log(y_bound + np.abs(s)) + 0.5 * np.log(g) - np.log1p(k)
            slope = (np.sign(s) / (y_bound + np.abs(s)))[:, None] * setting.theta + zG / g[:, None]
        slope = slope - 2 * zK / (1 + k)[:, None]
        return f, np.where(np.isfinite(slope), slope, 0.0)[:, :d]

    (f, slope), step = value(x), 0.3 * (np.linalg.norm(x, axis=1) + SHORTEST_ROW)
    for _ in range(ROUNDS):  # a step that gains is followed by a longer one, one that does not is taken back
        size = np.linalg.norm(slope, axis=1)
        trial = bounds.nearest(x + (step / np.where(size > 0, size, 1.0))[:, None] * slope)
        f_trial, slope_trial = value(trial)
        better = f_trial > f
        x, slope = np.where(better[:, None], trial, x), np.where(better[:, None], slope_trial, slope)
        f, step = np.where(better, f_trial, f), step * np.where(better, 1.5, 0.5)
    return x
