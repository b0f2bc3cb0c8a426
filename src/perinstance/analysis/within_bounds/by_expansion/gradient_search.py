"""How far anybody in a ball can move the minimum of a smooth model: a landscape over the gradient that they add.

Somebody who joins with row z and target y adds the gradient ``s z``, ``s = l'(y, z'theta')`` at the *new* minimum
theta'. So everybody is an added gradient in the objective of the others, and no curvature of their own enters
(``step_polynomial``). Gradients are searched in cells of ``|s|`` and of the parts of ``s x`` along a few axes, the
first of them theta. In a cell the polynomial is expanded around the middle: all but the cube of what leaves the axes is
a quadratic, and a quadratic over a ball is a trust region (``quadratic_duality``). The slope shrinks as the
minimum moves: ``l'(y, z'theta + t'w) >= s`` limits ``-s t'w``, which is a quadratic in the same sense, and gets a
second multiplier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.analysis.bounds.branch_and_bound import Found
from perinstance.analysis.bounds.trust_region_slices import Domain, Slices, slices
from perinstance.analysis.within_bounds.by_expansion.step_polynomial import Quadratic, StepLengths, StepPolynomial
from perinstance.models.smooth.fit.whitening import Whitening
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, PREDICTOR_ERROR, TABLE_SUM_UP, UNIT, VANISHING
from perinstance.numerics.tensor_norms import cubic_top
from perinstance.numerics.trust_region.quadratic_duality import part_of_ball

#: second multipliers that are tried, as shares of the largest eigenvalue of N
SHARES = (0.0, 0.3, 0.6, 0.9, 1.1)
BISECTIONS = 60
#: lengths of rows told apart when the largest added gradient is bounded
ROW_LENGTHS = 256
#: radii that are tried, relative to the first step of the one who moves the farthest
BEYOND = (1.03, 1.08, 1.15, 1.3, 1.6, 2.2, 4.0)
#: cells at once
CHUNK = 2048


@dataclass(frozen=True, slots=True)
class FramedDomain:
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

    def with_axis_of(self, S: Floats) -> FramedDomain:
        """Make one more axis of the direction in which the cubic S is largest."""
        inner = np.einsum("abc,ai,bj,ck->ijk", S, self.J, self.J, self.J, optimize=True)
        axis = np.linalg.svd(inner.reshape(len(inner), -1))[0][:, :1]
        rotation = np.linalg.qr(np.concatenate([axis, np.eye(len(axis))], axis=1))[0]
        J = self.J @ rotation
        return replace(self, V=np.concatenate([self.V, J[:, :1]], axis=1), J=J[:, 1:])


@dataclass(frozen=True, slots=True)
class Limited:
    """Maximise ``goal`` where ``change <= most``."""

    goal: Quadratic
    change: Quadratic
    most: Floats


@dataclass(frozen=True, slots=True)
class GradientLandscape:
    """Landscape over c (the parts of ``s x`` along the axes) and f (``|s|``, a share of the largest); one sign of s."""

    sign: float
    steepest: float  #: the largest |s|
    loss: Any
    target: float  #: the y whose slope is the largest in this direction
    domain: FramedDomain
    polynomial: StepPolynomial
    off_axes: float  #: sup |S(Jx)|, |x| = 1
    off_third: float  #: the same of Phi3
    radius: float  #: nobody moves farther
    kappa5: float  #: within the radius

    @property
    def geometric(self) -> tuple[bool | None, ...]:
        """Halve all."""
        return (False,) * (self.domain.V.shape[1] + 1)

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

    def sharpened(self, cell: Floats) -> GradientLandscape:
        """Return itself."""
        return self

    def with_one_more_axis(self) -> GradientLandscape:
        """Return the same over cells with one more axis."""
        domain = self.domain.with_axis_of(self.polynomial.S)
        off_axes, off_third = _off(self.polynomial, domain)
        return replace(self, domain=domain, off_axes=off_axes, off_third=off_third)

    def _bound(self, cells: Floats) -> Floats:
        c1, c2 = cells[:-2:2].T, cells[1:-2:2].T
        s1, s2 = cells[-2] * self.steepest, cells[-1] * self.steepest
        domain, poly, e = self.domain, self.polynomial, self.polynomial.expansion
        g = poly.start
        sigma1, sigma2 = _along(c1[:, 0], c2[:, 0], s1, s2)
        room = self._room(s1, sigma1, sigma2)
        limit = np.maximum(domain.lengths.upper(sigma1, sigma2), 0.0) * TABLE_SUM_UP  # of |t|^2
        possible = np.ones(len(s1), dtype=bool)
        for _ in range(2):
            t = np.sqrt(limit)
            left = room + t * (g + self._lengths(s2, t).correction)
            with np.errstate(divide="ignore", invalid="ignore"):
                limit = np.minimum(limit, np.where(s1 > 0, np.maximum(left, 0.0) / s1, np.inf))
            possible &= (left >= 0) | (s1 == 0)
        step = self._lengths(s2, np.sqrt(limit))

        # what leaves the axes, and how far gradients of the cell lie from its middle
        nearest = np.where((c1 < 0) & (c2 > 0), 0.0, np.minimum(c1**2, c2**2)).sum(axis=1)
        possible &= nearest <= BOUND_UP
        rad = s2 * np.sqrt(np.maximum(1 - nearest, 0.0))
        leaves = rad * domain.wide
        width = 0.5 * s2 * ((c2 - c1) @ np.linalg.norm(domain.V, axis=0)) + 0.5 * (s2 - s1) * np.linalg.norm(domain.a0)
        mixed = width * (3 * leaves**2 + 3 * leaves * width + width**2)
        first = step.first
        spent = s2 * np.maximum(room, 0.0) + first * (g + step.second_correction) + 0.5 * e.size3 * g * first**2
        spent += 0.5 * (self.off_third * rad**3 + e.size3 * mixed)

        middle = np.outer(0.5 * (s1 + s2), domain.a0) + 0.5 * s2[:, None] * ((c1 + c2) @ domain.V.T)
        v = -self.sign * middle - poly.g0
        # Q as well is expanded where that costs less than its largest value
        away = leaves + width
        beyond = poly.largest_q * away**3 * (4 * np.linalg.norm(v, axis=1) + away)
        highest = poly.highest_q * first**4
        expanded = beyond < 0.5 * highest
        limited = Limited(poly.around(v, expanded), poly.predictor_change(v), np.where(s1 > 0, spent, np.inf))
        square = self._quadratic(c1, c2, s1, s2, limited)
        square = np.maximum(square, 0.0) + self.off_axes * rad**3 + poly.largest_s * mixed
        square += np.where(expanded, beyond, highest) + poly.rest(step, self.kappa5)
        # never worse than the length of the step itself
        found = np.sqrt(np.minimum(square, poly.top * step.whole**2)) * TABLE_SUM_UP
        return np.where(possible, found, 0.0)

    def _lengths(self, s: Floats, t: Floats) -> StepLengths:
        """Bound all lengths for slopes up to s and rows up to t; ``|v|`` is at most hi times the radius."""
        poly = self.polynomial
        high = 2 - float(poly.expansion.low(np.asarray(self.radius), self.kappa5))
        return poly.lengths(np.minimum(s * t + poly.start, high * self.radius), self.radius, self.kappa5)

    def _room(self, s1: Floats, sigma1: Floats, sigma2: Floats) -> Floats:
        """Bound ``-sign t'w``: how far the predictor can go back before the slope falls below s1."""
        domain = self.domain
        beyond = domain.stretch + domain.farthest * self.radius + 1
        low, high = np.full(len(s1), domain.centre - beyond), np.full(len(s1), domain.centre + beyond)
        y = np.full(len(s1), self.target)
        for _ in range(BISECTIONS):  # l' grows with the predictor
            middle = 0.5 * (low + high)
            above = self.loss.derivatives(y, middle)[0] >= self.sign * s1
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        end = domain.centre + domain.stretch * (sigma2 if self.sign > 0 else sigma1)
        return self.sign * (end - (low if self.sign > 0 else high)) + PREDICTOR_ERROR * (1 + np.abs(end))

    def _quadratic(self, c1: Floats, c2: Floats, s1: Floats, s2: Floats, limited: Limited) -> Floats:
        """Bound the goal over the gradients of each cell that keep to the limit."""
        goal, change = limited.goal, limited.change
        h = np.column_stack([0.5 * (c2 - c1), 0.5 * (s2 - s1)]) * (1 + 4 * UNIT)
        a0 = np.broadcast_to(-self.sign * self.domain.a0, goal.b.shape)
        E = np.concatenate([(-self.sign * s2)[:, None, None] * self.domain.V, a0[:, :, None]], axis=2)
        Y = (-self.sign * s2)[:, None, None] * self.domain.J
        best = np.full(len(c1), np.inf)
        for share in SHARES:
            m = share * self.polynomial.top
            left = m * (limited.most - change.constant) if share > 0 else 0.0
            M, b = goal.M - m * change.M, goal.b - m * change.b
            best = np.minimum(best, part_of_ball(0.5 * (c1 + c2), h, M, b, goal.constant + left, Y, E))
        return best


def gradient_landscapes(
    polynomial: StepPolynomial, domain: FramedDomain, loss: Any, targets: Floats
) -> tuple[GradientLandscape, ...] | None:
    """Prepare the landscapes of both signs of s; None where people move farther than the expansion is valid.

    ``targets`` are the y of the largest and of the smallest slope. Let the weight of the person grow from 0 to 1, and
    that of g0 with it: while ``|w| <= radius`` the predictor moves in the direction of the slope by ``|t||g0|/lo`` at
    most and back by ``|s||t|^2/hi`` at least, so ``|s t| <= largest`` (``_largest_gradient``), and
    ``|w| <= (largest + |g0|)/lo``. If this is below the radius, w never gets there.
    """
    e, g = polynomial.expansion, polynomial.start
    off_axes, off_third = _off(polynomial, domain)
    found = []
    for sign, target in zip((1.0, -1.0), targets, strict=True):
        for radius, kappa5 in zip(e.radius, e.fifth, strict=True):
            low = float(e.low(radius, kappa5))
            if not low > 0.25:
                return None
            if _largest_gradient(domain, loss, target, sign, g / low, 2 - low) + g < low * radius:
                break
        else:
            return None
        steepest = _steepest(domain, loss, target, sign, domain.farthest * g / low)
        if steepest > 0:
            shape = (domain, polynomial, off_axes, off_third, float(radius), float(kappa5))
            found.append(GradientLandscape(sign, steepest, loss, float(target), *shape))
    return tuple(found)


def _off(polynomial: StepPolynomial, domain: FramedDomain) -> tuple[float, float]:
    """Return how large S and Phi3 are away from the axes."""
    J = domain.J
    tensors = (polynomial.S, polynomial.expansion.third)
    sizes = [cubic_top(np.einsum("abc,ai,bj,ck->ijk", tensor, J, J, J, optimize=True)) for tensor in tensors]
    return sizes[0] * TABLE_SUM_UP, sizes[1] * TABLE_SUM_UP


def framed_domain(around: Whitening, region: Domain, theta: Floats) -> FramedDomain:
    """Write the domain in the frame, its first axis along theta."""
    lengths = slices(region, theta, around.T.T @ around.T)
    J = around.T @ region.T @ lengths.basis
    edges = np.linspace(-1, 1, 65)
    farthest = float(np.sqrt(max(lengths.upper(edges[:-1], edges[1:]).max(), 0.0))) * TABLE_SUM_UP
    centre, stretch = float(region.x0 @ theta), float(np.linalg.norm(region.T.T @ theta))
    return FramedDomain(around.T @ region.x0, J[:, :1], J[:, 1:], centre, stretch, lengths, farthest)


def radii(domain: FramedDomain, g0: Floats, loss: Any, targets: Floats) -> Floats:
    """Return radii worth folding for: a little beyond the first step of the one who moves the farthest."""
    signs = zip((1.0, -1.0), targets, strict=True)
    largest = [_largest_gradient(domain, loss, target, sign, 0.0, 1.0) for sign, target in signs]
    return np.unique(np.outer(np.array(largest) + np.linalg.norm(g0) + VANISHING, BEYOND))


def _along(c1: Floats, c2: Floats, s1: Floats, s2: Floats) -> tuple[Floats, Floats]:
    """Return the range of the part of x along theta, ``c s2/s``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(s1 > 0, s2 / s1, np.inf)
        low = np.where(c1 < 0, np.maximum(np.where(c1 < 0, c1, -1.0) * far, -1.0), c1)
        high = np.where(c2 > 0, np.minimum(np.where(c2 > 0, c2, 1.0) * far, 1.0), c2)
    return low, np.maximum(low, high)


def _steepest(domain: FramedDomain, loss: Any, target: float, sign: float, shift: float) -> float:
    """Return the largest ``|l'|`` of one sign where predictors go on by ``shift``."""
    eta = np.array([domain.centre + sign * (domain.stretch + shift + PREDICTOR_ERROR)])
    return max(sign * float(loss.derivatives(np.array([target]), eta)[0][0]), 0.0) * BOUND_UP


def _largest_gradient(domain: FramedDomain, loss: Any, target: float, sign: float, shift: float, high: float) -> float:
    """Return the largest ``|s t|`` where ``|s| <= |l'(eta + shift |t| - |s||t|^2/high)|``: slopes fall along a step."""
    edges = domain.farthest * np.linspace(0, 1, ROW_LENGTHS + 1)
    t1, t2 = edges[:-1], edges[1:]
    start = domain.centre + sign * (domain.stretch + shift * t2 + PREDICTOR_ERROR)
    y = np.full(ROW_LENGTHS, target)
    low, up = np.zeros(ROW_LENGTHS), np.maximum(sign * loss.derivatives(y, start)[0], 0.0) * BOUND_UP
    for _ in range(BISECTIONS):
        s = 0.5 * (low + up)
        above = sign * loss.derivatives(y, start - sign * s * t1**2 / high)[0] >= s
        low, up = np.where(above, s, low), np.where(above, up, s)
    return float((up * t2).max()) * TABLE_SUM_UP
