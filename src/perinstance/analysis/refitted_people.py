"""People who move a model far, found by ascent: projected gradient ascent from many rows at once, or over corners.

A smooth model is climbed on the first Newton step, and who is found is refitted exactly. All this is the lower end of a
bracket: only the width of the bracket depends on how good it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import design
from perinstance.models.smooth.movement_bounds import SmoothModel
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import GAIN, SHORTEST_ROW

#: lengths of the last steps, relative to the row
STEPS = (0.2, 0.06, 0.02, 0.006)
#: directions tried at each length
DIRECTIONS = 16
#: steps over the corners of a box
FLIPS = 64
#: steps of an ascent from rows
ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Refitted:
    """One person and how far they move the model."""

    distance: float
    x: Floats
    y: float


@dataclass(frozen=True, slots=True)
class Refits:
    """Exact neighbours of one confidential fit."""

    release: Any
    fit: Any
    sweep: Sweep
    targets: Floats  #: worth trying, as the loss sees them
    labels: Floats  #: the same, as the table writes them
    nearest: Callable[[Floats], Floats]  #: the nearest rows of the domain

    def best(self, x: Floats, y: Floats) -> Refitted:
        """Return the one of these people who moves the model farthest."""
        x = np.ascontiguousarray(self.nearest(x))
        people = self.release.refine(self.fit, self.sweep, Block(x, y), inside=False)
        distance = np.asarray(people.pairs.distance) * self.release.mechanism().scale
        top = int(np.argmax(distance))
        return Refitted(float(distance[top]), x[top], float(y[top]))

    def either(self, x: Floats) -> Refitted:
        """Return the best of these rows with any of the labels."""
        return self.best(np.repeat(x, len(self.labels), axis=0), np.tile(self.labels, len(x)))


def best_refit(refits: Refits, start: Floats, corners: Floats | None) -> Refitted:
    """Ascend from some rows and their mirror images; ``corners`` are the half widths of a box."""
    start = refits.nearest(np.concatenate([start, -start]))
    ends = [first_step_ascent(refits.fit.model, start, target, refits.nearest) for target in refits.targets]
    best = refits.best(np.concatenate(ends), np.repeat(refits.labels, len(start)))
    if corners is not None:
        best = _best_corner(refits, best, corners)
    directions = np.random.default_rng(len(best.x)).standard_normal((DIRECTIONS, len(best.x)))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    for step in STEPS:
        around = best.x + step * np.linalg.norm(best.x) * np.concatenate([directions, -directions])
        found = refits.best(around, np.full(len(around), best.y))
        best = found if found.distance > best.distance else best
    return best


def first_step_ascent(model: SmoothModel, x: Floats, target: float, nearest: Callable[[Floats], Floats]) -> Floats:
    """Ascend on the length of the first Newton step; no fold.

    The direction is the gradient of ``|l' t + share|_N``, without what the person's own curvature takes off.
    """
    side, objective = model.outside, model.fit.objective
    T, nu, theta, d = side.around.T, side.around.nu, np.asarray(model.fit.theta), x.shape[1]
    y = np.full(len(x), target)

    def value(rows: Floats) -> tuple[Floats, Floats]:
        z = design(rows, objective.fit_intercept)
        l1, l2 = objective.loss.derivatives(y, z @ theta)
        t = z @ T.T
        v = l1[:, None] * t + side.share
        inner = l2 * np.einsum("ij,ij->i", t, v) / (1 + l2 * np.einsum("ij,ij->i", t, t))
        step = v - inner[:, None] * t
        vN = v * nu
        slope = (l2 * np.einsum("ij,ij->i", t, vN))[:, None] * theta + l1[:, None] * (vN @ T)
        return np.einsum("ij,j,ij->i", step, nu, step), slope[:, :d]

    return ascend_rows(value, nearest, x)


def _best_corner(refits: Refits, best: Refitted, corners: Floats) -> Refitted:
    """Go to the nearest corner, and from there over the corners."""
    start = refits.either(np.where(best.x < 0, -corners, corners)[None])
    at = ascend_corners(start, refits.either, lambda found: found.distance, lambda found: found.x, FLIPS)
    return at if at.distance > best.distance else best


Candidate = TypeVar("Candidate")


def ascend_rows(
    value: Callable[[Floats], tuple[Floats, Floats]], nearest: Callable[[Floats], Floats], x: Floats
) -> Floats:
    """Return where the rows of x get to along unit gradients; ``value`` returns values of rows and their gradients.

    A step that gains is followed by a longer one, one that does not is taken back.
    """
    f, slope = value(x)
    step = 0.3 * (np.linalg.norm(x, axis=1) + SHORTEST_ROW)
    for _ in range(ROUNDS):
        size = np.linalg.norm(slope, axis=1)
        trial = nearest(x + (step / np.where(size > 0, size, 1.0))[:, None] * slope)
        f_trial, slope_trial = value(trial)
        better = f_trial > f
        x, slope = np.where(better[:, None], trial, x), np.where(better[:, None], slope_trial, slope)
        f = np.where(better, f_trial, f)
        step = step * np.where(better, 1.5, 0.5)
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
