"""Several people at once, of releases that add noise to sums: their movements add up as vectors, not as lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from flint import arb

from perinstance.numerics.array_types import Floats
from perinstance.pairs.interface.base import Pairs
from perinstance.sampling.ball_arithmetic import Ball


@runtime_checkable
class MovesTogether(Protocol):
    """A release that knows the one pair of several people of its table."""

    def moved_together(self, fit: Any, rows: Floats) -> Pairs:
        """Return the pair without and with all of these rows, which are some of those that ``fit`` was made with."""


def distance_of(moves: Sequence[Ball], scale: float, order: int = 2) -> float:
    """Return the length of a movement over the scale of the noise, rounded up."""
    if order == 1:
        length = sum((abs(move) for move in moves), arb(0))
    else:
        length = sum((move * move for move in moves), arb(0)).sqrt()
    return math.nextafter(float((length / arb(scale)).upper()), math.inf) if length != 0 else 0.0
