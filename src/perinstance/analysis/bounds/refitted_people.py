"""Somebody who moves a smooth model far: people climb to where they move it most, and are refitted exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import design
from perinstance.models.smooth.movement_bounds import SmoothModel
from perinstance.numerics.array_types import Floats

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
    targets: Floats  #: worth trying, as the loss sees them
    labels: Floats  #: the same, as the table writes them
    into: Callable[[Floats], Floats]  #: the nearest rows of the domain

    def best(self, x: Floats, y: Floats) -> Refitted:
        """Return the one of these people who moves the model farthest."""
        x = np.ascontiguousarray(self.into(x))
        people = self.release.refine(self.fit, self.sweep, Block(x, y), inside=False)
        distance = np.asarray(people.pairs.distance) * self.release.mechanism().scale
        top = int(np.argmax(distance))
        return Refitted(float(distance[top]), x[top], float(y[top]))

    def either(self, x: Floats) -> Refitted:
        """Return the best of these rows with any of the labels."""
        return self.best(np.repeat(x, len(self.labels), axis=0), np.tile(self.labels, len(x)))


def best_refit(refits: Refits, start: Floats, corners: Floats | None) -> Refitted:
    """Climb from some rows and their mirror images; ``corners`` are the half widths of a box."""
    start = refits.into(np.concatenate([start, -start]))
    climbed = [ascend(refits.fit.model, start, target, refits.into) for target in refits.targets]
    best = refits.best(np.concatenate(climbed), np.repeat(refits.labels, len(start)))
    if corners is not None:
        best = _flipped(refits, best, corners)
    directions = np.random.default_rng(len(best.x)).standard_normal((DIRECTIONS, len(best.x)))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    for step in STEPS:
        around = best.x + step * np.linalg.norm(best.x) * np.concatenate([directions, -directions])
        found = refits.best(around, np.full(len(around), best.y))
        best = found if found.distance > best.distance else best
    return best


def ascend(model: SmoothModel, x: Floats, target: float, into: Callable[[Floats], Floats], rounds: int = 60) -> Floats:
    """Walk uphill on the length of the first Newton step; no fold.

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

    f, slope = value(x)
    length = np.linalg.norm(x, axis=1) + 1e-12
    step = 0.3 * length
    for _ in range(rounds):
        size = np.linalg.norm(slope, axis=1)
        trial = into(x + (step / np.where(size > 0, size, 1.0))[:, None] * slope)
        f_trial, slope_trial = value(trial)
        better = f_trial > f
        x, slope = np.where(better[:, None], trial, x), np.where(better[:, None], slope_trial, slope)
        f = np.where(better, f_trial, f)
        step = np.where(better, step * 1.5, step * 0.5)
    return x


def _flipped(refits: Refits, best: Refitted, corners: Floats) -> Refitted:
    """Go to the nearest corner, then flip the one coordinate that gains most, until none gains."""
    at = refits.either(np.where(best.x < 0, -corners, corners)[None])
    for _ in range(FLIPS):
        flips = np.tile(at.x, (len(at.x), 1))
        np.fill_diagonal(flips, -at.x)
        found = refits.either(flips)
        if not found.distance > at.distance * (1 + 1e-12):
            break
        at = found
    return at if at.distance > best.distance else best
