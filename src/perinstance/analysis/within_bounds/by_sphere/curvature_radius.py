"""How far anybody moves the fit of a small table at most, at once and crudely, by the curvature of the others.

Over steps of length up to r the mean curvature of row j is at least ``c_j(r)``, the least of l'' at the fit and of the
chords to both ends of its interval (the losses' curvature has at most one maximum, so its mean is least at an end).
With ``lam(r)`` the smallest eigenvalue of ``sum_j c_j z_j z_j' + penalty`` an added gradient of length q moves the
minimum by ``q/lam(r)`` at most; if that is below r, the path of the minimum, as the person's weight grows from 0, never
gets to r. Their slope falls along it, so it is largest where the path begins: at the fit, or as far from it as the
share of a penalty that everybody brings has moved it.
"""

from __future__ import annotations

import numpy as np

from perinstance.analysis.within_bounds.by_sphere.gradient_enclosure import ScaledTable
from perinstance.numerics.rounding import BOUND_UP, SHORTEST_ROW, TABLE_SUM_DOWN, TABLE_SUM_UP

#: radii that are tried, relative to the first step of the largest gradient
RADII = np.exp(np.linspace(0.0, 14.0, 113))


def radius_by_curvature(rows: ScaledTable, inside: float) -> float:
    """Return a radius that nobody gets to; inf where nothing is shown. All paths begin within ``inside`` of the fit."""
    d, theta, K = rows.width, rows.theta, rows.K
    longest = rows.radius * float(np.linalg.norm(K[:d], 2))
    farthest = rows.radius * float(np.linalg.norm(theta[:d]))
    if rows.intercept:
        longest += float(np.linalg.norm(K[d]))
    farthest += longest * inside
    middle = float(theta[d]) if rows.intercept else 0.0
    ends = np.array([middle - farthest, middle + farthest])
    steep = max(float(np.abs(rows.loss.derivatives(np.full(2, y), ends)[0]).max()) for y in rows.targets)
    l1, l2 = rows.loss.derivatives(rows.y, rows.eta)
    gradient = (steep * longest + float(np.linalg.norm(l1 @ rows.Z + rows.slope))) * TABLE_SUM_UP
    least = float(np.linalg.eigvalsh((rows.Z * l2[:, None]).T @ rows.Z + rows.stiff)[0])
    if not (least > 0 and np.isfinite(gradient)):
        return float(np.inf)
    size = np.linalg.norm(rows.Z, axis=1) * BOUND_UP
    for r in gradient / least * RADII:
        m = r * np.maximum(size, SHORTEST_ROW)
        with np.errstate(over="ignore", invalid="ignore"):
            chord = [rows.loss.slope_change(rows.y, rows.eta, step) / step for step in (m, -m)]
        c = np.maximum(np.minimum(l2, np.fmin(*chord)) * TABLE_SUM_DOWN, 0.0)
        lam = float(np.linalg.eigvalsh((rows.Z * c[:, None]).T @ rows.Z + rows.stiff)[0]) * TABLE_SUM_DOWN
        if gradient < r * lam:
            return float(r)
    return float(np.inf)
