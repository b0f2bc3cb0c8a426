"""Same covariance, shifted mean: Gaussian noise whose covariance was fixed in advance (MATH 1a)."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS, TEST_ROUNDING, TINY
from perinstance.pairs.arguments import Direction, spread
from perinstance.pairs.closed_form.epsilon import shift_epsilons
from perinstance.pairs.closed_form.profile import shift_deltas
from perinstance.pairs.columns import Column, ColumnPairs
from perinstance.pairs.kinds import Kind
from perinstance.pairs.sums.coordinates import LossCoordinates


class GaussianShift(ColumnPairs):
    """Two Gaussians with one covariance, ``distance`` D apart in units of the noise.

    ``delta(epsilon) = Phi(D/2 - epsilon/D) - e^epsilon Phi(-D/2 - epsilon/D)`` in both directions;
    ``renyi(alpha) = alpha D^2/2``. The release is exactly D-GDP for this person.

    Examples
    --------
    >>> from perinstance.pairs import GaussianShift
    >>> GaussianShift([0.0, 0.1, 1.0]).epsilon(1e-6).round(4)
    array([0.    , 0.3969, 4.8866])
    """

    __slots__ = ("_distance",)
    FORMAT = ("shift", 1)
    OVER_NOISE = "distance"
    fast_for_many = True
    EXACT_UP_TO = MappingProxyType({"distance": 1e12})
    _distance: Floats
    distance = Column("``||theta_with - theta_without||`` in the norm of the inverse noise covariance.")

    def __init__(self, distance: ArrayLike, kind: Kind | ArrayLike = "exact") -> None:
        super().__init__(kind, distance=distance)

    def _delta(self, epsilon: Floats, direction: Direction) -> Floats:
        return shift_deltas(self._distance, epsilon)

    def _epsilon(self, delta: Floats, direction: Direction) -> Floats:
        return self._of_large_deltas(shift_epsilons(spread(self._distance, len(self)), delta), delta)

    def _renyi(self, alpha: Floats, direction: Direction) -> Floats:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # an order of infinity without a distance
            divergence = 0.5 * alpha * np.maximum(self._distance**2, TINY) * (1.0 + FEW_ROUNDINGS)
        return np.where(self._distance > 0, divergence, 0.0)

    def zcdp(self) -> Floats:
        """``D^2/2``, rounded up."""
        return self.renyi(1.0)

    def _power(self, rate: Floats) -> Floats:
        """``Phi(Phi^-1(rate) + D)``: the test looks along the line between the two means."""
        power = np.ones(len(self))  # of an infinite distance
        finite = np.isfinite(self._distance)
        z = ndtri(np.where(rate[finite] > 0, np.maximum(rate[finite], TINY), 0.0))
        y = z + self._distance[finite]
        with np.errstate(invalid="ignore"):  # at a rate of zero
            lost = TEST_ROUNDING * (1.0 + np.abs(z) + np.abs(y)) * (1.0 + np.maximum(-y, 0.0))
            power[finite] = np.where(rate[finite] > 0, ndtr(y) * (1.0 + lost), 0.0)
        return np.where(self._distance > 0, np.clip(power, rate, 1.0), rate)

    def coordinates(self) -> LossCoordinates:
        """One Gaussian coordinate: ``nu = 0``, ``m = D``."""
        return LossCoordinates.gaussian(np.zeros((len(self), 1)), self._distance[:, None])
