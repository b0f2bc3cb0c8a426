"""What moments of small and of large losses are about: by them cuts and lines are chosen, nothing is proved by them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import NOT_ZERO
from perinstance.pairs.loss_sums.sampled.large_losses.loss_cut import LossCut
from perinstance.pairs.loss_sums.sampled.log_moments import NORMAL

FINE = 1.0
#: Nodes of a cell: Gauss's rule.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)
#: Orders of moments that are asked.
ORDERS = 2.0 ** (np.arange(-64, 93) / 4.0)
#: Orders next to one, over it: the moments of a heavy tail may rise suddenly.
NEARBY = 2.0 ** np.array([-1.0, -0.5, -0.2, -0.1, -0.03, -0.01, 0.01, 0.03, 0.1, 0.2, 0.5, 1.0])
#: An order at which large losses are not e^-40 of their moment at the end of the noise is not used.
DIED = 40.0


def pole(t: Floats) -> Floats:
    """Return ``t log t - (1 + t) log(1 + t)``."""
    return np.asarray(t * np.log(t) - (1.0 + t) * np.log1p(t))


def log_parts(cut: LossCut, orders: Floats, steep: float) -> tuple[Floats, Floats]:
    """Return log B and log D at some orders, the second infinite where the end of the noise has a share in it."""
    ends = cut.cells(steep, FINE)
    half = 0.5 * np.diff(ends)[:, None]
    x = (ends[:-1, None] + half * (1.0 + NODES)).ravel()
    log = cut.loss(x) + math.log1p(-cut.q)
    noise = np.log(np.maximum(half * WEIGHTS, NOT_ZERO)).ravel() - 0.5 * x * x - NORMAL + cut.log_inside(x)
    small, large = noise + cut.log_small(x), noise + cut.log_large(x)
    found = np.empty((2, len(orders)))
    _fill_totals(log, small, large, np.ascontiguousarray(orders, dtype=np.float64), found)
    return found[0], found[1]


@kernel
def _fill_totals(log, small, large, orders, out):
    """Fill in log B and log D at each order."""
    for i in range(orders.size):
        out[0, i] = _log_total(1.0 + orders[i], log, small)
        out[1, i] = _log_total(1.0 + orders[i], log, large)
        if (1.0 + orders[i]) * log[-1] + large[-1] > out[1, i] - DIED:
            out[1, i] = np.inf


@kernel
def _log_total(power, log, weights):
    """Return the logarithm of ``sum e^{power log + weights}``, about."""
    top = -1e300
    for j in range(log.size):
        top = max(top, power * log[j] + weights[j])
    total = 0.0
    for j in range(log.size):
        away = power * log[j] + weights[j] - top
        if away > -DIED:
            total += math.exp(away)
    return top + math.log(total) if total > 0.0 else -1e300


@dataclass(frozen=True, slots=True)
class CutEstimates:
    """Of a person's cuts: ``sum k log B`` and ``log(prod A^k - prod B^k)`` at some orders, about.

    ``bulk``: whether small losses are inverted, and of the others there is Chernoff's bound, or the other way round.
    """

    cuts: list[LossCut]
    orders: Floats
    small: Floats
    large: Floats
    bulk: bool

    @staticmethod
    def of(cuts: list[LossCut], steep: float, orders: Floats = ORDERS, bulk: bool = False) -> CutEstimates:
        """Return them; ``steep`` is the largest order, times the level, that may matter."""
        small, more = np.zeros(len(orders)), np.zeros(len(orders))
        for cut in cuts:
            low, high = log_parts(cut, orders, steep)
            small += cut.steps * low
            more += cut.steps * np.logaddexp(0.0, high - low)
        with np.errstate(divide="ignore"):
            large = np.where(more > 1.0, more + np.log1p(-np.exp(-more)), np.log(np.expm1(np.minimum(more, 1.0))))
        return CutEstimates(cuts, orders, small, small + large, bulk)

    def heights(self, epsilon: float) -> Floats:
        """Return the logarithms of Chernoff's bounds of what is inverted."""
        return (self.small if self.bulk else self.large) + pole(self.orders) - self.orders * epsilon

    def other_heights(self, epsilon: float) -> Floats:
        """Return the logarithms of Chernoff's bounds of all others."""
        return (self.large if self.bulk else self.small) + pole(self.orders) - self.orders * epsilon

    def least(self, epsilon: float) -> tuple[float, float]:
        """Return the logarithms of the best of Chernoff's bounds of large and of small losses."""
        found = float(self.heights(epsilon).min()), float(self.other_heights(epsilon).min())
        return found[::-1] if self.bulk else found
