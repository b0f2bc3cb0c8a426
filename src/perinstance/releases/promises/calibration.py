"""As much as a budget allows: the noise of Gaussian releases, and the temperature of a posterior sample.

Everything here is a function of epsilon, delta and public numbers. Answers are rounded toward privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from perinstance.checked_numbers import positive, probability
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_DOWN, BOUND_UP, DISTANCE_STEP
from perinstance.pairs import Shift
from perinstance.releases.promises.promise import Promise, profile

SEARCH_CELLS = 384  # of the Riemann sums while searching; the answer is checked with the fine ones
FLOORS = 2.0 ** (np.arange(1, 80) / 2)  # candidate floors h / B_x^2 of the smallest eigenvalue: public, 1.4 apart


def check_promise(epsilon: Any, delta: Any) -> tuple[float, float]:
    """Validate what is promised.

    >>> check_promise(1, 0)
    Traceback (most recent call last):
    ...
    perinstance.errors.InvalidInput: delta must lie in (0, 1), got 0; try delta=1e-6
    """
    return positive("epsilon", epsilon), probability("delta", delta)


@lru_cache(maxsize=256)
def gaussian_distance(epsilon: float, delta: float) -> float:
    """Return the largest D (rounded down) such that a D-GDP release is (epsilon, delta)-DP, and is said to be.

    Stated losses are rounded up by 2e-10: of somebody charged with all of D, too, no more than the promise is stated.

    >>> round(gaussian_distance(1.0, 1e-6), 4)
    0.2367
    """
    low, high = 0.0, 1.0
    while Shift(high).epsilon(delta)[0] <= epsilon:
        low, high = high, 2.0 * high
    while high - low > DISTANCE_STEP * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if Shift(middle).epsilon(delta)[0] <= epsilon else (low, middle)
    return low * BOUND_DOWN


def noise_scale(sensitivity: float, distance: float) -> float:
    """Return the standard deviation that puts two values ``sensitivity`` apart at ``distance``, rounded up."""
    return math.nextafter(sensitivity / distance, math.inf)


def tail_quantile(probability: float, distance: float) -> float:
    """Return q with ``Phi(-(q - D)) <= probability``: a one-sided bound that also holds on the neighbour's data."""
    return (distance - float(ndtri(probability))) * BOUND_UP


@dataclass(frozen=True, slots=True)
class Corners:
    """The posterior samples a release may end in: ``h = floor B_x^2``, ``mu = 1/floor``, and the rho each may use."""

    floors: Floats
    residuals: Floats  #: largest allowed rho = sqrt(gamma) sup|y - x'theta|, one for each floor
    promise: Promise


@lru_cache(maxsize=64)
def corners(epsilon: float, delta: float, distance: float, failure: float) -> Corners:
    """Calibrate every corner so that the whole release, whichever corner it ends in, is (epsilon, delta)-DP.

    Each corner alone, composed with the Gaussian parts, is given the same share of delta, and the share is the largest
    at which the envelope keeps the promise. The exact profile grows with mu while mu <= 1.6 (promise.py), so
    ``mu = 1/floor`` stands for all smaller leverages. Floors too low to keep the promise at any temperature are out.
    """
    room = delta - failure
    if room <= 0:
        raise InvalidInput(f"failure probabilities of {failure:g} leave nothing of delta={delta:g}")
    floors = FLOORS
    at_zero = profile(1.0 / floors, np.zeros_like(floors), distance, epsilon, SEARCH_CELLS).corners
    spent = float(Shift(distance).delta(epsilon)[0])  # what the Gaussian parts lose alone
    floors = floors[at_zero <= spent + 0.25 * (room - spent)]
    if not len(floors):
        raise InvalidInput(
            f"no posterior sample keeps epsilon={epsilon:g}, delta={delta:g}; use a larger epsilon or delta"
        )
    share = 1.0
    for _ in range(4):  # the envelope costs little: the share is close to one
        rho = _residuals(floors, distance, epsilon, share * room)
        envelope = profile(1.0 / floors, rho, distance, epsilon, SEARCH_CELLS).envelope
        if envelope <= room:
            break
        share *= 0.995 * room / envelope
    while True:
        promise = Promise(distance, tuple(1.0 / floors), tuple(rho), failure)
        if promise.delta(epsilon) <= delta:
            return Corners(floors, rho, promise)
        rho = rho * (1.0 - 2.0**-10)


def _residuals(floors: Floats, distance: float, epsilon: float, delta: float) -> Floats:
    """Return the largest rho of each corner whose composed profile is at most delta (all corners bisected at once)."""
    mu = 1.0 / floors
    low = np.zeros_like(mu)
    high = 0.5 * gaussian_distance(epsilon, delta) * np.sqrt(floors)  # as if the sample were a plain Gaussian shift
    kept = np.ones(len(mu), dtype=bool)
    while kept.any():
        high = np.where(kept, 2.0 * high, high)
        kept &= profile(mu, high, distance, epsilon, SEARCH_CELLS).corners <= delta
    for _ in range(13):
        middle = 0.5 * (low + high)
        kept = profile(mu, middle, distance, epsilon, SEARCH_CELLS).corners <= delta
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return low
