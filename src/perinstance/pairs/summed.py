"""What all pairs with independent coordinates share: every number by inverting the characteristic function."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS, TINY, TWO_ROUNDINGS, UNIT
from perinstance.pairs.arguments import Direction, filled, spread
from perinstance.pairs.base import Pairs
from perinstance.pairs.closed_form.renyi import laplace_renyi, renyis
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.profile import deltas, powers
from perinstance.pairs.loss_sums.solve import epsilon_of_sum


class SummedPairs(Pairs):
    """Pairs whose loss is a sum of independent Gaussian and Laplace losses; the subclasses say which.

    Where a release is known from above only (see ``bounded.py``), offsets move and tails raise the result.
    """

    __slots__ = ()

    @abstractmethod
    def coordinates(self) -> LossCoordinates:
        """Return the coordinates of P in units of Q."""

    def _delta(self, epsilon: Floats, direction: Direction) -> Floats:
        here = self.coordinates()
        lost = np.isinf(here.offset)
        offset = np.where(lost, 0.0, here.offset)
        e = np.where(offset > 0, np.nextafter(epsilon - offset, -np.inf), epsilon)
        out = np.zeros((2, len(self)))
        for i, view in enumerate(here.views(direction)):
            deltas(e, view.losses, view.swapped().losses, out[i])
            rows = np.flatnonzero(here.samples)
            if rows.size:
                from perinstance.pairs.sampled.answers import delta_of_steps

                out[i, rows] = delta_of_steps(view[rows], e[rows])
        worst = out.max(axis=0)
        worst[here.infinite & (e < np.inf)] = 1.0
        worst = np.where(here.tail > 0, (worst + here.tail) * (1 + TWO_ROUNDINGS), worst)
        return np.where(lost, 1.0, np.minimum(worst, 1.0))

    def _epsilon(self, delta: Floats, direction: Direction) -> Floats:
        return epsilon_of_sum(self.coordinates(), spread(delta, len(self)), direction)

    def _of_large_deltas(self, out: Floats, delta: Floats) -> Floats:
        """Return epsilons in closed form, of which those at deltas above one half may be less: they are inverted."""
        large = np.broadcast_to(delta > 0.5, out.shape)
        if large.any():
            some = self[large].coordinates()
            out[large] = np.fmin(out[large], epsilon_of_sum(some, spread(delta, len(out))[large], "without"))
        return out

    def _renyi(self, alpha: Floats, direction: Direction) -> Floats:
        """``K(alpha - 1)/(alpha - 1)``, summed over coordinates; infinite where one is only bounded."""
        return _renyi(self.coordinates(), alpha, direction)

    def zcdp(self) -> Floats:
        """``sum m^2/2`` plus the KL divergences of the Laplace losses; infinite where two variances differ.

        Sampled steps count in full, whatever their rate: at large orders the samples with the person decide.
        """
        here = self.coordinates()
        finite = ~(here.nu != 0).any(axis=1) & ~here.infinite
        if here.sampled is None:
            return np.where(finite, self.renyi(1.0), np.inf)
        plain = _renyi(replace(here, sampled=None), np.ones(len(self)), "worst")
        return np.where(finite, plain + here.sampled.zcdp(), np.inf)

    def _power(self, rate: Floats) -> Floats:
        """``min_epsilon delta_QP(epsilon) + e^epsilon r``: the trade-off curve is dual to the profile."""
        rate = np.where(rate > 0, np.maximum(rate, TINY), 0.0)
        here = self.coordinates()
        there = here.swapped()
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite offset, at a rate of zero too
            moved = np.where(here.offset > 0, rate * np.exp(here.offset) * (1 + FEW_ROUNDINGS), rate)
        moved = np.where(np.isinf(here.offset), 1.0, np.minimum(moved, 1.0))
        out = np.empty(len(self))
        powers(moved, there.losses, here.losses, out)
        rows = np.flatnonzero(here.samples)
        if rows.size:
            from perinstance.pairs.sampled.answers import power_of_steps

            out[rows] = power_of_steps(there[rows], moved[rows])
        out[here.infinite] = 1.0
        out = np.maximum(out, moved)
        out = np.where(here.tail > 0, (out + here.tail) * (1 + TWO_ROUNDINGS), out)
        return np.maximum(np.minimum(out, 1.0), rate)


def _renyi(here: LossCoordinates, order: Floats, direction: Direction) -> Floats:
    """Return the Renyi divergences of the coordinates."""
    out = np.zeros((2, len(order)))
    for i, view in enumerate(here.views(direction)):
        renyis(order, view.losses, view.nu_low, out[i])
        if view.sampled is not None:
            from perinstance.pairs.sampled.renyi import renyi_of_steps

            out[i] += renyi_of_steps(view.sampled, order)[0]
    worst = out.max(axis=0)
    for lap, count in zip(here.lap.T, here.count.T, strict=True):
        worst += count * filled(laplace_renyi, lap, order)
    worst[here.infinite | here.bounded] = np.inf
    return worst * (1.0 + UNIT * here.lap.shape[1])
