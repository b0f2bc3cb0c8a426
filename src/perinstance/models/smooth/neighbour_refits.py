"""The neighbours' minima themselves, for many people at once: one fold per iteration serves a whole batch.

Each person's objective differs from everyone's by one row, so the Hessian at the fit, up or down one rank, is a nearly
exact one for all of them: iterating ``D <- D - G_i^-1 grad F_i(theta + D)`` shrinks the error by the relative change of
the Hessian along the step, a few percent in ordinary data. The work is two matrix products with the batch of steps D.
The gradient is summed from differences ``l'(eta + x'D) - l'(eta)`` that do not cancel, so small steps keep their
digits. Whoever converges slowly (a person whom the fit leans on) gets their own safeguarded Newton fit; where that
finds no minimum, the neighbour has none, and the step is infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import NumericalTrouble
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import design, predictor
from perinstance.models.smooth.movement_bounds import SmoothModel
from perinstance.models.smooth.objective_folds import Outsider, SmoothFit, fit_neighbour, slope_rounding
from perinstance.models.smooth.whitening import Whitening
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import Charged, charge
from perinstance.numerics.rounding import REFIT_CORRECTION, REFIT_LOST, REFIT_STALLED, UNIT

Places = NDArray[np.intp]

BATCH = 512
MAX_ITERATIONS = 40
#: corrections that shrink more slowly than this per iteration: a fit of their own
SLOW = 0.6
#: numbers in one temporary (rows of a piece times people of the batch)
PIECE = 1 << 17


@dataclass(frozen=True, slots=True)
class GradientChanges:
    """Changes of the gradient at each person's step, summed over some rows."""

    change: Floats  #: (people, d)
    finite = True  # the first fold has looked at every cell

    def __add__(self, other: GradientChanges) -> GradientChanges:
        return GradientChanges(self.change + other.change)


@dataclass(frozen=True, slots=True)
class Displacements:
    """``theta_neighbour - theta`` of each person, and how far off it may still be in the norm of the precision."""

    D: Floats
    error: Floats


class Neighbours(Protocol):
    """A batch of neighbours of one fit. ``at`` are places in the batch; steps are rows."""

    @property
    def width(self) -> int:
        """The length of theta."""

    @property
    def hopeless(self) -> NDArray[np.bool_]:
        """Tell for whom the common Hessian cannot do."""

    @property
    def decrement(self) -> float:
        """The decrement of the fit that they are neighbours of."""

    def gradient(self, at: Places, D: Floats) -> Floats:
        """``grad F_i(theta + D_i)``."""

    def solve(self, at: Places, g: Floats) -> tuple[Floats, Floats]:
        """``G_i^-1 g_i`` and its length in the G_i norm."""

    def length(self, at: Places, D: Floats) -> Floats:
        """``|D_i|`` in the G_i norm."""

    def stretch(self) -> Floats:
        """Return factors that take the G_i norm to the norm of the precision, at most."""

    def refit_one(self, i: int) -> tuple[Floats, float]:
        """Return the step of one person by a fit of their own, and its error in the norm of the precision."""


def refit_batch(neighbours: Neighbours) -> Displacements:
    """Iterate all to convergence."""
    n = len(neighbours.hopeless)
    D, off = np.zeros((n, neighbours.width)), np.full(n, np.inf)
    active = np.flatnonzero(~neighbours.hopeless)
    slow = list(np.flatnonzero(neighbours.hopeless))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(MAX_ITERATIONS):
            if not len(active):
                break
            correction, size = neighbours.solve(active, neighbours.gradient(active, D[active]))
            sane = np.isfinite(size)
            D[active[sane]] -= correction[sane]
            length = neighbours.length(active, D[active])
            done = sane & (size <= REFIT_CORRECTION * length + 4 * neighbours.decrement)
            stalled = (
                sane & ~done & (size <= REFIT_STALLED * length) & (size > off[active] / 2)
            )  # rounding, not curvature
            stuck = ~sane | (~done & ~stalled & (size > SLOW * off[active]))
            off[active] = size
            slow += list(active[stuck])
            active = active[~(done | stalled | stuck)]
        slow += list(active)
    # a correction that shrank by SLOW or more leaves at most SLOW/(1 - SLOW) of itself; twice that for the norm's drift
    error = neighbours.stretch() * (4 * np.where(np.isfinite(off), off, 0.0) + 2 * neighbours.decrement)
    for i in slow:
        D[i], error[i] = _refit_one(neighbours, int(i))
    return Displacements(D, error)


def _refit_one(neighbours: Neighbours, i: int) -> tuple[Floats, float]:
    """Return the step by a fit of its own; infinite where it has no end."""
    try:
        return neighbours.refit_one(i)
    except NumericalTrouble:
        return np.zeros(neighbours.width), np.inf


def gradient_changes(block: Block, fit: SmoothFit, D: Floats) -> GradientChanges:
    """Sum ``(l'(eta + x'D) - l'(eta)) x`` over one block, for every step D."""
    X, y = block.X, block.y
    objective, d = fit.objective, X.shape[1]
    change = np.zeros_like(D)
    rows = max(64, PIECE // max(len(D), 1))
    for start in range(0, len(X), rows):
        x = np.asarray(X[start : start + rows], dtype=np.float64)
        t = np.asarray(y[start : start + rows], dtype=np.float64)[:, None]
        eta = predictor(x, fit.theta, objective.fit_intercept)[:, None]
        moved = objective.loss.slope_change(t, eta, predictor(x, D.T, objective.fit_intercept))
        change[:, :d] += moved.T @ x
        if objective.fit_intercept:
            change[:, d] += moved.sum(axis=0)
    return GradientChanges(change)


@dataclass(frozen=True, slots=True)
class SmoothNeighbours:
    """Neighbours that differ by one row of a smooth objective."""

    model: SmoothModel
    sweep: Sweep | None  #: None: only the first step can be taken
    x: Floats
    y: Floats
    sign: int  #: -1 without the person, +1 with the person
    around: Whitening
    eta: Floats
    curvature: Floats
    t: Floats  #: T x
    left: Floats  #: det G / det H
    base: Floats  #: grad F_i at the fit

    @property
    def width(self) -> int:
        """The length of theta."""
        return self.x.shape[1]

    @property
    def hopeless(self) -> NDArray[np.bool_]:
        """The others hardly determine the model, or one person outweighs them so much that one rank cancels."""
        return (self.left < 1e-3) | ~(self.left < 1e6)

    @property
    def decrement(self) -> float:
        """The decrement of the fit."""
        return self.model.fit.decrement

    @property
    def k(self) -> Floats:
        """``G^-1 = T'(I + k t t')T``."""
        return -self.sign * self.curvature / np.where(self.hopeless, 1.0, self.left)

    def gradient(self, at: Places, D: Floats) -> Floats:
        """One fold, the person's own change, the penalty's change."""
        g = self.base[at]
        if not D.any():
            return g
        fit, objective = self.model.fit, self.model.fit.objective
        assert self.sweep is not None
        g = g + self.sweep.fold(partial(gradient_changes, fit=fit, D=D)).change
        step = np.einsum("ij,ij->i", self.x[at], D)
        mine = objective.loss.slope_change(self.y[at], self.eta[at], step)
        g += self.sign * mine[:, None] * self.x[at]
        penalty = objective.penalty_slope(fit.theta + D) - objective.penalty_slope(fit.theta)
        return g + objective.times(fit.n + self.sign) * penalty

    def solve(self, at: Places, g: Floats) -> tuple[Floats, Floats]:
        """``G^-1 g``, by one rank."""
        v, t, k = g @ self.around.T.T, self.t[at], self.k[at]
        inner = np.einsum("ij,ij->i", t, v)
        size = np.sqrt(np.maximum(np.einsum("ij,ij->i", v, v) + k * inner * inner, 0))
        return (v + (k * inner)[:, None] * t) @ self.around.T, size

    def length(self, at: Places, D: Floats) -> Floats:
        """With ``D = T'w``: ``|w|^2 + sign l'' (t'w)^2``."""
        w = np.linalg.solve(self.around.T.T, D.T).T
        inner = np.einsum("ij,ij->i", self.t[at], w)
        square = np.einsum("ij,ij->i", w, w) + self.sign * self.curvature[at] * inner * inner
        return np.sqrt(np.maximum(square, 0))

    def stretch(self) -> Floats:
        """The root of the largest eigenvalue of A relative to G, at most."""
        return np.sqrt(self.around.nu[-1] + np.maximum(self.k, 0) * (self.t * self.t @ self.around.nu))

    def own_slope_rounding(self, D: Floats) -> Floats:
        """Bound what the rounding of the person's slope at the end of the step does to it, in the precision's norm.

        Somebody who leaves is in the sum over everybody and subtracted again: both may be far larger than the rest.
        (A fit of their own leaves them out of the sum.)
        """
        loss, theta = self.model.fit.objective.loss, self.model.fit.theta
        with np.errstate(over="ignore", invalid="ignore"):
            step = np.einsum("ij,ij->i", self.x, D)
            moved, bent = loss.slope_change(self.y, self.eta, step), loss.curvature(self.y, self.eta + step)
            at, by = np.abs(self.x) @ np.abs(theta), np.einsum("ij,ij->i", np.abs(self.x), np.abs(D))
            # rounding of x'theta that both of them share is part of the fit's
            off = np.abs(moved) + np.sqrt(D.shape[1]) * (bent * by + np.abs(bent - self.curvature) * at)
            length = np.sqrt(self.t * self.t @ self.around.nu) / np.where(self.hopeless, 1.0, self.left)  # |G^-1 x|
            return np.where(self.hopeless, 0.0, 8 * UNIT * off * length)

    def refit_one(self, i: int) -> tuple[Floats, float]:
        """Newton's method on one neighbour."""
        fit = self.model.fit
        assert self.sweep is not None
        found = fit_neighbour(self.sweep, fit, Outsider(self.x[i], float(self.y[i]), self.sign))
        there = found.whitening(self.model.precision)
        error = np.sqrt(there.nu[-1]) * (4 * found.decrement + there.norm_bound(found.rounding))
        if self.sign > 0:  # T x, not |T||x|: however far out the person is, that direction is well known
            x, y = self.x[i], self.y[i : i + 1]
            l1, l2 = fit.objective.loss.derivatives(y, np.array([x @ found.theta]))
            lost = slope_rounding(l1, l2, np.abs(x) @ np.abs(found.theta), len(x))[0]
            error += lost * np.sqrt((there.T @ x) ** 2 @ there.nu)
        return found.theta - fit.theta, float(error + 2 * np.sqrt(self.around.nu[-1]) * fit.decrement)


def leave_one_out(
    model: SmoothModel,
    sweep: Sweep,
    X: NDArray,
    y: NDArray,
    inside: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Displacements:
    """Return the step to the minimum without (inside) or with (outside) each of these people.

    ``progress`` is called with the number of people done and their total after every batch.
    """
    rows = design(X, model.fit.objective.fit_intercept)
    target = np.asarray(y, dtype=np.float64)
    D, error = np.zeros_like(rows), np.zeros(len(rows))
    side = model.inside if inside else model.outside
    sweep = model.fit.walk(sweep)
    lost = side.around.norm_bound(model.fit.rounding)  # of the fit, and the same of a neighbour
    for start in range(0, len(rows), BATCH):
        part = slice(start, start + BATCH)
        near = _neighbours(model, sweep, rows[part], target[part], inside)
        found = refit_batch(near)
        own = near.own_slope_rounding(found.D)
        for i in np.flatnonzero(~(own <= REFIT_LOST * measured(found.D, model.precision))):  # NaN: nothing is known
            found.D[i], found.error[i] = _refit_one(near, int(i))
            own[i] = 0.0
        D[part], error[part] = found.D, found.error + 2 * near.stretch() * lost + own
        if progress is not None:
            progress(min(start + BATCH, len(rows)), len(rows))
    return Displacements(D, error)


def first_steps(model: SmoothModel, X: NDArray, y: NDArray, inside: bool = True) -> Floats:
    """Return the first Newton step of each person: no fold, an estimate of the whole."""
    rows, target = design(X, model.fit.objective.fit_intercept), np.asarray(y, dtype=np.float64)
    near = _neighbours(model, None, rows, target, inside)
    return -near.solve(np.arange(len(rows)), near.base)[0]


def _neighbours(model: SmoothModel, sweep: Sweep | None, x: Floats, y: Floats, inside: bool) -> SmoothNeighbours:
    fit, objective = model.fit, model.fit.objective
    around = (model.inside if inside else model.outside).around
    sign = -1 if inside else 1
    eta = x @ fit.theta
    t = x @ around.T.T
    own = objective.penalty_slope(fit.theta) if objective.mean else 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # an outsider far out, who gets a fit of their own
        l1, l2 = objective.loss.derivatives(y, eta)
        left = 1 + sign * l2 * np.einsum("ij,ij->i", t, t)
        base = fit.gradient + sign * (l1[:, None] * x + own)
    return SmoothNeighbours(model, sweep, x, y, sign, around, eta, l2, t, left, base)


def distances(found: Displacements, precision: Floats | None) -> Charged:
    """``|D|_A``, what may still be missing added; exact where that is next to nothing."""
    return charge(measured(found.D, precision), found.error)


def measured(D: Floats, precision: Floats | None) -> Floats:
    """``|D|_A`` from above: along a small eigenvalue of A, the rounding of the large ones shows."""
    if precision is None:
        size2 = square = np.einsum("ij,ij->i", D, D)
    else:
        L = np.linalg.cholesky(np.asarray(precision, dtype=np.float64))
        square, size2 = ((part * part).sum(axis=1) for part in (D @ L, np.abs(D) @ np.abs(L)))
    return np.sqrt(square + 8 * UNIT * D.shape[1] * size2)
