"""About where an epsilon lies, from those of people with the same steps at distances next to it.

The first line of somebody is laid for it, and is mostly the last one too. It proves nothing.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.pairs.loss_sums.sampled.more_digits.line_answer import NONE, LineAnswer

#: Logarithm of the quotient of two distances that are next to each other.
NEXT = 0.25
#: How fast epsilon may grow with the distance, as a power.
STEEPEST = 8.0


class NearbyEpsilons:
    """The last two people with one kind of step, and what they lost."""

    __slots__ = ("_key", "_seen")

    def __init__(self) -> None:
        self._key: tuple[float, ...] = ()
        self._seen: list[tuple[float, float]] = []

    @staticmethod
    def order(kinds: Floats, goal: Floats) -> tuple[float, ...]:
        """Return what people are sorted by: number and sort of steps, the goal, then distances."""
        return (kinds.shape[1], *kinds[0], *kinds[2], float(goal[0]), *kinds[1])

    def guess(self, kinds: Floats, goal: Floats) -> LineAnswer:
        """Return about where the epsilon of the next person lies, or nothing."""
        if kinds.shape[1] > 1:
            return NONE
        key = self.order(kinds, goal)[:-1]
        if key != self._key:
            self._key, self._seen = key, []
        x = math.log(kinds[1, 0])
        if not self._seen or x - self._seen[-1][0] > NEXT:
            return NONE
        (here, log), slope = self._seen[-1], 1.0
        if len(self._seen) > 1 and here > self._seen[0][0]:
            slope = min((log - self._seen[0][1]) / (here - self._seen[0][0]), STEEPEST)
        return LineAnswer(math.exp(log + slope * (x - here)), 1.0, np.inf)

    def put(self, kinds: Floats, epsilon: float) -> None:
        """Take the answer of whoever was guessed last."""
        if kinds.shape[1] == 1 and 0.0 < epsilon < np.inf:
            self._seen = [*self._seen[-1:], (math.log(kinds[1, 0]), math.log(epsilon))]
