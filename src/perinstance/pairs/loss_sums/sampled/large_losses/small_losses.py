r"""Chernoff's bound for losses that are all small: ``delta <= e^{-t epsilon} t^t/(1 + t)^{1 + t} prod B(t)^k``.

Two bounds of ``B(t) = int rho w^{1 + t} phi`` (for rho, read rho times sigma: both fall), each a sum over cells of the
noise, of which the lower is taken; rounding is charged. Many steps ask for the second, for what is next to nothing in
one of them is not in all.

* ``(1 - q)^{1 + t} (1 + int rho (e^{(1 + t) l} - 1) phi)`` with the loss l above its least. The integrand is a product
  of what grows with x and what falls: on a cell the right end of the one times the left end of the other is above it.
  And its logarithm is above its chord by at most ``b d^2/8`` on a cell of width d if it bends by -b at the least: the
  noise bends by -1, ``log (e^{(1 + t) l} - 1)`` by ``-m^2 (y/2 / sinh(y/2))^2`` or more with ``y = (1 + t) l``, and
  ``log rho`` by ``-1/s^2`` at the cut and hardly to the left of it.
* ``1 + int rho g phi`` with ``g = w^{1 + t} - 1 - (1 + t)(w - 1)``, for w has the mean one. It is convex in w and not
  below zero: on a cell its larger end is above it. What is left out, ``int (1 - rho)(1 + (1 + t)(w - 1)) phi``, is
  below zero by at most ``(1 + t) q (1 - rho)`` at ``m/2``, where w is one.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import CELL_SUM, CHERNOFF, UNIT
from perinstance.pairs.loss_sums.sampled.large_losses.loss_cut import LARGEST, LossCut, log_total
from perinstance.pairs.loss_sums.sampled.log_moments import NORMAL

FINE = 0.02
MUCH = 30.0
FLAT = 1e-6  # a chord that rises by less is as high as its higher end
LITTLE = 1e-3  # up to there g is next to a square
ROUNDED = 64.0  # units, of a difference of powers with exponents up to 30
#: Cells where most of the noise is.
MIDDLE, MIDDLE_CELLS = 9.0, 36_001


def log_small_losses(cuts: list[LossCut], order: float) -> float:
    """Return the logarithm of that bound, without epsilon: subtract ``order epsilon``."""
    pole = order * math.log(order) - (1.0 + order) * math.log1p(order)
    return pole + CHERNOFF * (1.0 + order) * (8.0 + abs(math.log(order))) + sum(_log_power(cut, order) for cut in cuts)


def _log_power(cut: LossCut, order: float) -> float:
    """Return ``k log B(t)``, rounded up."""
    x = cut.cells(order * cut.level, FINE)
    least = (1.0 + order) * math.log1p(-cut.q)
    above_least, above_one = (
        float(np.logaddexp(0.0, total + CELL_SUM * (1.0 + abs(total)))) * (1.0 + CELL_SUM)
        for total in (_log_above_least(cut, 1.0 + order, x), _log_above_one(cut, 1.0 + order, x))
    )
    return cut.steps * min(least + CHERNOFF * abs(least) + above_least, above_one)


def _log_above_least(cut: LossCut, power: float, x: Floats) -> float:
    """Return the logarithm of a bound of ``int rho (e^{(1 + t) l} - 1) phi``."""
    exponent = power * cut.loss(x)
    with np.errstate(divide="ignore"):
        gained = np.where(exponent > MUCH, exponent, np.log(np.expm1(np.minimum(exponent, MUCH))))
    logs = np.log(np.diff(x)) + np.minimum(_ends(cut, x, gained[1:]), _chords(cut, x, gained)) - NORMAL
    return float(np.logaddexp(log_total(logs), gained[0] - 0.5 * x[0] ** 2))  # what lies left of all cells


def _log_above_one(cut: LossCut, power: float, x: Floats) -> float:
    """Return the logarithm of a bound of ``int rho g phi``, and of what is below zero of the rest."""
    x = np.unique(np.concatenate([x, np.linspace(-MIDDLE, MIDDLE, MIDDLE_CELLS)]))
    log_w = cut.loss(x) + math.log1p(-cut.q)
    v = cut.q * np.expm1(np.minimum(cut.m * x - 0.5 * cut.m**2, LARGEST))
    linear, grown = power * v, np.expm1(np.minimum(power * np.log1p(v), MUCH))
    least = 2.0 * math.log1p(-cut.q)
    with np.errstate(divide="ignore"):
        little = math.log(0.5 * power * (power - 1.0)) + 2.0 * np.log(np.abs(v)) + np.maximum(linear, 0.0) - least
        some = np.log(np.maximum(grown - linear, 0.0) + ROUNDED * UNIT * (np.abs(grown) + np.abs(linear)))
    log = np.where(np.abs(linear) < LITTLE, little, np.where(power * log_w > 0.9 * MUCH, power * log_w, some))
    logs = np.log(np.diff(x)) + _ends(cut, x, np.maximum(log[1:], log[:-1])) - NORMAL
    rest = math.log(power * cut.q) - 0.5 * x[0] ** 2
    if power * cut.q > 1.0:
        middle = np.array([0.5 * cut.m])
        left_out = float(np.logaddexp(cut.log_large(middle), cut.log_beyond(middle))[0])
        rest = float(np.logaddexp(rest, math.log(power * cut.q) + left_out))
    return float(np.logaddexp(log_total(logs), rest))


def _ends(cut: LossCut, x: Floats, largest: Floats) -> Floats:
    """Return, on cells, the largest of what grows times the left end of what falls."""
    left, right = x[:-1], x[1:]
    nearest = np.where((left < 0.0) & (right > 0.0), 0.0, np.minimum(np.abs(left), np.abs(right)))
    return np.asarray(largest + cut.log_small(left) + cut.log_inside(left) - 0.5 * nearest**2)


def _chords(cut: LossCut, x: Floats, gained: Floats) -> Floats:
    """Return the logarithms of the mean of the chords' exponentials, raised by how far a logarithm may exceed them."""
    log = gained + cut.log_small(x) + cut.log_inside(x) - 0.5 * x * x
    bends = 1.0 + cut.m**2 + cut.bends(x)[1:]
    with np.errstate(invalid="ignore"):
        rise = np.abs(np.diff(log))
    mean = np.where(rise > FLAT, -np.log(np.maximum(rise, FLAT) / -np.expm1(-np.maximum(rise, FLAT))), 0.0)
    known = np.isfinite(log[:-1]) & np.isfinite(log[1:])
    return np.where(known, np.maximum(log[:-1], log[1:]) + mean + 0.125 * bends * np.diff(x) ** 2, np.inf)
