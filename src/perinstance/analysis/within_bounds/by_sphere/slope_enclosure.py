"""The slope of a loss over an interval of predictors: a line or a parabola, and how far it may be off.

    l'(y, middle + u) = level + slope u + bend u^2/2 + off w,   |w| <= 1,   for all |u| <= radius.

Short intervals have the parabola of Taylor at the middle, off by ``radius^3/6`` times the largest fourth derivative;
long ones a chord: the slope is farthest from it at the ends and where the curvature is that of the chord.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perinstance.models.losses.base import Loss
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import CHORD_ROUNDING, ENCLOSURE_ROUNDED_UP

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
    """Tell whether the loss states where its curvature takes a given value."""
    nobody = np.zeros(0)
    return loss.inverse_curvature(nobody, nobody) is not None


def chords(loss: Loss, y: Floats, middle: Floats, radius: Floats, share: Floats) -> Chords:
    """Enclose each slope by what costs less; ``share`` of the bend of a parabola counts as a cost."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        level, slope = loss.derivatives(y, middle)
        bend = loss.third(y, middle)
        beyond = loss.largest_fourth(y, middle, radius) * radius**3 / 6
        low, high = middle - radius, middle + radius
        first, last = loss.derivatives(y, low)[0], loss.derivatives(y, high)[0]
        chord = np.where(radius > SHORT, (last - first) / (2 * radius), slope)
        ends = (first + chord * radius, last - chord * radius)
        below, above = np.minimum(*ends), np.maximum(*ends)
        for at in loss.inverse_curvature(y, chord) or ():
            at = np.clip(np.nan_to_num(at, nan=0.0, posinf=FAR, neginf=-FAR), low, high)
            there = loss.derivatives(y, at)[0] - chord * (at - middle)
            below, above = np.minimum(below, there), np.maximum(above, there)
        off = 0.5 * (above - below) + CHORD_ROUNDING * (np.abs(first) + np.abs(last) + np.abs(level))
        parabola = (radius <= SHORT) | (beyond + 0.5 * np.abs(bend) * radius**2 * share < off)
        return Chords(
            np.where(parabola, level, 0.5 * (above + below)),
            np.where(parabola, slope, chord),
            np.where(parabola, bend, 0.0),
            np.where(parabola, beyond, off) * ENCLOSURE_ROUNDED_UP,
        )
