"""How large ``x'Mx`` can be where ``x'theta`` is given and x lies in a ball or an ellipsoid: the trust region, exactly.

The domain is ``x = x0 + T u``, ``||u|| <= 1``. With ``sigma`` the part of u along ``T'theta`` and z the rest,

    x'Mx = c + 2 b sigma + A sigma^2 + sum_i a_i z_i^2 + 2 (alpha_i sigma + beta_i) z_i,   ||z||^2 <= 1 - sigma^2.

For every multiplier ``nu >= max(a_1, 0)`` and every sigma at once (weak duality)

    x'Mx <= h_nu(sigma) = c + 2 b sigma + A sigma^2 + nu (1 - sigma^2) + sum_i (alpha_i sigma + beta_i)^2 / (nu - a_i),

with equality at the root of the secular equation ``sum_i (alpha_i sigma + beta_i)^2 / (nu - a_i)^2 = 1 - sigma^2``.
``h_nu`` is a parabola in sigma, so its maximum over an interval is known in closed form: an upper bound for a whole
interval of sigma that no rounding of nu can break.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import (
    BOUND_UP,
    FORM_UNITS,
    LEAST_SQUARED_RADIUS,
    LEAST_WEIGHT,
    UNIT,
    VANISHING,
    ZERO_FORM,
)

NEWTON_STEPS = 8  #: on the secular equation


@dataclass(frozen=True, slots=True)
class Domain:
    """``x = x0 + T u``, ``||u|| <= 1``, where the people that are asked about live (an intercept is last)."""

    x0: Floats  #: (p,)
    T: Floats  #: (p, m)
    longest: float = np.inf  #: a bound of ``||x||^2`` where more is known than the ellipsoid (a box inside it)

    def rows(self, u: Floats) -> Floats:
        """Return x of each row u."""
        return self.x0 + u @ self.T.T

    @property
    def square(self) -> float:
        """An upper bound of ``||x||^2``; x0 is orthogonal to the columns of T."""
        return min(float(self.x0 @ self.x0 + np.linalg.norm(self.T, 2) ** 2) * (1 + 8 * UNIT), self.longest)


def ellipsoid(half_axes: Floats, intercept: bool) -> Domain:
    """Axis-parallel ellipsoid of the features, with the constant 1 behind them when there is an intercept."""
    m = len(half_axes)
    T = np.zeros((m + int(intercept), m))
    T[:m] = np.diag(half_axes)
    x0 = np.zeros(m + int(intercept))
    if intercept:
        x0[-1] = 1.0
    return Domain(x0, T)


def enclosing(bounds: Floats, M: Floats, intercept: bool, steps: int = 60) -> Domain:
    """Return an ellipsoid around the box ``|x_j| <= bounds_j`` over which the form M stays small.

    ``sum_j w_j (x_j/B_j)^2 <= sum_j w_j`` holds on the box for any weights w > 0; the form M is then at most
    ``lambda_max(W^-1/2 B M B W^-1/2) sum w``: the dual of the semidefinite relaxation, minimised by steps along its
    smoothed gradient.
    """
    M = M * np.outer(bounds, bounds)
    w = np.full(len(bounds), 1.0 / len(bounds))
    best, least = w, np.inf
    for step in range(steps):
        root = 1 / np.sqrt(w)
        values, V = np.linalg.eigh(M * np.outer(root, root))
        if values[-1] < least:
            best, least = w, values[-1]
        share = (values.clip(0) / max(values[-1], VANISHING)) ** 24
        along = (V**2 @ share) / max(share.sum(), VANISHING)
        w = w * np.exp((1.0 if step < 20 else 0.4) * (along - w))
        w = np.maximum(w / w.sum(), LEAST_WEIGHT)
        w /= w.sum()
    around = ellipsoid(bounds / np.sqrt(best) * BOUND_UP, intercept)
    return replace(around, longest=float(bounds @ bounds + int(intercept)) * BOUND_UP)


@dataclass(frozen=True, slots=True)
class Slices:
    """One quadratic form over the slices of a domain."""

    basis: Floats  #: (m, m) first column along T'theta, the others diagonalise the form on its complement
    constant: float
    linear: float  #: b
    square: float  #: A
    a: Floats  #: (m-1,)
    alpha: Floats
    beta: Floats
    slack: float  #: covers the rounding of all the above

    def multipliers(self, sigma: Floats) -> Floats:
        """Solve the secular equation at each sigma; any answer is safe, a good one is tight."""
        if not len(self.a):
            return np.zeros(len(sigma))
        w, top = sigma[:, None] * self.alpha + self.beta, max(float(self.a[-1]), 0.0)  # above every a_i, not negative
        floor = FORM_UNITS * UNIT * float(np.max(np.abs(self.a))) + ZERO_FORM
        return top + secular_root(w, top - self.a, 1.0 - sigma**2, floor)

    def upper(self, low: Floats, high: Floats) -> Floats:
        """Return a bound of x'Mx for all x with sigma in [low, high], one for each interval."""
        end = np.where(np.abs(low) > np.abs(high), low, high)
        # at sigma = 0 the linear term can vanish and the best nu there is useless for it: also try that of one end
        return np.minimum(*(self._parabola(self.multipliers(at), low, high) for at in (0.5 * (low + high), end)))

    def _parabola(self, nu: Floats, low: Floats, high: Floats) -> Floats:
        """Return the maximum of ``h_nu`` over [low, high], rounded up."""
        p0, p1, p2 = np.full(len(nu), self.constant) + nu, np.full(len(nu), 2 * self.linear), self.square - nu
        inverse = 1.0 / (nu[:, None] - self.a)
        p0 = p0 + inverse @ self.beta**2
        p1 = p1 + 2 * (inverse @ (self.alpha * self.beta))
        p2 = p2 + inverse @ self.alpha**2
        with np.errstate(divide="ignore", invalid="ignore"):
            vertex = np.where(p2 < 0, np.clip(-p1 / (2 * p2), low, high), low)
        best = np.full(len(nu), -np.inf)
        for s in (low, high, vertex):
            best = np.maximum(best, p0 + s * (p1 + s * p2))
        far = np.maximum(np.abs(low), np.abs(high))
        return best + self.slack + 16 * UNIT * (np.abs(p0) + far * (np.abs(p1) + far * np.abs(p2)))

    def maximisers(self, sigma: Floats) -> Floats:
        """Return a u on the sphere, as good as the secular equation finds it, at each sigma."""
        u = np.empty((len(sigma), len(self.basis)))
        u[:, 0] = sigma
        if len(self.a):
            radius = np.sqrt(np.maximum(1.0 - sigma**2, 0.0))
            w = sigma[:, None] * self.alpha + self.beta
            z = w / (self.multipliers(sigma)[:, None] - self.a)
            short = np.maximum(radius**2 - np.einsum("ij,ij->i", z, z), 0.0)
            # the hard case: what is missing lies along the top eigenvector, with the sign of what is there
            sign = np.where(z[:, -1] < 0, -1.0, 1.0)
            z[:, -1] = sign * np.sqrt(z[:, -1] ** 2 + short)
            norm = np.linalg.norm(z, axis=1)
            z *= np.where(norm > 0, radius / np.where(norm > 0, norm, 1.0), 0.0)[:, None]
            u[:, 1:] = z
        return u @ self.basis.T


def secular_root(w: Floats, gap: Floats, radius2: Floats, floor: float) -> Floats:
    """Solve ``sum_i w_i^2 / (t + gap_i)^2 = radius2`` for each row of w; every ``t >= floor`` gives a valid bound.

    >>> float(secular_root(np.array([[3.0]]), np.array([1.0]), np.array([1.0]), 1e-12)[0])  # 9/(t + 1)^2 = 1
    2.0
    """
    radius = np.sqrt(np.maximum(radius2, LEAST_SQUARED_RADIUS))
    # Newton on 1/|x| - 1/radius grows to the root from below; each term alone gives a point below it
    t = np.maximum(np.max(np.abs(w) / radius[:, None] - gap, axis=1), floor)
    for _ in range(NEWTON_STEPS):
        inverse = 1.0 / (t[:, None] + gap)
        x2 = (w * inverse) ** 2
        norm2, slope = x2.sum(axis=1), np.einsum("ij,ij->i", x2, inverse)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (np.sqrt(norm2) / radius - 1.0) * norm2 / slope
        t = np.maximum(t + np.where(slope > 0, step, 0.0), floor)
    return t


def slices(domain: Domain, theta: Floats, M: Floats) -> Slices:
    """Diagonalise ``x'Mx`` on the complement of ``T'theta``."""
    T, x0 = domain.T, domain.x0
    m = T.shape[1]
    g = T.T @ theta
    norm = np.linalg.norm(g)
    first = g / norm if norm > 0 else np.eye(m)[0]
    # the other columns of a Householder reflection that maps e1 onto the first
    v = first.copy()
    v[0] += 1.0 if first[0] >= 0 else -1.0
    reflection = np.eye(m) - 2.0 * np.outer(v, v) / (v @ v)
    N = reflection[:, 1:]
    A = T.T @ M @ T
    A = 0.5 * (A + A.T)
    b = T.T @ (M @ x0)
    c = float(x0 @ M @ x0)
    if m > 1:
        a, V = np.linalg.eigh(N.T @ A @ N)
        rest = N @ V
    else:
        a, rest = np.empty(0), np.empty((1, 0))
    size = float(np.linalg.norm(A, 2)) + 2 * float(np.linalg.norm(b)) + abs(c)
    # the absolute values that went into A, b and c: what cancels in them has been rounded at that size
    rough = float(np.linalg.norm(np.abs(T).T @ np.abs(M) @ np.abs(T))) + float(np.abs(x0) @ np.abs(M) @ np.abs(x0))
    return Slices(
        basis=np.column_stack([first, rest]),
        constant=c,
        linear=float(b @ first),
        square=float(first @ A @ first),
        a=a,
        alpha=rest.T @ (A @ first),
        beta=rest.T @ b,
        slack=16 * m * UNIT * (size + rough),
    )
