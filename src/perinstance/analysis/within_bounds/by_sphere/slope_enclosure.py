"""The slope of a loss over an interval of predictors: a line or a parabola, and how far it may be off.

    l'(y, middle + u) = level + slope u + bend u^2/2 + off w,   |w| <= 1,   for all |u| <= reach.

Short intervals have the parabola of Taylor at the middle, off by ``reach^3/6`` times the largest fourth derivative;
long ones a chord: the slope is farthest from it at the ends and where the curvature is that of the chord.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from perinstance.models.losses.base import Loss
from perinstance.models.losses.smooth import Gamma, Logistic, Poisson, PseudoHuber, SmoothHinge, Squared
from perinstance.numerics.array_types import Floats

#: shorter than this, the ends of a chord are too close to tell its slope
SHORT = 1e-7
FAR = 1e300


@dataclass(frozen=True, slots=True)
class Chords:
    """Enclosures of many slopes."""

    level: Floats
    slope: Floats
    bend: Floats
    off: Floats


def has_chords(loss: Loss) -> bool:
    """Tell whether it is known here where the curvature of a loss takes a given value."""
    return isinstance(loss, (Squared, Logistic, Poisson, Gamma, PseudoHuber, SmoothHinge))


def chords(loss: Loss, y: Floats, middle: Floats, reach: Floats, share: Floats) -> Chords:
    """Enclose each slope by what costs less; ``share`` of the bend of a parabola counts as a cost."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        level, slope = loss.derivatives(y, middle)
        bend = loss.third(y, middle)
        beyond = loss.jerk(y, middle, reach) * reach**3 / 6
        low, high = middle - reach, middle + reach
        first, last = loss.derivatives(y, low)[0], loss.derivatives(y, high)[0]
        chord = np.where(reach > SHORT, (last - first) / (2 * reach), slope)
        ends = (first + chord * reach, last - chord * reach)
        below, above = np.minimum(*ends), np.maximum(*ends)
        for at in same_curvature(loss, y, chord):
            at = np.clip(np.nan_to_num(at, nan=0.0, posinf=FAR, neginf=-FAR), low, high)
            there = loss.derivatives(y, at)[0] - chord * (at - middle)
            below, above = np.minimum(below, there), np.maximum(above, there)
        off = 0.5 * (above - below) + 1e-14 * (np.abs(first) + np.abs(last) + np.abs(level))
        parabola = (reach <= SHORT) | (beyond + 0.5 * np.abs(bend) * reach**2 * share < off)
        return Chords(
            np.where(parabola, level, 0.5 * (above + below)),
            np.where(parabola, slope, chord),
            np.where(parabola, bend, 0.0),
            np.where(parabola, beyond, off) * (1 + 1e-9),
        )


def same_curvature(loss: Loss, y: Floats, curvature: Floats) -> tuple[Floats, ...]:
    """Return the predictors at which the loss has this curvature; anything where there is none."""
    if isinstance(loss, Logistic):
        eta = 2 * np.arccosh(np.maximum(0.5 / np.sqrt(curvature), 1.0))
        return eta, -eta
    if isinstance(loss, Poisson):
        return (np.log(curvature),)
    if isinstance(loss, Gamma):
        return (np.log(y) - np.log(curvature),)
    if isinstance(loss, PseudoHuber):
        away = loss.width * np.sqrt(np.maximum(curvature ** (-2 / 3) - 1, 0.0))
        return y + away, y - away
    if isinstance(loss, SmoothHinge):
        return ((2 * y - 1) * (1 - loss.width * logit(curvature)),)
    return ()
