"""How far anybody in a ball can move the minimum of a smooth model: her tilt, to fourth order, as a bracket.

Somebody who joins with row z and target y pulls with ``s z``, ``s = l'(y, z'theta')`` at the *new* minimum theta'. So in
the frame of the Hessian without her (``models.expansion``), with ``t = T z`` and ``theta' = theta + T'w``,

    grad Phi(w) = -s t,     v = -(s t + g0),     w = v - rho,     rho = Phi3[w,w]/2 + Phi4[w,w,w]/6 + rest:

no curvature of her own enters. Put into itself this says, N = diag(nu) the precision in the frame,

    |w|_N^2 = |v|_N^2 - Phi3[Nv,v,v] + Q4(v) + rest',
    Q4(v) = Phi3[Nv,v,Phi3[v,v]] - Phi4[Nv,v,v,v]/3 + |Phi3[v,v]|_N^2 / 4.

Q4 is at most its largest value times |v|^4, rest' is bounded by norms. The first two terms are searched in cells of s
and of ``z'theta``: the cubic is expanded around the middle of the cell, where all but the cube of what leaves the
slice is a quadratic, and a quadratic over a ball is a trust region, bounded by weak duality. In the search the slope
shrinks as she moves: ``l'(y, z'theta + t'w) >= s`` and ``t'w = -s |t|^2 - t'g0 - t'rho`` limit ``|t|^2``: a second
multiplier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.analysis.search import Found
from perinstance.analysis.slices import UNIT, Domain, Slices, slices
from perinstance.models.expansion import Expansion, cubic_top, quartic_top
from perinstance.models.frame import Frame

Floats = NDArray[np.float64]

#: multipliers of the limit on |t|^2, as shares of s^2 nu_max
SHARES = (0.0, 0.3, 0.6, 0.9, 1.1)
SECULAR_STEPS = 12
BISECTIONS = 60
#: radii that are tried, beside the first step of the one who moves the farthest
BEYOND = (1.03, 1.08, 1.15, 1.3, 1.6, 2.2, 4.0)
#: cells at once
CHUNK = 2048


@dataclass(frozen=True, slots=True)
class Tilt:
    """A landscape over c (the part of ``s x`` along theta) and f (``|s|`` as a share of the largest), one sign of s."""

    sign: float
    steepest: float  #: the largest |s|
    loss: Any
    target: float  #: the y whose slope is the largest in this direction
    centre: float  #: z'theta = centre + stretch sigma
    stretch: float
    nu: Floats
    g0: Floats
    a0: Floats  #: t = a0 + J u, |u| <= 1
    V: Floats  #: (p,) J times the direction along theta
    J: Floats  #: (p, m-1) J times the others
    lengths: Slices  #: |t|^2 over slices
    farthest: float  #: the largest |t|
    S: Floats  #: -sym(Phi3[N., ., .])
    size_S: float
    off_slice: float  #: sup |S[Jz, Jz, Jz]|
    off_third: float  #: the same of Phi3
    quartic: float  #: sup Q4, at least 0
    expansion: Expansion
    kappa5: float
    radius: float  #: nobody moves farther

    @property
    def geometric(self) -> tuple[bool | None, ...]:
        """Halve both."""
        return (False, False)

    def rough(self, cells: Floats) -> Floats:
        """Bound ``|w|_N`` in each cell."""
        parts = [self._bound(cells[:, i : i + CHUNK]) for i in range(0, cells.shape[1], CHUNK)]
        return np.concatenate(parts)

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

    def _bound(self, cells: Floats) -> Floats:
        c1, c2, f1, f2 = cells
        s1, s2 = f1 * self.steepest, f2 * self.steepest
        nu_max, g = float(self.nu[-1]), float(np.linalg.norm(self.g0))
        # u along theta is c s2/s
        with np.errstate(divide="ignore"):
            far = np.where(s1 > 0, s2 / np.where(s1 > 0, s1, 1.0), np.inf)
        with np.errstate(invalid="ignore"):
            sigma1 = np.where(c1 < 0, np.maximum(np.where(c1 < 0, c1, -1.0) * far, -1.0), np.minimum(c1, 1.0))
            sigma2 = np.where(c2 > 0, np.minimum(np.where(c2 > 0, c2, 1.0) * far, 1.0), np.maximum(c2, -1.0))
        sigma1, sigma2 = np.minimum(sigma1, sigma2), np.maximum(sigma1, sigma2)
        longest = np.sqrt(np.maximum(self.lengths.upper(sigma1, sigma2), 0.0)) * (1 + 1e-9)

        # the slope that is left: |t|^2 <= limit
        least = self._least(s1)
        end = self.centre + self.stretch * (sigma2 if self.sign > 0 else sigma1)
        room = self.sign * (end - least) + 1e-12 * (1 + np.abs(end))
        limit = longest**2
        for _ in range(2):
            size, r, rho, _ = self._way(s2, np.sqrt(limit), g)
            slack = np.sqrt(limit) * (g + rho)
            with np.errstate(divide="ignore", invalid="ignore"):
                limit = np.minimum(limit, np.where(s1 > 0, (room + slack) / np.where(s1 > 0, s1, 1.0), np.inf))
            reachable = limit >= 0
            limit = np.maximum(limit, 0.0)
        size, r, rho, rho2 = self._way(s2, np.sqrt(limit), g)

        # the cube of what leaves the slice, and what the cell's own width adds to it
        rad = s2 * np.sqrt(1 - np.clip(np.where((c1 < 0) & (c2 > 0), 0.0, np.minimum(c1**2, c2**2)), 0, 1))
        leaves = rad * self._reach
        width = 0.5 * (c2 - c1) * s2 * np.linalg.norm(self.V) + 0.5 * (s2 - s1) * np.linalg.norm(self.a0)
        wide = width * (3 * leaves**2 + 3 * leaves * width + width**2)
        cube = self.off_slice * rad**3 + self.size_S * wide
        e = self.expansion
        spent = s2 * np.maximum(room, 0.0) + size * (g + rho2) + 0.5 * e.size3 * g * size**2
        spent += 0.5 * (self.off_third * rad**3 + e.size3 * wide)
        square = self._quadratic(c1, c2, s1, s2, np.where(s1 > 0, spent, np.inf))
        rest = (
            2 * e.size3 * size**2 * rho2
            + e.size3 * size * rho**2
            + e.size4 * size * np.maximum(r, size) ** 2 * rho
            + size * self.kappa5 * r**4 / 12
            + e.size3 * size**2 * rho2
            + rho2**2
        )
        total = np.maximum(square, 0.0) + cube + self.quartic * size**4 + nu_max * rest
        # never worse than the way's own length
        found = np.sqrt(np.minimum(total, nu_max * r**2)) * (1 + 1e-9)
        return np.where(reachable, found, 0.0)

    @property
    def _reach(self) -> float:
        return float(np.linalg.norm(self.J, 2)) if self.J.shape[1] else 0.0

    def _way(self, s: Floats, t: Floats, g: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Bound ``|v|``, ``|w|``, ``|rho|`` and ``|rho - Phi3[v,v]/2|``."""
        e, k5 = self.expansion, self.kappa5
        size = s * t + g
        r = np.minimum(size / e.low(np.asarray(self.radius), k5), self.radius)
        for _ in range(6):
            r = np.minimum(r, size / e.low(r, k5))
        rho = r * (1 - e.low(r, k5))
        rho2 = e.size3 * size * rho + 0.5 * e.size3 * rho**2 + e.size4 * r**3 / 6 + k5 * r**4 / 24
        return size, r, rho, rho2

    def _least(self, s: Floats) -> Floats:
        """Return the predictor at which the slope is s: lower (or, for negative slopes, upper) ends of a bisection."""
        beyond = self.stretch + self.farthest * self.radius + 1
        low, high = np.full(len(s), self.centre - beyond), np.full(len(s), self.centre + beyond)
        y = np.full(len(s), self.target)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            above = self.loss.derivatives(y, middle)[0] >= self.sign * s
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return low if self.sign > 0 else high

    def _quadratic(self, c1: Floats, c2: Floats, s1: Floats, s2: Floats, spent: Floats) -> Floats:
        """Bound ``|v|_N^2 + S[v,v,v]``, but for the cube of what leaves the slice, under both limits.

        The second limit is ``|v + g0|^2 - Phi3[v,v,v]/2 <= spent``.
        """
        N, S = np.diag(self.nu), self.S
        c0, s0 = 0.5 * (c1 + c2), 0.5 * (s1 + s2)
        h = np.stack([0.5 * (c2 - c1), 0.5 * (s2 - s1)], axis=1) * (1 + 4 * UNIT)
        sign = -self.sign
        v = sign * (s0[:, None] * self.a0 + (s2 * c0)[:, None] * self.V) - self.g0
        Sv = np.einsum("ijk,cj->cik", S, v)
        M = N + 3 * Sv
        Svv = np.einsum("cik,ck->ci", Sv, v)
        b = v * self.nu + 1.5 * Svv
        constant = np.einsum("ci,ci->c", v * self.nu + Svv, v)
        Y = (sign * s2)[:, None, None] * self.J  # (cells, p, m-1)
        E = np.stack([(sign * s2)[:, None] * self.V, np.broadcast_to(sign * self.a0, v.shape)], axis=2)
        # the second limit in the same form: constant + 2 b'z + z'Mz <= spent
        Pv = np.einsum("ijk,cj->cik", self.expansion.third, v)
        Pvv = np.einsum("cik,ck->ci", Pv, v)
        moved = v + self.g0
        limit_M, limit_b = np.eye(len(self.nu)) - 1.5 * Pv, moved - 0.75 * Pvv
        limit_constant = np.einsum("ci,ci->c", moved, moved) - 0.5 * np.einsum("ci,ci->c", Pvv, v)
        best = np.full(len(c0), np.inf)
        for share in SHARES:
            mu = share * self.nu[-1]
            left = mu * (spent - limit_constant) if share > 0 else 0.0
            best = np.minimum(best, self._dual(c0, h, M - mu * limit_M, b - mu * limit_b, constant + left, Y, E))
        return best

    def _dual(self, c0: Floats, h: Floats, M: Floats, b: Floats, constant: Floats, Y: Floats, E: Floats) -> Floats:
        """Bound ``constant + 2 b'z + z'Mz``, ``z = E pi + Y x``, ``|pi| <= h``, ``|x|^2 + (c0 + pi_1)^2 <= 1``."""
        ME = M @ E
        linear = np.einsum("cip,ci->cp", E, b)
        square = np.einsum("cip,cij,cjq->cpq", E, M, E)
        room = np.maximum(1 - c0**2, 0.0)
        if Y.shape[2]:
            inner = np.swapaxes(Y, 1, 2) @ (M @ Y)
            values, U = np.linalg.eigh(0.5 * (inner + np.swapaxes(inner, 1, 2)))
            W = np.swapaxes(Y @ U, 1, 2)
            pull, cross = np.einsum("cxi,ci->cx", W, b), W @ ME
            multiplier = _secular(values, pull, room)
            inverse = 1 / (multiplier[:, None] - values)
            constant = constant + np.einsum("cx,cx->c", pull**2, inverse)
            linear = linear + np.einsum("cxp,cx,cx->cp", cross, inverse, pull)
            square = square + np.einsum("cxp,cx,cxq->cpq", cross, inverse, cross)
        else:
            multiplier = np.maximum(linear[:, 0] / np.where(c0 != 0, c0, np.inf), 0.0)
        linear[:, 0] -= multiplier * c0
        square[:, 0, 0] -= multiplier
        value = constant + multiplier * (1 - c0**2)
        size = np.abs(value) + np.einsum("cp,cp->c", np.abs(linear), h)
        # a parabola over a rectangle: the square's diagonal counts only where it is positive
        diagonal = np.maximum(np.einsum("cpp->cp", square), 0.0)
        value = value + 2 * np.einsum("cp,cp->c", np.abs(linear), h) + np.einsum("cp,cp->c", diagonal, h**2)
        if h.shape[1] > 1:
            value = value + 2 * np.abs(square[:, 0, 1]) * h[:, 0] * h[:, 1]
        return value + 64 * len(self.nu) * UNIT * size


def _secular(values: Floats, pull: Floats, room: Floats) -> Floats:
    """Solve ``sum pull^2/(m - values)^2 = room`` for m above all values and 0; any answer is safe, a good one tight."""
    top = np.maximum(values[:, -1], 0.0)
    gap = top[:, None] - values
    radius = np.sqrt(np.maximum(room, 1e-14))
    floor = 16 * UNIT * (np.abs(values).max(axis=1) + 1e-300)
    t = np.maximum(np.max(np.abs(pull) / radius[:, None] - gap, axis=1), floor)
    for _ in range(SECULAR_STEPS):
        inverse = 1 / (t[:, None] + gap)
        z2 = (pull * inverse) ** 2
        norm2, slope = z2.sum(axis=1), np.einsum("cx,cx->c", z2, inverse)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (np.sqrt(norm2) / radius - 1) * norm2 / slope
        t = np.maximum(t + np.where(slope > 0, step, 0.0), floor)
    return top + t


def tilts(
    around: Frame, expansion: Expansion, region: Domain, theta: Floats, g0: Floats, loss: Any, targets: Floats
) -> tuple[Tilt, ...] | None:
    """Prepare the landscapes of both signs of s; None where the expansion does not reach as far as people move."""
    T, nu, p = around.T, around.nu, len(theta)
    lengths = slices(region, theta, T.T @ T)
    farthest = _farthest(lengths)
    J = T @ region.T @ lengths.basis
    Ns = np.einsum("a,abc->abc", nu, expansion.third)
    S = -(Ns + np.swapaxes(Ns, 0, 1) + np.swapaxes(Ns, 0, 2)) / 3
    U3 = expansion.third.reshape(p, p * p)
    twice = (U3.T @ U3).reshape(p, p, p, p)
    Q4 = np.einsum("a,abcd->abcd", nu, twice - expansion.fourth / 3).reshape(p * p, p * p) + U3.T @ (nu[:, None] * U3) / 4
    off, off3 = (
        np.einsum("abc,ai,bj,ck->ijk", tensor, J[:, 1:], J[:, 1:], J[:, 1:], optimize=True)
        for tensor in (S, expansion.third)
    )
    slack = 1 + 64 * around.error
    centre, stretch = float(region.x0 @ theta), float(np.linalg.norm(region.T.T @ theta))
    g = float(np.linalg.norm(g0))
    found = []
    for sign, target in zip((1.0, -1.0), targets, strict=True):
        for radius, kappa5 in zip(expansion.radius, expansion.fifth, strict=True):
            low = float(expansion.low(radius, kappa5))
            if not low > 0.25:
                return None
            steepest = _steepest(loss, target, sign, centre + sign * (stretch + farthest * g / low + 1e-12))
            if steepest * farthest + g < low * radius:
                break
        else:
            return None
        if steepest <= 0:
            continue
        found.append(
            Tilt(
                sign, steepest, loss, target, centre, stretch, nu, g0, T @ region.x0, J[:, 0], J[:, 1:], lengths,
                farthest, S, slack * cubic_top(S), slack * cubic_top(off), slack * cubic_top(off3), slack * max(quartic_top(Q4), 0.0),
                expansion, float(kappa5), float(radius),
            )
        )
    return tuple(found)


def radii(around: Frame, region: Domain, theta: Floats, g0: Floats, loss: Any, targets: Floats) -> Floats:
    """Return radii worth folding for: a little beyond the first step of the one who moves the farthest."""
    lengths = slices(region, theta, around.T.T @ around.T)
    farthest = _farthest(lengths)
    centre, stretch = float(region.x0 @ theta), float(np.linalg.norm(region.T.T @ theta))
    first = [_steepest(loss, y, sign, centre + sign * stretch) for sign, y in zip((1.0, -1.0), targets, strict=True)]
    reach = np.array(first) * farthest + np.linalg.norm(g0) + 1e-300
    return np.unique(np.outer(reach, BEYOND).ravel())


def _farthest(lengths: Slices) -> float:
    """Return the largest |t| of the domain."""
    edges = np.linspace(-1, 1, 65)
    return float(np.sqrt(max(lengths.upper(edges[:-1], edges[1:]).max(), 0.0))) * (1 + 1e-9)


def _steepest(loss: Any, target: float, sign: float, eta: float) -> float:
    """Return ``|l'|`` at the end of the predictors where it is largest."""
    slope = float(loss.derivatives(np.array([target]), np.array([eta]))[0][0])
    return max(sign * slope, 0.0) * (1 + 1e-12)
