"""An upper bound on how far one person moves a smooth minimum, from the fit with everyone alone.

Let G be the Hessian of the neighbour's objective at the fit, q the gradient that the person takes along (or brings),
``a = |q|`` in the G^-1 norm and D the step to the neighbour's minimum. With Gbar the mean Hessian along the step,
``Gbar D = q``. If ``lo G <= Gbar <= hi G`` then ``|D|_G <= a/lo``, and D lies in the ball

    |D - centre Delta|_G <= half a,    Delta = G^-1 q,  centre = (1/lo + 1/hi)/2,  half = (1/lo - 1/hi)/2,

so that in the norm of any precision A, with ``lam`` the largest eigenvalue of A relative to G,

    |D|_A^2 <= centre^2 |Delta|_A^2 + 2 centre half a |A Delta|_{G^-1} + half^2 a^2 lam.

The radius ``r >= |D|_G`` solves ``r lo(r) = a`` (the step starts at zero and grows with the person's weight, so it
cannot jump over the first solution); where there is none, there is no certificate.

How the Hessian of everyone changes along a step with ``|D| <= rho`` in the H norm is folded once (``bound_hessian``).
As ``|x_j'D| <= rho sqrt(h_j)``, ``h_j = x_j'H^-1x_j``, three bounds follow, and a person uses whichever is best:

- ``c = kappa max_j sqrt(h_j)``: the Hessian stays within ``e^{+-c rho}`` of H;
- ``theta``, for a few radii: the largest eigenvalue of ``sum_j sqrt(h_j) third_j x_j x_j'`` relative to H. The mean
  Hessian along a step of length r within that radius is within ``(1 +- theta r/2) H``. It averages over people where c
  takes the worst, so one outlier does not spoil it;
- ``drop`` and ``rise``, for many radii, of losses whose curvature jumps at a knot: the largest eigenvalues of
  ``sum_j drop_j x_j x_j'`` and of the rises. Only people near a knot cost anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import exprel

from perinstance.folds.block import Block, loss_targets, pieces
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.base import Loss
from perinstance.models.losses.penalised_objective import design, predictor
from perinstance.models.smooth.newton import Whitening
from perinstance.models.smooth.objective_folds import Highest, SmoothFit, Values
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import (
    CONCORDANCE_LEFT,
    CONCORDANCE_LIMIT,
    KNOT_ROUNDING,
    LEAST_DIVISOR,
    LEAST_RADIUS,
)

#: Above this kappa^2 max h the constant c would cost more than half a percent: average instead. Changes the width.
AVERAGE_ABOVE = 1e-2
#: Radii that are tabulated for losses with knots. Changes the width.
RADII = 24


@dataclass(frozen=True, slots=True)
class HessianBounds:
    """The constants of all certificates of one fit."""

    concordance: float
    c: float  #: of loss and penalty; inf where there is none
    radius: Floats  #: (radii,) ascending; maybe empty
    theta: Floats | None  #: (radii,) of losses without knots, inf where it is no bound
    drop: Floats | None = None  #: (radii,) of losses with knots: by how much the mean Hessian can fall, relative to H
    rise: Floats | None = None


def highest(block: Block, T: Floats, intercept: bool) -> Highest:
    """Bound the largest ``|T x|^2`` of a block from above.

    Columns scaled by the lengths of T's columns, ``|T x|^2 = u'Mu``, M of unit diagonal. With M's top eigenvectors V
    taken apart, ``u'Mu <= |diag(lam - tau)^(1/2) V'u|^2 + tau |u|^2``: a few products instead of d for each row.
    """
    X = block.X
    d = X.shape[1]
    length = np.linalg.norm(T, axis=0)
    lam, V = np.linalg.eigh((T / length).T @ (T / length))
    tau = min(float(lam[-1]), 1.5 * float(np.sort(lam)[int(0.75 * (len(lam) - 1))]))
    top = lam > tau
    P = np.sqrt(lam[top] - tau) * V[:, top] * length[:, None]  # (d, few)
    scale = tau * length**2
    best = 0.0
    for run in pieces(X, len(length)):
        x = np.asarray(X[run], dtype=np.float64)
        bound = (x * x) @ scale[:d]
        few = x @ P[:d]
        if intercept:
            bound += scale[d]
            few += P[d]
        bound += np.einsum("ij,ij->i", few, few)
        best = max(best, float(bound.max(initial=0.0)))
    return Highest(best)


def weighted_grams(block: Block, fit: SmoothFit, T: Floats, radii: Floats) -> Values:
    """Sum ``w x x'`` over a block: w are third derivatives at each radius, or (knots) the drops, then the rises."""
    X, y = block.X, block.y
    loss, intercept, p = fit.objective.loss, fit.objective.fit_intercept, len(fit.theta)
    kinked = not np.isfinite(loss.concordance)
    sums = np.zeros((len(radii) * (2 if kinked else 1), p, p))
    for run in pieces(X, 2 * p):
        x = design(X[run], intercept)
        t = x @ T.T
        root = np.sqrt(np.einsum("ij,ij->i", t, t))
        target = loss_targets(y[run])
        eta = x @ fit.theta
        if kinked:
            weights = [loss.curvature_drop(target, eta, r * root) for r in radii]
            weights += [loss.curvature_rise(target, eta, r * root) for r in radii]
            unsure = undecided(loss, target, eta, np.abs(x) @ np.abs(fit.theta))
            weights = [np.where(unsure, 1.0, w) for w in weights]
        else:
            weights = [root * loss.largest_third(target, eta, r * root) for r in radii]
        for total, w in zip(sums, weights, strict=True):
            near = w > 0  # few rows are near a knot
            with np.errstate(over="ignore", invalid="ignore"):
                z = x[near] * np.sqrt(w[near])[:, None]
                total += z.T @ z
    return Values(sums)


def undecided(loss: Loss, y: Floats, eta: Floats, size: Floats) -> NDArray[np.bool_]:
    """Tell for which rows rounding decides on which side of a knot they are: the Hessian may have the other one.

    The terms of x'theta, whose sizes add up to ``size``, may be much larger than their sum.
    """
    return np.asarray(loss.knot_distance(y, eta) <= KNOT_ROUNDING * (1 + size + np.abs(y)), dtype=np.bool_)


def bound_hessian(sweep: Sweep, fit: SmoothFit, around: Whitening, farthest: float = 0.0) -> HessianBounds:
    """Fold for the constants that this loss needs; ``farthest`` is a radius that matters besides the people's own."""
    loss, objective = fit.objective.loss, fit.objective
    slack = 1 + 4 * around.error
    top = slack * sweep.fold(partial(highest, T=around.T, intercept=objective.fit_intercept)).h
    kinked = not np.isfinite(loss.concordance)
    # a penalty is a loss on the rows e_k
    unit_roots = np.linalg.norm(around.T, axis=0)
    penalty = float(objective.penalty.concordance * unit_roots.max()) if objective.penalty.concordance else 0.0
    c = np.inf if kinked else float(max(loss.concordance * np.sqrt(top), penalty))
    if not (kinked or c * c > AVERAGE_ABOVE or farthest > 0):
        return HessianBounds(loss.concordance, c, np.zeros(0), np.zeros(0))
    steep = sweep.fold(partial(steepest, fit=fit)).h
    most = 1.5 * steep * np.sqrt(top) + 10 * fit.decrement + farthest + LEAST_RADIUS
    radii = most * (0.7 ** np.arange(RADII) if kinked else 0.2 ** np.arange(-1, 3))[::-1]
    sums = sweep.fold(partial(weighted_grams, fit=fit, T=around.T, radii=radii)).values
    if kinked:
        eigen = slack * np.array([_largest(around, S) for S in sums])
        soft = penalty * radii  # a curved penalty changes as well, within e^{+-}
        drop = eigen[:RADII] + 1 - exprel(-soft)
        return HessianBounds(loss.concordance, c, radii, None, drop, eigen[RADII:] + exprel(np.minimum(soft, 700)) - 1)
    kappa = objective.penalty.concordance
    with np.errstate(over="ignore"):  # ``sqrt(h) third`` of the rows e_k, h = (H^-1)_kk; zero for a quadratic
        third = kappa * objective.penalty_curvature(fit.theta) * np.exp(kappa * np.outer(radii, unit_roots))
    turned = objective.times(fit.n + 1) * unit_roots * third
    theta = [_largest(around, S + np.diag(more)) for S, more in zip(sums, turned, strict=True)]
    return HessianBounds(loss.concordance, c, radii, slack * np.array(theta))


def _largest(around: Whitening, S: Floats) -> float:
    """Return the largest eigenvalue of S relative to H."""
    return max(float(np.linalg.eigvalsh(around.T @ S @ around.T.T)[-1]), 0.0) if np.isfinite(S).all() else np.inf


def steepest(block: Block, fit: SmoothFit) -> Highest:
    """Return the largest ``|l'|`` of a block at the fit."""
    t = loss_targets(block.y)
    l1 = fit.objective.loss.slope(t, predictor(block.X, fit.theta, fit.objective.fit_intercept))
    return Highest(float(np.abs(l1).max(initial=0.0)))


@dataclass(frozen=True, slots=True)
class StepBall:
    """How far the neighbour's minimum is at most (G norm), and how the mean Hessian can differ along the step there."""

    radius: Floats  #: inf: no certificate
    low: Floats
    high: Floats

    def where(self, better: NDArray[np.bool_], radius: Floats, low: Floats, high: Floats) -> StepBall:
        """Return the other values where they are better."""
        return StepBall(
            np.where(better, radius, self.radius), np.where(better, low, self.low), np.where(better, high, self.high)
        )


@dataclass(frozen=True, slots=True)
class Step:
    """The first Newton step Delta of each person in the norms that the bound combines."""

    a: Floats  #: |q| in the G^-1 norm, which is |Delta|_G
    size: Floats  #: |Delta|_A
    dual_size: Floats  #: |A Delta| in the G^-1 norm
    lam: Floats  #: bound on the largest eigenvalue of A relative to G
    inflation: Floats  #: G^-1 <= inflation H^-1


@dataclass(frozen=True, slots=True)
class OwnRow:
    """An outsider's own row in the neighbour's objective."""

    h: Floats  #: x'G^-1x
    curvature: Floats
    third: Floats  #: (radii, people): largest third derivative within each radius of ``HessianBounds``


def own_row(bounds: HessianBounds, loss: Loss, y: Floats, eta: Floats, h: Floats, curvature: Floats) -> OwnRow:
    """Return what an outsider's row adds to the bounds."""
    third = [loss.largest_third(y, eta, rho * np.sqrt(h)) for rho in bounds.radius]
    return OwnRow(h, curvature, np.array(third).reshape(len(third), len(y)))


def step_ball(bounds: HessianBounds, a: Floats, inflation: Floats, own: OwnRow | None) -> StepBall:
    """Solve ``r lo(r) = a`` by each available bound and keep the best; ``own`` belongs to outsiders."""
    if bounds.drop is not None:
        return _by_profile(bounds, a, inflation, own)
    c = bounds.c * np.sqrt(inflation)
    if own is not None:
        c = np.maximum(c, bounds.concordance * np.sqrt(own.h))
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite theta is no bound, and is not better
        ca = c * a
        u = np.maximum(np.minimum(ca, CONCORDANCE_LIMIT), LEAST_DIVISOR)
        ratio = -np.log1p(-u) / u  # s/(1 - e^-s) where s = c r = -log(1 - ca)
        sure = ca < CONCORDANCE_LIMIT
        found = StepBall(
            np.where(sure, a * ratio, np.inf), 1 / ratio, 1 / (ratio * np.maximum(1 - ca, CONCORDANCE_LEFT))
        )
        assert bounds.theta is not None
        for j, (rho, theta) in enumerate(zip(bounds.radius, bounds.theta, strict=True)):
            turning = theta * inflation**1.5
            if own is not None:
                turning = turning + own.h**1.5 * own.third[j]
            ta = np.minimum(2 * turning * a, 1.0)
            r = 2 * a / (1 + np.sqrt(1 - ta))
            t = np.where(ta < 1, turning * r, 0.0)
            better = (ta < 1) & (np.sqrt(inflation) * r <= rho) & (r < found.radius)
            found = found.where(better, r, 1 - t / 2, 1 + t / 2)
    return found


def _by_profile(bounds: HessianBounds, a: Floats, inflation: Floats, own: OwnRow | None) -> StepBall:
    """Return the smallest tabulated radius that the step does not leave."""
    assert bounds.drop is not None and bounds.rise is not None
    found = StepBall(np.full(a.shape, np.inf), np.ones(a.shape), np.ones(a.shape))
    # an outsider's own row may lose at most its whole curvature, or win what is missing to 1
    fall = rise = np.zeros(a.shape)
    if own is not None:
        fall, rise = own.h * own.curvature, own.h * (1 - own.curvature)
    for rho, down, up in zip(bounds.radius, bounds.drop, bounds.rise, strict=True):
        lo = 1 - inflation * down - fall
        r = np.where(lo > 0, a / np.where(lo > 0, lo, 1.0), np.inf)
        better = (np.sqrt(inflation) * r <= rho) & (r < found.radius)
        found = found.where(better, r, lo, 1 + inflation * up + rise)
    return found


def distance_bound(step: Step, ball: StepBall) -> Floats:
    """``|D|_A`` at most; inf where there is no certificate."""
    sure = np.isfinite(ball.radius)
    lo, hi = ball.low, ball.high
    centre, half = (1 / lo + 1 / hi) / 2, (1 / lo - 1 / hi) / 2
    e = half * step.a
    square = (centre * step.size) ** 2 + 2 * centre * e * step.dual_size + e * e * step.lam
    plain = step.lam * np.where(sure, ball.radius, 0.0) ** 2
    return np.where(sure, np.sqrt(np.minimum(square, plain)), np.inf)
