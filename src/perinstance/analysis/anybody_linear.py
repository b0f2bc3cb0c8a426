"""Upper bounds of the loss of everybody in a slice of a domain, for each of the three mechanisms.

A slice is an interval of ``x'theta``; y is the worst one, ``|r| <= y_bound + |x'theta|``. Inside a slice the three
losses are functions of ``k = x'Kx`` and ``g = x'Gx``, whose joint range is bounded by ``g <= W_psi + psi k`` for any
psi, ``W_psi`` the trust-region maximum of ``x'(G - psi K)x`` (``trust_region_slices``): tight where psi is the slope at
the best target.

pDP for everyone under ridge regression: branch and bound over slices of the domain, and the person who comes close.

For balls the two ends of the bracket agree to the tolerance, so it is the supremum; the maximum over a box is NP-hard
in general: up to ten features its corners are listed, and it is enclosed in its best ellipsoid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perinstance.analysis.box_corners import Box, SlabMaxima, box
from perinstance.analysis.branch_and_bound import Bracket, Found, grid, search
from perinstance.analysis.declared_bounds import DeclaredBounds, Setting
from perinstance.analysis.refitted_people import ascend_corners, ascend_rows
from perinstance.analysis.trust_region_slices import Domain, Slices, ellipsoid, enclosing, slices
from perinstance.errors import NumericalTrouble
from perinstance.folds.block import Block
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP
from perinstance.pairs import Pairs
from perinstance.releases.base.release import Mechanism

#: slopes psi: quantiles of those at rows that are largest, and multiples of their median beyond; negative ones are
#: tight where the leverage is near its largest. More of them change the width
QUANTILES, MULTIPLES = 24, (0.1, 0.3, 3.0, 10.0, -0.3, -1.0, -3.0, -10.0)
#: lengths of rows that are tried, relative to the domain
LENGTHS = (1.0, 0.7, 0.4, 0.2)


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
    #: in a box: (psi, form) of convex forms by its corners; that of K itself has psi = None
    corners: tuple[tuple[float | None, SlabMaxima], ...] = ()

    @property
    def mechanism(self) -> Mechanism:
        """See ``Landscape``."""
        return self.setting.mechanism

    @property
    def geometric(self) -> tuple[bool | None, ...]:
        """Halve slices; halve the leverage too where the loss does not grow with it."""
        return (False, None if self.mechanism.family == "posterior" else False)

    def corner(self, cells: Floats) -> tuple[Floats, Floats, Floats]:
        """Return bounds of ``|r|``, of k and of the movement (see ``through``) in each cell."""
        low, high, least, most = cells
        error = 1 + 8 * self.setting.error
        highest = self.leverage.upper(low, high)
        for psi, listed in self.corners:
            if psi is None:
                highest = np.minimum(highest, listed.upper(low, high))
        highest = np.maximum(highest, 0.0) * error
        k1, k2 = least * highest, most * highest
        s = np.maximum(np.abs(self.centre + self.stretch * low), np.abs(self.centre + self.stretch * high))
        r = (self.y_bound + s) * BOUND_UP + 4 * self.setting.error * np.sqrt(k2) * self.setting.length
        moved = np.full(len(k2), np.inf)
        forms: list[tuple[float | None, Slices | SlabMaxima]] = [*self.movement, *self.corners]
        for psi, form in forms:
            if psi is not None:
                moved = np.minimum(moved, self.through(psi, form, low, high, k1, k2))
        return r, k2, moved * error

    def through(
        self, psi: float, form: Slices | SlabMaxima, low: Floats, high: Floats, k1: Floats, k2: Floats
    ) -> Floats:
        """Bound ``sqrt(g)/(1+k)`` (output) or ``sqrt(x'x v'v - k^2)`` (objective) if k1 <= k <= k2, g <= W + psi k."""
        W = form.upper(low, high)
        if self.mechanism.family == "output":
            best = np.clip(1 - 2 * W / psi, k1, k2) if psi > 0 else k1
            return np.sqrt(np.maximum(W + psi * best, 0.0)) / (1 + best)
        unit = self.domain.square * self.mechanism.scale**2
        best = np.clip(0.5 * unit * psi, k1, k2)
        return np.sqrt(np.maximum(unit * (W + psi * best) - best**2, 0.0))

    def parameters(self, cells: Floats) -> tuple[Floats, ...]:
        """See ``Landscape``."""
        r, k, moved = self.corner(cells)
        if self.mechanism.family == "objective":
            return r * np.sqrt(self.domain.square) / self.mechanism.scale, k, moved
        return (k, r / self.mechanism.scale) if self.mechanism.family == "posterior" else (r * moved,)

    def explore(self, cells: Floats) -> Found:
        """Try the people at the trust-region maxima of these slices."""
        sigma = np.unique(0.5 * (cells[0] + cells[1]))
        forms = [self.leverage] if self.mechanism.family == "posterior" else [f for _, f in self.movement[::6]]
        u = np.concatenate([form.maximisers(sigma) for form in forms])
        if self.mechanism.family == "output":  # a long row damps its own movement
            u = np.concatenate([t * u for t in LENGTHS])
        return self.polish(self.domain.rows(u)[:, : self.setting.n_features])


def slice_landscape(
    setting: Setting,
    domain: Domain,
    y_bound: float,
    delta: float,
    polish: Callable[[Floats], Found],
    box: Box | None = None,
) -> SliceLandscape:
    """Prepare the trust regions of one domain, and what the corners of a box inside it know better."""
    theta, K, G = setting.theta, setting.K, setting.G
    leverage = slices(domain, theta, K)
    movement: tuple[tuple[float, Slices], ...] = ()
    if setting.mechanism.family != "posterior":
        plain = slices(domain, theta, G)
        x = domain.rows(np.vstack([f.maximisers(np.linspace(-1, 1, 33)) for f in (plain, leverage)]))
        k, g = np.einsum("ij,jk,ik->i", x, K, x), np.einsum("ij,jk,ik->i", x, G, x)
        if setting.mechanism.family == "output":
            slope = 2 * g / (1 + k)  # where sqrt(g)/(1+k) is stationary
        else:
            slope = 2 * k / (domain.square * setting.mechanism.scale**2)  # where x'x v'v - mu^2 is
        choice = [*np.quantile(slope, np.linspace(0, 1, QUANTILES)), *(np.median(slope) * np.array(MULTIPLES))]
        movement = ((0.0, plain), *((float(psi), slices(domain, theta, G - psi * K)) for psi in choice if psi != 0))
    stretch = float(np.linalg.norm(domain.T.T @ theta))
    corners: tuple[tuple[float | None, SlabMaxima], ...] = ()
    if box is not None:
        sigma = (box.x - domain.x0) @ theta / (stretch if stretch > 0 else 1.0)
        corners = ((None, box.slab_maxima(K, sigma)),)
        # g + psi k is convex for psi >= 0 only: the side of long rows
        slopes = sorted({abs(psi) for psi, _ in movement[::4]})
        corners += tuple((-psi, box.slab_maxima(G + psi * K, sigma)) for psi in slopes)
    return SliceLandscape(
        setting=setting,
        domain=domain,
        y_bound=y_bound,
        delta=delta,
        leverage=leverage,
        movement=movement,
        centre=float(domain.x0 @ theta),
        stretch=stretch,
        polish=polish,
        corners=corners,
    )


def leading_term_ascent(setting: Setting, x: Floats, bounds: DeclaredBounds) -> Floats:
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

    return ascend_rows(value, bounds.nearest, x)


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
