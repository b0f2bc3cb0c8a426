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

A person with k rows is taken out row by row, each of them below a corner: between the k + 1 data sets (MATH 12)

    T_k(e) = T(e/k) (1 + exp(e/k) + ... + exp(e (k - 1)/k)).

T is a maximum of profiles: convex in ``exp(e)`` and falling, so it is itself the profile of some pair, which is why it
may be composed. The integral is a Riemann sum that takes T at the end of each cell where it is larger: an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from perinstance.checked_numbers import positive, probability
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import (
    BOUND_DOWN,
    BOUND_UP,
    DISTANCE_STEP,
    FEW_ROUNDINGS,
    PROFILE_UP,
    ROUND_DOWN,
    STEP_UP,
    UNIT,
)
from perinstance.pairs import GaussianShift, PosteriorSamplePair
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
    rows_per_person: int = 1  #: how often a corner is passed; the distance is that of all the rows together

    @property
    def kind(self) -> str:
        """``"upper"`` when corners, cells or a failure probability enter; a Gaussian release is exact."""
        return "upper" if self.leverage or self.failure else "exact"

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at epsilon in both directions, for every data set and every person."""
        if not np.isfinite(epsilon):
            raise InvalidInput(f"epsilon must be a finite number, got {epsilon!r}")
        if not self.leverage:
            return min(1.0, float(GaussianShift(self.distance).delta(epsilon)[0]) + self.failure)
        mu, rho = np.array(self.leverage), np.array(self.residual)
        if mu.max() > LARGEST_LEVERAGE:
            return 1.0  # nothing is proved of people below such a corner
        return min(1.0, profile(mu, rho, self.distance, epsilon, rows=self.rows_per_person).envelope + self.failure)

    def epsilon(self, delta: float) -> float:
        """Return an epsilon >= 0 at which both directions are at most delta: the smallest, plus at most 1e-6 of it."""
        probability("delta", delta)
        if self.failure >= delta or max(self.leverage, default=0.0) > LARGEST_LEVERAGE:
            return float("inf")
        return 0.0 if self.delta(0.0) <= delta else _bracket(lambda epsilon: self.delta(epsilon) > delta, 1e-6)[1]


@dataclass(frozen=True, slots=True)
class Profile:
    """The composed delta with each corner alone, and with the envelope of all."""

    corners: Floats
    envelope: float


def profile(mu: Floats, rho: Floats, distance: float, epsilon: float, cells: int = CELLS, rows: int = 1) -> Profile:
    """Compose Gaussian parts at ``distance`` with the posterior pairs (mu, rho), ``rows`` times, as upper Riemann sums.

    In either direction the Gaussian loss is ``N(D^2/2, D^2)`` under the first distribution.
    """
    if distance == 0.0:
        alone = _one_by_one(PosteriorSamplePair(mu, rho), np.full(len(mu), epsilon), rows) * PROFILE_UP
        return Profile(alone, float(alone.max()))
    edges = np.linspace(-LOSS_RANGE, LOSS_RANGE, cells + 1)
    # normal mass of each cell, mirrored where the upper tail would cancel
    lower, upper = edges[:-1], edges[1:]
    mass = np.where(lower > 0, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))
    # T falls in its argument, so it is largest at the upper end of a cell of losses
    losses = distance * (0.5 * distance + edges[1:])
    pairs = PosteriorSamplePair(np.repeat(mu, cells), np.repeat(rho, cells))
    deltas = _one_by_one(pairs, np.tile(epsilon - losses, len(mu)), rows).reshape(len(mu), cells)
    beyond = 2.0 * float(ndtr(-LOSS_RANGE))
    alone = (deltas @ mass + beyond) * PROFILE_UP
    return Profile(alone, float((deltas.max(axis=0) @ mass + beyond) * PROFILE_UP))


def _one_by_one(pairs: PosteriorSamplePair, epsilon: Floats, rows: int) -> Floats:
    """Bound the profile of so many steps from data set to data set, each below the same corner: T_k above."""
    if rows == 1:
        return pairs.delta(epsilon)
    deltas = pairs.delta(epsilon / rows)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.exp(epsilon / rows)
        total = deltas
        for _ in range(rows - 1):  # Horner's scheme; what is beyond one says nothing
            total = np.minimum(deltas + np.where(total > 0.0, steps * total, 0.0), 1.0)
    return np.minimum(total * (1.0 + 4 * rows * UNIT), 1.0)


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
    return _bracket(lambda D: bool(GaussianShift(D).epsilon(delta)[0] <= epsilon), DISTANCE_STEP)[0] * BOUND_DOWN


def row_distance(epsilon: float, delta: float, rows: int) -> float:
    """Return the distance that one row may have where a person with so many is promised (epsilon, delta)."""
    budget = gaussian_distance(epsilon, delta)
    return budget if rows == 1 else budget / rows * ROUND_DOWN * ROUND_DOWN


def person_distance(distance: float, rows: int) -> float:
    """Return the distance of a person with so many rows, each at ``distance``, rounded up: they may all add up."""
    return distance if rows == 1 else distance * rows * STEP_UP


def _bracket(below: Callable[[float], bool], share: float) -> tuple[float, float]:
    """Return two numbers >= 0, a share apart, between which a condition that holds up to somewhere ends to hold."""
    low, high = 0.0, 1.0
    while below(high):
        low, high = high, 2.0 * high
    while high - low > share * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high


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
def corners(epsilon: float, delta: float, distance: float, failure: float, rows: int = 1) -> Corners:
    """Calibrate every corner so that the whole release, whichever corner it ends in, is (epsilon, delta)-DP.

    A person has at most ``rows`` rows, each of which is below the corner; the distance is that of all of them.

    Each corner alone, composed with the Gaussian parts, is given the same share of delta, and the share is the largest
    at which the envelope keeps the promise. The exact profile grows with mu while mu <= 1.6 (promise.py), so
    ``mu = 1/floor`` stands for all smaller leverages. Floors too low to keep the promise at any temperature are out.
    """
    room = delta - failure
    if room <= 0:
        raise InvalidInput(f"failure probabilities of {failure:g} leave nothing of delta={delta:g}")
    floors = FLOORS
    at_zero = profile(1.0 / floors, np.zeros_like(floors), distance, epsilon, SEARCH_CELLS, rows).corners
    spent = float(GaussianShift(distance).delta(epsilon)[0])  # what the Gaussian parts lose alone
    floors = floors[at_zero <= spent + 0.25 * (room - spent)]
    if not len(floors):
        raise InvalidInput(
            f"no posterior sample keeps epsilon={epsilon:g}, delta={delta:g}; use a larger epsilon or delta"
        )
    share = 1.0
    for _ in range(4):  # the envelope costs little: the share is close to one
        rho = _residuals(floors, distance, epsilon, share * room, rows)
        envelope = profile(1.0 / floors, rho, distance, epsilon, SEARCH_CELLS, rows).envelope
        if envelope <= room:
            break
        share *= 0.995 * room / envelope
    while True:
        promise = Promise(distance, tuple(1.0 / floors), tuple(rho), failure, rows)
        if promise.delta(epsilon) <= delta:
            return Corners(floors, rho, promise)
        rho = rho * (1.0 - 2.0**-10)


def _residuals(floors: Floats, distance: float, epsilon: float, delta: float, rows: int) -> Floats:
    """Return the largest rho of each corner whose composed profile is at most delta (all corners bisected at once)."""
    mu = 1.0 / floors
    low = np.zeros_like(mu)
    high = (
        0.5 / rows * gaussian_distance(epsilon, delta) * np.sqrt(floors)
    )  # as if the sample were a plain Gaussian shift
    kept = np.ones(len(mu), dtype=bool)
    while kept.any():
        high = np.where(kept, 2.0 * high, high)
        kept &= profile(mu, high, distance, epsilon, SEARCH_CELLS, rows).corners <= delta
    for _ in range(13):
        middle = 0.5 * (low + high)
        kept = profile(mu, middle, distance, epsilon, SEARCH_CELLS, rows).corners <= delta
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return low


def renyi_to_epsilon(divergence: ArrayLike, order: float, delta: float) -> Floats:
    """``D + log(1 - 1/a) - (log delta + log a)/(a - 1)``, never below 0: epsilon at delta.

    The terms may cancel: what each of them loses by rounding is added.
    """
    D = np.asarray(divergence, dtype=np.float64)
    near, far = np.log1p(-1 / order), (np.log(delta) + np.log(order)) / (order - 1)
    lost = _lost(order, near, delta) + 2 * FEW_ROUNDINGS * D
    return np.maximum(D + near - far + lost, 0.0)


def renyi_to_delta(divergence: float, order: float, epsilon: float) -> float:
    """Turn it into delta at epsilon, at most 1: the same formula solved for delta.

    >>> round(float(renyi_to_epsilon(0.5, 8.0, renyi_to_delta(0.5, 8.0, 2.0))), 9)
    2.0
    """
    near = np.log1p(-1 / order)
    log_delta = (order - 1) * (divergence + near - epsilon) - np.log(order)
    lost = _lost(order, near, 1.0) + 2 * FEW_ROUNDINGS * (divergence + abs(epsilon))
    up = log_delta + (order - 1) * lost
    return float(min(np.exp(min(up, 0.0)) * (1.0 + FEW_ROUNDINGS), 1.0))


def _lost(order: float, near: float, delta: float) -> float:
    """Bound what the terms without the divergence lose; the 1 is what ``1/a`` loses within the logarithm."""
    return float(2 * FEW_ROUNDINGS * (abs(near) + (abs(np.log(delta)) + np.log(order) + 1) / (order - 1)))
