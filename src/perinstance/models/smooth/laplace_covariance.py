"""How a person changes mean and covariance of a Laplace approximation, ``N(theta, H(theta)^-1 / gamma)``.

With everyone's whitening (``T H T' = I``), the neighbour's Hessian at the neighbour's minimum is ``T^-1 (I + E) T^-T``,

    E = T [ sum_j (l''(eta_j + x_j'D) - l''(eta_j)) x_j x_j' -+ l''(at theta + D) x x' + change of the penalty ] T',

and the whitened difference of the means is ``sqrt(gamma) T^-T D``. E is summed as a difference, so it keeps its digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import design
from perinstance.models.smooth.movement_bounds import SmoothModel
from perinstance.models.smooth.newton import whiten
from perinstance.models.smooth.objective_folds import SmoothFit, Values
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LEAST_RELATIVE_CHANGE

#: people whose Hessians are summed in one fold, and rows of a piece
BATCH, ROWS = 64, 2048


@dataclass(frozen=True, slots=True)
class Whitened:
    """Coordinates of each pair: ``N(shift, diag(1 + excess))`` without the person, ``N(0, I)`` with."""

    excess: Floats
    shift: Floats


def bend(block: Block, fit: SmoothFit, D: Floats) -> Values:
    """Sum ``(l''(eta + x'D) - l''(eta)) x x'`` over a block, for every step D."""
    X, y = block.X, block.y
    objective = fit.objective
    change = np.zeros((len(D), D.shape[1], D.shape[1]))
    for start in range(0, len(X), ROWS):
        x = design(X[start : start + ROWS], objective.fit_intercept)
        t = np.asarray(y[start : start + ROWS], dtype=np.float64)
        eta = x @ fit.theta
        here = objective.loss.curvature(t, eta)
        for b, step in enumerate((x @ D.T).T):
            w = objective.loss.curvature(t, eta + step) - here
            change[b] += (x * w[:, None]).T @ x
    return Values(change)


def whitened(
    model: SmoothModel, sweep: Sweep | None, X: NDArray, y: NDArray, D: Floats, gamma: float, inside: bool = True
) -> Whitened:
    """Return each person's pair from their step D; without a sweep the others' curvature is taken as unchanged."""
    fit, objective = model.fit, model.fit.objective
    T = whiten(fit.hessian).T
    x = design(X, objective.fit_intercept)
    target = np.asarray(y, dtype=np.float64)
    sign = -1 if inside else 1
    excess, shift = np.zeros_like(D), np.zeros_like(D)
    times = objective.times(fit.n + sign)
    base = objective.times(fit.n) * objective.penalty_curvature(fit.theta)
    for start in range(0, len(x), BATCH):
        part = slice(start, start + BATCH)
        steps = D[part]
        at = fit.theta + steps
        own = objective.loss.curvature(target[part], np.einsum("ij,ij->i", x[part], at))
        change = sign * own[:, None, None] * x[part, :, None] * x[part, None, :]
        diagonal = times * objective.penalty_curvature(at) - base
        change[:, np.arange(D.shape[1]), np.arange(D.shape[1])] += diagonal
        if sweep is not None:
            change = change + sweep.fold(partial(bend, fit=fit, D=steps)).values
        e, V = np.linalg.eigh(T @ change @ T.T)
        e = np.maximum(e, LEAST_RELATIVE_CHANGE)
        m = np.sqrt(gamma) * np.einsum("nji,nj->ni", V, np.linalg.solve(T.T, steps.T).T)
        if inside:  # P is the neighbour: its covariance is (I + E)^-1
            excess[part], shift[part] = -e / (1 + e), m
        else:  # Q is the neighbour
            excess[part], shift[part] = e, -np.sqrt(1 + e) * m
    return Whitened(excess, shift)
