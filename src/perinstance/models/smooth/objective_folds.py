"""The sums that a fit of a smooth objective folds over the rows: one fold per Newton step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from perinstance.errors import InvalidTable
from perinstance.folds.block import Block, pieces
from perinstance.folds.named_operations import NamelessSweep
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import SmoothObjective, design, predictor
from perinstance.models.smooth.newton import LENGTHS, Slopes, minimise
from perinstance.models.smooth.whitening import Whitening, whiten
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import HESSIAN_LOST, UNIT


@dataclass(frozen=True, slots=True)
class Values:
    """Values of the loss at several thetas on a line, summed over some rows."""

    values: Floats
    finite = True  # see Slopes

    def __add__(self, other: Values) -> Values:
        return Values(self.values + other.values)


@dataclass(frozen=True, slots=True)
class Targets:
    """How many people there are and the sum of their targets."""

    n: int
    total: float

    def __add__(self, other: Targets) -> Targets:
        return Targets(self.n + other.n, self.total + other.total)


@dataclass(frozen=True, slots=True)
class Outsider:
    """One person who is taken out of the objective (``sign=-1``) or put into it (``+1``)."""

    x: Floats  #: with the one of the intercept
    y: float
    sign: int


@dataclass(frozen=True, slots=True)
class SmoothFit:
    """The minimum of the objective of everyone: confidential."""

    objective: SmoothObjective
    theta: Floats
    n: int
    value: float
    gradient: Floats  #: what is left of it at theta
    hessian: Floats  #: of F at theta, penalty included
    decrement: float  #: |gradient| in the H^-1 norm
    steps: int
    rounding: Floats  #: how far each entry of the gradient may be off: the float64 minimum is not the true one
    #: (of a neighbour's fit without the person who joins: that slope is off along the person's own row alone)
    chain: float = 0.0  #: additions that a term of the Hessian went through, where they are counted
    nameless: bool = False  #: whether the processor's sums are wanted: the Hessian leaves no room for longer chains

    def gradient_bound(self, around: Whitening) -> float:
        """Bound the true gradient at theta in the norm of a whitening: what is left of it and its rounding."""
        return around.norm(self.gradient) + around.norm_bound(self.rounding)

    def whitening(self, precision: Floats | None = None) -> Whitening:
        """Return the whitening of the Hessian, which knows how it was summed."""
        return whiten(self.hessian, precision, self.chain)

    def walk(self, sweep: Sweep) -> Sweep:
        """Return the sweep that further sums are taken by."""
        return NamelessSweep(sweep) if self.nameless else sweep

    @property
    def gradient_norm(self) -> float:
        """The Euclidean norm of the gradient at theta: the proof of stationarity."""
        return float(np.linalg.norm(self.gradient))


def check_targets(block: Block, objective: SmoothObjective) -> Targets:
    """Refuse targets outside the loss's domain; count the people."""
    y = block.y
    t = np.asarray(y, dtype=np.float64)
    objective.loss.check(t)
    return Targets(len(t), float(t.sum()))


def slopes(block: Block, objective: SmoothObjective, theta: Floats, out: Outsider | None = None) -> Slopes:
    """Sum value, gradient and Hessian of the loss over one block; no temporary is larger than a piece of it.

    Rows equal to ``out`` are left out of the sums: subtracting them later would cancel when their leverage is near 1.
    """
    X, y = block.X, block.y
    d, intercept = X.shape[1], objective.fit_intercept
    p = len(theta)
    value, gradient, hessian, left_out = 0.0, np.zeros(p), np.zeros((p, p)), 0
    Z = np.empty((0, p))
    for run in pieces(X, p):
        x = X[run]
        t = np.asarray(y[run], dtype=np.float64)
        if out is not None:
            same = (t == out.y) & (x == out.x[:d]).all(axis=1)
            if same.any():
                left_out += int(same.sum())
                x, t = x[~same], t[~same]
        with np.errstate(over="ignore", invalid="ignore"):  # of this thread: a step too far is not taken
            eta = predictor(x, theta, intercept)
            l1, l2 = objective.loss.derivatives(t, eta)
            value += float(objective.loss.value(t, eta).sum())
            gradient[:d] += l1 @ x
            w = np.sqrt(l2)
            if len(Z) != len(w):
                Z = np.empty((len(w), p))
            np.multiply(x, w[:, None], out=Z[:, :d])
            if intercept:
                gradient[d] += l1.sum()
                Z[:, d] = w
            hessian += Z.T @ Z
    return Slopes(len(X), value, gradient, hessian, left_out)


@dataclass(frozen=True, slots=True)
class GradientRounding:
    """A bound on the rounding error of the gradient, entry by entry, summed over some rows."""

    vector: Floats
    left_out: int = 0  #: see Slopes
    absolute: Floats | None = None  #: what one more addition to the sum would lose; None where it is in the bound
    finite = True  # see Slopes

    def __add__(self, other: GradientRounding) -> GradientRounding:
        vector, left_out = self.vector + other.vector, self.left_out + other.left_out
        if self.absolute is None or other.absolute is None:
            return GradientRounding(vector, left_out)
        absolute = self.absolute + other.absolute
        return GradientRounding(vector + absolute, left_out, absolute)


def gradient_rounding(
    block: Block, objective: SmoothObjective, theta: Floats, out: Outsider | None = None
) -> GradientRounding:
    """Bound what rounding does to the sum ``l' x`` of a block: in the sum itself, and through each x'theta.

    A sum of m terms is off by at most ``8 sqrt(m) u`` times the sum of their sizes, but for odds of e^-31 (Higham and
    Mary 2019, rounding errors taken as independent).
    """
    X, y = block.X, block.y
    p = len(theta)
    total, left_out = np.zeros(p), 0
    for run in pieces(X, p):
        x = design(X[run], objective.fit_intercept)
        t = np.asarray(y[run], dtype=np.float64)
        if out is not None:
            same = (t == out.y) & (x == out.x).all(axis=1)
            left_out += int(same.sum())
            x, t = x[~same], t[~same]
        l1, l2 = objective.loss.derivatives(t, x @ theta)
        x = np.abs(x)
        in_sum = 4 * UNIT * np.sqrt(len(t) + len(X) / max(len(t), 1)) * np.abs(l1)
        total += (in_sum + slope_rounding(l1, l2, x @ np.abs(theta), p)) @ x
    return GradientRounding(total, left_out)


def slope_rounding(l1: Floats, l2: Floats, size: Floats, p: int) -> Floats:
    """Bound what rounding does to each ``l'``: through eta = x'theta (``size`` is |x|'|theta|), and in its formula.

    The formula may be a difference of two terms of the size of ``l''`` that cancel, like ``e^eta - y``. A sum of p
    products loses at most ``p + 1`` half units of ``size``, in any order.
    """
    return UNIT / 2 * (l2 * (max(8 * np.sqrt(p), p + 2) * size + 4) + 4 * np.abs(l1))


def values_along(block: Block, objective: SmoothObjective, theta: Floats, step: Floats) -> Values:
    """Sum the loss over one block at ``theta + s step`` for all the lengths s."""
    X, y = block.X, block.y
    t = np.asarray(y, dtype=np.float64)
    at, by = predictor(X, np.stack([theta, step], axis=1), objective.fit_intercept).T
    with np.errstate(over="ignore", invalid="ignore"):
        return Values(np.array([objective.loss.value(t, at + s * by).sum() for s in LENGTHS]))


@dataclass(frozen=True, slots=True)
class Highest:
    """The largest of a number among some rows."""

    h: float
    finite = True  # see Slopes

    def __add__(self, other: Highest) -> Highest:
        return Highest(max(self.h, other.h))


def farthest(block: Block, step: Floats, intercept: bool) -> Highest:
    """Return the largest ``|x'step|`` of a block; step may be several columns."""
    X = block.X
    return Highest(float(np.abs(predictor(X, step, intercept)).max(initial=0.0)))


@dataclass(frozen=True, slots=True)
class Folded:
    """F of everyone, or with one person out or in."""

    sweep: Sweep
    objective: SmoothObjective
    other: Outsider | None
    n: int  #: people in the objective

    def at(self, theta: Floats) -> Slopes:
        """Add the penalty (as often as it counts) and the person who is out or in to the folded sums."""
        objective, other = self.objective, self.other
        out = other if other is not None and other.sign < 0 else None
        s: Slopes = self.sweep.fold(partial(slopes, objective=objective, theta=theta, out=out))
        value, gradient, hessian = s.value, s.gradient, s.hessian
        times = 0 if other is None else other.sign + s.left_out  # of k equal rows, k - 1 stay
        if other is not None and times:
            t, eta = np.array([other.y]), np.array([other.x @ theta])
            l1, l2 = objective.loss.derivatives(t, eta)
            value = value + times * float(objective.loss.value(t, eta)[0])
            gradient = gradient + times * l1[0] * other.x
            hessian = hessian + times * l2[0] * np.outer(other.x, other.x)
        k = objective.times(self.n)
        return Slopes(
            self.n,
            value + k * objective.penalty_value(theta),
            gradient + k * objective.penalty_slope(theta),
            hessian + np.diag(k * objective.penalty_curvature(theta)),
            chain=s.chain + 2 if s.chain else 0.0,
        )

    def along(self, theta: Floats, step: Floats) -> Floats:
        """F at ``theta + s step`` for all the lengths s, by one fold."""
        objective, other = self.objective, self.other
        total = self.sweep.fold(partial(values_along, objective=objective, theta=theta, step=step)).values
        if other is not None:
            eta = other.x @ theta + LENGTHS * (other.x @ step)
            total = total + other.sign * objective.loss.value(np.full(len(LENGTHS), other.y), eta)
        penalty = [objective.penalty_value(theta + s * step) for s in LENGTHS]
        return total + objective.times(self.n) * np.array(penalty)

    def curvature_change(self, step: Floats) -> float:
        """``kappa max_j |x_j'step|``; nothing to fear from losses that are quadratic between their knots."""
        kappa = self.objective.loss.concordance
        if not np.isfinite(kappa):
            return 0.0
        return kappa * self.sweep.fold(partial(farthest, step=step, intercept=self.objective.fit_intercept)).h


def fit_smooth(sweep: Sweep, objective: SmoothObjective) -> SmoothFit:
    """Minimise the objective of everyone."""
    targets: Targets = sweep.fold(partial(check_targets, objective=objective))
    if targets.n == 0:
        raise InvalidTable("the table has no rows; pass at least one person")
    theta = np.zeros(objective.width(sweep.n_features))
    if objective.fit_intercept:
        theta[-1] = objective.loss.start(targets.total / targets.n)
    return _well_summed(Folded(sweep, objective, None, targets.n), theta)


def fit_neighbour(sweep: Sweep, fit: SmoothFit, other: Outsider) -> SmoothFit:
    """Minimise the objective without or with one person, starting from everyone's minimum."""
    return _well_summed(Folded(sweep, fit.objective, other, fit.n + other.sign), fit.theta)


def _well_summed(folded: Folded, start: Floats) -> SmoothFit:
    """Fit, and once more by the processor's sums where counted additions may have taken too much of the Hessian."""
    fit = _fit(folded, start)
    if not fit.chain or fit.whitening().lost <= HESSIAN_LOST:
        return fit
    return replace(_fit(replace(folded, sweep=NamelessSweep(folded.sweep)), fit.theta), nameless=True)


def _fit(folded: Folded, start: Floats) -> SmoothFit:
    found = minimise(folded, start)
    s, objective = found.slopes, folded.objective
    other = folded.other
    out = other if other is not None and other.sign < 0 else None
    found_rounding: GradientRounding = folded.sweep.fold(
        partial(gradient_rounding, objective=objective, theta=found.theta, out=out)
    )
    vector = found_rounding.vector
    if other is not None and (times := min(other.sign, 0) + found_rounding.left_out):
        one = gradient_rounding(
            Block(other.x[None, : folded.sweep.n_features], np.array([other.y])), objective, found.theta
        )
        vector = vector + times * one.vector
    vector = vector + UNIT * np.abs(objective.times(folded.n) * objective.penalty_slope(found.theta))
    return SmoothFit(
        objective, found.theta, folded.n, s.value, s.gradient, s.hessian, found.decrement, found.steps, vector, s.chain
    )
