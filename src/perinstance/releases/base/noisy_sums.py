"""Realised log ratios of vectors of sums with independent noise: means, sums, Gram matrices and moments (MATH 8).

Without the person the centre c moves to ``c - u``; coordinates are independent with scales s_j. At the output o

    Gaussian:  sum_j u_j (o_j - c_j + u_j/2) / s_j^2,        Laplace:  sum_j (|o_j - c_j + u_j| - |o_j - c_j|) / s_j.

c and u are rational numbers that are known exactly, so only the cell of the output has a width.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from flint import arb

from perinstance.numerics.array_types import Floats
from perinstance.pairs.base import Pairs
from perinstance.releases.base.log_ratios import Output
from perinstance.sampling.ball_arithmetic import Ball, exact
from perinstance.sampling.random_bits import Noise


@dataclass(frozen=True, slots=True, eq=False)
class NoisySums:
    """The noise that was drawn, in balls: ``gap = output - centre``, and the scale of each coordinate."""

    gap: list[Ball]
    scales: list[Ball]
    noise: Noise = "gaussian"

    @classmethod
    def of(cls, output: Output, centre: Sequence[object], scales: Sequence[float], noise: Noise) -> NoisySums:
        """Take what was published apart; the centre is exact."""
        gap = [o - exact(c) for o, c in zip(output.balls(), centre, strict=True)]
        return cls(gap, [arb(float(s)) for s in scales], noise)

    def log_ratio(self, step: Iterable[Ball]) -> Ball:
        """Return ``log q/p`` of a person who moves the centre by ``step``."""
        total = arb(0)
        for u, gap, s in zip(step, self.gap, self.scales, strict=True):
            if self.noise == "gaussian":
                total += u * (gap + u / 2) / (s * s)
            else:
                total += (abs(gap + u) - abs(gap)) / s
        return total


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
