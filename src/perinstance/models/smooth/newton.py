"""Newton's method with safeguards, for any convex objective that is summed by folds, and the proof of the minimum.

The Newton decrement ``lambda = |grad F|`` in the H^-1 norm bounds how far the true minimum can be (Nesterov and
Nemirovskii 1994); it enters every certificate that is built on the fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from perinstance.errors import NumericalTrouble
from perinstance.models.smooth.whitening import FLAT, Whitening, whiten
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import MINIMUM_DECREMENT, OBJECTIVE_ROUNDING

MAX_STEPS = 100
#: the decrement below which a stall is blamed on rounding
STALL = 1e-6
#: at a minimum the next step changes no curvature by more than this share
ARRIVED = 1e-3
#: a step that changes curvatures by more than this share is not taken whole
FAR = 0.1
#: the steps that one fold tries when the full one does not descend
LENGTHS = 4.0 ** np.arange(5, -16, -1)
#: shares of the diagonal that are added for other directions to try, where the curvature has jumps
DAMPINGS = (1e-2, 1.0)


@dataclass(frozen=True, slots=True)
class Slopes:
    """Sums over some rows at one theta; adding two gives the sums over both sets of rows."""

    n: int
    value: float
    gradient: Floats
    hessian: Floats
    left_out: int = 0  #: rows equal to the person who is taken out; they are in n but in none of the sums
    #: additions that a term of the sums went through at most, where they are charged one by one (``whiten``)
    chain: float = 0.0

    #: the targets' fold has looked at every cell; a step that overflows is no fault of the table
    finite = True

    def __add__(self, other: Slopes) -> Slopes:
        return Slopes(
            self.n + other.n,
            self.value + other.value,
            self.gradient + other.gradient,
            self.hessian + other.hessian,
            self.left_out + other.left_out,
            longer_chain(self.chain, other.chain),
        )


def longer_chain(one: float, other: float) -> float:
    """Return how many additions a term of the sum of two sums went through at most; 0 where none are counted."""
    return max(one, other) + 1 if one or other else 0.0


class FoldedObjective(Protocol):
    """What is minimised: everything of it is found by folds."""

    def at(self, theta: Floats) -> Slopes:
        """Value, gradient and Hessian at theta."""

    def along(self, theta: Floats, step: Floats) -> Floats:
        """Values at ``theta + s step`` for all ``LENGTHS`` s; not finite where it is not defined."""

    def curvature_change(self, step: Floats) -> float:
        """Return by which factor, as a logarithm, any curvature can change over this step."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """Where Newton's method ended, and the proof."""

    theta: Floats
    slopes: Slopes
    decrement: float
    steps: int


def minimise(objective: FoldedObjective, theta: Floats) -> Minimum:
    """Minimise by as many folds as it takes, usually six to ten."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = _minimise(objective, theta)
        # where the infimum is at infinity gradient and Hessian vanish together, and a Newton step never gets short
        if objective.curvature_change(whiten(found.slopes.hessian).solve(found.slopes.gradient)) > ARRIVED:
            raise NumericalTrouble(_stuck(found.decrement))
    return found


def _minimise(objective: FoldedObjective, theta: Floats) -> Minimum:
    now = objective.at(theta)
    decrement = np.inf
    for steps in range(1, MAX_STEPS + 1):
        around, damped = _safe_whitening(now.hessian)
        decrement = around.norm(now.gradient)
        if not damped and decrement <= MINIMUM_DECREMENT:
            return Minimum(theta, now, decrement, steps)
        step = -around.solve(now.gradient)
        new = objective.at(theta + step)
        if not damped and (decrement < STALL or decrement**2 < OBJECTIVE_ROUNDING * abs(now.value)):
            # values no longer tell two thetas apart; the gradient does, down to its own rounding
            after = around.norm(new.gradient)
            if not after <= decrement / 4:
                far = objective.curvature_change(step)
                if far > FAR:  # not rounding: curvature changes along the step, so a damped step (Bach 2010)
                    theta = theta + np.log1p(far) / far * step
                    now = objective.at(theta)
                    continue
                if decrement >= STALL:  # huge values; on while the gradient still falls
                    if not after < decrement:
                        raise NumericalTrouble(_stuck(decrement))
                    theta, now = theta + step, new
                    continue
                if after < decrement:
                    theta, now = theta + step, new
                return Minimum(theta, now, whiten(now.hessian).norm(now.gradient), steps)
            theta, now = theta + step, new
            continue
        if not new.value <= now.value - 1e-4 * decrement**2:
            other = _search(objective, theta, now, step)
            found = objective.at(theta + other)
            if found.value < now.value:
                step, new = other, found
            elif damped or not around.norm(new.gradient) <= decrement / 4:
                raise NumericalTrouble(_stuck(decrement))
            # else values are rounded by more than they change (predictions of large terms): the gradient tells
        theta, now = theta + step, new
    raise NumericalTrouble(_stuck(decrement))


def _search(objective: FoldedObjective, theta: Floats, now: Slopes, step: Floats) -> Floats:
    """Return the best step along Newton's direction, and along others that trust a Hessian with holes less.

    Where a curvature jumps, the Hessian at hand may know nothing of the rows that the step leads to.
    """
    best, lowest = step, np.inf
    floor = _floor(now.hessian)
    others = [-whiten(now.hessian + share * np.diag(floor)).solve(now.gradient) for share in DAMPINGS]
    for direction in (step, *others):
        values = objective.along(theta, direction)
        k = int(np.argmin(np.where(np.isfinite(values), values, np.inf)))
        if values[k] < lowest:
            best, lowest = LENGTHS[k] * direction, float(values[k])
        if objective.curvature_change(step) > 0:  # a smooth loss: its Hessian has no holes
            break
    return best


def _stuck(decrement: float) -> str:
    return f"Newton's method found no minimum (decrement {decrement:.1e}): {FLAT}"


def _safe_whitening(H: Floats) -> tuple[Whitening, bool]:
    """Return the whitening of H, or of H with just enough added to its diagonal while the iterate is far out."""
    try:
        return whiten(H), False
    except NumericalTrouble:
        if not np.isfinite(H).all():
            raise
    return whiten(H + 1e-6 * np.diag(_floor(H))), True


def _floor(H: Floats) -> Floats:
    """Return the diagonal of H, with something > 0 in its empty places."""
    diagonal = np.diag(H)
    return np.where(diagonal > 0, diagonal, max(float(diagonal.max()), 1.0))
