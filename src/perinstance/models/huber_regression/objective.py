"""scikit-learn's HuberRegressor: coefficients, intercept and scale sigma fitted together, as it does.

It minimises ``sum_j [sigma + H(r_j/sigma) sigma] + alpha |w|^2``, ``H(z) = z^2`` up to epsilon and
``2 epsilon |z| - epsilon^2`` beyond: jointly convex. Half of it is, with ``r = y - x'theta``,

    inlier  |r| <= epsilon sigma:  sigma/2 + r^2/(2 sigma),        Hessian (1/sigma) v v',  v = (x, r/sigma)
    outlier:                       epsilon |r| + (1 - epsilon^2) sigma/2,   no curvature

The curvature changes with sigma, which ``smooth.certificates`` do not cover: people are refitted. Only the coefficients
and the intercept are published and measured; sigma is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import design
from perinstance.models.smooth.newton import LENGTHS, Slopes
from perinstance.models.smooth.objective_folds import GradientRounding, Outsider, Values, slope_rounding
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import UNIT

#: the share of sigma that one step of a line search must leave
SIGMA_KEPT = 0.2


@dataclass(frozen=True, slots=True)
class HuberObjective:
    """The parameters of ``HuberRegressor``."""

    epsilon: float
    alpha: float
    fit_intercept: bool


@dataclass(frozen=True, slots=True)
class TargetMoments:
    """Sums of the targets of some rows: where to start from."""

    n: int
    total: float
    square: float

    def __add__(self, other: TargetMoments) -> TargetMoments:
        return TargetMoments(self.n + other.n, self.total + other.total, self.square + other.square)


def target_moments(block: Block) -> TargetMoments:
    """Sum the targets of a block."""
    y = block.y
    t = np.asarray(y, dtype=np.float64)
    if not np.isfinite(t).all():
        raise InvalidInput(f"targets must be finite, row {int(np.argmin(np.isfinite(t)))} of the block is not")
    return TargetMoments(len(t), float(t.sum()), float(t @ t))


def huber_terms(r: Floats, sigma: Floats | float, epsilon: float) -> tuple[Floats, Floats, Floats]:
    """Value, slope in the prediction and slope in sigma of half of each person's loss."""
    inside = np.abs(r) <= epsilon * sigma
    z = np.clip(r / sigma, -epsilon, epsilon)
    value = np.where(inside, sigma / 2 + r * z / 2, epsilon * np.abs(r) + (1 - epsilon**2) * sigma / 2)
    return value, -z, (1 - z * z) / 2


def huber_slopes(block: Block, objective: HuberObjective, theta: Floats, out: Outsider | None = None) -> Slopes:
    """Sum value, gradient and Hessian over a block but for rows equal to ``out`` (see ``objective_folds.slopes``)."""
    X, y = block.X, block.y
    p, sigma = len(theta), float(theta[-1])
    value, gradient, hessian, left_out = 0.0, np.zeros(p), np.zeros((p, p)), 0
    for start in range(0, len(X), 4096):
        x = design(X[start : start + 4096], objective.fit_intercept)
        t = np.asarray(y[start : start + 4096], dtype=np.float64)
        if out is not None:
            same = (t == out.y) & (x == out.x).all(axis=1)
            left_out += int(same.sum())
            x, t = x[~same], t[~same]
        part = huber_rows(x, t, theta, objective.epsilon)
        value += part[0].sum()
        gradient[:-1] += part[1] @ x
        gradient[-1] += part[2].sum()
        v = np.column_stack([x, part[3]])[part[4]]
        hessian += v.T @ v / sigma
    return Slopes(len(X), float(value), gradient, hessian, left_out)


def huber_block_rounding(block: Block, objective: HuberObjective, theta: Floats) -> GradientRounding:
    """Bound what rounding does to the gradient of a block (see ``objective_folds.gradient_rounding``)."""
    X, y = block.X, block.y
    p, sigma = len(theta), float(theta[-1])
    total = np.zeros(p)
    for start in range(0, len(X), 4096):
        x = design(X[start : start + 4096], objective.fit_intercept)
        t = np.asarray(y[start : start + 4096], dtype=np.float64)
        _, by_eta, by_sigma, _, inlier = huber_rows(x, t, theta, objective.epsilon)
        x, in_sum = np.abs(x), 4 * UNIT * np.sqrt(len(t) + len(X) / max(len(t), 1))
        lost = slope_rounding(by_eta, inlier / sigma, x @ np.abs(theta[:-1]) + np.abs(t), p)
        total[:-1] += (in_sum * np.abs(by_eta) + lost) @ x
        total[-1] += (in_sum * np.abs(by_sigma) + np.abs(by_eta) * lost + 4 * UNIT).sum()
    return GradientRounding(total)


def huber_rows(
    x: Floats, t: Floats, theta: Floats, epsilon: float
) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.bool_]]:
    """Value, slopes, ``r/sigma`` and who is an inlier."""
    r, sigma = t - x @ theta[:-1], float(theta[-1])
    value, by_eta, by_sigma = huber_terms(r, sigma, epsilon)
    return value, by_eta, by_sigma, r / sigma, np.abs(r) <= epsilon * sigma


def huber_along(block: Block, objective: HuberObjective, theta: Floats, step: Floats) -> Values:
    """Sum the loss over a block at all the lengths; infinite where sigma is lost.

    A line search that may go as far as sigma = 0 ends there, far from the minimum: it has to keep a share.
    """
    X, y = block.X, block.y
    x, t = design(X, objective.fit_intercept), np.asarray(y, dtype=np.float64)
    at, by = t - x @ theta[:-1], x @ step[:-1]
    values = []
    for s in LENGTHS:
        sigma = theta[-1] + s * step[-1]
        values.append(
            huber_terms(at - s * by, sigma, objective.epsilon)[0].sum() if sigma > SIGMA_KEPT * theta[-1] else np.inf
        )
    return Values(np.array(values))


@dataclass(frozen=True, slots=True)
class HuberFolded:
    """Half of the objective of everyone, or with one person out or in."""

    sweep: Sweep
    objective: HuberObjective
    other: Outsider | None

    def weights(self, p: int) -> Floats:
        """Return the penalty of each parameter."""
        w = np.full(p, self.objective.alpha)
        w[p - 1 - int(self.objective.fit_intercept) :] = 0.0
        return w

    def at(self, theta: Floats) -> Slopes:
        """Value, gradient and Hessian."""
        p, other = len(theta), self.other
        if not theta[-1] > 0:
            return Slopes(0, np.inf, np.zeros(p), np.eye(p))
        out = other if other is not None and other.sign < 0 else None
        s: Slopes = self.sweep.fold(partial(huber_slopes, objective=self.objective, theta=theta, out=out))
        value, gradient, hessian, n = s.value, s.gradient.copy(), s.hessian, s.n
        if other is not None:
            n, times = n + other.sign, other.sign + s.left_out
            one = huber_rows(other.x[None], np.array([other.y]), theta, self.objective.epsilon)
            value += times * one[0][0]
            gradient += times * np.append(one[1][0] * other.x, one[2][0])
            v = np.append(other.x, one[3][0])
            hessian = hessian + times * one[4][0] * np.outer(v, v) / theta[-1]
        w = self.weights(p)
        return Slopes(n, value + float((w * theta * theta).sum()) / 2, gradient + w * theta, hessian + np.diag(w))

    def gradient_rounding(self, theta: Floats) -> Floats:
        """Bound how far each entry of the gradient of everyone at theta may be off."""
        found: GradientRounding = self.sweep.fold(partial(huber_block_rounding, objective=self.objective, theta=theta))
        return found.vector + UNIT * self.weights(len(theta)) * np.abs(theta)

    def along(self, theta: Floats, step: Floats) -> Floats:
        """Values on a line."""
        total = self.sweep.fold(partial(huber_along, objective=self.objective, theta=theta, step=step)).values
        if self.other is not None:
            x = self.other.x[None, : self.sweep.n_features]
            total = (
                total
                + self.other.sign * huber_along(Block(x, np.array([self.other.y])), self.objective, theta, step).values
            )
        w = self.weights(len(theta))
        return total + np.array([float((w * (theta + s * step) ** 2).sum()) / 2 for s in LENGTHS])

    def curvature_change(self, step: Floats) -> float:
        """Between its knots the loss is a parabola in theta; nothing runs away while sigma is positive."""
        return 0.0
