"""Laplace noise on a scalar, or on a statistic with a bounded l1 sensitivity (MATH 1d)."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import raised_from_underflow
from perinstance.numerics.rounding import FEW_ROUNDINGS, LARGEST, SMALLEST, TWO_ROUNDINGS
from perinstance.pairs.arguments import Direction, filled
from perinstance.pairs.columns import Column, ColumnPairs
from perinstance.pairs.kinds import Kind
from perinstance.pairs.sums.coordinates import LossCoordinates
from perinstance.pairs.sums.saddlepoint import laplace_renyi


class LaplaceShift(ColumnPairs):
    """Two Laplace distributions of one scale, ``distance`` D scales apart.

    ``delta(epsilon) = 1 - e^((epsilon - D)/2)`` while ``|epsilon| <= D``,
    ``epsilon(delta) = max(0, D + 2 log(1 - delta))``. Both directions agree.
    The loss is bounded: it is D at delta = 0.

    Examples
    --------
    >>> from perinstance.pairs import LaplaceShift
    >>> LaplaceShift([0.5, 2.0]).epsilon(0.0)
    array([0.5, 2. ])
    """

    __slots__ = ("_distance",)
    FORMAT = ("laplace", 1)
    OVER_NOISE = "distance"
    fast_for_many = True
    EXACT_UP_TO = MappingProxyType({"distance": 1e12})
    _distance: Floats
    distance = Column("``|shift| / scale``.")

    def __init__(self, distance: ArrayLike, kind: Kind | ArrayLike = "exact") -> None:
        super().__init__(kind, distance=distance)

    def _delta(self, epsilon: Floats, direction: Direction) -> Floats:
        D, size = self._distance, np.minimum(epsilon, LARGEST)
        exponent = np.where(size < -D, size, np.minimum(0.5 * (size - D), 0.0))
        raised = np.abs(np.expm1(exponent)) * (1.0 + FEW_ROUNDINGS) + SMALLEST
        return np.where(size < np.where(D > 0, D, 0.0), np.minimum(raised, 1.0), 0.0)

    def _epsilon(self, delta: Floats, direction: Direction) -> Floats:
        """Exactly D at delta = 0."""
        D, off = self._distance, 2.0 * np.log1p(-delta)
        # one ulp for the logarithm, one half for the sum
        with np.errstate(over="ignore"):
            raised = (D + off) + TWO_ROUNDINGS * (np.where(np.isfinite(D), D, 0.0) - off) * (off < 0)
        return np.where(D > 0, np.maximum(0.0, raised), 0.0)

    def _renyi(self, alpha: Floats, direction: Direction) -> Floats:
        """``log( a/(2a-1) e^((a-1)D) + (a-1)/(2a-1) e^(-aD) ) / (a-1)`` with a = alpha; KL is ``D - (1 - e^-D)``."""
        out = filled(laplace_renyi, self._distance, alpha)
        # of the largest loss, D itself, nothing was lost
        return np.where(alpha == np.inf, out, raised_from_underflow(out, self._distance > 0))

    def zcdp(self) -> Floats:
        """``D - (1 - e^-D)``: ``renyi(alpha)/alpha`` is largest as alpha tends to 1."""
        return self.renyi(1.0)

    def _power(self, rate: Floats) -> Floats:
        """``e^D r`` up to ``r = e^-D/2``, then ``1 - e^-D/(4r)`` up to one half, then ``1 - e^-D (1 - r)``."""
        D, r = self._distance, rate
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            fade = np.maximum(np.exp(-D) * (1.0 - FEW_ROUNDINGS) - SMALLEST, 0.0)  # less of it is more power
            low, middle, high = r / fade, 1.0 - fade / (4.0 * r), 1.0 - fade * (1.0 - r)
            power = np.where(r > 0.5, high, np.where(2.0 * r > fade, middle, low)) * (1.0 + FEW_ROUNDINGS)
        # at a rate of zero the line above may be 0/0; only disjoint distributions are told apart without an error
        power = np.where((r > 0) & (D > 0), np.clip(power + SMALLEST, r, 1.0), r)
        return np.where(np.isinf(D), 1.0, power)

    def coordinates(self) -> LossCoordinates:
        """One Laplace loss."""
        return LossCoordinates.laplace(self._distance)
