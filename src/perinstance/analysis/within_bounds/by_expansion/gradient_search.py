"""How far anybody in a ball can move the minimum of a smooth model: a landscape over her tilt.

Somebody who joins with row z and target y pulls with ``s z``, ``s = l'(y, z'theta')`` at the *new* minimum theta'. So
everybody is a tilt of the objective without her, and no curvature of her own enters (``polynomial``). The tilts are
searched in cells of ``|s|`` and of the parts of ``s x`` along a few axes, the first of them theta. In a cell the
polynomial is expanded around the middle: all but the cube of what leaves the axes is a quadratic, and a quadratic over
a ball is a trust region (``duality``). The slope shrinks as she moves: ``l'(y, z'theta + t'w) >= s`` limits ``-s t'w``,
which is a quadratic in the same sense, and gets a second multiplier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.analysis.bounds.branch_and_bound import Found
from perinstance.analysis.bounds.trust_region_slices import Domain, Slices, slices
from perinstance.analysis.within_bounds.by_expansion.step_polynomial import Polynomial, Quadratic, Way
from perinstance.models.smooth.fit.whitening import Whitening
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quadratic_duality import part_of_ball
from perinstance.numerics.rounding import UNIT
from perinstance.numerics.tensor_norms import cubic_top

#: second multipliers that are tried, as shares of the largest eigenvalue of N
SHARES = (0.0, 0.3, 0.6, 0.9, 1.1)
BISECTIONS = 60
#: lengths of rows told apart when the farthest way is bounded
PULLS = 256
#: radii that are tried, beside the first step of the one who moves the farthest
BEYOND = (1.03, 1.08, 1.15, 1.3, 1.6, 2.2, 4.0)
#: cells at once
CHUNK = 2048


@dataclass(frozen=True, slots=True)
class Rows:
    """The domain in the frame: ``t = a0 + V c + J x``, ``|c|^2 + |x|^2 <= 1``, ``z'theta = centre + stretch c_1``."""

    a0: Floats
    V: Floats  #: (p, k)
    J: Floats  #: (p, m - k)
    centre: float
    stretch: float
    lengths: Slices  #: |t|^2 over slices
    farthest: float  #: the largest |t|

    @property
    def wide(self) -> float:
        """The largest ``|J x|``, |x| = 1."""
        return float(np.linalg.norm(self.J, 2)) if self.J.shape[1] else 0.0

    def sharpened(self, S: Floats) -> Rows:
        """Make one more axis of the direction in which the cubic S is largest."""
        inner = np.einsum("abc,ai,bj,ck->ijk", S, self.J, self.J, self.J, optimize=True)
        axis = np.linalg.svd(inner.reshape(len(inner), -1))[0][:, :1]
        turned = np.linalg.qr(np.concatenate([axis, np.eye(len(axis))], axis=1))[0]
        J = self.J @ turned
        return replace(self, V=np.concatenate([self.V, J[:, :1]], axis=1), J=J[:, 1:])


@dataclass(frozen=True, slots=True)
class Tilt:
    """Landscape over c (the parts of ``s x`` along the axes) and f (``|s|``, a share of the largest); one sign of s."""

    sign: float
    steepest: float  #: the largest |s|
    loss: Any
    target: float  #: the y whose slope is the largest in this direction
    rows: Rows
    polynomial: Polynomial
    off_axes: float  #: sup |S(Jx)|, |x| = 1
    off_third: float  #: the same of Phi3
    radius: float  #: nobody moves farther
    kappa5: float  #: within the radius

    @property
    def geometric(self) -> tuple[bool | None, ...]:
        """Halve all."""
        return (False,) * (self.rows.V.shape[1] + 1)

    def rough(self, cells: Floats) -> Floats:
        """Bound ``|w|_N`` in each cell."""
        return np.concatenate([self._bound(cells[:, i : i + CHUNK]) for i in range(0, cells.shape[1], CHUNK)])

    def full(self, cells: Floats) -> Floats:
        """Return the same."""
        return self.rough(cells)

    def below(self, cells: Floats, level: float) -> NDArray[np.bool_]:
        """Nothing better is known than ``rough``."""
        return np.zeros(cells.shape[1], dtype=bool)

    def explore(self, cells: Floats) -> Found:
        """People are found by refits, before the search."""
        return Found(np.inf, 0.0, np.zeros(0))

    def sharpened(self, cell: Floats) -> Tilt:
        """Return itself."""
        return self

    def turned(self) -> Tilt:
        """Return the same with one more axis."""
        rows = self.rows.sharpened(self.polynomial.S)
        off_axes, off_third = _off(self.polynomial, rows)
        return replace(self, rows=rows, off_axes=off_axes, off_third=off_third)

    def _bound(self, cells: Floats) -> Floats:
        c1, c2 = cells[:-2:2].T, cells[1:-2:2].T
        s1, s2 = cells[-2] * self.steepest, cells[-1] * self.steepest
        rows, poly, e = self.rows, self.polynomial, self.polynomial.expansion
        g = poly.start
        sigma1, sigma2 = _along(c1[:, 0], c2[:, 0], s1, s2)
        room = self._room(s1, sigma1, sigma2)
        limit = np.maximum(rows.lengths.upper(sigma1, sigma2), 0.0) * (1 + 1e-9)  # of |t|^2
        reachable = np.ones(len(s1), dtype=bool)
        for _ in range(2):
            t = np.sqrt(limit)
            left = room + t * (g + self._way(s2, t).bent)
            with np.errstate(divide="ignore", invalid="ignore"):
                limit = np.minimum(limit, np.where(s1 > 0, np.maximum(left, 0.0) / s1, np.inf))
            reachable &= (left >= 0) | (s1 == 0)
        way = self._way(s2, np.sqrt(limit))

        # what leaves the axes, and how far tilts of the cell lie from its middle
        nearest = np.where((c1 < 0) & (c2 > 0), 0.0, np.minimum(c1**2, c2**2)).sum(axis=1)
        reachable &= nearest <= 1 + 1e-12
        rad = s2 * np.sqrt(np.maximum(1 - nearest, 0.0))
        leaves = rad * rows.wide
        width = 0.5 * s2 * ((c2 - c1) @ np.linalg.norm(rows.V, axis=0)) + 0.5 * (s2 - s1) * np.linalg.norm(rows.a0)
        mixed = width * (3 * leaves**2 + 3 * leaves * width + width**2)
        spent = s2 * np.maximum(room, 0.0) + way.first * (g + way.more) + 0.5 * e.size3 * g * way.first**2
        spent += 0.5 * (self.off_third * rad**3 + e.size3 * mixed)

        middle = np.outer(0.5 * (s1 + s2), rows.a0) + 0.5 * s2[:, None] * ((c1 + c2) @ rows.V.T)
        v = -self.sign * middle - poly.g0
        # Q as well is expanded where that costs less than its largest value
        away = leaves + width
        beyond = poly.largest_q * away**3 * (4 * np.linalg.norm(v, axis=1) + away)
        highest = poly.highest_q * way.first**4
        expanded = beyond < 0.5 * highest
        square = self._quadratic(
            c1, c2, s1, s2, poly.around(v, expanded), poly.turned(v), np.where(s1 > 0, spent, np.inf)
        )
        square = np.maximum(square, 0.0) + self.off_axes * rad**3 + poly.largest_s * mixed
        square += np.where(expanded, beyond, highest) + poly.rest(way, self.kappa5)
        # never worse than the way's own length
        found = np.sqrt(np.minimum(square, poly.top * way.whole**2)) * (1 + 1e-9)
        return np.where(reachable, found, 0.0)

    def _way(self, s: Floats, t: Floats) -> Way:
        """Bound all lengths for slopes up to s and rows up to t; ``|v|`` is at most hi times the radius."""
        poly = self.polynomial
        high = 2 - float(poly.expansion.low(np.asarray(self.radius), self.kappa5))
        return poly.way(np.minimum(s * t + poly.start, high * self.radius), self.radius, self.kappa5)

    def _room(self, s1: Floats, sigma1: Floats, sigma2: Floats) -> Floats:
        """Bound ``-sign t'w``: how far the predictor can go back before the slope falls below s1."""
        rows = self.rows
        beyond = rows.stretch + rows.farthest * self.radius + 1
        low, high = np.full(len(s1), rows.centre - beyond), np.full(len(s1), rows.centre + beyond)
        y = np.full(len(s1), self.target)
        for _ in range(BISECTIONS):  # l' grows with the predictor
            middle = 0.5 * (low + high)
            above = self.loss.derivatives(y, middle)[0] >= self.sign * s1
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        end = rows.centre + rows.stretch * (sigma2 if self.sign > 0 else sigma1)
        return self.sign * (end - (low if self.sign > 0 else high)) + 1e-12 * (1 + np.abs(end))

    def _quadratic(
        self, c1: Floats, c2: Floats, s1: Floats, s2: Floats, goal: Quadratic, turned: Quadratic, spent: Floats
    ) -> Floats:
        """Bound the goal over the tilts of each cell for which ``turned <= spent``."""
        h = np.column_stack([0.5 * (c2 - c1), 0.5 * (s2 - s1)]) * (1 + 4 * UNIT)
        a0 = np.broadcast_to(-self.sign * self.rows.a0, goal.b.shape)
        E = np.concatenate([(-self.sign * s2)[:, None, None] * self.rows.V, a0[:, :, None]], axis=2)
        Y = (-self.sign * s2)[:, None, None] * self.rows.J
        best = np.full(len(c1), np.inf)
        for share in SHARES:
            m = share * self.polynomial.top
            left = m * (spent - turned.constant) if share > 0 else 0.0
            M, b = goal.M - m * turned.M, goal.b - m * turned.b
            best = np.minimum(best, part_of_ball(0.5 * (c1 + c2), h, M, b, goal.constant + left, Y, E))
        return best


def tilts(polynomial: Polynomial, rows: Rows, loss: Any, targets: Floats) -> tuple[Tilt, ...] | None:
    """Prepare the landscapes of both signs of s; None where the expansion does not reach as far as people move.

    ``targets`` are the y of the largest and of the smallest slope. Let her weight grow from 0 to 1, and that of g0 with
    it: while ``|w| <= radius`` the predictor goes the way of the slope by ``|t||g0|/lo`` at most and back by
    ``|s||t|^2/hi`` at least, so ``|s t| <= _pull``, and ``|w| <= (_pull + |g0|)/lo``. If this is below the radius, w
    never gets there.
    """
    e, g = polynomial.expansion, polynomial.start
    off_axes, off_third = _off(polynomial, rows)
    found = []
    for sign, target in zip((1.0, -1.0), targets, strict=True):
        for radius, kappa5 in zip(e.radius, e.fifth, strict=True):
            low = float(e.low(radius, kappa5))
            if not low > 0.25:
                return None
            if _pull(rows, loss, target, sign, g / low, 2 - low) + g < low * radius:
                break
        else:
            return None
        steepest = _steepest(rows, loss, target, sign, rows.farthest * g / low)
        if steepest > 0:
            shape = (rows, polynomial, off_axes, off_third, float(radius), float(kappa5))
            found.append(Tilt(sign, steepest, loss, float(target), *shape))
    return tuple(found)


def _off(polynomial: Polynomial, rows: Rows) -> tuple[float, float]:
    """Return how large S and Phi3 are away from the axes."""
    J = rows.J
    tensors = (polynomial.S, polynomial.expansion.third)
    sizes = [cubic_top(np.einsum("abc,ai,bj,ck->ijk", tensor, J, J, J, optimize=True)) for tensor in tensors]
    return sizes[0] * (1 + 1e-9), sizes[1] * (1 + 1e-9)


def rows_of(around: Whitening, region: Domain, theta: Floats) -> Rows:
    """Turn the domain into the frame, its first axis along theta."""
    lengths = slices(region, theta, around.T.T @ around.T)
    J = around.T @ region.T @ lengths.basis
    edges = np.linspace(-1, 1, 65)
    farthest = float(np.sqrt(max(lengths.upper(edges[:-1], edges[1:]).max(), 0.0))) * (1 + 1e-9)
    centre, stretch = float(region.x0 @ theta), float(np.linalg.norm(region.T.T @ theta))
    return Rows(around.T @ region.x0, J[:, :1], J[:, 1:], centre, stretch, lengths, farthest)


def radii(rows: Rows, g0: Floats, loss: Any, targets: Floats) -> Floats:
    """Return radii worth folding for: a little beyond the first step of the one who moves the farthest."""
    pulls = [_pull(rows, loss, target, sign, 0.0, 1.0) for sign, target in zip((1.0, -1.0), targets, strict=True)]
    reach = np.array(pulls) + np.linalg.norm(g0) + 1e-300
    return np.unique(np.outer(reach, BEYOND))


def _along(c1: Floats, c2: Floats, s1: Floats, s2: Floats) -> tuple[Floats, Floats]:
    """Return the range of the part of x along theta, ``c s2/s``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(s1 > 0, s2 / s1, np.inf)
        low = np.where(c1 < 0, np.maximum(np.where(c1 < 0, c1, -1.0) * far, -1.0), c1)
        high = np.where(c2 > 0, np.minimum(np.where(c2 > 0, c2, 1.0) * far, 1.0), c2)
    return low, np.maximum(low, high)


def _steepest(rows: Rows, loss: Any, target: float, sign: float, shift: float) -> float:
    """Return the largest ``|l'|`` of one sign where predictors go on by ``shift``."""
    eta = np.array([rows.centre + sign * (rows.stretch + shift + 1e-12)])
    return max(sign * float(loss.derivatives(np.array([target]), eta)[0][0]), 0.0) * (1 + 1e-12)


def _pull(rows: Rows, loss: Any, target: float, sign: float, shift: float, high: float) -> float:
    """Return the largest ``|s t|`` where ``|s| <= |l'(eta + shift |t| - |s||t|^2/high)|``: she pulls herself back."""
    edges = rows.farthest * np.linspace(0, 1, PULLS + 1)
    t1, t2 = edges[:-1], edges[1:]
    start = rows.centre + sign * (rows.stretch + shift * t2 + 1e-12)
    y = np.full(PULLS, target)
    low, up = np.zeros(PULLS), np.maximum(sign * loss.derivatives(y, start)[0], 0.0) * (1 + 1e-12)
    for _ in range(BISECTIONS):
        s = 0.5 * (low + up)
        reached = sign * loss.derivatives(y, start - sign * s * t1**2 / high)[0] >= s
        low, up = np.where(reached, s, low), np.where(reached, up, s)
    return float((up * t2).max()) * (1 + 1e-9)
