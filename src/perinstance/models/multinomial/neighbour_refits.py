"""The neighbours of a multinomial fit, for ``smooth.neighbour_refits``: one row is K - 1 ranks of the Hessian."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import design
from perinstance.models.multinomial.objective import (
    SoftmaxObjective,
    fit_softmax,
    row_slopes,
    softmax_gradient_rounding,
)
from perinstance.models.smooth.neighbour_refits import GradientChanges, Places
from perinstance.models.smooth.newton import Minimum
from perinstance.models.smooth.objective_folds import Outsider
from perinstance.models.smooth.whitening import Whitening, whiten
from perinstance.numerics.array_types import Floats

#: numbers in one temporary
PIECE = 1 << 20
BATCH = 128


def softmax_gradient_changes(block: Block, objective: SoftmaxObjective, theta: Floats, D: Floats) -> GradientChanges:
    """Sum ``(pi(eta + Dx) - pi(eta)) (x) x`` over a block, for every step D."""
    X = block.X
    K, B = objective.classes, len(D)
    p = objective.width(X.shape[1])
    change = np.zeros((B * K, p))
    flat = D.reshape(B * K, p)
    rows = max(16, PIECE // (B * K))
    for start in range(0, len(X), rows):
        x = design(X[start : start + rows], objective.fit_intercept)
        pi = softmax(x @ theta.reshape(K, p).T, axis=1)[:, None, :]
        moved = (x @ flat.T).reshape(len(x), B, K)
        change += probability_change(pi, moved).reshape(len(x), B * K).T @ x
    return GradientChanges(change.reshape(B, K * p))


def probability_change(pi: Floats, step: Floats) -> Floats:
    """``softmax(eta + step) - pi``, as ``pi_k (e^{step_k - m} - 1)``, ``e^m = sum pi_k e^{step_k}``."""
    top = step.max(axis=-1, keepdims=True)
    small = step - top  # <= 0: nothing overflows
    fall = (pi * np.expm1(small)).sum(axis=-1, keepdims=True)
    m = np.log1p(np.maximum(fall, -0.5))
    if (fall < -0.5).any():  # near -1 it has lost the digits of what is left: a class that was certain is no longer
        with np.errstate(divide="ignore"):  # nothing left in float64: infinite, and a refit decides
            m = np.where(fall < -0.5, np.log((pi * np.exp(small)).sum(axis=-1, keepdims=True)), m)
    return pi * np.expm1(small - m)


@dataclass(frozen=True, slots=True)
class SoftmaxNeighbours:
    """A batch of people out of, or into, a multinomial fit."""

    objective: SoftmaxObjective
    minimum: Minimum
    around: Whitening
    precision: Floats | None
    sweep: Sweep
    x: Floats
    y: NDArray[np.intp]
    sign: int
    pi: Floats
    base: Floats
    t: Floats  #: (n, Kp, K): T (I (x) x)
    N: Floats  #: (n, K, K): G^-1 = T'(I + t N t')T
    hopeless: NDArray[np.bool_]

    @property
    def width(self) -> int:
        """The length of theta."""
        return len(self.minimum.theta)

    @property
    def decrement(self) -> float:
        """The decrement of the fit."""
        return self.minimum.decrement

    def gradient(self, at: Places, D: Floats) -> Floats:
        """One fold, the person's own change, the penalty's change."""
        g = self.base[at]
        if not D.any():
            return g
        K = self.objective.classes
        step = partial(softmax_gradient_changes, objective=self.objective, theta=self.minimum.theta, D=D)
        g = g + self.sweep.fold(step).change
        x = self.x[at]
        moved = np.einsum("nkp,np->nk", D.reshape(len(D), K, -1), x)
        mine = probability_change(self.pi[at], moved)
        g += self.sign * (mine[:, :, None] * x[:, None, :]).reshape(len(D), -1)
        return g + D @ self.objective.penalty_hessian(x.shape[1])

    def solve(self, at: Places, g: Floats) -> tuple[Floats, Floats]:
        """``G^-1 g``, by K ranks."""
        v = g @ self.around.T.T
        t = self.t[at]
        inner = np.einsum("nqk,nq->nk", t, v)
        w = v + np.einsum("nqk,nkm,nm->nq", t, self.N[at], inner, optimize=True)
        return w @ self.around.T, np.sqrt(np.maximum(np.einsum("nq,nq->n", v, w), 0))

    def length(self, at: Places, D: Floats) -> Floats:
        """``|D|`` in the H norm, near enough for a stopping rule."""
        return np.linalg.norm(np.linalg.solve(self.around.T.T, D.T), axis=0)

    def stretch(self) -> Floats:
        """The root of the largest eigenvalue of A relative to G, at most."""
        trace = np.einsum("nqk,q,nqm,nmk->n", self.t, self.around.nu, self.t, self.N, optimize=True)
        return np.sqrt(self.around.nu[-1] + np.maximum(trace, 0))

    def refit_one(self, i: int) -> tuple[Floats, float]:
        """Newton's method on one neighbour."""
        other = Outsider(self.x[i], float(self.y[i]), self.sign)
        found = fit_softmax(self.sweep, self.objective, self.minimum.theta, other)
        there = whiten(found.slopes.hessian, self.precision)
        lost = there.norm_bound(softmax_gradient_rounding(self.sweep, self.objective, found.theta))
        error = 4 * np.sqrt(there.nu[-1]) * (found.decrement + lost) + 2 * np.sqrt(self.around.nu[-1]) * self.decrement
        return found.theta - self.minimum.theta, float(error)


def softmax_neighbours(
    objective: SoftmaxObjective,
    minimum: Minimum,
    around: Whitening,
    precision: Floats | None,
    sweep: Sweep,
    X: NDArray,
    y: Floats,
    inside: bool,
) -> Iterator[SoftmaxNeighbours]:
    """Yield batches of these people's neighbours."""
    K, p = objective.classes, objective.width(X.shape[1])
    sign = -1 if inside else 1
    for start in range(0, len(X), BATCH):
        x = design(X[start : start + BATCH], objective.fit_intercept)
        t = y[start : start + BATCH].astype(np.intp)
        rows = row_slopes(x, t, minimum.theta.reshape(K, p))
        S = np.einsum("nk,km->nkm", rows.pi, np.eye(K)) - rows.pi[:, :, None] * rows.pi[:, None, :]
        TZ = (x @ around.T.reshape(-1, p).T).reshape(len(x), K * p, K)
        V = TZ.transpose(0, 2, 1) @ TZ
        M = np.eye(K) + sign * S @ V
        singular = np.linalg.svd(M, compute_uv=False)
        hopeless = (singular[:, -1] < 1e-3) | ~(singular[:, 0] < 1e6)  # see SmoothNeighbours
        M[hopeless] = np.eye(K)
        N = -sign * np.linalg.solve(M, S)
        base = minimum.slopes.gradient + sign * (rows.residual[:, :, None] * x[:, None, :]).reshape(len(x), -1)
        yield SoftmaxNeighbours(
            objective, minimum, around, precision, sweep, x, t, sign, rows.pi, base, TZ, N, hopeless
        )
