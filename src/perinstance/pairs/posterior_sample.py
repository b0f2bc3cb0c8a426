"""One posterior sample (OPS) of linear, ridge, kernel ridge or Gaussian process regression (MATH 1b)."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from perinstance.numerics.array_types import Floats
from perinstance.pairs.arguments import Direction, filled, spread
from perinstance.pairs.closed_form.epsilon import posterior_epsilons
from perinstance.pairs.closed_form.profile import posterior_deltas, posterior_powers
from perinstance.pairs.columns import Column, ColumnPairs
from perinstance.pairs.kinds import Kind
from perinstance.pairs.sums.coordinates import LossCoordinates


class PosteriorSamplePair(ColumnPairs):
    """The pair of a posterior sample: ``leverage`` mu = x'H^-1x and ``residual`` rho = sqrt(gamma) |y - x'theta|.

    H and theta are those **without** the person. The sample matters only through ``w = sqrt(gamma) (y - x'theta)``:
    ``P: w ~ N(rho, mu)``, ``Q: w ~ N(rho/(1 + mu), mu/(1 + mu))``,
    ``log p/q = -log(1 + mu)/2 + (w^2 - rho^2/(1 + mu))/2``.

    P over Q is the larger direction for every epsilon >= 0, Q over P for every epsilon <= 0; these are closed forms, as
    is the power of the best test; everything else inverts the characteristic function.

    Examples
    --------
    >>> from perinstance.pairs import PosteriorSamplePair
    >>> PosteriorSamplePair([0.01, 0.1], [1.0, 10.0]).epsilon(1e-6).round(4)
    array([ 0.4795, 20.0228])
    """

    __slots__ = ("_leverage", "_residual")
    FORMAT = ("posterior", 1)
    OVER_NOISE = "residual"
    fast_for_many = True
    EXACT_UP_TO = MappingProxyType({"leverage": 1e12, "residual": 1e12})
    _leverage: Floats
    _residual: Floats
    leverage = Column("``mu = x'H^-1x``, H without the person.")
    residual = Column("``rho = sqrt(gamma) |y - x'theta|``, theta without the person.")

    def __init__(self, leverage: ArrayLike, residual: ArrayLike, kind: Kind | ArrayLike = "exact") -> None:
        super().__init__(kind, leverage=leverage, residual=residual)

    def _delta(self, epsilon: Floats, direction: Direction) -> Floats:
        out = filled(posterior_deltas, self._leverage, self._residual, epsilon)
        inverted = epsilon > 0.0 if direction == "with" else (epsilon < 0.0) & (direction == "without")  # equal at zero
        if inverted.any():
            out[inverted] = super(PosteriorSamplePair, self[inverted])._delta(epsilon[inverted], direction)
        return out

    def _epsilon(self, delta: Floats, direction: Direction) -> Floats:
        if direction == "with":
            return super()._epsilon(delta, direction)
        n = len(self)
        out = posterior_epsilons(spread(self._leverage, n), spread(self._residual, n), delta)
        return self._of_large_deltas(out, delta)

    def _power(self, rate: Floats) -> Floats:
        """Of the samples between two thresholds; by the sums of losses where those lose too many digits."""
        out = np.where((self._leverage > 0) & (rate > 0), posterior_powers(self._leverage, self._residual, rate), rate)
        out[rate >= 1.0] = 1.0
        if (left := np.isnan(out)).any():
            out[left] = super(PosteriorSamplePair, self[left])._power(rate[left])
        return np.clip(out, rate, 1.0)

    def zcdp(self) -> Floats:
        """Infinite unless the leverage is zero: the two variances differ, so large orders diverge."""
        return np.where(self._leverage > 0, np.inf, 0.0)

    def coordinates(self) -> LossCoordinates:
        """One Gaussian coordinate: ``nu = mu``, ``m^2 = rho^2 mu/(1 + mu)``."""
        return LossCoordinates.posterior(self._leverage, self._residual)
