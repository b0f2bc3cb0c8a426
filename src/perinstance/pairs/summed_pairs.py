"""What all pairs with a spectrum share: every number by inverting the characteristic function of the loss."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from perinstance.numerics.array_types import Floats
from perinstance.pairs.interface.arguments import (
    Direction,
    check_direction,
    delta_array,
    order_array,
    rate_array,
    real_array,
    spread,
)
from perinstance.pairs.interface.base import Pairs
from perinstance.pairs.loss_sums.coordinates import Spectrum


class SpectralPairs(Pairs):
    """Pairs whose loss is a sum of independent Gaussian and Laplace losses; the subclasses say which."""

    __slots__ = ()

    @abstractmethod
    def _spectrum(self) -> Spectrum:
        """Return the coordinates of P in units of Q."""

    def _views(self, direction: Direction) -> list[Spectrum]:
        check_direction(direction)
        here = self._spectrum()
        return {"without": [here], "with": [here.swapped()], "worst": [here, here.swapped()]}[direction]

    def delta(self, epsilon: ArrayLike, direction: Direction = "worst") -> Floats:
        """``sup_S P(S) - e^epsilon Q(S)`` for any real epsilon, rounded up by the quadrature's error."""
        from perinstance.pairs.loss_sums.profile import deltas

        n = len(self)
        e = spread(real_array("epsilon", epsilon, n), n)
        out = np.zeros((2, n))
        views = self._views(direction)
        for i, view in enumerate(views):
            deltas(e, *view.coordinates, *view.swapped().coordinates, *view.laplaces, out[i])
        worst = out.max(axis=0)
        worst[views[0].infinite & (e < np.inf)] = 1.0
        return worst

    def epsilon(self, delta: ArrayLike, direction: Direction = "worst") -> Floats:
        """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``; never below the true value."""
        from perinstance.pairs.loss_sums.profile import epsilons

        n = len(self)
        d = spread(delta_array(delta, n), n)
        views = self._views(direction)
        out, above, laid = np.zeros((2, n)), np.zeros((2, n)), np.zeros((2, n, 4))
        for i, view in enumerate(views):
            epsilons(d, *view.coordinates, *view.laplaces, out[i], above[i], laid[i])
        short = above > np.maximum(1e-9 * out, 1e-13)
        short &= out >= (out - above).max(axis=0)  # only the direction that decides
        short &= laid[:, :, 1] > 0.0  # there is a contour
        for i, view in enumerate(views):
            if short[i].any():
                out[i, short[i]] = _refined(view[short[i]], d[short[i]], laid[i, short[i]], out[i, short[i]])
        worst = out.max(axis=0)
        worst[views[0].infinite] = np.inf
        return worst

    def renyi(self, alpha: ArrayLike, direction: Direction = "worst") -> Floats:
        """``K(alpha - 1)/(alpha - 1)``, the sum over the coordinates."""
        from perinstance.pairs.closed_form.renyi import laplace_renyi
        from perinstance.pairs.loss_sums.renyi import renyis

        n = len(self)
        order = spread(order_array(alpha, n), n)
        out = np.zeros((2, n))
        views = self._views(direction)
        for i, view in enumerate(views):
            renyis(order, *view.coordinates, out[i])
        worst = out.max(axis=0)
        one = np.empty(n)
        for lap, count in zip(views[0].lap.T, views[0].count.T, strict=True):
            laplace_renyi(spread(lap, n), order, one)
            worst += count * one
        worst[views[0].infinite] = np.inf
        return worst

    def zcdp(self) -> Floats:
        """``sum m^2/2`` plus the KL divergences of the Laplace losses; infinite where two variances differ."""
        here = self._spectrum()
        finite = ~(here.nu != 0).any(axis=1) & ~here.infinite
        return np.where(finite, self.renyi(1.0), np.inf)

    def attack_power(self, false_positive_rate: ArrayLike) -> Floats:
        """``min_epsilon delta_QP(epsilon) + e^epsilon r``: the trade-off curve is the dual of the profile."""
        from perinstance.pairs.loss_sums.profile import powers

        n = len(self)
        rate = spread(rate_array(false_positive_rate, n), n)
        here = self._spectrum()
        there = here.swapped()
        out = np.empty(n)
        powers(rate, *there.coordinates, *here.coordinates, *there.laplaces, out)
        out[here.infinite] = 1.0
        return np.maximum(out, rate)


def _refined(view: Spectrum, delta: Floats, laid: Floats, epsilon: Floats) -> Floats:
    """Return the epsilons once more, from pairs of floats along the contours they come from."""
    from perinstance.pairs.loss_sums.double_double_epsilon import refine

    lap, count, _terms = view.laplaces
    refine(delta, laid, *view.pairs, lap, count, epsilon)
    return epsilon
