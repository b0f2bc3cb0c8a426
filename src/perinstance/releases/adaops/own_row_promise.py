"""What AdaOPS promises a person of a shorter row and a smaller label: the promise, scaled along its own proof.

In units of the declared bounds let ``u = ||x||/B_x``, ``v = |y|/B_y`` and ``t = max(u, v)``. For this person

- the smallest eigenvalue moves by at most ``||x||^2`` (Weyl), so its distance is at most u^2 times the planned one;
  those of the count and of the estimate's size stay as planned;
- ``mu = x'H^-1x <= u^2/floor`` where H is at least ``floor B_x^2``;
- the bound b on everybody's residual is ``B_y + B_x s`` with ``||theta|| <= s`` on the same event, so
  ``|y - x'theta| <= v B_y + u B_x s <= t b``, and rho is at most t times the corner's.

The corners shrink to ``(u^2/floor, t rho)``, all with mu < 1, and the argument of ``promises.promise`` applies to them
as it stands. Nothing here depends on other rows, nor on what was drawn.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from perinstance.numerics.rounding import BOUND_UP
from perinstance.releases.adaops.mechanism import Plan, Request, plan
from perinstance.releases.promises.promise import Promise

LEVELS = 16  # u and t are rounded up to multiples of 1/16: few promises serve everybody


@lru_cache(maxsize=512)
def own_row_epsilon(request: Request, u_level: int, t_level: int, delta: float) -> float:
    """Return epsilon at delta for rows of ``u <= u_level/16`` and ``t <= t_level/16``."""
    return scaled_promise(plan(request), u_level / LEVELS, t_level / LEVELS).epsilon(delta)


def scaled_promise(spent: Plan, u: float, t: float) -> Promise:
    """Return the promise with its parts scaled."""
    parts = [(spent.eigenvalue, u * u), (spent.count, 1.0), (spent.size, 1.0)]
    squares = [(part.distance * share) ** 2 for part, share in parts if part is not None]
    mu = u * u / spent.corners.floors * BOUND_UP
    rho = t * spent.corners.residuals * BOUND_UP
    whole = spent.conversion.promise
    distance = min(math.sqrt(math.fsum(squares)) * BOUND_UP, whole.distance)
    return Promise(distance, tuple(mu.tolist()), tuple(rho.tolist()), whole.failure)


def level(share: float) -> int:
    """Round a share of a bound up to a level; never beyond the bound itself, to which rows are clipped."""
    return min(math.ceil(share * LEVELS * BOUND_UP), LEVELS)


def levels(row: np.ndarray, y: float, x_bound: float) -> tuple[int, int]:
    """Return the levels of u and t of one row in units, with labels in [-1, 1]."""
    u = level(float(np.linalg.norm(row)) / x_bound)
    return u, max(u, level(abs(y)))
