"""Projected gradient ascent from many rows at once, and ascent over the corners of a box: who loses most, found.

What is found here is a lower end of a bracket: only the width of the bracket depends on how good it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import GAIN

Candidate = TypeVar("Candidate")


@dataclass(frozen=True, slots=True)
class StepRule:
    """How long steps are: a step that gains is followed by a longer one, one that does not is taken back."""

    rounds: int
    longer: float
    shorter: float
    normalised: bool  #: along the unit gradient, not the gradient


def ascend_rows(
    value: Callable[[Floats], tuple[Floats, Floats]],
    nearest: Callable[[Floats], Floats],
    x: Floats,
    step: Floats,
    rule: StepRule,
) -> Floats:
    """Return where the rows of x get to; ``value`` returns the values of rows and their gradients."""
    f, slope = value(x)
    for _ in range(rule.rounds):
        length = step
        if rule.normalised:
            size = np.linalg.norm(slope, axis=1)
            length = step / np.where(size > 0, size, 1.0)
        trial = nearest(x + length[:, None] * slope)
        f_trial, slope_trial = value(trial)
        better = f_trial > f
        x, slope = np.where(better[:, None], trial, x), np.where(better[:, None], slope_trial, slope)
        f = np.where(better, f_trial, f)
        step = np.where(better, step * rule.longer, step * rule.shorter)
    return x


def ascend_corners(
    start: Candidate,
    best_of: Callable[[Floats], Candidate],
    value: Callable[[Candidate], float],
    row: Callable[[Candidate], Floats],
    rounds: int,
) -> Candidate:
    """Flip the sign of the coordinate that gains most, until none gains; ``best_of`` picks the best of some rows."""
    at = start
    for _ in range(rounds):
        flips = np.tile(row(at), (len(row(at)), 1))
        np.fill_diagonal(flips, -row(at))
        found = best_of(flips)
        if not value(found) > value(at) * GAIN:
            break
        at = found
    return at
