"""What a release promises, computed from its pairs: Gaussian parts, then one posterior sample at an unknown corner.

An adaptive release publishes some numbers with Gaussian noise (together D-GDP: distances add in quadrature) and then
draws one posterior sample whose leverage and residual are bounded by a *corner* that the published numbers chose.
The adversary may correlate the two, so the sample is charged with the pointwise envelope over all corners (MATH 4.5),

    T(e) = max_c max(delta_c^PQ(e), delta_c^QP(e))        for e of both signs,
    delta(epsilon) <= integral T(epsilon - l) dN(l; D^2/2, D^2) + failure        in both directions.

A corner stands for everybody of smaller leverage and residual. P over Q grows with both for ``e >= 0`` while the
corner's leverage is at most (1 + sqrt 5)/2, but Q over P does **not**: its losses end at
``(log(1 + mu) + rho^2/(1 + mu))/2``, which falls with mu. It lies below P over Q there, so the larger of the two
directions at the corner is above either direction of everybody; for ``e < 0`` the same follows from
``delta^PQ(e) = 1 - exp(e) + exp(e) delta^QP(-e)``. That is why T takes the worst direction. The proof is in
docs/mechanisms/adaops.md; ``LARGEST_LEVERAGE`` is where it ends.

T is a maximum of profiles: convex in ``exp(e)`` and falling, so it is itself the profile of some pair, which is why it
may be composed. The integral is a Riemann sum that takes T at the end of each cell where it is larger: an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from perinstance.checked_numbers import probability
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import PROFILE_UP
from perinstance.pairs import Posterior, Shift
from perinstance.record_tables import ShownAsTable

CELLS = 4096
LARGEST_LEVERAGE = 1.6  # of a corner: up to (1 + sqrt 5)/2 it is proved to stand for everybody below it
LOSS_RANGE = 10.0  # standard deviations of the Gaussian loss that are cut into cells; beyond, T <= 1 is charged


@dataclass(frozen=True, slots=True)
class Promise(ShownAsTable):
    """An upper bound on the privacy profile of a whole release, over all neighbours. It is public.

    ``leverage`` and ``residual`` are the corners (mu, rho) of the posterior sample; none for a purely Gaussian release.

    >>> Promise(distance=0.2).delta(1.0) <= 1e-6
    True
    """

    distance: float
    leverage: tuple[float, ...] = ()
    residual: tuple[float, ...] = ()
    failure: float = 0.0  #: probability that a bound the corners lean on does not hold

    @property
    def kind(self) -> str:
        """``"upper"`` when corners, cells or a failure probability enter; a Gaussian release is exact."""
        return "upper" if self.leverage or self.failure else "exact"

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at epsilon in both directions, for every data set and every person."""
        if not np.isfinite(epsilon):
            raise InvalidInput(f"epsilon must be a finite number, got {epsilon!r}")
        if not self.leverage:
            return min(1.0, float(Shift(self.distance).delta(epsilon)[0]) + self.failure)
        mu, rho = np.array(self.leverage), np.array(self.residual)
        if mu.max() > LARGEST_LEVERAGE:
            return 1.0  # nothing is proved of people below such a corner
        return min(1.0, profile(mu, rho, self.distance, epsilon).envelope + self.failure)

    def epsilon(self, delta: float) -> float:
        """Return an epsilon >= 0 at which both directions are at most delta: the smallest, plus at most 1e-6 of it."""
        probability("delta", delta)
        if self.failure >= delta or max(self.leverage, default=0.0) > LARGEST_LEVERAGE:
            return float("inf")
        low, high = 0.0, 1.0
        if self.delta(low) <= delta:
            return low
        while self.delta(high) > delta:
            low, high = high, 2.0 * high
        while high - low > 1e-6 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high


@dataclass(frozen=True, slots=True)
class Profile:
    """The composed delta with each corner alone, and with the envelope of all."""

    corners: Floats
    envelope: float


def profile(mu: Floats, rho: Floats, distance: float, epsilon: float, cells: int = CELLS) -> Profile:
    """Compose Gaussian parts at ``distance`` with the posterior pairs (mu, rho), as upper Riemann sums.

    In either direction the Gaussian loss is ``N(D^2/2, D^2)`` under the first distribution.
    """
    if distance == 0.0:
        alone = Posterior(mu, rho).delta(epsilon) * PROFILE_UP
        return Profile(alone, float(alone.max()))
    edges = np.linspace(-LOSS_RANGE, LOSS_RANGE, cells + 1)
    mass = _masses(edges)
    # T falls in its argument, so it is largest at the upper end of a cell of losses
    losses = distance * (0.5 * distance + edges[1:])
    pairs = Posterior(np.repeat(mu, cells), np.repeat(rho, cells))
    deltas = pairs.delta(np.tile(epsilon - losses, len(mu))).reshape(len(mu), cells)
    beyond = 2.0 * float(ndtr(-LOSS_RANGE))
    alone = (deltas @ mass + beyond) * PROFILE_UP
    return Profile(alone, float((deltas.max(axis=0) @ mass + beyond) * PROFILE_UP))


def _masses(edges: Floats) -> Floats:
    """Normal mass of each cell, without cancellation in the upper tail."""
    lower, upper = edges[:-1], edges[1:]
    mirrored = lower > 0
    a, b = np.where(mirrored, -upper, lower), np.where(mirrored, -lower, upper)
    return ndtr(b) - ndtr(a)
