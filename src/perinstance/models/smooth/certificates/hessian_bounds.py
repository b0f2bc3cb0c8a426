"""What a certificate must know of everybody before it can speak of anybody: bounds on how the Hessian can change.

For any step D with ``|D| <= rho`` in the H norm, ``|x_j'D| <= rho sqrt(h_j)``, ``h_j = x_j'H^-1x_j``. Three bounds
follow, in the order of their cost; a person may use whichever is best:

- ``c = kappa max_j sqrt(h_j)``: the Hessian stays within ``e^{+-c rho}`` of H (one cheap fold, see below);
- ``Average``: for a few radii, theta is the largest eigenvalue of ``sum_j sqrt(h_j) third_j x_j x_j'`` relative to H,
  and the mean Hessian along a step of length r within that radius is within ``(1 +- theta r/2) H``. It averages over
  people where c takes the worst, so one outlier does not spoil it, and it knows that many people's curvature hardly
  changes;
- ``HessianProfile``: for many radii, the largest eigenvalues of ``sum_j drop_j x_j x_j'`` and of the rises. This is
  the road for losses whose curvature jumps; only people near a knot cost anything.

Where these would be loose for ordinary people (few people for each parameter), what a second correction needs is folded
too (``third_order_step``, ``near_knot_step``), for the people whom it helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import exprel

from perinstance.folds.block import Block
from perinstance.folds.cache_pieces import pieces
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import design, predictor
from perinstance.models.smooth.certificates.near_knot_step import KeptRows, keep, undecided
from perinstance.models.smooth.certificates.second_step import Correction
from perinstance.models.smooth.certificates.third_order_step import Cubic, cubic, thirds
from perinstance.models.smooth.fit.objective_folds import Highest, SmoothFit
from perinstance.models.smooth.fit.whitening import Whitening
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LEAST_RADIUS

#: above this kappa^2 max h the plain constant would cost more than half a percent: average instead
AVERAGE_ABOVE = 1e-2
#: the share of the rows whose leverage is computed in the first try
FIRST_SHARE = 0.03
RADII = 24
#: a first bound that is loose by more than this for an ordinary person calls for the third derivatives
LOOSE = 2.5e-3
#: numbers in their tensor at most, and multiplications in the fold for it
TENSOR, PRODUCTS = 1 << 22, 3e10
#: rows that are kept at most, and numbers in their products: those near a knot, or those of a whole small table
KEPT, NEAR_PRODUCTS, WHOLE_PRODUCTS = 4096, 1 << 22, 1 << 19


@dataclass(frozen=True, slots=True)
class HessianProfile:
    """For each radius, by how much (relative to H) the mean Hessian along a step of that length can fall or rise."""

    radius: Floats
    drop: Floats
    rise: Floats


@dataclass(frozen=True, slots=True)
class Average:
    """For each radius, theta: along a step of length r within it the mean Hessian is within ``(1 +- theta r/2) H``.

    Where ``signed``, theta is taken from the sum of everyone's third derivatives, in which they cancel: whoever leaves
    the sum must add theirs.
    """

    radius: Floats
    theta: Floats
    signed: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HessianBounds:
    """The constants of all certificates of one fit; ``inf`` or None where a bound is not available."""

    concordance: float
    leverage: float  #: max_j h_j
    c: float  #: loss and penalty together
    average: Average | None
    profile: HessianProfile | None
    second: Correction | None  #: for those whom the others leave open or loose


@dataclass(frozen=True, slots=True)
class WeightedGrams:
    """Sums of ``w x x'``, one for each set of weights."""

    sums: Floats
    finite = True  # the first fold has looked at every cell

    def __add__(self, other: WeightedGrams) -> WeightedGrams:
        with np.errstate(over="ignore", invalid="ignore"):  # sums that overflow are no bound, and are not used
            return WeightedGrams(self.sums + other.sums)


def highest(block: Block, T: Floats, intercept: bool) -> Highest:
    """Bound the largest ``|T x|^2`` of a block from above, computing it only for rows that could hold it.

    Columns scaled by the lengths of T's columns, ``|T x|^2 = u'Mu``, M of unit diagonal. With M's top eigenvectors V
    taken apart, ``u'Mu <= |diag(lam - tau)^(1/2) V'u|^2 + tau |u|^2``: a few products instead of d for most rows.
    """
    X = block.X
    d = X.shape[1]
    length = np.linalg.norm(T, axis=0)
    lam, V = np.linalg.eigh((T / length).T @ (T / length))
    tau = float(np.sort(lam)[int(0.75 * (len(lam) - 1))])
    tau = min(float(lam[-1]), 1.5 * tau)
    top = lam > tau
    P = np.sqrt(lam[top] - tau) * V[:, top] * length[:, None]  # (d, few)
    scale = np.sqrt(tau) * length
    best = 0.0
    for run in pieces(X, len(length)):
        x = np.asarray(X[run], dtype=np.float64)
        bound = (x * x) @ (scale[:d] ** 2)
        few = x @ P[:d]
        if intercept:
            bound += scale[d] ** 2
            few += P[d]
        bound += np.einsum("ij,ij->i", few, few)
        if not bound.max(initial=0.0) > best:
            continue
        rows = max(8, int(FIRST_SHARE * len(x)))
        while True:
            k = min(rows, len(x))
            order = np.argpartition(-bound, k - 1)[:k] if k < len(x) else np.arange(len(x))
            t = x[order] @ T[:, :d].T
            if intercept:
                t += T[:, d]
            best = max(best, float(np.einsum("ij,ij->i", t, t).max(initial=0.0)))
            if k == len(x):
                break
            rest = float(np.partition(bound, len(x) - k - 1)[len(x) - k - 1])  # the largest bound not looked at
            if rest <= best:
                break
            rows *= 4
    return Highest(best)


def weighted_grams(block: Block, fit: SmoothFit, T: Floats, radii: Floats) -> WeightedGrams:
    """Sum ``w x x'`` over a block: w are third derivatives at each radius, or (knots) the drops, then the rises."""
    X, y = block.X, block.y
    loss, intercept, p = fit.objective.loss, fit.objective.fit_intercept, len(fit.theta)
    kinked = not np.isfinite(loss.concordance)
    sums = np.zeros((len(radii) * (2 if kinked else 1), p, p))
    for run in pieces(X, 2 * p):
        x = design(X[run], intercept)
        t = x @ T.T
        root = np.sqrt(np.einsum("ij,ij->i", t, t))
        target = np.asarray(y[run], dtype=np.float64)
        eta = x @ fit.theta
        if kinked:
            weights = [loss.curvature_drop(target, eta, r * root) for r in radii]
            weights += [loss.curvature_rise(target, eta, r * root) for r in radii]
            unsure = undecided(loss.knot_distance(target, eta), target, x, fit.theta)
            if unsure.any():  # they may be on either side
                weights = [np.where(unsure, 1.0, w) for w in weights]
        else:
            weights = [root * loss.largest_third(target, eta, r * root) for r in radii]
        for total, w in zip(sums, weights, strict=True):
            near = w > 0  # few rows are near a knot
            with np.errstate(over="ignore", invalid="ignore"):
                z = x[near] * np.sqrt(w[near])[:, None]
                total += z.T @ z
    return WeightedGrams(sums)


def bound_hessian(sweep: Sweep, fit: SmoothFit, around: Whitening, farthest: float = 0.0) -> HessianBounds:
    """Fold for the constants that this loss needs; ``farthest`` is a radius that matters besides the people's own."""
    loss, objective = fit.objective.loss, fit.objective
    slack = 1 + 4 * around.error
    top = slack * sweep.fold(partial(highest, T=around.T, intercept=objective.fit_intercept)).h
    kinked = not np.isfinite(loss.concordance)
    penalty = _penalty_constant(fit, around)
    c = np.inf if kinked else max(loss.concordance * np.sqrt(top), penalty)
    average = profile = None
    second: Correction | None = None
    flat = fit.objective.penalty.concordance == 0  # a curved penalty would bend as well
    p = len(fit.theta)
    if kinked or c * c > AVERAGE_ABOVE or farthest > 0:
        most = (
            1.5 * sweep.fold(partial(steepest, fit=fit)).h * np.sqrt(top) + 10 * fit.decrement + farthest + LEAST_RADIUS
        )
        radii = most * (0.7 ** np.arange(RADII) if kinked else 0.2 ** np.arange(-1, 3))[::-1]
        sums = sweep.fold(partial(weighted_grams, fit=fit, T=around.T, radii=radii)).sums
        if kinked:
            eigen = slack * np.array([_largest(around, S) for S in sums])
            soft = penalty * radii  # a curved penalty changes as well, within e^{+-}
            low, high = 1 - exprel(-soft), exprel(np.minimum(soft, 700)) - 1
            profile = HessianProfile(radii, eigen[:RADII] + low, eigen[RADII:] + high)
            if flat:
                second = _rows(sweep, fit, around, min(KEPT, NEAR_PRODUCTS // p**2))
        else:
            theta = [_largest(around, S + _penalty_change(fit, around, r)) for S, r in zip(sums, radii, strict=True)]
            average = Average(radii, slack * np.array(theta), np.zeros(len(radii), dtype=bool))
            # an ordinary |q| is at most sqrt(p/n): the leverages sum to p
            loose = average.theta[0] * np.sqrt(p / fit.n) / 2 > LOOSE
            if flat and loose and p**3 <= TENSOR and fit.n * float(p) ** 3 <= PRODUCTS:
                second, average = _third_order(sweep, fit, around, most * 0.5 ** np.arange(-3, 7)[::-1], average)
            if flat and loose and fit.n <= min(KEPT, WHOLE_PRODUCTS // p**2):
                second = _rows(sweep, fit, around, fit.n)
    return HessianBounds(loss.concordance, top, float(c), average, profile, second)


def _rows(sweep: Sweep, fit: SmoothFit, around: Whitening, most: int) -> KeptRows:
    return KeptRows(sweep.fold(partial(keep, fit=fit, T=around.T, most=most)))


def _third_order(
    sweep: Sweep, fit: SmoothFit, around: Whitening, radii: Floats, plain: Average
) -> tuple[Cubic, Average]:
    """Fold for third derivatives: a step of length r changes the mean Hessian by at most ``tau r/2 + fourth r^2/6``."""
    found = cubic(sweep.fold(partial(thirds, fit=fit, T=around.T, radii=radii)), radii, 1 + 4 * around.error)
    theta = np.append(plain.theta, found.tau + found.fourth_size * found.radius / 3)
    signed = np.append(plain.signed, np.ones(len(found.radius), dtype=bool))
    return found, Average(np.append(plain.radius, found.radius), theta, signed)


def _largest(around: Whitening, S: Floats) -> float:
    """Return the largest eigenvalue of S relative to H."""
    return max(float(np.linalg.eigvalsh(around.T @ S @ around.T.T)[-1]), 0.0) if np.isfinite(S).all() else np.inf


def _penalty_constant(fit: SmoothFit, around: Whitening) -> float:
    """``kappa_R max_k sqrt((H^-1)_kk)``: a penalty is a loss on the rows e_k."""
    kappa = fit.objective.penalty.concordance
    return float(kappa * np.linalg.norm(around.T, axis=0).max()) if kappa else 0.0


def _penalty_change(fit: SmoothFit, around: Whitening, radius: float) -> Floats:
    """``sqrt(h) third`` of the rows e_k, h = (H^-1)_kk."""
    kappa, root = fit.objective.penalty.concordance, np.linalg.norm(around.T, axis=0)
    with np.errstate(over="ignore"):
        third = kappa * fit.objective.penalty_curvature(fit.theta) * np.exp(kappa * root * radius)
    return np.diag(fit.objective.times(fit.n + 1) * root * third) if kappa else np.zeros((len(root), len(root)))


def steepest(block: Block, fit: SmoothFit) -> Highest:
    """Return the largest ``|l'|`` of a block at the fit."""
    X, y = block.X, block.y
    objective = fit.objective
    t = np.asarray(y, dtype=np.float64)
    l1 = objective.loss.slope(t, predictor(X, fit.theta, objective.fit_intercept))
    return Highest(float(np.abs(l1).max(initial=0.0)))
