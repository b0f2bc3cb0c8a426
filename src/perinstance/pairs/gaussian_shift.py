"""Same covariance, shifted mean: Gaussian noise whose covariance was fixed in advance (MATH 1a)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import raised_from_underflow
from perinstance.numerics.rounding import TEST_ROUNDING, TINY
from perinstance.pairs.interface.arguments import (
    Direction,
    check_direction,
    delta_array,
    noise_factor,
    order_array,
    rate_array,
    real_array,
    spread,
)
from perinstance.pairs.interface.base import MANY
from perinstance.pairs.interface.column_pairs import Column, ColumnPairs
from perinstance.pairs.interface.kinds import Kind

if TYPE_CHECKING:
    from perinstance.pairs.loss_sums.coordinates import LossCoordinates


class Shift(ColumnPairs):
    """Two Gaussians with one covariance, ``distance`` D apart in units of the noise.

    ``delta(epsilon) = Phi(D/2 - epsilon/D) - e^epsilon Phi(-D/2 - epsilon/D)`` in both directions;
    ``renyi(alpha) = alpha D^2/2``. The release is exactly D-GDP for this person.

    Examples
    --------
    >>> from perinstance.pairs import Shift
    >>> Shift([0.0, 0.1, 1.0]).epsilon(1e-6).round(4)
    array([0.    , 0.3969, 4.8866])
    """

    __slots__ = ("_distance",)
    FORMAT = ("shift", 1)
    fast_for_many = True
    EXACT_UP_TO = MappingProxyType({"distance": 1e12})
    _distance: Floats
    distance = Column("``||theta_with - theta_without||`` in the norm of the inverse noise covariance.")

    def __init__(self, distance: ArrayLike, kind: Kind | ArrayLike = "exact") -> None:
        super().__init__(kind, distance=distance)

    def delta(self, epsilon: ArrayLike, direction: Direction = "worst") -> Floats:
        """``sup_S P(S) - e^epsilon Q(S)`` for any real epsilon, rounded up; both directions agree."""
        from perinstance.pairs.closed_form.profile import shift_deltas

        check_direction(direction)
        n = len(self)
        out = np.empty(n)
        shift_deltas(spread(self._distance, n), spread(real_array("epsilon", epsilon, n), n), out)
        return out

    def epsilon(self, delta: ArrayLike, direction: Direction = "worst") -> Floats:
        """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``; never below the true value."""
        from perinstance.pairs.closed_form.many_epsilons import shift_epsilon, shift_epsilons

        check_direction(direction)
        n = len(self)
        delta = delta_array(delta, n)
        out = np.empty(n)
        if delta.ndim == 0 and n >= MANY:
            doubt = shift_epsilon(spread(self._distance, n), float(delta), out)
        else:
            doubt = shift_epsilons(spread(self._distance, n), spread(delta, n), out)
        if doubt is not None and doubt.any():
            from perinstance.pairs.loss_sums.epsilon import settle

            settle(out, doubt, delta, "without", self[doubt].coordinates())
        return out

    def renyi(self, alpha: ArrayLike, direction: Direction = "worst") -> Floats:
        """``alpha D^2/2``, rounded up to the next float."""
        from perinstance.pairs.closed_form.renyi import shift_renyi

        check_direction(direction)
        n = len(self)
        out = np.empty(n)
        shift_renyi(spread(self._distance, n), spread(order_array(alpha, n), n), out)
        return raised_from_underflow(out, self._distance > 0)

    def zcdp(self) -> Floats:
        """``D^2/2``, rounded up to the next float."""
        return self.renyi(1.0)

    def attack_power(self, false_positive_rate: ArrayLike) -> Floats:
        """``Phi(Phi^-1(rate) + D)``, rounded up: the test looks along the line between the two means."""
        from scipy.special import ndtr, ndtri

        rate = spread(rate_array(false_positive_rate, len(self)), len(self))
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
        from perinstance.pairs.loss_sums.coordinates import LossCoordinates

        return LossCoordinates.gaussian(np.zeros((len(self), 1)), self._distance[:, None])

    def with_noise(self, factor: float) -> Shift:
        """``D / factor``."""
        return self._with(distance=self._distance / noise_factor(factor))
