"""What a person does to a linear fit, in exact rational numbers: H is solved once for a table, then one update each.

The update formulas are checked against plain refits (``tests.neighbours.refit``) wherever H is singular, where the
refit is the truth itself, and in a test of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpq, fmpq_mat

from tests.neighbours.refit import design, leave_out, matrix, neighbours, rational


@dataclass(frozen=True)
class Moved:
    """One person; None where no estimate exists without the person."""

    leverage: fmpq | None  #: mu
    residual: fmpq | None  #: r
    distance: fmpq | None  #: ||theta_with - theta_without||_A^2
    direction: fmpq | None  #: ||H_without^-1 x||^2
    determined: bool = True  #: False: theta is a limit, and H has no inverse


class ExactTable:
    """The fit with everyone; people are asked one by one."""

    def __init__(self, X, y, alpha: float, intercept: bool, precision=None):
        self.X, self.y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self.alpha, self.intercept = alpha, intercept
        Z = matrix(design(self.X, intercept))
        p = Z.ncols()
        self.H = Z.transpose() * Z
        for j in range(p - int(intercept)):
            self.H[j, j] += rational(alpha)
        self.A = matrix(np.eye(p) if precision is None else precision)
        self.inverse = None
        if self.H.rank() == p:
            self.inverse = self.H.inv()
            self.theta = self.inverse * (Z.transpose() * matrix(self.y[:, None]))

    def inside(self, i: int) -> Moved:
        if self.inverse is None:
            return self._refitted(leave_out(self.X, self.y, i, self.alpha, self.intercept))
        v, m, e = self._seen(self.X[i], self.y[i])
        rest = 1 - m
        if rest == 0:
            return Moved(None, None, None, None)
        r, square = e / rest, (v.transpose() * self.A * v)[0, 0]
        return Moved(m / rest, r, r * r * square, (v.transpose() * v)[0, 0] / (rest * rest))

    def outside(self, x, target) -> Moved:
        if self.inverse is None:
            return self._refitted(neighbours(self.X, self.y, x, target, self.alpha, self.intercept))
        v, m, e = self._seen(x, target)
        square = (v.transpose() * self.A * v)[0, 0]
        return Moved(m, e, e * e * square / ((1 + m) * (1 + m)), (v.transpose() * v)[0, 0])

    def _seen(self, x, target) -> tuple[fmpq_mat, fmpq, fmpq]:
        row = matrix(design(np.asarray(x, dtype=np.float64)[None, :], self.intercept))
        v = self.inverse * row.transpose()
        return v, (row * v)[0, 0], rational(target) - (row * self.theta)[0, 0]

    def _refitted(self, truth) -> Moved:
        if truth.leverage is None:
            return Moved(None, None, None, None, False)
        move = truth.movement
        return Moved(truth.leverage, truth.residual, (move.transpose() * self.A * move)[0, 0], None, False)


def root_below(square: fmpq) -> float:
    """Return the square root as a float, at most one unit below."""
    if square == 0:
        return 0.0
    p, q = int(square.p), int(square.q)
    shift = max(0, 140 - (p.bit_length() - q.bit_length()))
    shift += shift % 2
    from math import isqrt

    return nearest(Fraction(isqrt((p << shift) // q), 1) / Fraction(2) ** (shift // 2))


def nearest(value: Fraction | fmpq) -> float:
    """Round to a float; infinity beyond the largest."""
    if isinstance(value, fmpq):
        value = Fraction(int(value.p), int(value.q))
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf
