"""What a line of more digits says: an epsilon whose own delta was seen, or a delta."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import LAST_RAISE, LAST_STEP, LOGARITHM
from perinstance.pairs.loss_sums.sampled.lines.line_integral import FLAT, NEXT_TO_NOTHING, RAISES, next_epsilon

#: Steps of Newton's method at most.
STEPS = 60

#: It is copied into kernels; alone it would have to be compiled in every process.
_next_epsilon = getattr(next_epsilon, "py_func", next_epsilon)


class PreciseLine(Protocol):
    """A line through c that bounds delta."""

    @property
    def c(self) -> float:
        """Return the place."""

    def log_bound(self, epsilon: float) -> tuple[float, float]:
        """Return the logarithm of an upper bound of delta at an epsilon, and minus its slope."""

    def charged(self, epsilon: float, log_delta: float) -> float:
        """Return by how much the errors that were charged raise log delta, about."""


class LineAnswer(NamedTuple):
    """Epsilon or log delta, minus the slope of log delta, and by how much epsilon grows by what was added."""

    value: float
    slope: float
    cost: float


NONE = LineAnswer(np.inf, 1.0, np.inf)


def better(one: LineAnswer, other: LineAnswer) -> LineAnswer:
    """Return the lower of two bounds: it is no further above the truth than the other one is known to be."""
    return min(one, other)._replace(cost=min(one.cost, other.cost))


def read_line(line: PreciseLine, goal: Floats, start: float, solving: bool) -> LineAnswer:
    """Return what one line says."""
    log_delta, epsilon, edge = goal.tolist()
    if not solving:
        log_delta, slope = line.log_bound(epsilon)
        slope = max(slope, FLAT * line.c)
        return LineAnswer(log_delta, slope, line.charged(epsilon, log_delta) / slope) if log_delta < np.inf else NONE
    epsilon, left, slope = solve_on(line, log_delta, start, edge)
    if epsilon == 0.0:  # there is no smaller one
        return LineAnswer(0.0, 1.0, 0.0)
    return LineAnswer(epsilon, 1.0, line.charged(epsilon, log_delta) / slope + left) if epsilon < np.inf else NONE


def solve_on(line: PreciseLine, goal: float, start: float, edge: float) -> tuple[float, float, float]:
    """Return an epsilon >= 0 whose delta is at most ``e^goal``, the least that a line can prove; or infinity.

    And what Newton's method left, about: where the sum is below zero next to the least one, it ends anywhere above;
    and minus the slope of log delta.
    """
    goal -= LOGARITHM * (4.0 + abs(goal))
    low, high = -1.0, edge  # below zero: zero was not tried
    epsilon, rate, log, checked = min(max(start, 0.0), edge), line.c, np.inf, -1.0
    near = LAST_STEP * max(4.0 + abs(goal), line.c * epsilon)  # of large numbers the last digits come and go
    for _ in range(STEPS):
        log, rate = line.log_bound(epsilon)
        checked = epsilon
        low, high = (epsilon, high) if log > goal else (low, epsilon)
        if abs(log - goal) < near or (epsilon == 0.0 and log <= goal):
            break
        new = _next_epsilon(epsilon, log - goal + 0.5 * near, (rate, 0.0), (low, high), line.c)
        if new == epsilon:
            break
        epsilon = new
    if epsilon != checked:
        log = line.log_bound(epsilon)[0]
    if 0.0 < epsilon * line.c < NEXT_TO_NOTHING and line.log_bound(0.0)[0] <= goal:
        return 0.0, 0.0, line.c
    rate = max(rate, FLAT * line.c)
    raised = LAST_RAISE * (epsilon + (1.0 + abs(goal)) / rate)
    for _ in range(RAISES):
        if log <= goal:
            return float(epsilon), (goal - log) / rate if epsilon > 0.0 else 0.0, rate
        epsilon += raised
        raised *= 2.0
        log = line.log_bound(epsilon)[0]
    return np.inf, np.inf, rate
