"""A second Newton correction with a bounded remainder, for losses with a fourth derivative.

The third derivatives of everyone are folded once, ``C = sum_j l'''_j t_j (x) t_j (x) t_j`` in whitened coordinates.
Then, for each person, the gradient of the neighbour's objective and its Hessian are known up to the fourth order,

    phi(w) = -q + G w + C[w, w]/2 + R,   |R| <= |w|^2 |w|_Q sqrt(lam_Q)/6,
    Hess(w) = G + C[w] + S,              |S| <= lam_Q |w|^2/2,

with ``Q = sum_j h_j max|l''''_j| t_j t_j'`` (the maximum within a radius that w does not leave, ``h_j = |t_j|^2``) and
lam_Q its largest eigenvalue. Newton's method on the known part costs O(d^3) a person and ends at w. With
``eps >= |phi(w)|``, ``mu`` the smallest eigenvalue of ``G + C[w]`` and tau a bound on ``|C[u]|/|u|``, the minimum is no
farther from w than any r with

    r (mu - tau r/2 - lam_Q (|w| + r)^2/2) >= eps,

because on the sphere of that radius the gradient then points outwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.models.losses.base import Loss
from perinstance.models.losses.penalised_objective import design
from perinstance.models.smooth.certificates.near_knot_step import solve
from perinstance.models.smooth.certificates.second_step import PeopleNearFit, measure
from perinstance.models.smooth.fit.objective_folds import SmoothFit
from perinstance.models.smooth.fit.whitening import Whitening
from perinstance.numerics.array_types import Floats

#: rows whose products are formed at a time
ROWS = 256
#: Newton steps on the known part; each squares the relative error
STEPS = 3
#: the minimum is looked for within this share of the step around its end
ROOM = 0.25


@dataclass(frozen=True, slots=True)
class Thirds:
    """Sums over some rows."""

    tensor: Floats  #: (p, p(p+1)/2): the pairs of the last two places once
    fourth: Floats  #: (radii, p, p): Q of each radius
    lost: float = 0.0  #: what counted additions may have taken from the tensor, as a norm
    finite = True  # the first fold has looked at every cell

    def __add__(self, other: Thirds) -> Thirds:
        with np.errstate(over="ignore", invalid="ignore"):  # a radius that overflows is dropped
            return Thirds(self.tensor + other.tensor, self.fourth + other.fourth, self.lost + other.lost)


def thirds(block: Block, fit: SmoothFit, T: Floats, radii: Floats) -> Thirds:
    """Sum third derivatives and the bounds on the fourth over a block."""
    X, y = block.X, block.y
    loss, p = fit.objective.loss, len(fit.theta)
    i, j = np.triu_indices(p)
    tensor, fourth = np.zeros((p, len(i))), np.zeros((len(radii), p, p))
    for start in range(0, len(X), ROWS):
        x = design(X[start : start + ROWS], fit.objective.fit_intercept)
        target, eta = np.asarray(y[start : start + ROWS], dtype=np.float64), x @ fit.theta
        t = x @ T.T
        h = np.einsum("ij,ij->i", t, t)
        tensor += (t * loss.third(target, eta)[:, None]).T @ (t[:, i] * t[:, j])
        with np.errstate(over="ignore", invalid="ignore"):
            for total, r in zip(fourth, radii, strict=True):
                z = t * np.sqrt(h * loss.largest_fourth(target, eta, r * np.sqrt(h)))[:, None]
                total += z.T @ z
    return Thirds(tensor, fourth)


@dataclass(frozen=True, slots=True)
class Cubic:
    """The third derivatives of everyone, and bounds on the fourth within some radii (ascending)."""

    tensor: Floats  #: (p, p, p)
    tau: float  #: |C[u]| <= tau |u|
    radius: Floats
    fourth: Floats  #: (radii, p, p): Q
    fourth_size: Floats  #: lam_Q
    lost: float = 0.0  #: |C[u]| may be off by this times |u|, besides what the whitening's error says

    def distance(self, people: PeopleNearFit, loss: Loss, around: Whitening, gradient_bound: float) -> Floats:
        """Bound ``|D|_A`` of each person; inf where this cannot be done."""
        p = len(around.nu)
        if not len(self.radius):  # the fourth derivatives overflow at every radius
            return np.full(len(people), np.inf)
        parts = [self._part(people[run], loss, around, gradient_bound) for run in people.parts(3 * p * p)]
        return np.concatenate([np.zeros(0), *parts])

    def _part(self, people: PeopleNearFit, loss: Loss, around: Whitening, gradient_bound: float) -> Floats:
        G, q, w = people.hessian(), people.q, people.first()
        own = people.sign * loss.third(people.y, people.eta)
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(STEPS):
                N, left = self._known(people, G, own, w)
                w = w - solve(N, left)
            N, left = self._known(people, G, own, w)
            w, length = np.where(np.isfinite(w), w, 0.0), np.linalg.norm(w, axis=1)
            good: NDArray[np.bool_] = np.isfinite(N.sum(axis=(1, 2)) + left.sum(axis=1))
            mu = np.linalg.eigvalsh(np.where(good[:, None, None], N, 0.0))[:, 0]
            at = np.searchsorted(self.radius, (1 + ROOM) * length)
            good &= at < len(self.radius)
            at = np.minimum(at, len(self.radius) - 1)
            # Q has the fourth derivatives of everyone in the data; somebody who joins adds their own
            h = np.einsum("ij,ij->i", people.t, people.t)
            mine = (
                loss.largest_fourth(people.y, people.eta, self.radius[at] * np.sqrt(h))
                if people.sign > 0
                else np.zeros(len(h))
            )
            along = np.sqrt(np.maximum(np.einsum("bi,bij,bj->b", w, self.fourth[at], w, optimize=True), 0))
            rest = (
                length**2 * along * np.sqrt(self.fourth_size[at])
                + mine * np.abs(people.predictor_step(w)) ** 3 * np.sqrt(h)
            ) / 6
            error = 64 * around.error * (np.einsum("bii->b", G) + np.linalg.norm(N - G, axis=(1, 2)))
            error = error + self.lost * length
            eps = np.linalg.norm(left, axis=1) + rest + gradient_bound + error * (np.linalg.norm(q, axis=1) + length)
            eps = eps + people.q_error
            far = (1 + ROOM) * length
            mu = mu - (self.fourth_size[at] + mine * h * h) * far**2 / 2 - error
            tau = self.tau + np.abs(own) * h**1.5
            inner = mu * mu - 2 * tau * eps
            good &= (mu > 0) & (inner >= 0)
            r = 2 * eps / np.where(good, mu + np.sqrt(np.maximum(inner, 0)), 1.0)
            good &= r <= ROOM * length
            return np.where(good, measure(w, np.where(good, r, 0.0), around, gradient_bound), np.inf)

    def _known(self, people: PeopleNearFit, G: Floats, own: Floats, w: Floats) -> tuple[Floats, Floats]:
        """Hessian and gradient up to the third derivatives."""
        p = w.shape[1]
        change = (w @ self.tensor.reshape(p, -1)).reshape(-1, p, p)
        change += (own * people.predictor_step(w))[:, None, None] * people.t[:, :, None] * people.t[:, None, :]
        gradient = np.einsum("bij,bj->bi", G + change / 2, w) - people.q
        return G + change, gradient


def cubic(found: Thirds, radii: Floats, slack: float) -> Cubic:
    """Unpack what was folded; radii whose bounds overflow are dropped."""
    p = found.tensor.shape[0]
    i, j = np.triu_indices(p)
    tensor = np.empty((p, p, p))
    tensor[:, i, j] = tensor[:, j, i] = found.tensor
    flat = tensor.reshape(p, -1)
    tau = slack * float(np.sqrt(max(np.linalg.eigvalsh(flat @ flat.T)[-1], 0.0))) + found.lost
    sound = np.isfinite(found.fourth).all(axis=(1, 2)) & (np.einsum("rii->r", found.fourth) < 1e100)
    fourth = slack * found.fourth[sound]
    fourth_size = slack * np.maximum(np.linalg.eigvalsh(fourth)[:, -1], 0.0)
    return Cubic(tensor, tau, radii[sound], fourth, fourth_size, found.lost)
