"""The secular equation of the trust region: which multiplier makes the maximiser of a quadratic as long as the radius.

    sum_i w_i^2 / (t + gap_i)^2 = radius^2,   t > 0,   gap_i >= 0,

for many problems at once. (That of a rank-one change of a symmetric matrix has first powers and is solved for an
eigenvalue: ``releases.adaops.eigenvalue_moves``.)
"""

from __future__ import annotations

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LEAST_SQUARED_RADIUS


def secular_root(w: Floats, gap: Floats, radius2: Floats, floor: Floats | float, steps: int) -> Floats:
    """Return t of each problem (a row of w), at least ``floor``; every t gives a valid bound, a good one a tight one.

    >>> float(secular_root(np.array([[3.0]]), np.array([1.0]), np.array([1.0]), 1e-12, 8)[0])  # 9/(t + 1)^2 = 1
    2.0
    """
    radius = np.sqrt(np.maximum(radius2, LEAST_SQUARED_RADIUS))
    # Newton on 1/|x| - 1/radius grows to the root from below; each term alone gives a point below it
    t = np.maximum(np.max(np.abs(w) / radius[:, None] - gap, axis=1), floor)
    for _ in range(steps):
        inverse = 1.0 / (t[:, None] + gap)
        x2 = (w * inverse) ** 2
        norm2, slope = x2.sum(axis=1), np.einsum("ij,ij->i", x2, inverse)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (np.sqrt(norm2) / radius - 1.0) * norm2 / slope
        t = np.maximum(t + np.where(slope > 0, step, 0.0), floor)
    return np.asarray(t)
