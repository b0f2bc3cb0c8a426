r"""How large the transform of large losses may still be, proved for the whole rest of a line at once.

``D(z) = int (1 - rho) sigma w^{1 + z} phi dx`` along any path from one end of the noise to the other if w has no zero
between it and the real line. On such a path ``|w^{iy}| = e^{-y arg w}``, which falls with y: a bound of the integral of
the integrand's size at y holds for all that is larger. The path keeps about the height of the sum over the noise up to
where ``q e^{mx - m^2/2}/(1 - q)`` exceeds ``e^1.5``, and the cut lies behind; from there it rises by half a unit a
unit, and falls as slowly to the end of the noise.

On a cell of the path sizes are bounded from its middle: with ``o = q e^{mx - m^2/2}/(1 - q)``, ``|d log w/dx|`` is at
most ``m o/(1 - o)`` where o is less than one, at most m at first and ``m/(1 - e^-1.5)`` then, times ``sqrt(1.25)`` of
length.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import CELL_SUM
from perinstance.pairs.loss_sums.sampled.large_losses.cut_window import CutNoise
from perinstance.pairs.loss_sums.sampled.large_losses.loss_cut import END, LossCut, log_total
from perinstance.pairs.loss_sums.sampled.log_moments import NORMAL

BEHIND = 1.5
STEEPEST = 1.45
LENGTH = 1.12
AWAY = 8.0  # widths of the cut
ROUGH = 0.05
CHANGE = 0.2  # of an exponent on a cell, and this share of how far it lies below its largest value
DEEP = 0.25
MOST_CELLS = 1_000_000


def log_decay(noise: CutNoise, y: float, rise: float, sure: bool) -> float:
    """Return ``log |D(c + i y')|``, y' >= y, or more; ``rise`` is the greatest height of the path.

    ``noise`` is that of large losses. Unless it has to be ``sure``, about.
    """
    cut, c = noise.cut, noise.c
    count = int((cut.end - noise.low) / min(ROUGH / cut.m, 0.1 * cut.width)) + 1
    if not 0 < count <= MOST_CELLS:
        return np.inf
    x = np.linspace(noise.low, cut.end, count + 1)
    logs, tops = _sizes(cut, c, y, rise, x, sure=False)
    if sure:
        steep = _steepest(cut, x[1:]) * (1.0 + c + y) + cut.end + rise
        parts = np.maximum(np.ceil(np.diff(x) * steep / (CHANGE + DEEP * (logs.max() - logs))), 1.0)
        if not parts.sum() <= MOST_CELLS:
            return np.inf
        x = np.interp(np.arange(int(parts.sum()) + 1), np.concatenate([[0.0], np.cumsum(parts)]), x)
        logs, tops = _sizes(cut, c, y, rise, x, sure=True)
    total = float(log_total(logs + np.log(LENGTH * np.diff(x)))) - NORMAL
    sides = np.logaddexp(_log_side(cut, c, x[:1], tops[0]), _log_side(cut, c, x[-1:], tops[1]))
    # left of all cells little is left
    found = float(np.logaddexp(np.logaddexp(total, sides), noise.log_out))
    return found + CELL_SUM * (1.0 + abs(found) + y)


def _log_side(cut: LossCut, c: float, x: Floats, top: float) -> float:
    """Return the logarithm of a bound of the integral from the path back to the real line, at one of its ends."""
    loss = float(cut.loss(x)[0]) + math.log1p(-cut.q)
    size = (1.0 + c) * loss - 0.5 * (float(x[0]) ** 2 - top**2) + math.log(top) - NORMAL
    return size + float(_log_weight(cut, x, x, np.array([top]))[0])


def _sizes(cut: LossCut, c: float, y: float, rise: float, x: Floats, sure: bool) -> tuple[Floats, tuple[float, float]]:
    """Return bounds of the logarithm of the integrand's size on cells, and the heights of the path at its ends."""
    middle = 0.5 * (x[1:] + x[:-1])
    step = np.diff(x) if sure else np.zeros(len(middle))
    odds = cut.log_odds(middle)
    behind = (BEHIND - float(cut.log_odds(np.zeros(1))[0])) / cut.m
    start = max(behind, cut.place + 2.0 * cut.height + AWAY * cut.width)
    lowest = min(cut.highest, 2.0 * cut.height)  # in the strip of the sum, where it has no sides of its own
    most = cut.height + 0.5 * np.maximum(cut.last - AWAY * END - middle, 0.0)
    height = np.minimum(np.maximum(lowest, np.minimum(rise, lowest + 0.5 * (middle - start))), most)
    angle = cut.m * height
    far = odds > BEHIND
    small = np.exp(np.where(far, -odds, odds))
    log = np.log(1.0 + small * np.exp(1j * np.where(far, -angle, angle)))
    lost = 0.5 * _steepest(cut, x[1:]) * step
    size = log.real + np.where(far, odds, 0.0) + math.log1p(-cut.q) + lost
    turned = np.maximum(log.imag + np.where(far, angle, 0.0) - lost, 0.0)
    highest = height + step
    weight = _log_weight(cut, x[:-1], x[1:], highest)
    noise = -0.5 * (middle**2 - highest**2) + 0.5 * step * (np.abs(middle) + step)
    return (1.0 + c) * size - y * turned + noise + weight, (float(highest[0]), float(highest[-1]))


def _steepest(cut: LossCut, right: Floats) -> Floats:
    """Return a bound of ``|d log w|`` on cells, a unit of x."""
    odds = np.exp(np.minimum(cut.log_odds(right), 0.0))
    return cut.m * np.minimum(LENGTH * odds / np.maximum(1.0 - odds, 0.1), STEEPEST)


def _log_weight(cut: LossCut, left: Floats, right: Floats, height: Floats) -> Floats:
    """Return a bound of ``log |(1 - rho) sigma|`` on cells, up to some heights."""
    growth = 0.5 * (height / cut.width) ** 2
    cut_off = np.minimum(growth + cut.log_large(right), np.logaddexp(0.0, growth + cut.log_small(left)))
    growth = 0.5 * (height / END) ** 2
    end = np.minimum(growth + cut.log_inside(left), np.logaddexp(0.0, growth + cut.log_beyond(right)))
    return np.asarray(cut_off + end)
