"""The fit of a smooth objective by Newton's method, one fold over the rows per step, with the proof that it is a minimum.

The Newton decrement ``lambda = |grad F|`` in the H^-1 norm bounds how far the true minimum can be (Nesterov and
Nemirovskii 1994); it enters every certificate that is built on the fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidTable, NumericalTrouble
from perinstance.models.frame import FLAT, Frame, frame
from perinstance.models.gram import pieces
from perinstance.models.objective import SmoothObjective, predictor
from perinstance.models.sweep import Sweep

Floats = NDArray[np.float64]

MAX_STEPS = 100
#: the decrement that is good enough, and the one below which a stall is blamed on rounding
ENOUGH, STALL = 1e-13, 1e-6
#: the steps that one fold tries when the full one does not descend
LENGTHS = 4.0 ** np.arange(5, -16, -1)


@dataclass(frozen=True, slots=True)
class Slopes:
    """Sums over some rows at one theta; adding two gives the sums over both sets of rows."""

    n: int
    value: float
    gradient: Floats
    hessian: Floats
    left_out: int = 0  #: rows equal to the person who is taken out; they are in n but in none of the sums

    def __add__(self, other: Slopes) -> Slopes:
        return Slopes(
            self.n + other.n,
            self.value + other.value,
            self.gradient + other.gradient,
            self.hessian + other.hessian,
            self.left_out + other.left_out,
        )


@dataclass(frozen=True, slots=True)
class Values:
    """Values of the loss at several thetas on a line, summed over some rows."""

    values: Floats

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

    @property
    def gradient_norm(self) -> float:
        """The Euclidean norm of the gradient at theta: the proof of stationarity."""
        return float(np.linalg.norm(self.gradient))


def check_targets(X: NDArray, y: NDArray, objective: SmoothObjective) -> Targets:
    """Refuse targets outside the loss's domain; count the people."""
    t = np.asarray(y, dtype=np.float64)
    objective.loss.check(t)
    return Targets(len(t), float(t.sum()))


def slopes(X: NDArray, y: NDArray, objective: SmoothObjective, theta: Floats, out: Outsider | None = None) -> Slopes:
    """Sum value, gradient and Hessian of the loss over one block; no temporary is larger than a piece of it.

    Rows equal to ``out`` are left out of the sums: subtracting them later would cancel when their leverage is near 1.
    """
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


def values_along(X: NDArray, y: NDArray, objective: SmoothObjective, theta: Floats, step: Floats) -> Values:
    """Sum the loss over one block at ``theta + s step`` for all the lengths s."""
    t = np.asarray(y, dtype=np.float64)
    at, by = predictor(X, np.stack([theta, step], axis=1), objective.fit_intercept).T
    with np.errstate(over="ignore", invalid="ignore"):
        return Values(np.array([objective.loss.value(t, at + s * by).sum() for s in LENGTHS]))


def fit_smooth(
    sweep: Sweep, objective: SmoothObjective, start: Floats | None = None, other: Outsider | None = None
) -> SmoothFit:
    """Minimise F (of everyone, or with one person out or in) by as many folds as it takes, usually six to ten."""
    if start is None:
        targets: Targets = sweep.fold(partial(check_targets, objective=objective))
        if targets.n == 0:
            raise InvalidTable("the table has no rows; pass at least one person")
        theta = np.zeros(objective.width(sweep.n_features))
        if objective.fit_intercept:
            theta[-1] = objective.loss.start(targets.total / targets.n)
    else:
        theta = start.copy()

    now = _whole(sweep, objective, theta, other)
    for steps in range(1, MAX_STEPS + 1):
        around, damped = _safe_frame(now.hessian)
        decrement = around.norm(now.gradient)
        if not damped and decrement <= ENOUGH:
            return _finished(objective, theta, now, decrement, steps)
        step = -around.solve(now.gradient)
        new = _whole(sweep, objective, theta + step, other)
        if not damped and decrement < STALL:
            # values no longer tell two thetas apart; the gradient does, down to its own rounding
            after = around.norm(new.gradient)
            if not after <= decrement / 4:
                better = after < decrement
                last = new if better else now
                final, _ = _safe_frame(last.hessian)
                return _finished(objective, theta + step if better else theta, last, final.norm(last.gradient), steps)
            theta, now = theta + step, new
            continue
        if not new.value <= now.value - 1e-4 * decrement**2:
            values = _line(sweep, objective, theta, step, now.n, other)
            best = int(np.nanargmin(np.where(np.isfinite(values), values, np.inf)))
            if not values[best] < now.value:
                raise NumericalTrouble(_stuck(decrement))
            step = LENGTHS[best] * step
            new = _whole(sweep, objective, theta + step, other)
        theta, now = theta + step, new
    raise NumericalTrouble(_stuck(decrement))


def _finished(objective: SmoothObjective, theta: Floats, now: Slopes, decrement: float, steps: int) -> SmoothFit:
    return SmoothFit(objective, theta, now.n, now.value, now.gradient, now.hessian, decrement, steps)


def _stuck(decrement: float) -> str:
    return f"Newton's method found no minimum (decrement {decrement:.1e}): {FLAT}; if a penalty is there, scale the columns"


def _safe_frame(H: Floats) -> tuple[Frame, bool]:
    """Return the frame of H, or of H with just enough added to its diagonal while the iterate is far out."""
    try:
        return frame(H), False
    except NumericalTrouble:
        if not np.isfinite(H).all():
            raise
    diagonal = np.diag(H)
    floor = np.where(diagonal > 0, diagonal, max(float(diagonal.max()), 1.0))
    return frame(H + 1e-6 * np.diag(floor)), True


def _whole(sweep: Sweep, objective: SmoothObjective, theta: Floats, other: Outsider | None) -> Slopes:
    """Add the penalty (as often as it counts) and the person who is out or in to the folded sums."""
    with np.errstate(over="ignore", invalid="ignore"):
        out = other if other is not None and other.sign < 0 else None
        s: Slopes = sweep.fold(partial(slopes, objective=objective, theta=theta, out=out))
        n, value, gradient, hessian = s.n, s.value, s.gradient, s.hessian
        if other is not None:
            t, eta = np.array([other.y]), np.array([other.x @ theta])
            l1, l2 = objective.loss.derivatives(t, eta)
            n += other.sign
            times = other.sign + s.left_out  # of k equal rows, k - 1 stay
            if times:
                value = value + times * float(objective.loss.value(t, eta)[0])
                gradient = gradient + times * l1[0] * other.x
                hessian = hessian + times * l2[0] * np.outer(other.x, other.x)
        k = objective.times(n)
        return Slopes(
            n,
            value + k * objective.penalty_value(theta),
            gradient + k * objective.penalty_slope(theta),
            hessian + np.diag(k * objective.penalty_curvature(theta)),
        )


def _line(
    sweep: Sweep, objective: SmoothObjective, theta: Floats, step: Floats, n: int, other: Outsider | None
) -> Floats:
    """F at ``theta + s step`` for all the lengths s, by one fold."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = sweep.fold(partial(values_along, objective=objective, theta=theta, step=step)).values
        if other is not None:
            eta = other.x @ theta + LENGTHS * (other.x @ step)
            total = total + other.sign * objective.loss.value(np.full(len(LENGTHS), other.y), eta)
        penalty = [objective.penalty_value(theta + s * step) for s in LENGTHS]
        return total + objective.times(n) * np.array(penalty)
