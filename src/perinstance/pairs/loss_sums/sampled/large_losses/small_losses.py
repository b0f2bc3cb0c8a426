r"""Chernoff's bound for losses that are all small: ``delta <= e^{-t epsilon} t^t/(1 + t)^{1 + t} prod B(t)^k``.

``B(t) = int rho w^{1 + t} phi <= (1 - q)^{1 + t} (1 + int rho (e^{(1 + t) l} - 1) phi)`` with the loss l above its
least. The last integrand is a product of what grows with x and what falls: on a cell the right end of the one times the
left end of the other is above it, and so is the sum over cells, but for rounding, which is charged.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.rounding import CELL_SUM, CHERNOFF
from perinstance.pairs.loss_sums.sampled.large_losses.loss_cut import LossCut, log_total
from perinstance.pairs.loss_sums.sampled.log_moments import NORMAL

FINE = 0.02
MUCH = 30.0


def log_small_losses(cuts: list[LossCut], order: float) -> float:
    """Return the logarithm of that bound, without epsilon: subtract ``order epsilon``."""
    pole = order * math.log(order) - (1.0 + order) * math.log1p(order)
    return pole + CHERNOFF * (1.0 + order) * (8.0 + abs(math.log(order))) + sum(_log_power(cut, order) for cut in cuts)


def _log_power(cut: LossCut, order: float) -> float:
    """Return ``k log B(t)``, rounded up."""
    x = cut.cells(order * cut.level, FINE)
    exponent = (1.0 + order) * cut.loss(x)
    with np.errstate(divide="ignore"):
        gained = np.where(exponent > MUCH, exponent, np.log(np.expm1(np.minimum(exponent, MUCH))))
    left, right = x[:-1], x[1:]
    nearest = np.where((left < 0.0) & (right > 0.0), 0.0, np.minimum(np.abs(left), np.abs(right)))
    logs = gained[1:] + cut.log_small(left) - 0.5 * nearest**2 - NORMAL
    with np.errstate(divide="ignore"):
        total = float(np.logaddexp(log_total(logs + np.log(right - left)), gained[0]))  # what lies left of all cells
    least = (1.0 + order) * math.log1p(-cut.q)
    more = float(np.logaddexp(0.0, total + CELL_SUM * (1.0 + abs(total))))
    return cut.steps * (least + CHERNOFF * abs(least) + more * (1.0 + CELL_SUM))
