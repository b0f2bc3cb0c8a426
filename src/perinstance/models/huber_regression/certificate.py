"""An upper bound for HuberRegressor, whose scale moves with its coefficients.

With ``v_j = (x_j, z_j)``, ``z_j = r_j/sigma``, an inlier has the Hessian ``v_j v_j'/sigma``. After a step D, with
``s = sigma'/sigma``, its residual is ``z_j - v_j'D/(sigma s)`` and its row ``v_j - v_j'D/(sigma s) e_sigma``. Both
follow from the old ones, so that the sums over everybody who stays an inlier change in closed form. In whitened
coordinates (D = T'w, u = T e_sigma, K the inliers' part of the Hessian, P the penalty's),

    phi(w) = -q + K w/s + P w - u w'Kw/(2 sigma s^2) + what the rows do that pass a knot,
    Hess(w) = (I - u w'/(sigma s)) K (I - w u'/(sigma s))/s + P + (rows that pass).

Only rows with ``| |z_j| - epsilon | sigma/|t_j|`` below ``|w|/(1 - |u||w|/sigma)`` can pass a knot; they are kept
(``near_knot_step``). Newton's method on phi ends at the neighbour's minimum but for ``eps``, and within r of that
point the Hessian is at least ``(sqrt(lam) - |u| sqrt(Lam) r/(sigma' (1 - k)))^2/(1 + k)``, ``k = |u| r/sigma'``, with
lam the smallest eigenvalue there less every row that could pass, and Lam the largest of the inliers' part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.models.huber_regression.objective import HuberObjective
from perinstance.models.losses.penalised_objective import design
from perinstance.models.smooth.certificates.near_knot_step import (
    MULTIPLE,
    ROOM,
    SHARE,
    Kept,
    descend,
    smallest,
    solve,
    undecided,
)
from perinstance.models.smooth.certificates.second_step import PIECE, measure
from perinstance.models.smooth.fit.whitening import Whitening
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LEAST_DIVISOR, RADIUS_ROUNDED_UP, UNIT

Bools = NDArray[np.bool_]

ROWS = 4096


def huber_keep(block: Block, objective: HuberObjective, theta: Floats, T: Floats, most: int) -> Kept:
    """Keep the rows of a block that are nearest to a knot, relative to how far a step can move them."""
    X, y = block.X, block.y
    sigma, none = float(theta[-1]), np.zeros(0)
    found = Kept(most, np.inf, none, np.zeros((0, len(theta))), none, none)
    for start in range(0, len(X), ROWS):
        x = design(X[start : start + ROWS], objective.fit_intercept)
        target, eta = np.asarray(y[start : start + ROWS], dtype=np.float64), x @ theta[:-1]
        z = (target - eta) / sigma
        t = np.column_stack([x, z]) @ T.T
        root = np.linalg.norm(t, axis=1)
        moves = root > 0
        knot = sigma * np.abs(np.abs(z) - objective.epsilon)
        cut = 0.0 if undecided(knot, target, x, theta[:-1]).any() else np.inf
        found = found + smallest(most, cut, knot[moves] / root[moves], t[moves], target[moves], eta[moves])
    return found


@dataclass(frozen=True, slots=True)
class Crowd:
    """Some rows in whitened coordinates: those that are kept, or the people themselves."""

    t: Floats
    z: Floats

    def __getitem__(self, who: NDArray[np.intp]) -> Crowd:
        return Crowd(self.t[who], self.z[who])

    def inlier(self, epsilon: float) -> Bools:
        """Tell who is on the parabola."""
        return np.abs(self.z) <= epsilon


@dataclass(frozen=True, slots=True)
class HuberCorrection:
    """Everybody's Hessian as a function of the step; ``kept`` are the rows that may pass a knot."""

    epsilon: float
    sigma: float
    K: Floats
    P: Floats
    u: Floats
    kept: Kept

    @property
    def rows(self) -> Crowd:
        """The kept rows."""
        return Crowd(self.kept.t, (self.kept.y - self.kept.eta) / self.sigma)

    def distance(self, people: Crowd, sign: int, q: Floats, around: Whitening, gradient_bound: float) -> Floats:
        """Bound ``|D|_A`` of each person who leaves (sign -1) or joins (+1); inf where this cannot be done."""
        p = len(self.u)
        step, out = max(1, PIECE // max(3 * p * p, 4 * len(self.kept.y))), np.empty(len(q))
        left = 1 + sign * people.inlier(self.epsilon) / self.sigma * np.einsum("ij,ij->i", people.t, people.t)
        far = ROOM * np.linalg.norm(q, axis=1) / np.maximum(left, 1e-3)  # at least ROOM times the first step
        far = far / np.maximum(1 - float(np.linalg.norm(self.u)) * far / self.sigma, 1e-3)
        order = np.argsort(far)  # people with short steps need few rows
        for start in range(0, len(q), step):
            who = order[start : start + step]
            some = replace(self, kept=self.kept.within(float(far[who].max())))
            out[who] = some._part(people[who], sign, q[who], around, gradient_bound)
            again = who[~np.isfinite(out[who])]
            if len(again) and len(some.kept.y) < len(self.kept.y):
                out[again] = self._part(people[again], sign, q[again], around, gradient_bound)
        return out

    def _part(self, people: Crowd, sign: int, q: Floats, around: Whitening, gradient_bound: float) -> Floats:
        own = sign * people.inlier(self.epsilon) / self.sigma
        outer = people.t[:, :, None] * people.t[:, None, :]
        K, scale, none = self.K + own[:, None, None] * outer, np.linalg.norm(q, axis=1), np.zeros(len(q))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            w, size = descend(
                solve(K + self.P, q),
                scale,
                lambda w: self._gradient(K, people, sign, q, w),
                lambda w: self._inliers(K, people, sign, w, none) + self.P,
            )
            length, root = np.linalg.norm(w, axis=1), float(np.linalg.norm(self.u))
            error = 64 * around.error * (1 + np.abs(np.einsum("bii->b", K)))
            eps = size + gradient_bound + error * (scale + length) + self._rounding(people, w)
            r = np.maximum(SHARE * length, MULTIPLE * eps)
            there = self.sigma + w @ self.u  # sigma'
            far = (length + r) / (1 - root * (length + r) / self.sigma)
            good = np.isfinite(eps) & (far > 0) & (far * RADIUS_ROUNDED_UP < self.kept.cut) & (root * r < there / 2)
            M = self._inliers(K, people, sign, w, r)
            good &= np.isfinite(M.sum(axis=(1, 2)))
            M = np.where(good[:, None, None], M, 0.0)
            lam = np.linalg.eigvalsh(M + self.P)[:, 0] - error
            most = np.linalg.eigvalsh(M)[:, -1] + error
            good &= lam > 0
            k = root * r / there
            edge = np.sqrt(np.maximum(lam, 0)) - root * np.sqrt(np.maximum(most, 0)) * r / (there * (1 - k))
            mu = np.maximum(edge, 0) ** 2 / (1 + k)
            good &= r * mu >= eps
            return np.where(good, measure(w, eps / np.where(good, mu, 1.0), around, gradient_bound), np.inf)

    def _gradient(self, K: Floats, people: Crowd, sign: int, q: Floats, w: Floats) -> Floats:
        s = 1 + w @ self.u / self.sigma
        Kw = np.einsum("bij,bj->bi", K, w)
        smooth = Kw / s[:, None] + w @ self.P - q
        smooth -= (np.einsum("bi,bi->b", w, Kw) / (2 * self.sigma * s * s))[:, None] * self.u
        rows = self.rows
        a, shift = self._passed(rows.z[:, None], rows.t @ w.T / (self.sigma * s))
        smooth += a.T @ rows.t + (a * shift).sum(axis=0)[:, None] * self.u
        a, shift = self._passed(people.z, np.einsum("bi,bi->b", people.t, w) / (self.sigma * s))
        smooth += sign * a[:, None] * (people.t + shift[:, None] * self.u)
        return np.where((s > 0)[:, None], smooth, np.inf)

    def _rounding(self, people: Crowd, w: Floats) -> Floats:
        """Bound what rounding does to the rows that pass a knot, from which somebody who leaves is taken out again."""
        S, root, total = self.sigma + w @ self.u, float(np.linalg.norm(self.u)), np.zeros(len(w))
        rows = self.rows
        a, shift = self._passed(rows.z[:, None], rows.t @ w.T / S)
        far = (np.abs(self.kept.y) + np.abs(self.kept.eta)) / self.sigma  # how far a knot is is a difference of these
        a = np.where(a != 0, np.abs(a) + far[:, None], 0.0)
        total += (a * (_lengths(rows)[:, None] + np.abs(shift) * root)).sum(axis=0)
        a, shift = self._passed(people.z, np.einsum("bi,bi->b", people.t, w) / S)
        total += np.abs(a) * (_lengths(people) + np.abs(shift) * root)
        return 64 * UNIT * np.sqrt(1 + len(rows.z)) * total

    def _passed(self, z: Floats, moved: Floats) -> tuple[Floats, Floats]:
        """What a row adds beyond the parabola or the line that it was on: ``a (t + shift u)``; exactly 0 where none."""
        there, e = z - moved, self.epsilon
        clipped = np.clip(there, -e, e)
        straight = np.where(np.abs(z) <= e, there, np.clip(z, -e, e))
        return straight - clipped, (clipped + straight) / 2 - z

    def _inliers(self, K: Floats, people: Crowd, sign: int, w: Floats, r: Floats) -> Floats:
        """Return the least that the inliers' part of the Hessian can be within r of w."""
        s = 1 + w @ self.u / self.sigma
        S = self.sigma * s
        Kw = np.einsum("bij,bj->bi", K, w)
        cross = (Kw / S[:, None])[:, :, None] * self.u[None, None, :]
        uu = np.outer(self.u, self.u)
        M = K - cross - cross.transpose(0, 2, 1) + (np.einsum("bi,bi->b", w, Kw) / S**2)[:, None, None] * uu
        M = M / s[:, None, None]
        rows = self.rows
        change = (
            self._least(rows.z[:, None], _lengths(rows)[:, None], rows.t @ w.T / S, S, r)
            - rows.inlier(self.epsilon)[:, None]
        )
        bent = np.flatnonzero(change.any(axis=1))
        t, p = rows.t[bent], len(self.u)
        c = change[bent] / S
        alpha = t @ w.T / S
        M += (c.T @ (t[:, :, None] * t[:, None, :]).reshape(len(t), p * p)).reshape(-1, p, p)
        cross = ((c * alpha).T @ t)[:, :, None] * self.u[None, None, :]
        M += (c * alpha * alpha).sum(axis=0)[:, None, None] * uu - cross - cross.transpose(0, 2, 1)
        lean = np.einsum("bi,bi->b", people.t, w) / S
        c = sign * (self._least(people.z, _lengths(people), lean, S, r) - people.inlier(self.epsilon)) / S
        v = people.t - lean[:, None] * self.u
        return M + c[:, None, None] * v[:, :, None] * v[:, None, :]

    def _least(self, z: Floats, length: Floats, moved: Floats, S: Floats, r: Floats) -> Floats:
        """1 for rows that are inliers wherever a step of length r after this one may lead, else 0."""
        root = float(np.linalg.norm(self.u))
        radius = (
            (length + np.abs(moved) * root) * r / np.maximum(S - root * r, LEAST_DIVISOR)
        )  # |t'| <= |t| + |alpha| |u|
        return np.asarray(np.abs(z - moved) + radius <= self.epsilon, dtype=np.float64)


def _lengths(rows: Crowd) -> Floats:
    return np.sqrt(np.einsum("ij,ij->i", rows.t, rows.t))
