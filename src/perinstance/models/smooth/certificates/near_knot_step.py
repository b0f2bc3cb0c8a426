"""A second Newton correction from the few rows whose curvature can change at all, without another look at the table.

A loss with knots is a parabola between them. In whitened coordinates, a step of length ``|w|`` moves row j by at most
``|w| sqrt(h_j)``, so a row whose next knot is farther away keeps its curvature. The rows with the smallest
``ratio = distance/sqrt(h_j)`` are kept by one fold; within the smallest ratio that was not kept (``cut``)

    phi(w) = -q + G w + sum_kept bend_j(t_j'w) t_j

is exact. (Of a loss without knots every row bends; a table with few rows is kept whole.) Newton's method on phi ends
at the neighbour's minimum but for rounding. With ``eps >= |phi|`` there and mu the smallest eigenvalue of a Hessian
with the least curvatures that a step of length r can lead to, the minimum is within r if ``r mu >= eps``: on the sphere
of that radius the gradient points outwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.models.losses.base import Loss
from perinstance.models.losses.penalised_objective import design
from perinstance.models.smooth.certificates.second_step import PeopleNearFit, measure
from perinstance.models.smooth.fit.objective_folds import SmoothFit
from perinstance.models.smooth.fit.whitening import Whitening
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import GRADIENT_LEFT, KNOT_ROUNDING, RADIUS_ROUNDED_UP, SINGULAR_HESSIAN, UNIT

ROWS = 4096
#: Newton steps; each knot that is passed may take one
STEPS = 12
#: the ball around the last step in which the minimum is looked for: a share of the step, a multiple of what is left
SHARE, MULTIPLE = 1e-7, 1e3
#: a person's rows are those within this multiple of the first step; if the step leaves it, all that were kept
ROOM = 1.5


@dataclass(frozen=True, slots=True)
class Kept:
    """All rows of a table in which ``ratio < cut``, at most ``most`` of them, in the order of their ratio."""

    most: int
    cut: float
    ratio: Floats  #: 0 where the loss has no knots
    t: Floats
    y: Floats
    eta: Floats
    finite = True  # the first fold has looked at every cell

    def __add__(self, other: Kept) -> Kept:
        return smallest(
            self.most,
            min(self.cut, other.cut),
            np.concatenate([self.ratio, other.ratio]),
            np.concatenate([self.t, other.t]),
            np.concatenate([self.y, other.y]),
            np.concatenate([self.eta, other.eta]),
        )

    def within(self, radius: float) -> Kept:
        """Return those that a step of this length can take past a knot."""
        k = int(np.searchsorted(self.ratio, radius))
        if k == len(self.ratio):  # none can be spared
            return self
        return Kept(self.most, radius, self.ratio[:k], self.t[:k], self.y[:k], self.eta[:k])


def smallest(most: int, cut: float, ratio: Floats, t: Floats, y: Floats, eta: Floats) -> Kept:
    """Return the rows with the smallest ratios."""
    order = np.argsort(ratio, kind="stable")
    if len(ratio) > most:
        cut = min(cut, float(ratio[order[most]]))
    order = order[: np.searchsorted(ratio[order], cut)]
    return Kept(most, cut, ratio[order], t[order], y[order], eta[order])


def keep(block: Block, fit: SmoothFit, T: Floats, most: int) -> Kept:
    """Keep the rows of a block that are nearest to a knot; rows that nothing moves need not be kept."""
    X, y = block.X, block.y
    loss, p = fit.objective.loss, len(fit.theta)
    knots = not np.isfinite(loss.concordance)
    none = np.zeros(0)
    found = Kept(most, np.inf, none, np.zeros((0, p)), none, none)
    for start in range(0, len(X), ROWS):
        x = design(X[start : start + ROWS], fit.objective.fit_intercept)
        target, eta = np.asarray(y[start : start + ROWS], dtype=np.float64), x @ fit.theta
        t = x @ T.T
        root = np.sqrt(np.einsum("ij,ij->i", t, t))
        moves = root > 0
        knot = loss.knot_distance(target, eta)
        ratio = knot[moves] / root[moves] if knots else np.zeros(int(moves.sum()))
        cut = 0.0 if knots and undecided(knot, target, x, fit.theta).any() else np.inf
        found = found + smallest(most, cut, ratio, t[moves], target[moves], eta[moves])
    return found


def undecided(knot: Floats, y: Floats, x: Floats, theta: Floats) -> NDArray[np.bool_]:
    """Tell for which rows rounding decides on which side of a knot they are: the Hessian may have the other one.

    The terms of x'theta may be much larger than their sum.
    """
    return undecided_by_size(knot, y, np.abs(x) @ np.abs(theta))


def undecided_by_size(knot: Floats, y: Floats, size: Floats) -> NDArray[np.bool_]:
    """Tell the same of rows whose ``|x|'|theta|`` is known."""
    return np.asarray(knot <= KNOT_ROUNDING * (1 + size + np.abs(y)), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows that can bend, as a correction."""

    kept: Kept

    def distance(self, people: PeopleNearFit, loss: Loss, around: Whitening, gradient_bound: float) -> Floats:
        """Bound ``|D|_A`` of each person; inf where this cannot be done."""
        p, far = len(around.nu), ROOM * np.linalg.norm(people.first(), axis=1)
        order = np.argsort(far)  # people with short steps need few rows
        out = np.empty(len(people))
        for run in people.parts(max(3 * p * p, 4 * len(self.kept.y))):
            who = order[run]
            some = self.kept.within(float(far[who].max(initial=0.0)))
            out[who] = _part(some, people[who], loss, around, gradient_bound)
            left = who[~np.isfinite(out[who])]
            if len(left) and len(some.y) < len(self.kept.y):
                out[left] = _part(self.kept, people[left], loss, around, gradient_bound)
        return out


def _part(kept: Kept, people: PeopleNearFit, loss: Loss, around: Whitening, gradient_bound: float) -> Floats:
    G, none = people.hessian(), np.zeros(len(people))
    scale = np.linalg.norm(people.q, axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        best, size = descend(
            people.first(),
            scale,
            lambda w: _gradient(kept, people, loss, w),
            lambda w: _hessian(kept, people, loss, G, w, none),
        )
        length = np.linalg.norm(best, axis=1)
        error = 64 * around.error * np.einsum("bii->b", G)  # the person's own curvature counts too
        eps = size + gradient_bound + people.q_error + error * (scale + length)
        eps = eps + _gradient_rounding(kept, people, loss, best, around)
        r = np.maximum(SHARE * length, MULTIPLE * eps)
        N = _hessian(kept, people, loss, G, best, r)
        good = np.isfinite(eps) & np.isfinite(N).all(axis=(1, 2)) & ((length + r) * RADIUS_ROUNDED_UP < kept.cut)
        mu = np.linalg.eigvalsh(np.where(good[:, None, None], N, 0.0))[:, 0] - error
        mu = mu - _hessian_rounding(kept, people, loss, best, r, around)
        good &= r * mu >= eps
        return np.where(good, measure(best, eps / np.where(good, mu, 1.0), around, gradient_bound), np.inf)


def descend(
    w: Floats, scale: Floats, gradient: Callable[[Floats], Floats], hessian: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """Newton's method for many people at once; return where each came nearest to a zero gradient, and what is left."""
    best, left = w, gradient(w)
    size = np.linalg.norm(left, axis=1)
    for _ in range(STEPS):
        if not (size > GRADIENT_LEFT * scale).any():
            break
        w = best - solve(hessian(best), left)
        new = gradient(w)
        now = np.linalg.norm(new, axis=1)
        better = now < size
        if not better.any():
            break
        best, size = np.where(better[:, None], w, best), np.where(better, now, size)
        left = np.where(better[:, None], new, left)
    return best, size


def _bends(kept: Kept, people: PeopleNearFit, loss: Loss, w: Floats) -> tuple[Floats, Floats]:
    """How the slopes of the kept rows (rows, people) and of each person's own bend along the step."""
    bend = loss.slope_remainder(kept.y[:, None], kept.eta[:, None], kept.t @ w.T)
    return bend, people.sign * loss.slope_remainder(people.y, people.eta, people.predictor_step(w))


def _changes(kept: Kept, people: PeopleNearFit, loss: Loss, w: Floats, r: Floats) -> tuple[Floats, Floats]:
    """How the curvatures of the kept rows and of each person's own change, to the least within r of w."""
    there = kept.eta[:, None] + kept.t @ w.T
    change = loss.least_curvature(kept.y[:, None], there, np.linalg.norm(kept.t, axis=1)[:, None] * r)
    own = loss.least_curvature(people.y, people.eta + people.predictor_step(w), np.linalg.norm(people.t, axis=1) * r)
    return change - loss.curvature(kept.y, kept.eta)[:, None], people.sign * (own - people.curvature)


def _gradient(kept: Kept, people: PeopleNearFit, loss: Loss, w: Floats) -> Floats:
    """``phi(w)``; somebody who leaves takes along their own part of the kept rows."""
    bend, mine = _bends(kept, people, loss, w)
    straight = w + (people.sign * people.curvature * people.predictor_step(w))[:, None] * people.t - people.q
    return straight + bend.T @ kept.t + mine[:, None] * people.t


def _hessian(kept: Kept, people: PeopleNearFit, loss: Loss, G: Floats, w: Floats, r: Floats) -> Floats:
    """Return the least Hessian within r of w."""
    change, mine = _changes(kept, people, loss, w, r)
    bent = np.flatnonzero(change.any(axis=1))
    t, p = kept.t[bent], kept.t.shape[1]
    changed = (change[bent].T @ (t[:, :, None] * t[:, None, :]).reshape(len(t), p * p)).reshape(-1, p, p)
    return G + changed + mine[:, None, None] * people.t[:, :, None] * people.t[:, None, :]


def _share(kept: Kept, around: Whitening) -> float:
    """Bound the relative rounding of such a sum: T x cancels when columns nearly repeat each other."""
    return 64 * UNIT * (float(np.sqrt(1 + len(kept.y))) + len(around.nu) * float(np.sqrt(around.condition)))


def _gradient_rounding(kept: Kept, people: PeopleNearFit, loss: Loss, w: Floats, around: Whitening) -> Floats:
    """Bound what rounding does to phi: by the sizes of its terms, which may cancel.

    Somebody who leaves is in the sum over the kept rows and is subtracted again; far from the fit that person's terms
    can be larger than the sum by many orders.
    """
    bend, mine = _bends(kept, people, loss, w)
    change, own_change = _changes(kept, people, loss, w, np.zeros(len(w)))
    # the change t'w of a row's predictor is off as well, and so is its distance from a knot (without knots that is in
    # the fit's gradient bound)
    far, own_far = (
        np.abs(rows.eta) + np.abs(rows.y) if not np.isfinite(loss.concordance) else np.zeros(len(rows.y))
        for rows in (kept, people)
    )
    bend = np.abs(bend) + np.abs(change) * (np.abs(kept.t @ w.T) + far[:, None])
    mine = np.abs(mine) + np.abs(own_change) * (np.abs(people.predictor_step(w)) + own_far)
    sizes = np.linalg.norm(kept.t, axis=1) @ bend + mine * np.linalg.norm(people.t, axis=1)
    return _share(kept, around) * sizes


def _hessian_rounding(kept: Kept, people: PeopleNearFit, loss: Loss, w: Floats, r: Floats, around: Whitening) -> Floats:
    """Bound what rounding does to the eigenvalues of the Hessian, likewise."""
    change, mine = _changes(kept, people, loss, w, r)
    sizes = (kept.t**2).sum(axis=1) @ np.abs(change) + np.abs(mine) * (people.t**2).sum(axis=1)
    return _share(kept, around) * sizes


def solve(N: Floats, g: Floats) -> Floats:
    """``N^-1 g``; where N is nearly singular or not finite, no step."""
    sound: NDArray[np.bool_] = np.isfinite(N.sum(axis=(1, 2)) + g.sum(axis=1))
    sound[sound] = np.linalg.eigvalsh(N[sound])[:, 0] > SINGULAR_HESSIAN
    out = np.zeros_like(g)
    if sound.any():
        out[sound] = np.linalg.solve(N[sound], g[sound][:, :, None])[:, :, 0]
    return out
