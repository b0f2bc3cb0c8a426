"""Somebody who moves a smooth model far: people are refitted exactly, and the best of them climbs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.models.sweep import Sweep

Floats = NDArray[np.float64]

#: lengths of the steps of a climb, relative to the row
STEPS = (0.2, 0.06, 0.02, 0.006)
#: directions tried at each length
DIRECTIONS = 16
#: rounds of corner flips
FLIPS = 64


@dataclass(frozen=True, slots=True)
class Refitted:
    """One person and how far she moves the model."""

    distance: float
    x: Floats
    y: float


@dataclass(frozen=True, slots=True)
class Refits:
    """Exact neighbours of one confidential fit."""

    release: Any
    fit: Any
    sweep: Sweep
    labels: Floats  #: targets worth trying
    into: Callable[[Floats], Floats]  #: the nearest rows of the domain

    def best(self, x: Floats, labels: Floats | None = None) -> Refitted:
        """Return the one of these rows, with any of the labels, who moves the model farthest."""
        labels = self.labels if labels is None else labels
        x = np.ascontiguousarray(np.repeat(self.into(x), len(labels), axis=0))
        y = np.tile(labels, len(x) // len(labels))
        people = self.release.refine(self.fit, self.sweep, x, y, inside=False)
        distance = np.asarray(people.pairs.distance) * float(self.release.scale)
        top = int(np.argmax(distance))
        return Refitted(float(distance[top]), x[top], float(y[top]))


def best_refit(refits: Refits, start: Floats, corners: Floats | None) -> Refitted:
    """Climb from the best of some rows; ``corners`` are the half widths of a box, whose corners are tried too."""
    best = refits.best(start)
    if corners is not None:
        best = _flipped(refits, best, corners)
    directions = np.random.default_rng(len(best.x)).standard_normal((DIRECTIONS, len(best.x)))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    for step in STEPS:
        around = best.x + step * np.linalg.norm(best.x) * np.concatenate([directions, -directions])
        found = refits.best(around, np.array([best.y]))
        best = found if found.distance > best.distance else best
    return best


def _flipped(refits: Refits, best: Refitted, corners: Floats) -> Refitted:
    """Go to the nearest corner, then flip the one coordinate that gains most, until none gains."""
    at = refits.best(np.where(best.x < 0, -corners, corners)[None])
    for _ in range(FLIPS):
        flips = np.tile(at.x, (len(at.x), 1))
        np.fill_diagonal(flips, -at.x)
        found = refits.best(flips)
        if not found.distance > at.distance * (1 + 1e-12):
            break
        at = found
    return at if at.distance > best.distance else best
