"""People with several rows in a smooth model: an upper bound from their summed gradient, or a refit without them.

Without rows I the Hessian at the fit is ``G = H - sum_I l''_i x_i x_i'`` (less their shares of a penalty that belongs
to the rows) and the gradient that they take along ``q = sum_I l'_i x_i``: the certificates for one row
(``certificates``) need no more than ``|G^-1 q|`` and the smallest eigenvalue of G relative to H.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import NumericalTrouble
from perinstance.folds.block import Block, plain_targets, weights_of
from perinstance.folds.class_labels import CodedSweep
from perinstance.folds.sweep import Sweep
from perinstance.models.interface import Movement
from perinstance.models.losses.penalised_objective import design
from perinstance.models.smooth.certificates import Step, distance_bound, step_ball, undecided
from perinstance.models.smooth.movement_bounds import THIN, SmoothModel
from perinstance.models.smooth.neighbour_refits import Displacements, distances
from perinstance.models.smooth.objective_folds import Folded, minimum_of
from perinstance.models.smooth.problem import MinimumAudit, SmoothAudit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import EXACT
from perinstance.numerics.rounding import NO_WEIGHT_LEFT, UNIT
from perinstance.pairs.kinds import Kind

#: numbers in the largest temporary. Changes only speed.
ROOM = 1 << 20


@dataclass(frozen=True, slots=True)
class _Found:
    """One entry per person."""

    distance: Floats  #: infinite where there is no bound
    leverage: Floats
    residual: Floats


def person_movement(fit: MinimumAudit, block: Block, starts: NDArray[np.int64]) -> Movement:
    """Map: how far people inside move the fit with all of their rows; who has no bound is left open."""
    n, codes = len(starts) - 1, fit.codes(block.y)
    alone = np.zeros(n, dtype=np.bool_)
    if fit.classes is not None:  # without them a class is gone
        for label, count in enumerate(fit.classes.counts):
            alone |= np.add.reduceat((plain_targets(codes) == label).astype(np.int64), starts[:-1]) == count
    kind: Kind = "estimate" if fit.model.kind == "estimate" else "upper"
    if isinstance(fit, SmoothAudit) and fit.model.kind != "exact":
        found = _bounded(fit.model, block.X, codes, starts)
    else:
        found = _Found(np.full(n, np.inf), *np.full((2, n), np.nan))
    opened = ~np.isfinite(found.distance) | alone
    distance = np.where(alone, np.inf, found.distance)
    return Movement(found.leverage, found.residual, distance, kind, opened if opened.any() else None)


def _bounded(model: SmoothModel, X: NDArray, y: Floats, starts: NDArray[np.int64]) -> _Found:
    """Take the first Newton step without each person, and bound what is left of the way."""
    fit, side, sizes = model.fit, model.inside, np.diff(starts)
    objective, around, bounds, p = fit.objective, side.around, side.hessian_bounds, len(fit.theta)
    loss, T = objective.loss, around.T
    # the whitening has one share of a penalty taken out already
    shares = T * (objective.penalty_curvature(fit.theta) if objective.mean else np.zeros(p)) @ T.T
    weight, bent = float(np.linalg.norm(shares, ord=2)), objective.mean and objective.penalty.concordance > 0
    weights = weights_of(y)
    # how many times a person's share of a penalty is theirs
    times = sizes.astype(np.float64) if weights is None else np.add.reduceat(weights, starts[:-1])
    out = _Found(*np.full((3, len(sizes)), np.inf))
    for k in np.unique(sizes).tolist():
        everybody, run = np.flatnonzero(sizes == k), max(1, ROOM // (p * (k + p)))
        for at in range(0, len(everybody), run):
            who = everybody[at : at + run]
            rows = (starts[who][:, None] + np.arange(k)).ravel()
            x, target = design(X[rows], objective.fit_intercept), y[rows]
            eta = x @ fit.theta
            l1, l2 = loss.derivatives(target, eta)
            t = (x @ T.T).reshape(len(who), k, p)
            l1, l2 = l1.reshape(len(who), k), l2.reshape(len(who), k)
            u = t * np.sqrt(l2)[:, :, None]
            S = u @ u.transpose(0, 2, 1)
            usable = np.isfinite(S).all(axis=(1, 2))
            S[~usable], u[~usable] = 0.0, 0.0
            top = np.linalg.eigvalsh(S)[:, -1] * (1 + 16 * k * UNIT)
            more = times[who] - 1.0
            left = 1.0 - top - np.maximum(more, 0.0) * weight
            thin = ~usable | ~(left >= max(THIN, 1e3 * around.error * k)) | (bent & (more != 0.0))
            if not np.isfinite(loss.concordance):  # rounding decides whether H has a row's curvature
                unsure = undecided(loss, target, eta, np.abs(x) @ np.abs(fit.theta))
                thin |= unsure.reshape(len(who), k).any(axis=1)
            left = np.where(thin, 1.0, left)
            q = np.einsum("nk,nkp->np", l1, t) + times[who, None] * side.share
            G = np.eye(p) - u.transpose(0, 2, 1) @ u - more[:, None, None] * shares
            G[thin], q[thin] = np.eye(p), 0.0
            step = np.linalg.solve(G, q[:, :, None])[:, :, 0]
            d1, d2 = np.square(step) @ around.nu, np.square(step) @ around.nu**2
            size, a = np.sqrt(d1), np.sqrt(np.maximum(np.einsum("np,np->n", q, step), 0.0))
            out.leverage[who], out.residual[who] = np.trace(S, axis1=1, axis2=2) / left, np.linalg.norm(l1, axis=1)
            if bounds is None:
                out.distance[who] = np.where(thin, np.inf, size)
                continue
            inflation, lam = 1.0 / left, around.nu[-1] / left
            # what T is off moves the step by as much of its own length, in whatever direction; each row has its own
            off = side.gradient_bound * np.sqrt(inflation) + k * around.lost * inflation * a
            first = Step(a + off, size + np.sqrt(lam) * off, np.sqrt(d2 / left) + lam * off, lam, inflation)
            found = distance_bound(first, step_ball(bounds, first.a, inflation, None)) + 2 * np.sqrt(lam) * off
            lost = 1 + 16 * k * around.error * inflation
            out.distance[who] = np.where(thin, np.inf, lost * found)
    return out


def refit_without(fit: MinimumAudit, rest: Sweep, block: Block) -> Movement:
    """Refit without one person, whose rows are the block; ``rest`` goes over all others' rows."""
    model, codes = fit.model, fit.codes(block.y)
    weights, nothing = weights_of(block.y), np.zeros(1)
    n = model.fit.n - (len(block) if weights is None else float(weights.sum()))
    gone = fit.classes is not None and any(
        int((plain_targets(codes) == label).sum()) == count for label, count in enumerate(fit.classes.counts)
    )
    if gone or n <= (
        0 if weights is None else NO_WEIGHT_LEFT * model.fit.n
    ):  # there is nothing to publish without them
        return Movement(nothing + np.inf, nothing + np.nan, nothing + np.inf, np.array([EXACT], dtype=np.uint8))
    inner = rest if fit.classes is None else CodedSweep(rest, fit.classes)
    precision, around = model.precision, model.inside.around
    try:
        found = minimum_of(Folded(inner, model.fit.objective, None, n), model.fit.theta)
    except NumericalTrouble:
        return Movement(nothing + np.inf, nothing + np.nan, nothing + np.inf, "upper")
    there = found.whitening(precision)
    error = np.sqrt(there.nu[-1]) * (4 * found.decrement + there.norm_bound(found.rounding))
    error += np.sqrt(around.nu[-1]) * (2 * model.fit.decrement + around.norm_bound(model.fit.rounding))
    charged = distances(Displacements((found.theta - model.fit.theta)[None], np.array([float(error)])), precision)
    return Movement(nothing + np.nan, nothing + np.nan, charged.value, charged.kind_code)
