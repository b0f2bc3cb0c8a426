r"""Inversion along a straight line in balls: the sum of ``pair_integral.py`` to as many digits as it cancels.

Moments at nodes ``32 j + i`` are a product of matrices, ``a_x e^{i 32 j h lambda_x}`` by ``e^{i i h lambda_x}``, and so
is the sum over rotations. Every ball contains what it stands for, so that no rounding has to be counted: the upper end
of the last one is the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import LOGARITHM
from perinstance.pairs.loss_sums.sampled.lines.line_integral import LARGEST
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import enclosed_terms

TURN = 32


@dataclass(frozen=True, slots=True)
class BallLine:
    """One person's terms without epsilon, 32 in a row, the first halved; the rest; all times ``(h/pi) e^K(c)``."""

    c: float
    spacing: float
    bits: int
    terms: Any
    rest: Any

    def log_bound(self, epsilon: float) -> tuple[float, float]:
        """Return the logarithm of an upper bound of delta at an epsilon, and minus its slope."""
        from flint import arb

        with working_precision(self.bits):
            found, slope = self._sums(epsilon)
            bound = (found + self.rest) * (-arb(self.c) * arb(epsilon)).exp()
            top = bound.mid() + bound.rad()
            if not top > 0:
                return np.inf, self.c
            log = float(top.log().mid())
            rate = self.c - self.spacing * float((slope / (found + self.rest)).mid())
            return log + LOGARITHM * (4.0 + abs(log)), rate

    def charged(self, epsilon: float, log_delta: float) -> float:
        """Return by how much the widths of the balls and the rest raise log delta, about."""
        from flint import arb

        with working_precision(self.bits):
            width = (2 * self._sums(epsilon)[0].rad() + self.rest) * (-arb(self.c) * arb(epsilon)).exp()
            log = float((width.mid() + width.rad()).log().mid())
        return math.exp(min(log - log_delta, LARGEST))

    def _sums(self, epsilon: float) -> tuple[Any, Any]:
        """Return the sum of the terms, turned, and that of k times their imaginary parts."""
        from flint import acb, acb_mat, arb

        angle = acb(0, -arb(self.spacing) * arb(epsilon))
        rows = self.terms.nrows()
        turns = [(angle * i).exp() for i in range(TURN)]
        sums = self.terms * acb_mat(TURN, 2, [part for i, turn in enumerate(turns) for part in (turn, i * turn)])
        found, slope = acb(0), acb(0)
        for j in range(rows):
            turn = (angle * (TURN * j)).exp()
            found += sums[j, 0] * turn
            slope += (sums[j, 1] + TURN * j * sums[j, 0]) * turn
        return found.real, slope.imag


def moments_in_balls(q: float, m: float, over: bool, place: tuple[float, float], nodes: int, bits: int) -> list[Any]:
    """Return the moments of one kind of step at ``c + i k h``, k = 0, 1, ..., for the place ``(c, h)``."""
    from flint import acb, acb_mat, arb

    with working_precision(bits):
        balls = enclosed_terms(q, m, over, place[0], bits * math.log(2.0))
        turns = [(acb(0, place[1]) * loss).exp() for loss in balls.losses]
        inner = [[acb(1)] * len(turns)]
        for _ in range(1, TURN):
            inner.append([a * b for a, b in zip(inner[-1], turns, strict=True)])
        turns = [a * b for a, b in zip(inner[-1], turns, strict=True)]
        outer = [balls.weights]
        for _ in range(1, -(-nodes // TURN)):
            outer.append([a * b for a, b in zip(outer[-1], turns, strict=True)])
        missed = arb(0, balls.missed)
        found = acb_mat(outer) * acb_mat(inner).transpose()
        return [each + acb(missed, missed) for each in found.entries()]


def ball_line(
    kinds: list[tuple[list[Any], float]], place: tuple[float, float], nodes: int, rest: float, bits: int
) -> BallLine:
    """Return the terms of a person who takes so many steps of each kind; ``rest`` is what lies beyond the nodes."""
    from flint import acb, acb_mat, arb

    c, spacing = place
    rows = -(-nodes // TURN)
    with working_precision(bits):
        unit = arb(spacing) / arb.pi()
        terms = [acb(0)] * (rows * TURN)
        for k in range(nodes):
            z = acb(c, arb(spacing) * k)
            term = unit / (z * (1 + z))
            for moments, steps in kinds:
                term *= moments[k] ** int(steps)
            terms[k] = term
        beyond = abs(terms[0]) * arb(rest)
        terms[0] /= 2
        return BallLine(c, spacing, bits, acb_mat(rows, TURN, terms), beyond.mid() + beyond.rad())
