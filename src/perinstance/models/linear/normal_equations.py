"""``H theta = X'y`` in numbers that know their error, balls or rationals, and what it says of people one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from flint import arb, arb_mat, fmpq_mat

from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.exact_sums import rational
from perinstance.numerics.rounding import LARGEST, UNDERFLOWN


@dataclass(frozen=True, slots=True)
class Numbers:
    """Matrices of rationals, or of balls (midpoints and radii) in the precision of flint's context."""

    exact: bool

    def number(self, value: float) -> Any:
        """Return a float, exactly."""
        return rational(value) if self.exact else arb(value)

    def matrix(self, rows: list[list[Any]]) -> Any:
        """Return the matrix of these rows."""
        return fmpq_mat(rows) if self.exact else arb_mat(rows)

    def inverse(self, matrix: Any) -> Any | None:
        """Return the inverse; None where there is none, or none is certain."""
        if self.exact:
            return matrix.inv() if matrix.rank() == matrix.nrows() else None
        p, unit = matrix.nrows(), []
        for j in range(p):  # balls are scaled first, by powers of two
            whole, exponent = matrix[j, j].mid().man_exp()
            unit.append(arb(2) ** -((int(exponent) + int(whole).bit_length()) // 2) if whole != 0 else arb(1))
        scaled = arb_mat([[matrix[i, j] * unit[i] * unit[j] for j in range(p)] for i in range(p)])
        one = arb_mat([[int(i == j) for j in range(p)] for i in range(p)])
        try:
            found = scaled.solve(one, algorithm="precond")
        except ZeroDivisionError:
            return None
        return arb_mat([[found[i, j] * unit[i] * unit[j] for j in range(p)] for i in range(p)])


class PersonBounds(NamedTuple):
    """Bounds from below and above."""

    leverage: tuple[float, float]
    residual: tuple[float, float]  #: of |r|
    length: tuple[float, float]
    negative: bool
    lost: bool = False


LOST = PersonBounds((np.inf, np.inf), (np.inf, np.inf), (np.inf, np.inf), False, lost=True)


class AskedOfSums(NamedTuple):
    """What the equations are besides sums over rows."""

    penalty: Floats
    precision: Floats | None  #: of the norm in which a direction's length is asked; None: no length is asked
    kept: list[int]  #: columns that determine the fit
    intercept: bool


@dataclass(frozen=True, slots=True)
class LinearEquations:
    """H and X'y on the columns that determine the fit: those of some rows as sums, and some rows one by one."""

    numbers: Numbers
    H: Any
    moment: Any
    form: Any | None  #: the square of a direction's length is ``v'form v``
    kept: list[int]
    rows: list[tuple[Floats, float]]

    @classmethod
    def of(
        cls, numbers: Numbers, cross: Any, setting: AskedOfSums, rows: list[tuple[Floats, float]]
    ) -> LinearEquations | None:
        """Take the sums ``[Z y]'[Z y]``; None where columns are not certainly independent."""
        kept, p = setting.kept, len(setting.penalty)
        H = [[cross[i, j] + (numbers.number(setting.penalty[i]) if i == j else 0) for j in range(p)] for i in range(p)]
        reduced = numbers.matrix([[H[i][j] for j in kept] for i in kept])
        moment = numbers.matrix([[cross[i, p]] for i in kept])
        form = None
        if setting.precision is not None:
            A = numbers.matrix([[numbers.number(v) for v in row] for row in setting.precision])
            form = A if len(kept) == p else _shortest(numbers, H, kept, setting.intercept, A)
            if form is None:
                return None
        return cls(numbers, reduced, moment, form, kept, rows)

    def position(self, x: Floats, target: float) -> int | None:
        """Return where this person is among the rows that are kept one by one."""
        places = (k for k, (row, aim) in enumerate(self.rows) if aim == target and (row == x).all())
        return next(places, None)

    def column(self, x: Floats) -> Any:
        """Return a row's kept entries as a column."""
        return self.numbers.matrix([[self.numbers.number(x[j])] for j in self.kept])

    def solved(self, left_out: int | None = None) -> SolvedEquations | None:
        """Solve, without one of the single rows if asked; None where H is singular, or may be."""
        H, moment = self.H, self.moment
        for k, (x, target) in enumerate(self.rows):
            if k != left_out:
                column = self.column(x)
                H = H + column * column.transpose()
                moment = moment + column * self.numbers.number(target)
        inverse = self.numbers.inverse(H)
        return None if inverse is None else SolvedEquations(self, inverse, inverse * moment)


@dataclass(frozen=True, slots=True)
class SolvedEquations:
    """Equations with the inverse of H and the estimate."""

    equations: LinearEquations
    inverse: Any
    theta: Any

    def joining(self, x: Floats, target: float) -> PersonBounds:
        """Answer for somebody who is not in these equations."""
        m, e, square = self._seen(x, target)
        return person_bounds(m, e, square / ((1 + m) * (1 + m)))

    def leaving(self, x: Floats, target: float) -> PersonBounds | None:
        """Answer for somebody who is; None where it is not certain that an estimate is left without."""
        m, e, square = self._seen(x, target)
        rest = 1 - m
        if not rest > 0:
            return LOST if self.equations.numbers.exact else None
        return person_bounds(m / rest, e / rest, square)

    def _seen(self, x: Floats, target: float) -> tuple[Any, Any, Any]:
        equations = self.equations
        column = equations.column(x)
        row, v = column.transpose(), self.inverse * column
        number = equations.numbers.number
        square = number(0.0) if equations.form is None else (v.transpose() * (equations.form * v))[0, 0]
        return (row * v)[0, 0], number(target) - (row * self.theta)[0, 0], square


def _shortest(numbers: Numbers, H: list[list[Any]], kept: list[int], intercept: bool, A: Any) -> Any | None:
    """Return the form of the shortest directions, where some columns depend on those kept.

    ``N = (-C, 1)`` spans the directions that change no prediction, ``C = H_kept^-1 H_kept,others``. A direction v on
    the kept columns stands for ``P v``, ``P = 1 - N (N'MN)^-1 N'M`` with ``M = diag(1, .., 1, 0)`` under an intercept.
    """
    p = len(H)
    others = [j for j in range(p) if j not in kept]
    inverse = numbers.inverse(numbers.matrix([[H[i][j] for j in kept] for i in kept]))
    if inverse is None:
        return None
    zero, one = numbers.number(0.0), numbers.number(1.0)
    C = inverse * numbers.matrix([[H[i][j] for j in others] for i in kept])
    N = [[zero] * len(others) for _ in range(p)]
    for k, j in enumerate(others):
        N[j][k] = one
        for i, at in enumerate(kept):
            N[at][k] = -C[i, k]
    counted = [[zero] * len(others) if intercept and i == p - 1 else N[i] for i in range(p)]
    full, weighed = numbers.matrix(N), numbers.matrix(counted)
    inner = numbers.inverse(full.transpose() * weighed)
    if inner is None:
        return None
    P = full * inner * weighed.transpose()
    lift = numbers.matrix([[(one if i == j else zero) - P[i, j] for j in kept] for i in range(p)])
    return lift.transpose() * (A * lift)


def person_bounds(mu: Any, r: Any, square: Any) -> PersonBounds:
    """Return floats around the leverage, the size of the residual and the root of a squared length."""
    mu, r, square = arb(mu), arb(r), arb(square)
    low = square.lower()
    length = _below(low.sqrt().lower()) if low > 0 else 0.0, _above(square.abs_upper().sqrt().upper())
    leverage, residual = ((_below(value.abs_lower()), _above(value.abs_upper())) for value in (mu, r))
    return PersonBounds(leverage, residual, length, bool(r < 0))


def _above(value: arb) -> float:
    near = _near(value)
    return near if near < np.inf and arb(near) == value else float(np.nextafter(near, np.inf))


def _below(value: arb) -> float:
    near = _near(value)
    return near if near < np.inf and arb(near) == value else float(np.nextafter(near, 0.0))


def _near(value: arb) -> float:
    """Round to a float, one unit off at most; beyond the largest, infinity."""
    if value > LARGEST:
        return float(np.inf)
    return float(value) if value > UNDERFLOWN else float(value * arb(2) ** 1000) * 2.0**-1000
