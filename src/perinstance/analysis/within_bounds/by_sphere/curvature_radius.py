"""How far anybody moves the fit of a small table at most, at once and crudely: what the others' curvature holds.

Over ways of length up to r the mean curvature of row j is at least ``c_j(r)``, the least of l'' at the fit and of the
chords to both ends of its reach (the losses' curvature has at most one maximum, so its mean is least at an end). With
``lam(r)`` the smallest eigenvalue of ``sum_j c_j z_j z_j' + penalty`` a pull q leads no farther than ``q/lam(r)``; if
that is below r, her way, which grows with her weight from 0 on, never gets to r. Her slope falls along it, so it is
largest where the way begins: at the fit, or as far from it as the share of a penalty that she brings has moved it.
"""

from __future__ import annotations

import numpy as np

from perinstance.analysis.within_bounds.by_sphere.gradient_enclosure import Table

#: radii that are tried, relative to the first step of the largest pull
RADII = np.exp(np.linspace(0.0, 14.0, 113))


def held(rows: Table, inside: float) -> float:
    """Return a radius that nobody gets to; inf where nothing is shown. All ways begin within ``inside`` of the fit."""
    d, theta, K = rows.width, rows.theta, rows.K
    longest = rows.radius * float(np.linalg.norm(K[:d], 2))
    reach = rows.radius * float(np.linalg.norm(theta[:d]))
    if rows.intercept:
        longest += float(np.linalg.norm(K[d]))
    reach += longest * inside
    middle = float(theta[d]) if rows.intercept else 0.0
    ends = np.array([middle - reach, middle + reach])
    steep = max(float(np.abs(rows.loss.derivatives(np.full(2, y), ends)[0]).max()) for y in rows.targets)
    l1, l2 = rows.loss.derivatives(rows.y, rows.eta)
    pull = (steep * longest + float(np.linalg.norm(l1 @ rows.Z + rows.slope))) * (1 + 1e-9)
    least = float(np.linalg.eigvalsh((rows.Z * l2[:, None]).T @ rows.Z + rows.stiff)[0])
    if not (least > 0 and np.isfinite(pull)):
        return float(np.inf)
    size = np.linalg.norm(rows.Z, axis=1) * (1 + 1e-12)
    for r in pull / least * RADII:
        m = r * np.maximum(size, 1e-12)
        with np.errstate(over="ignore", invalid="ignore"):
            chord = [rows.loss.slope_change(rows.y, rows.eta, way) / way for way in (m, -m)]
        c = np.maximum(np.minimum(l2, np.fmin(*chord)) * (1 - 1e-9), 0.0)
        lam = float(np.linalg.eigvalsh((rows.Z * c[:, None]).T @ rows.Z + rows.stiff)[0]) * (1 - 1e-9)
        if pull < r * lam:
            return float(r)
    return float(np.inf)
