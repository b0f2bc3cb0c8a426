"""The neighbours' minima themselves, for many people at once: one fold per iteration serves a whole batch.

Each person's objective differs from everyone's by one row, so the Hessian at the fit, up or down a few ranks, is a
nearly exact one for all of them: iterating ``D <- D - G_i^-1 grad F_i(theta + D)`` shrinks the error by the relative
change of the Hessian along the step, a few percent in ordinary data. The work is two matrix products with the batch of
steps D. The gradient is summed from differences of residuals that do not cancel, so small steps keep their digits.
Whoever converges slowly (a person whom the fit leans on) gets their own safeguarded Newton fit; where that finds no
minimum, the neighbour has none, and the step is infinite.

With ``Z R R' Z'`` the Hessian of a person's row and ``u = T Z R`` in whitened coordinates,
``G^-1 = T'(I - sign u (I + sign u'u)^-1 u')T``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import NumericalTrouble
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.smooth.movement_bounds import SmoothModel
from perinstance.models.smooth.newton import Whitening
from perinstance.models.smooth.objective_folds import Folded, Outsider, SmoothFit, Values, minimum_of
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import Charged, charge
from perinstance.numerics.rounding import REFIT_CORRECTION, REFIT_LOST, REFIT_STALLED, UNIT

Places = NDArray[np.intp]

#: People of one score whose steps are found together. Changes only speed.
BATCH = 512
#: Iterations at most; whoever is not done gets a fit of their own. Changes only speed.
MAX_ITERATIONS = 40
#: Corrections that shrink more slowly than this per iteration: a fit of their own. Changes only speed.
SLOW = 0.6
#: Numbers in one temporary (rows of a piece times people of the batch). Changes only speed.
PIECE = 1 << 17
#: With less of a person's information left in the others, or more of it brought, ranks cancel. Changes only speed.
LEFT, BROUGHT = 1e-3, 1e6


def gradient_changes(block: Block, fit: SmoothFit, D: Floats) -> Values:
    """Sum by how much each row's gradient changes over one block, for every step D."""
    objective = fit.objective
    change = np.zeros_like(D)
    rows = max(64, PIECE // (len(D) * objective.outputs))
    for start in range(0, len(block.X), rows):
        x = np.asarray(block.X[start : start + rows], dtype=np.float64)
        t = np.asarray(block.y[start : start + rows], dtype=np.float64)[:, None]
        here, step = objective.scores(x, fit.theta[None]), objective.scores(x, D)
        change += objective.gather(objective.residual_changes(t, here, step), x)
    return Values(change)


@dataclass(frozen=True, slots=True)
class Displacements:
    """``theta_neighbour - theta`` of each person, and how far off it may still be in the norm of the precision."""

    D: Floats
    error: Floats


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A batch of neighbours of one fit. ``at`` are places in the batch; steps are rows."""

    model: SmoothModel
    sweep: Sweep | None  #: None: only the first step can be taken
    block: Block  #: rows and targets of the people
    sign: int  #: -1 without the person, +1 with the person
    around: Whitening
    scores: Floats
    lifted: Floats  #: Z, (people, parameters, K)
    u: Floats  #: T Z R, (people, parameters, m)
    inner: Floats  #: ``sign (I + sign u'u)^-1``, (people, m, m)
    left: Floats  #: the eigenvalue of ``I + sign u'u`` farthest from one, which is det G / det H where m is 1
    base: Floats  #: grad F_i at the fit

    @property
    def hopeless(self) -> NDArray[np.bool_]:
        """The others hardly determine the model, or one person outweighs them so much that few ranks cancel."""
        return (self.left < LEFT) | ~(self.left < BROUGHT)

    def gradient(self, at: Places, D: Floats) -> Floats:
        """``grad F_i(theta + D_i)``: one fold, the person's own change, the penalty's change."""
        g = self.base[at]
        if not D.any():
            return g
        fit, objective, Z = self.model.fit, self.model.fit.objective, self.lifted[at]
        assert self.sweep is not None
        g = g + self.sweep.fold(partial(gradient_changes, fit=fit, D=D)).values
        step = np.einsum("npk,np->nk", Z, D)
        mine = objective.residual_changes(self.block.y[at], self.scores[at], step)
        g += self.sign * np.einsum("npk,nk->np", Z, mine)
        g += objective.penalty_change(fit.theta, D, fit.n + self.sign)
        return np.where(objective.in_domain(fit.theta + D, fit.theta)[:, None], g, np.nan)

    def _solved(self, at: Places, v: Floats) -> Floats:
        """``T^-T G^-1 T^-1 v`` of rows v."""
        u, inner = self.u[at], self.inner[at]
        return v - np.einsum("npm,nml,nl->np", u, inner, np.einsum("npm,np->nm", u, v), optimize=True)

    def solve(self, at: Places, g: Floats) -> tuple[Floats, Floats]:
        """``G_i^-1 g_i`` and its length in the G_i norm."""
        v = g @ self.around.T.T
        w = self._solved(at, v)
        return w @ self.around.T, np.sqrt(np.maximum(np.einsum("np,np->n", v, w), 0))

    def length(self, at: Places, D: Floats) -> Floats:
        """``|D_i|`` in the G_i norm: with ``D = T'w``, ``|w|^2 + sign |u'w|^2``."""
        w = np.linalg.solve(self.around.T.T, D.T).T
        own = np.einsum("npm,np->nm", self.u[at], w)
        return np.sqrt(np.maximum((w * w).sum(axis=1) + self.sign * (own * own).sum(axis=1), 0))

    def stretch(self) -> Floats:
        """Return factors that take the G_i norm to the norm of the precision, at most."""
        nu = self.around.nu
        trace = -np.einsum("npm,p,npl,nlm->n", self.u, nu, self.u, self.inner, optimize=True)
        return np.sqrt(nu[-1] + np.maximum(trace, 0))

    def own_rounding(self, D: Floats) -> Floats:
        """Bound what the rounding of the person's own change does to the step, in the precision's norm.

        Somebody who leaves is in the sum over everybody and subtracted again: both may be far larger than the rest.
        (A fit of their own leaves them out of the sum.)
        """
        objective, theta, X, y = self.model.fit.objective, self.model.fit.theta, self.block.X, self.block.y
        everybody = np.arange(len(X))
        with np.errstate(over="ignore", invalid="ignore"):
            step = np.einsum("npk,np->nk", self.lifted, D)
            moved = objective.residual_changes(y, self.scores, step)
            here, there = objective.steepness(y, self.scores), objective.steepness(y, self.scores + step)
            Z = np.abs(self.lifted)
            at, by = np.einsum("npk,p->nk", Z, np.abs(theta)), np.einsum("npk,np->nk", Z, np.abs(D))
            # rounding of x'theta that both of them share is part of the fit's
            size = there * by.max(axis=1, keepdims=True) + np.abs(there - here) * at.max(axis=1, keepdims=True)
            off = np.abs(moved) + np.sqrt(D.shape[1]) * size
            total = np.zeros(len(D))
            for k in range(objective.outputs):
                w = self._solved(everybody, self.lifted[:, :, k] @ self.around.T.T)
                total += off[:, k] * np.sqrt(w * w @ self.around.nu)
            return np.where(self.hopeless, 0.0, 8 * UNIT * total)

    def refit_one(self, i: int) -> tuple[Floats, float]:
        """Return one person's step by a fit of their own, and its error; infinite where there is no minimum."""
        fit, X, y = self.model.fit, self.block.X[i : i + 1], self.block.y[i : i + 1]
        assert self.sweep is not None
        other = Outsider(X[0], float(y[0]), self.sign)
        try:
            found = minimum_of(Folded(self.sweep, fit.objective, other, fit.n + self.sign), fit.theta)
        except NumericalTrouble:
            return np.zeros_like(fit.theta), np.inf
        there = found.whitening(self.model.precision)
        error = np.sqrt(there.nu[-1]) * (4 * found.decrement + there.norm_bound(found.rounding))
        if self.sign > 0:  # T Z, not |T||Z|: however far out the person is, that direction is well known
            lost = fit.objective.slope_lost(X, y, found.theta)[0]
            error += lost @ np.sqrt(there.nu @ fit.objective.lift(X, there.T)[0] ** 2)
        return found.theta - fit.theta, float(error + 2 * np.sqrt(self.around.nu[-1]) * fit.decrement)

    def refit(self) -> Displacements:
        """Iterate all to convergence."""
        n, decrement = len(self.left), self.model.fit.decrement
        D, off = np.zeros((n, len(self.model.fit.theta))), np.full(n, np.inf)
        active = np.flatnonzero(~self.hopeless)
        slow = list(np.flatnonzero(self.hopeless))
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(MAX_ITERATIONS):
                if not len(active):
                    break
                correction, size = self.solve(active, self.gradient(active, D[active]))
                sane = np.isfinite(size)
                D[active[sane]] -= correction[sane]
                length = self.length(active, D[active])
                done = sane & (size <= REFIT_CORRECTION * length + 4 * decrement)
                # rounding, not curvature
                stalled = sane & ~done & (size <= REFIT_STALLED * length) & (size > off[active] / 2)
                stuck = ~sane | (~done & ~stalled & (size > SLOW * off[active]))
                off[active] = size
                slow += list(active[stuck])
                active = active[~(done | stalled | stuck)]
            slow += list(active)
        # a correction that shrank by SLOW or more leaves at most SLOW/(1 - SLOW) of itself; twice that for the norm's
        # drift
        error = self.stretch() * (4 * np.where(np.isfinite(off), off, 0.0) + 2 * decrement)
        for i in slow:
            D[i], error[i] = self.refit_one(int(i))
        return Displacements(D, error)


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
    D, error = np.zeros((len(X), len(model.fit.theta))), np.zeros(len(X))
    sweep, batch = model.fit.walk(sweep), BATCH // model.fit.objective.outputs
    around = (model.inside if inside else model.outside).around
    lost = around.norm_bound(model.fit.rounding)  # of the fit, and as much of a neighbour
    for start in range(0, len(X), batch):
        part = slice(start, start + batch)
        near = neighbours(model, sweep, X[part], y[part], inside)
        found = near.refit()
        own = near.own_rounding(found.D)
        for i in np.flatnonzero(~(own <= REFIT_LOST * measured(found.D, model.precision))):  # NaN: nothing is known
            found.D[i], found.error[i] = near.refit_one(int(i))
            own[i] = 0.0
        D[part], error[part] = found.D, found.error + 2 * near.stretch() * lost + own
        if progress is not None:
            progress(min(start + batch, len(X)), len(X))
    return Displacements(D, error)


def first_steps(model: SmoothModel, X: NDArray, y: NDArray, inside: bool = True) -> Floats:
    """Return the first Newton step of each person: no fold, an estimate of the whole."""
    near = neighbours(model, None, X, y, inside)
    return -near.solve(np.arange(len(X)), near.base)[0]


def neighbours(model: SmoothModel, sweep: Sweep | None, X: NDArray, y: NDArray, inside: bool) -> Neighbours:
    """Return these people's neighbours, one batch."""
    fit, objective, sign = model.fit, model.fit.objective, -1 if inside else 1
    side = model.inside if inside else model.outside
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # an outsider far out, who gets a fit of their own
        scores, Z = objective.scores(X, fit.theta[None])[:, 0], objective.lift(X, np.eye(len(fit.theta)))
        u = objective.lift(X, side.around.T) @ objective.root(y, scores)
        G = np.eye(u.shape[2]) + sign * u.transpose(0, 2, 1) @ u
        finite = np.isfinite(G).all(axis=(1, 2))
        u[~finite], G[~finite] = 0.0, np.eye(u.shape[2])
        values, V = np.linalg.eigh(G)
        left = np.where(finite, values[:, 0] if inside else values[:, -1], np.inf)
        safe = (left >= LEFT) & (left < BROUGHT)
        inner = sign * (V / np.where(safe[:, None], values, 1.0)[:, None, :]) @ V.transpose(0, 2, 1)
        own = np.einsum("npk,nk->np", Z, objective.residuals(y, scores)) + objective.penalty_share(fit.theta)
        base = fit.gradient + sign * own
    return Neighbours(model, sweep, Block(X, y), sign, side.around, scores, Z, u, inner, left, base)


def distances(found: Displacements, precision: Floats | None) -> Charged:
    """``|D|_A``, what may still be missing added; exact where that is next to nothing."""
    return charge(measured(found.D, precision), found.error)


def measured(D: Floats, precision: Floats | None) -> Floats:
    """``|D|_A`` from above: along a small eigenvalue of A, the rounding of the large ones shows.

    Parameters to which A gives no weight are not published.
    """
    if precision is None:
        size2 = square = np.einsum("ij,ij->i", D, D)
    else:
        published = np.diag(precision) > 0
        L = np.linalg.cholesky(np.asarray(precision, dtype=np.float64)[np.ix_(published, published)])
        moved = D[:, published]
        square, size2 = ((part * part).sum(axis=1) for part in (moved @ L, np.abs(moved) @ np.abs(L)))
    return np.sqrt(square + 8 * UNIT * D.shape[1] * size2)
