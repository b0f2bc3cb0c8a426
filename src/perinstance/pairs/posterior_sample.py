"""One posterior sample (OPS) of linear, ridge, kernel ridge or Gaussian process regression (MATH 1b)."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import raised_from_underflow
from perinstance.pairs.arguments import Direction, filled, noise_factor, spread
from perinstance.pairs.base import MANY
from perinstance.pairs.closed_form.many_epsilons import posterior_epsilon, posterior_epsilons
from perinstance.pairs.closed_form.membership_test import posterior_power
from perinstance.pairs.closed_form.profile import posterior_deltas
from perinstance.pairs.closed_form.renyi import posterior_renyi
from perinstance.pairs.columns import Column, ColumnPairs
from perinstance.pairs.kinds import Kind
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.solve import settle


class PosteriorSamplePair(ColumnPairs):
    """The pair of a posterior sample: ``leverage`` mu = x'H^-1x and ``residual`` rho = sqrt(gamma) |y - x'theta|.

    H and theta are those **without** the person. The sample matters only through ``w = sqrt(gamma) (y - x'theta)``:
    ``P: w ~ N(rho, mu)``, ``Q: w ~ N(rho/(1 + mu), mu/(1 + mu))``,
    ``log p/q = -log(1 + mu)/2 + (w^2 - rho^2/(1 + mu))/2``.

    P over Q is the larger direction for every epsilon >= 0, Q over P for every epsilon <= 0.

    Examples
    --------
    >>> from perinstance.pairs import PosteriorSamplePair
    >>> PosteriorSamplePair([0.01, 0.1], [1.0, 10.0]).epsilon(1e-6).round(4)
    array([ 0.4795, 20.0228])
    """

    __slots__ = ("_leverage", "_residual")
    FORMAT = ("posterior", 1)
    fast_for_many = True
    EXACT_UP_TO = MappingProxyType({"leverage": 1e12, "residual": 1e12})
    _leverage: Floats
    _residual: Floats
    leverage = Column("``mu = x'H^-1x``, H without the person.")
    residual = Column("``rho = sqrt(gamma) |y - x'theta|``, theta without the person.")

    def __init__(self, leverage: ArrayLike, residual: ArrayLike, kind: Kind | ArrayLike = "exact") -> None:
        super().__init__(kind, leverage=leverage, residual=residual)

    def _delta(self, epsilon: Floats, direction: Direction) -> Floats:
        return filled(posterior_deltas, self._leverage, self._residual, epsilon, _CODES[direction])

    def _epsilon(self, delta: Floats, direction: Direction) -> Floats:
        n = len(self)
        mu, rho, out = spread(self._leverage, n), spread(self._residual, n), np.empty(n)
        if delta.ndim == 0 and n >= MANY and direction != "with":
            doubt = posterior_epsilon(mu, rho, float(delta), out)
        else:
            doubt = posterior_epsilons(mu, rho, spread(delta, n), direction == "with", out)
        if doubt is not None and doubt.any():
            larger = "with" if direction == "with" else "without"
            settle(out, doubt, delta, larger, self[doubt].coordinates())
        return out

    def _renyi(self, alpha: Floats, direction: Direction) -> Floats:
        """P over Q it is infinite from ``alpha = (1 + mu)/mu`` on. With ``a = alpha - 1``:

        P over Q: ``alpha mu q^2/(2 (1 - a mu)) - log1p(-a mu)/(2a) - log1p(mu)/2``;
        Q over P: ``alpha mu q^2/(2 (1 + alpha mu)) + (alpha log1p(mu) - log1p(alpha mu))/(2a)``.
        """
        found = filled(posterior_renyi, self._leverage, self._residual, alpha, _CODES[direction])
        return raised_from_underflow(found, self._leverage > 0)

    def zcdp(self) -> Floats:
        """Infinite unless the leverage is zero: the two variances differ, so large orders diverge."""
        return np.where(self._leverage > 0, np.inf, 0.0)

    def _power(self, rate: Floats) -> Floats:
        """The test says "in" when ``|w|`` is small."""
        return filled(posterior_power, self._leverage, self._residual, rate)

    def coordinates(self) -> LossCoordinates:
        """One Gaussian coordinate: ``nu = mu``, ``m^2 = rho^2 mu/(1 + mu)``."""
        return LossCoordinates.posterior(self._leverage, self._residual)

    def with_noise(self, factor: float) -> PosteriorSamplePair:
        """``rho / factor``: gamma becomes ``gamma / factor^2``, the leverage stays."""
        return self._with(residual=self._residual / noise_factor(factor))


#: How the kernels spell a direction.
_CODES = {"without": 0, "with": 1, "worst": 2}
