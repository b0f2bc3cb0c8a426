"""Gradient ascent of one person's row of a small table on how far it moves the fit, exactly.

With theta' the minimum with that person, xi its displacement in the coordinates of the release and
``a = (H + l'' t t')^-1 xi``, ``t = K'z``, the gradient of ``|xi|^2/2`` by the row is ``-(l' K a + l'' (t'a) theta')``.

Each value is a refit that starts from the last one, hence one row at a time (``bounds.projected_ascent`` takes many).
"""

from __future__ import annotations

import numpy as np

from perinstance.analysis.within_bounds.by_sphere.gradient_enclosure import ScaledTable
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import INTO_BALL, OBJECTIVE_ERROR, VANISHING

#: steps of the ascent, and of Newton's method in each of them
ROUNDS = 150
NEWTON_STEPS = 40
#: relative to the radius; a shorter step ends the ascent
SHORTEST = 1e-7


def refit_ascent(rows: ScaledTable, x: Floats, y: float) -> Floats:
    """Return the row of the ball where the ascent from x ends; nothing is proved here."""
    xi, slope = _displacement(rows, x, y, np.zeros(len(rows.theta)))
    step = 1.0
    for _ in range(ROUNDS):
        size = float(np.linalg.norm(slope))
        if step < SHORTEST or not size > 0:
            break
        trial = x + step * rows.radius / size * slope
        trial = trial * min(1.0, rows.radius * INTO_BALL / max(float(np.linalg.norm(trial)), VANISHING))
        there, slope_there = _displacement(rows, trial, y, xi)
        if there @ there > xi @ xi:
            x, xi, slope, step = trial, there, slope_there, 2 * step
        else:
            step /= 4
    return x


def _displacement(rows: ScaledTable, x: Floats, y: float, start: Floats) -> tuple[Floats, Floats]:
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
            # values no longer tell two places apart; the step still helps
            if not -(g @ move) > OBJECTIVE_ERROR * (1 + abs(now)):
                xi = xi + move
                break
            while length > 1e-6 and not value(xi + length * move) < now:
                length /= 2
            xi = xi + length * move
        theta, t, a = rows.theta + rows.K @ xi, Z[-1], np.linalg.solve(H, xi)
    slope = -(l1[-1] * (rows.K @ a) + l2[-1] * (t @ a) * theta)
    return xi, slope[: rows.width]
