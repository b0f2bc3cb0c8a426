"""The sums that a fit of a smooth objective folds over the rows, one fold per Newton step, and the fit itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidTable
from perinstance.folds.block import Block, loss_targets, pieces, plain_targets, weights_of
from perinstance.folds.sweep import NamelessSweep, Sweep
from perinstance.models.losses.penalised_objective import RowObjective, SmoothObjective, predictor
from perinstance.models.smooth.newton import LENGTHS, Slopes, Whitening, minimise, whiten
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import HESSIAN_LOST, UNIT


@dataclass(frozen=True, slots=True)
class Values:
    """Numbers that are summed over some rows, like values of the loss at several thetas on a line."""

    values: Floats
    finite: ClassVar[bool | None] = True  # see Slopes

    def __add__(self, other: Values) -> Values:
        with np.errstate(over="ignore", invalid="ignore"):  # whoever uses them looks whether they are finite
            return replace(self, values=self.values + other.values)


@dataclass(frozen=True, slots=True)
class Targets:
    """How many rows there are and the sum of their targets; of rows with weights the sums of weights and products."""

    n: float
    total: float

    def __add__(self, other: Targets) -> Targets:
        return Targets(self.n + other.n, self.total + other.total)


@dataclass(frozen=True, slots=True)
class Highest:
    """The largest of a number among some rows."""

    h: float
    finite = True  # see Slopes

    def __add__(self, other: Highest) -> Highest:
        return Highest(max(self.h, other.h))


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


@dataclass(frozen=True, slots=True)
class Outsider:
    """One person who is taken out of the objective (``sign=-1``) or put into it (``+1``)."""

    x: Floats
    y: float
    sign: int


@dataclass(frozen=True, slots=True)
class SmoothFit:
    """The minimum of the objective of everyone: confidential."""

    objective: Any  #: a RowObjective
    theta: Floats
    n: float  #: people; where rows have weights, their sum
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


def check_targets(block: Block, objective: SmoothObjective) -> Targets:
    """Refuse targets outside the loss's domain; count the people."""
    objective.loss.check(loss_targets(block.y))
    t, weights = plain_targets(block.y), weights_of(block.y)
    return Targets(len(t), float(t.sum())) if weights is None else Targets(float(weights.sum()), float(weights @ t))


def _others(X: NDArray, y: NDArray, out: Outsider | None) -> tuple[NDArray, Floats, int]:
    """Return rows and targets without those equal to ``out``, and how many these are."""
    t = loss_targets(y)
    if out is None:
        return X, t, 0
    same = (t == out.y) & (out.x[: X.shape[1]] == X).all(axis=1)
    return (X[~same], t[~same], int(same.sum())) if same.any() else (X, t, 0)


def slopes(block: Block, objective: RowObjective, theta: Floats, out: Outsider | None = None) -> Slopes:
    """Sum value, gradient and Hessian of the loss over one block; no temporary is larger than a piece of it.

    Rows equal to ``out`` are left out of the sums: subtracting them later would cancel when their leverage is near 1.
    """
    p = len(theta)
    value, gradient, hessian, left_out = 0.0, np.zeros(p), np.zeros((p, p)), 0
    for run in pieces(block.X, p):
        x, t, same = _others(block.X[run], block.y[run], out)
        left_out += same
        with np.errstate(over="ignore", invalid="ignore"):  # of this thread: a step too far is not taken
            found = objective.sums(x, t, theta)
            value += found[0]
            gradient += found[1]
            hessian += found[2]
    return Slopes(len(block.X), value, gradient, hessian, left_out)


def gradient_rounding(
    block: Block, objective: RowObjective, theta: Floats, out: Outsider | None = None
) -> GradientRounding:
    """Bound what rounding does to the sum of the gradients of a block: in the sum itself, and through each score.

    A sum of m terms is off by at most ``8 sqrt(m) u`` times the sum of their sizes, but for odds of e^-31 (Higham and
    Mary 2019, rounding errors taken as independent).
    """
    total, left_out = np.zeros(len(theta)), 0
    for run in pieces(block.X, len(theta)):
        x, t, same = _others(block.X[run], block.y[run], out)
        left_out += same
        residuals = objective.residuals(t, objective.scores(x, theta[None])[:, 0])
        in_sum = 4 * UNIT * np.sqrt(len(t) + len(block.X) / max(len(t), 1)) * np.abs(residuals)
        total += objective.gather((in_sum + objective.slope_lost(x, t, theta))[:, None], np.abs(x))[0]
    return GradientRounding(total, left_out)


def values_along(block: Block, objective: RowObjective, theta: Floats, step: Floats) -> Values:
    """Sum the loss over one block at ``theta + s step`` for all the lengths s."""
    t = loss_targets(block.y)
    at, by = np.moveaxis(objective.scores(block.X, np.stack([theta, step])), 1, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        return Values(np.array([objective.value(t, at + s * by).sum() for s in LENGTHS]))


def farthest(block: Block, step: Floats, intercept: bool) -> Highest:
    """Return the largest ``|x'step|`` of a block; step may be several columns."""
    return Highest(float(np.abs(predictor(block.X, step, intercept)).max(initial=0.0)))


@dataclass(frozen=True, slots=True)
class Folded:
    """F of everyone, or with one person out or in."""

    sweep: Sweep
    objective: RowObjective
    other: Outsider | None
    n: float  #: people in the objective; where rows have weights, their sum

    @property
    def out(self) -> Outsider | None:
        """Whoever is left out of the sums."""
        return self.other if self.other is not None and self.other.sign < 0 else None

    @property
    def other_row(self) -> Block:
        """The one row of whoever is out or in."""
        assert self.other is not None
        return Block(self.other.x[None, : self.sweep.n_features], np.array([self.other.y]))

    def at(self, theta: Floats) -> Slopes:
        """Add the penalty (as often as it counts) and the person who is out or in to the folded sums."""
        s: Slopes = self.sweep.fold(partial(slopes, objective=self.objective, theta=theta, out=self.out))
        penalty = self.objective.penalised(theta, self.n)
        parts: list[tuple[float, Any]] = [(1.0, (s.value, s.gradient, s.hessian)), (1.0, penalty)]
        if self.other is not None and (times := self.other.sign + s.left_out):  # of k equal rows, k - 1 stay
            row = self.other_row
            parts.insert(1, (float(times), self.objective.sums(row.X, row.y, theta)))
        value, gradient, hessian = (sum(times * part[k] for times, part in parts) for k in range(3))
        return Slopes(self.n, value, gradient, hessian, chain=s.chain + 2 if s.chain else 0.0)

    def along(self, theta: Floats, step: Floats) -> Floats:
        """F at ``theta + s step`` for all the lengths s, by one fold; infinite outside its domain."""
        value = partial(values_along, objective=self.objective, theta=theta, step=step)
        total = self.sweep.fold(value).values
        if self.other is not None:
            total = total + self.other.sign * value(self.other_row).values
        thetas = theta + LENGTHS[:, None] * step
        total = total + np.array([self.objective.penalised(there, self.n)[0] for there in thetas])
        return np.where(self.objective.in_domain(thetas, theta), total, np.inf)

    def curvature_change(self, step: Floats) -> float:
        """``kappa max_j |x_j'step|``; nothing to fear from losses that are quadratic between their knots."""
        kappa = self.objective.concordance
        if not np.isfinite(kappa):
            return 0.0
        columns = step.reshape(self.objective.outputs, -1).T
        return kappa * self.sweep.fold(partial(farthest, step=columns, intercept=self.objective.fit_intercept)).h

    def gradient_rounding(self, theta: Floats) -> Floats:
        """Bound how far each entry of the gradient may be off, but for the row of somebody who joins."""
        bound = partial(gradient_rounding, objective=self.objective, theta=theta)
        found: GradientRounding = self.sweep.fold(partial(bound, out=self.out))
        vector = found.vector + self.objective.penalty_rounding(theta, self.n)
        if self.out is not None and found.left_out > 1:
            vector = vector + (found.left_out - 1) * bound(self.other_row).vector
        return vector


def fit_smooth(sweep: Sweep, objective: SmoothObjective) -> SmoothFit:
    """Minimise the objective of everyone."""
    targets: Targets = sweep.fold(partial(check_targets, objective=objective))
    if targets.n == 0:
        raise InvalidTable("the table has no rows, or none of weight above zero; pass at least one person")
    theta = np.zeros(objective.width(sweep.n_features))
    if objective.fit_intercept:
        theta[-1] = objective.loss.start(targets.total / targets.n)
    return minimum_of(Folded(sweep, objective, None, targets.n), theta)


def minimum_of(folded: Folded, start: Floats) -> SmoothFit:
    """Minimise; once more by the processor's sums where counted additions may have taken too much of the Hessian."""
    fit = _minimum(folded, start)
    if not fit.chain or fit.whitening().lost <= HESSIAN_LOST:
        return fit
    return replace(_minimum(replace(folded, sweep=NamelessSweep(folded.sweep)), fit.theta), nameless=True)


def _minimum(folded: Folded, start: Floats) -> SmoothFit:
    found = minimise(folded, start)
    s, rounding = found.slopes, folded.gradient_rounding(found.theta)
    return SmoothFit(
        folded.objective, found.theta, folded.n, s.value, s.gradient, s.hessian, found.decrement, found.steps, rounding,
        s.chain,
    )  # fmt: skip
