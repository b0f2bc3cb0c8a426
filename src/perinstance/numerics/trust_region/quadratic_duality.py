"""A quadratic over a part of a ball, bounded by weak duality: the trust region with a little room to move.

    constant + 2 b'z + z'Mz,   z = E pi + Y x,   |pi_j| <= h_j,   |x|^2 + sum_{j <= k} (c_j + pi_j)^2 <= 1.

For every multiplier ``m >= 0`` above the eigenvalues of ``Y'MY`` the maximum over x of the quadratic plus
``m (1 - |c + pi|^2 - |x|^2)`` is a quadratic in pi, known in closed form; its maximum over the rectangle is bounded
term by term. At the best m the derivatives along pi vanish where the loss is largest: the width of a cell costs little
there. On a sphere, with a box around the part, the same (``part_of_sphere``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ANY_POSITIVE, EIGENVALUE_UNITS, UNIT, VANISHING, ZERO_EIGENVALUE
from perinstance.numerics.trust_region.secular_equation import secular_root

#: Newton steps on the secular equation
SECULAR_STEPS = 12
#: times that the multipliers of a box on a sphere are adjusted
ADJUSTED = 3


def part_of_ball(c: Floats, h: Floats, M: Floats, b: Floats, constant: Floats, Y: Floats, E: Floats) -> Floats:
    """Return the bound of many such problems at once; the first axis counts them, c is (problems, k)."""
    k = c.shape[1]
    linear = np.einsum("cip,ci->cp", E, b)
    square = np.swapaxes(E, 1, 2) @ (M @ E)
    room = 1 - np.einsum("cp,cp->c", c, c)
    if Y.shape[2]:
        inner = np.swapaxes(Y, 1, 2) @ (M @ Y)
        values, U = np.linalg.eigh(0.5 * (inner + np.swapaxes(inner, 1, 2)))
        W = np.swapaxes(Y @ U, 1, 2)
        w, cross = np.einsum("cxi,ci->cx", W, b), W @ (M @ E)
    else:
        values, w, cross = np.zeros((len(c), 0)), np.zeros((len(c), 0)), np.zeros((len(c), 0, h.shape[1]))

    def bound(multiplier: Floats) -> Floats:
        inverse = 1 / (multiplier[:, None] - values)
        value = constant + multiplier * room + np.einsum("cx,cx->c", w**2, inverse)
        slope = linear + np.einsum("cxp,cx,cx->cp", cross, inverse, w)
        slope[:, :k] -= multiplier[:, None] * c
        bend = square + np.einsum("cxp,cx,cxq->cpq", cross, inverse, cross)
        bend[:, np.arange(k), np.arange(k)] -= multiplier[:, None]
        diagonal, off = np.maximum(np.einsum("cpp->cp", bend), 0.0), np.abs(bend) * (1 - np.eye(h.shape[1]))
        width = 2 * np.einsum("cp,cp->c", np.abs(slope), h) + np.einsum("cp,cp->c", diagonal, h**2)
        width += np.einsum("cpq,cp,cq->c", off, h, h)
        rounded = 64 * M.shape[1] * UNIT * (np.abs(constant) + multiplier + np.abs(value))
        return value + width * (1 + 64 * UNIT) + rounded

    # the best multiplier of the middle; that of the point of the part which has most room; and the one at which the
    # quadratic does not change towards the middle of the ball
    widest = 1 - (np.maximum(np.abs(c) - h[:, :k], 0.0) ** 2).sum(axis=1)
    floor = least_multiplier(values)
    radial = np.einsum("cp,cp->c", linear[:, :k], c) / np.maximum(1 - room, VANISHING)
    tried = [secular(values, w, np.maximum(r, 0.0)) for r in (room, widest)] if Y.shape[2] else [floor]
    return np.minimum.reduce([bound(multiplier) for multiplier in (*tried, np.maximum(radial, floor))])


@dataclass(frozen=True, slots=True)
class OnSphere:
    """Bounds, and what each side of the box costs in them."""

    bound: Floats
    cost: Floats  #: (problems, p)


def part_of_sphere(c: Floats, h: Floats, M: Floats, b: Floats, constant: Floats) -> OnSphere:
    """Bound ``constant + 2 b'z + z'Mz`` where ``|c + z| = 1``, ``|z_k| <= h_k``, by weak duality.

    For multipliers m >= 0 of ``z_k^2 <= h_k^2`` the one of the sphere solves a secular equation: with
    ``M - diag(m) = U diag(v) U'`` and ``r = U'b - v U'c`` it is ``sum r^2/(mu - v)^2 = 1``. The m start where they
    balance the slope along the sphere, and follow the maximiser.
    """
    n, p = c.shape
    at, k = np.arange(n), np.arange(p)
    e = c / np.linalg.norm(c, axis=1)[:, None]
    slope = np.einsum("cij,cj->ci", M, e - c) + b
    slope -= np.einsum("ci,ci->c", slope, e)[:, None] * e
    m = np.abs(slope) / (h + ANY_POSITIVE)
    m[at, np.abs(c).argmax(axis=1)] += 2 * np.linalg.norm(M, axis=(1, 2))  # the other side of the sphere is far away
    best, cost = np.full(n, np.inf), np.zeros((n, p))
    room = 1 - np.einsum("ci,ci->c", c, c)
    for _ in range(ADJUSTED):
        damped = M.copy()
        damped[:, k, k] -= m
        values, U = np.linalg.eigh(damped)
        ub, uc = np.einsum("cji,cj->ci", U, b), np.einsum("cji,cj->ci", U, c)
        top = values[:, -1]
        mu = top + secular(values - top[:, None], ub - values * uc, np.ones(n))
        gap, w = mu[:, None] - values, ub - mu[:, None] * uc
        spent = np.einsum("ci,ci->c", m, h**2)
        bound = constant + mu * room + spent + np.einsum("ci,ci->c", w / gap, w)
        size = np.abs(constant) + np.abs(mu) + spent + np.abs(values).max(axis=1)
        bound += 64 * p * UNIT * (size + np.einsum("ci,ci->c", np.abs(ub) + np.abs(mu[:, None] * uc), np.abs(w) / gap))
        better = bound < best
        best = np.where(better, bound, best)
        cost = np.where(better[:, None], m * h**2 + 0.2 * np.abs(slope) * h, cost)
        z = np.einsum("cij,cj->ci", U, w / gap)
        away = np.clip(np.abs(z) / (h + VANISHING), 0.2, 5.0)
        m = np.where((m > 0) | (away <= 1), m * away, 1e-3)
    return OnSphere(best, cost)


def least_multiplier(values: Floats) -> Floats:
    """Return the smallest multiplier that can be used: not negative, and just above all values."""
    if not values.shape[1]:
        return np.zeros(len(values))
    return np.asarray(np.maximum(values[:, -1], 0.0) + _above(values))


def secular(values: Floats, w: Floats, radius2: Floats) -> Floats:
    """Solve ``sum w^2/(m - values)^2 = radius2`` for m above all values and 0."""
    top = np.maximum(values[:, -1], 0.0)
    return np.asarray(top + secular_root(w, top[:, None] - values, radius2, _above(values), SECULAR_STEPS))


def _above(values: Floats) -> Floats:
    """Return how far above all values a multiplier must lie."""
    return np.asarray(EIGENVALUE_UNITS * UNIT * (np.abs(values).max(axis=1) + ZERO_EIGENVALUE))
