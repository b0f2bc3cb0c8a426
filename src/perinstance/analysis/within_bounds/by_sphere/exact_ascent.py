"""Somebody of a small table walks to where she moves the fit farthest, along the exact gradient of her way.

With theta' the minimum with her, xi her way in the coordinates of the release and ``a = (H + l'' t t')^-1 xi``,
``t = K'z``, the gradient of ``|xi|^2/2`` by her row is ``-(l' K a + l'' (t'a) theta')``.
"""

from __future__ import annotations

import numpy as np

from perinstance.analysis.within_bounds.by_sphere.gradient_enclosure import Table
from perinstance.numerics.array_types import Floats

ROUNDS = 150
NEWTON_STEPS = 40
SHORTEST = 1e-7


def uphill(rows: Table, x: Floats, y: float) -> Floats:
    """Return the row of the ball where the walk from x ends; nothing is certified here."""
    way, slope = _way(rows, x, y, np.zeros(len(rows.theta)))
    step = 1.0
    for _ in range(ROUNDS):
        size = float(np.linalg.norm(slope))
        if step < SHORTEST or not size > 0:
            break
        trial = x + step * rows.radius / size * slope
        trial = trial * min(1.0, rows.radius * (1 - 1e-15) / max(float(np.linalg.norm(trial)), 1e-300))
        there, turned = _way(rows, trial, y, way)
        if there @ there > way @ way:
            x, way, slope, step = trial, there, turned, 2 * step
        else:
            step /= 4
    return x


def _way(rows: Table, x: Floats, y: float, start: Floats) -> tuple[Floats, Floats]:
    """Return xi and the gradient of half its square; Newton's method, damped while values do not fall."""
    z = np.append(x, 1.0) if rows.intercept else x
    Z, eta = np.vstack([rows.Z, z @ rows.K]), np.append(rows.eta, z @ rows.theta)
    target = np.append(rows.y, y)

    def value(xi: Floats) -> float:
        penalty = xi @ rows.slope + 0.5 * xi @ rows.stiff @ xi
        return float(rows.loss.value(target, eta + Z @ xi).sum() + penalty)

    xi = start
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(NEWTON_STEPS):
            l1, l2 = rows.loss.derivatives(target, eta + Z @ xi)
            H = (Z * l2[:, None]).T @ Z + rows.stiff
            g = l1 @ Z + rows.slope + rows.stiff @ xi
            move = -np.linalg.solve(H, g)
            now, length = value(xi), 1.0
            if not -(g @ move) > 1e-13 * (1 + abs(now)):  # values no longer tell two places apart; the step still helps
                xi = xi + move
                break
            while length > 1e-6 and not value(xi + length * move) < now:
                length /= 2
            xi = xi + length * move
        theta, t, a = rows.theta + rows.K @ xi, Z[-1], np.linalg.solve(H, xi)
    slope = -(l1[-1] * (rows.K @ a) + l2[-1] * (t @ a) * theta)
    return xi, slope[: rows.width]
