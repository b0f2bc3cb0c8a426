r"""Renyi divergences of sampled steps: ``K(alpha - 1)/(alpha - 1)``, rounded up by all that is charged to K.

The noise is followed to where the moment lies, which is about ``alpha m`` with the person. Moments beyond 1e5 standard
deviations of the noise are bounded instead. With the person, for every s in (0, 1), since powers are convex,
``E[w^alpha] <= s^(1 - alpha) (1 - q)^alpha + (1 - s)^(1 - alpha) q^alpha e^{alpha (alpha - 1) m^2/2}``: with a tiny s
that is the moment itself up to rounding wherever ``alpha m^2`` is beyond some hundreds. Without them the largest loss,
which it approaches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import FEW_ROUNDINGS, PROMISED, QUADRATURE_UP
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND, fill_log_moments
from perinstance.pairs.loss_sums.sampled.noise_cells import StepKind

FARTHEST = 1e5


def renyi_of_steps(view: LossCoordinates, alpha: Floats) -> Floats:
    """Return the divergence of the sampled steps alone, rounded up, in the direction of the view."""
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
        q, m = some.rates[kinds], some.distances[kinds]
        moments = np.empty(kinds.size)
        fill_moments(q, m, some.own_kl(kinds), some.over, float(order), moments)
        bound = _bound(q, m, float(order)) if some.over else -np.log1p(-q) * order
        each = np.where(moments < BEYOND, moments, bound) / order
        out[rows] = np.minimum(out[rows], some.total(each[:, None], kinds)[:, 0])
    return out * QUADRATURE_UP


def loose_orders(rate: Floats, distance: Floats, alpha: Floats, over: bool) -> NDArray[np.bool_]:
    """Whether the divergence of one step of each person is a bound, and not next to what it bounds.

    With the person a moment is at least that of the samples with them alone; without them at least
    ``Phi(x) w(x)^-order`` for any x. Where that is next to the bound, so is the moment.
    """
    order = np.where(np.isfinite(alpha), alpha - 1.0, 0.0)
    out = order * distance * (1.0 if over else rate / (1.0 - rate)) > FARTHEST
    for i in np.flatnonzero(out):
        t, q, m = float(order[i]), rate[i], distance[i]
        if over:
            least = (t + 1.0) * np.log(q) + 0.5 * m * m * t * (t + 1.0)
            most = float(_bound(rate[i : i + 1], distance[i : i + 1], t)[0])
        else:
            k = np.linspace(5.0, 80.0, 76)  # x where q e^{m x - m^2/2} = e^-k
            least = float(np.max(log_ndtr(0.5 * m - (k + np.log(q)) / m) - t * np.log1p(np.exp(-k) - q)))
            most = -np.log1p(-q) * t
        out[i] = most > least * (1.0 + PROMISED)
    return np.asarray(out)


def _bound(q: Floats, m: Floats, order: float) -> Floats:
    """Return the bound of ``log E[w^alpha]`` with the person, the best of a few s."""
    a = order + 1.0
    with np.errstate(over="ignore"):
        sampled = a * np.log(q) + 0.5 * m * m * a * order
        found = [
            np.logaddexp(a * np.log1p(-q) - order * np.log(s), sampled - order * np.log1p(-s))
            for s in (FEW_ROUNDINGS / a, 1.0 / a, 0.5, 1.0 - q)
        ]
    return np.min(found, axis=0)


@kernel
def fill_moments(rates, distances, kl, over, order, out):
    """Fill in ``log E[W e^{order lambda}]`` of every kind, rounded up, or ``BEYOND``."""
    found, lost = np.empty(1, np.complex128), np.empty(1)
    for j in range(rates.size):
        q, m = rates[j], distances[j]
        far = order * m if over else order * m * q / (1.0 - q)
        step = StepKind(q, m, over, min(far, FARTHEST))
        fill_log_moments(step, kl[j], order, 1.0, found, lost)
        out[j] = found[0].real + lost[0]
