"""Whose gradient could balance that of the others at a place: the slopes of a cell, and multipliers that exclude all.

Somebody with row z and slope of sign g makes ``theta'`` the minimum when ``K'grad F(theta') = -g s K'z``,
``0 <= s <= g l'(y, z'theta')``; the last says ``g z'theta' >= phi(s)``. For every vector a and every kappa >= 0 then

    a'K'grad F <= max over the ball of g z'(kappa theta' - s K a) - kappa phi(s),

and where this fails nobody does. Two choices of a: ``B (e + kappa t)``, that of the one who moves the fit farthest
(the multipliers of that optimum), and to this the direction from the gradient to the nearest one that anybody has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.analysis.within_bounds.by_sphere.cells import Cells
from perinstance.analysis.within_bounds.by_sphere.gradient_enclosure import GradientEnclosure, ScaledTable
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ANY_POSITIVE, NORM_DOWN, NORM_UP, PREDICTOR_ERROR, VANISHING

Bools = NDArray[np.bool_]

#: the largest |cosine| between z and theta' that is used
STEEP = 0.995
#: how much of the separating direction is taken, besides what is needed
APART = 2.0


@dataclass(frozen=True, slots=True)
class SlopeRanges:
    """The slopes s of each cell, and a line ``phi1 .. phi2`` over [s1, s2] that is nowhere above phi."""

    s1: Floats
    s2: Floats
    phi1: Floats
    phi2: Floats
    free: Bools  #: nothing is known of phi: kappa must be 0

    @property
    def s(self) -> Floats:
        """The middle."""
        return 0.5 * (self.s1 + self.s2)

    @property
    def phi(self) -> Floats:
        """The line at the middle."""
        return 0.5 * (self.phi1 + self.phi2)


def slope_ranges(rows: ScaledTable, cells: Cells) -> SlopeRanges:
    """Find the range of slopes; phi is the inverse of ``g l'(y, g .)``, convex where ``g l''' <= 0``.

    The third derivative of every loss that gets here changes its sign at most once, at the edge of a cell if it is 0.
    """
    g, loss = cells.sign, rows.loss
    y = np.where(g > 0, rows.targets[0], rows.targets[1])
    middle = 0.5 * (cells.first + cells.last)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        s1, s2, s = (np.maximum(g * loss.derivatives(y, g * at)[0], 0.0) for at in (cells.first, cells.last, middle))
        flat = 1 / loss.curvature(y, g * middle)
        thirds = [g * loss.third(y, g * at) for at in (cells.first, cells.last)]
        convex = (thirds[0] <= 0) & (thirds[1] <= 0)
        concave = (thirds[0] >= 0) & (thirds[1] >= 0)
        # below a convex function: its tangent; below a concave one: its chord; below any: its smallest value
        s1, s2 = np.where(cells.tail, 0.0, s1 * NORM_DOWN), s2 * NORM_UP
        phi1 = np.where(convex, middle + (s1 - s) * flat, cells.first)
        phi2 = np.where(convex, middle + (s2 - s) * flat, np.where(concave, cells.last, cells.first))
        slack = PREDICTOR_ERROR * (1 + np.abs(phi1) + np.abs(phi2) + s2 * flat)
        # a tangent that falls below the smallest value, or that rounding does not leave much of, is worth less than it
        level = ~(0.5 * (phi1 + phi2) - slack > cells.first)
        least = cells.first - PREDICTOR_ERROR * (1 + np.abs(cells.first))
        phi1, phi2 = np.where(level, least, phi1 - slack), np.where(level, least, phi2 - slack)
    free = cells.tail | ~np.isfinite(phi1 + phi2) | (s <= 0)
    return SlopeRanges(s1, s2, np.where(free, 0.0, phi1), np.where(free, 0.0, phi2), free)


@dataclass(frozen=True, slots=True)
class ExclusionMultipliers:
    """Multipliers at the middle of each cell."""

    a: Floats  #: (cells, p)
    kappa: Floats
    x: Floats  #: (cells, d) somebody who comes close


@dataclass(frozen=True, slots=True)
class CellMiddles:
    """The middle of each cell: the predictor's direction there, and how far the slope determines it."""

    rows: ScaledTable
    slopes: SlopeRanges
    sign: Floats
    theta: Floats  #: (cells, p) theta' at the middle
    G: Floats

    @property
    def along(self) -> Floats:
        """The unit vector of theta', features only."""
        x = self.theta[:, : self.rows.width]
        return x / (np.linalg.norm(x, axis=1) + VANISHING)[:, None]

    @property
    def stretch(self) -> Floats:
        """The largest ``x'theta'`` of the ball."""
        return self.rows.radius * (np.linalg.norm(self.theta[:, : self.rows.width], axis=1) + VANISHING)

    @property
    def room(self) -> Floats:
        """How far ``g theta'_0`` alone is above phi."""
        zero = self.sign * self.theta[:, -1] if self.rows.intercept else 0.0
        return zero - self.slopes.phi

    @property
    def unlimited(self) -> Bools:
        """Tell where everybody has such a slope, or nothing is known of phi."""
        return self.slopes.free | (self.room >= self.stretch)

    def excess(self, a: Floats, kappa: Floats) -> Floats:
        """Return the right side minus the left one: negative where nobody balances the gradient."""
        d, K = self.rows.width, self.rows.K
        v = kappa[:, None] * self.theta - self.slopes.s[:, None] * (a @ K.T)
        found = self.rows.radius * np.linalg.norm(v[:, :d], axis=1) - kappa * self.slopes.phi
        found -= np.einsum("ci,ci->c", a, self.G)
        return found + self.sign * v[:, d] if self.rows.intercept else found

    def kappa(self, a: Floats) -> Floats:
        """Minimise the right side over kappa: the angle of ``kappa theta' - s K a`` to theta' is known then."""
        q = self.slopes.s[:, None] * (a @ self.rows.K[: self.rows.width].T)
        along, stretch = self.along, self.stretch
        part = np.einsum("ci,ci->c", q, along)
        across = np.linalg.norm(q - part[:, None] * along, axis=1)
        cosine = np.clip(-self.room / stretch, -STEEP, STEEP)
        found = np.maximum(part + across * cosine / np.sqrt(1 - cosine**2), 0.0) * self.rows.radius / stretch
        return np.where(self.unlimited, 0.0, self.at_least_excluding(found, q))

    def at_least_excluding(self, kappa: Floats, q: Floats) -> Floats:
        """Where nobody at all has such a slope, a large kappa says so."""
        short, stretch = -self.room - self.stretch, self.stretch
        large = 2 * self.rows.radius * np.linalg.norm(q, axis=1) / np.maximum(short, 0.1 * stretch)
        return np.where((short > 0) & ~self.slopes.free, np.maximum(kappa, large), kappa)


def cell_middles(rows: ScaledTable, rho: float, cells: Cells, slopes: SlopeRanges, G: Floats) -> CellMiddles:
    """Describe the middles."""
    return CellMiddles(rows, slopes, cells.sign, rows.theta + rho * cells.middle @ rows.K.T, G)


def farthest_multipliers(
    at: CellMiddles, enclosed: GradientEnclosure, rho: float, cells: Cells
) -> ExclusionMultipliers:
    """Return the multipliers of the one who moves the fit farthest: ``a = B (e + kappa rho g K'z)``, kappa = k'a."""
    rows, slopes, g, B = at.rows, at.slopes, at.sign, enclosed.B
    d, K = rows.width, rows.K
    c = cells.middle
    Be = np.einsum("cij,cj->ci", B, c / (np.linalg.norm(c, axis=1) + VANISHING)[:, None])
    along, stretch = at.along, at.stretch
    cosine = np.clip(-at.room / stretch, -STEEP, STEEP)
    sine = np.sqrt(1 - cosine**2)
    a = Be
    kappa, z = np.zeros(len(c)), np.ones((len(c), len(rows.theta)))
    q = slopes.s[:, None] * (a @ K[:d].T)
    for _ in range(3):  # the direction across theta' settles at once
        q = slopes.s[:, None] * (a @ K[:d].T)
        across = q - np.einsum("ci,ci->c", q, along)[:, None] * along
        across /= (np.linalg.norm(across, axis=1) + VANISHING)[:, None]
        k = (slopes.s * rows.radius / stretch)[:, None] * ((along + (cosine / sine)[:, None] * across) @ K[:d])
        z[:, :d] = (g * rows.radius)[:, None] * (cosine[:, None] * along - sine[:, None] * across)
        Bt = np.einsum("cij,cj->ci", B, (rho * g)[:, None] * (z @ K))
        gain = np.minimum(
            np.einsum("ci,ci->c", k, Bt), 0.0
        )  # a person damps their own step; else that part is left out
        kappa = np.where(at.unlimited, 0.0, np.maximum(np.einsum("ci,ci->c", k, Be) / (1 - gain), 0.0))
        a = Be + np.where(gain < 0, kappa, 0.0)[:, None] * Bt
    return ExclusionMultipliers(a, at.at_least_excluding(kappa, q), z[:, :d])


def separating_multipliers(at: CellMiddles, first: ExclusionMultipliers) -> ExclusionMultipliers:
    """Add the direction from the nearest gradient that anybody has to the one there is."""
    rows, slopes, g = at.rows, at.slopes, at.sign
    d, along = rows.width, at.along
    inverse = np.linalg.inv(rows.K)
    G = at.G @ inverse
    wanted = -(g / np.maximum(slopes.s, ANY_POSITIVE))[:, None] * G[:, :d]
    x = wanted * np.minimum(1.0, rows.radius / (np.linalg.norm(wanted, axis=1) + VANISHING))[:, None]
    # the ball, cut by g x'theta' >= -room
    least = np.where(at.unlimited, -np.inf, -at.room * rows.radius / at.stretch)
    outside = g * np.einsum("ci,ci->c", x, along) < least
    least = np.clip(least, -rows.radius, rows.radius)
    across = wanted - np.einsum("ci,ci->c", wanted, along)[:, None] * along
    rim = np.sqrt(np.maximum(rows.radius**2 - least**2, 0.0))
    across *= np.minimum(1.0, rim / (np.linalg.norm(across, axis=1) + VANISHING))[:, None]
    x = np.where(outside[:, None], (g * least)[:, None] * along + across, x)
    away = G.copy()
    away[:, :d] += (g * slopes.s)[:, None] * x
    if rows.intercept:
        away[:, d] += g * slopes.s
    length2 = np.einsum("ci,ci->c", away, away)
    apart = length2 / (np.einsum("ci,ci->c", G, G) + VANISHING)
    needed = 2 * np.maximum(at.excess(first.a, first.kappa), 0.0) + APART * apart
    a = first.a + (needed / np.maximum(length2, VANISHING))[:, None] * (away @ inverse.T)
    return ExclusionMultipliers(a, at.kappa(a), x)
