"""Renyi divergences of sampled steps: ``K(alpha - 1)/(alpha - 1)``."""

from __future__ import annotations

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import QUADRATURE_UP
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.line_tables import LineTables
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND


def renyi_of_steps(view: LossCoordinates, alpha: Floats) -> Floats:
    """Return the divergence of the sampled steps alone, rounded up, in the direction of the view.

    Orders whose moments lie beyond 60 standard deviations of the noise get an upper bound: with the person,
    ``log(1 + q (e^{alpha (alpha - 1) m^2/2} - 1))``, and without them the largest loss.
    """
    steps = view.sampled
    assert steps is not None
    t = alpha - 1.0
    out = steps.largest_loss()
    finite = np.isfinite(t)
    for order in np.unique(t[finite]):
        rows = np.flatnonzero(t == order)
        some = steps[rows]
        kinds = some.kinds()
        if order == 0.0:
            out[rows] = some.divergence()
            continue
        each = LineTables(some).real(float(order), kinds)[:, :1] / order
        q, m = some.rates[kinds, None], some.distances[kinds, None]
        with np.errstate(over="ignore", invalid="ignore"):
            half = 0.5 * m * m * order * (order + 1.0)
            bound = np.logaddexp(0.0, half + np.log(q))
            bound = bound if some.over else -np.log1p(-q) * order
        each = np.where(each < BEYOND / order, each, bound / order)
        out[rows] = np.minimum(out[rows], some.total(each, kinds)[:, 0])
    return out * QUADRATURE_UP
