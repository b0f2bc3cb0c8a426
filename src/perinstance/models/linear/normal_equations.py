"""``H theta = X'y`` in numbers that know their error, balls or rationals, and what it says of people one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from flint import arb, arb_mat, fmpq_mat

from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.exact_sums import rational
from perinstance.numerics.rounding import LARGEST, UNDERFLOWN


class Numbers(Protocol):
    """Matrices over one kind of numbers."""

    def number(self, value: float) -> Any:
        """Return a float, exactly."""

    def matrix(self, rows: list[list[Any]]) -> Any:
        """Return the matrix of these rows."""

    def inverse(self, matrix: Any) -> Any | None:
        """Return the inverse; None where there is none, or none is certain."""

    def ball(self, value: Any) -> arb:
        """Return a ball that holds the number."""


class Rationals:
    """Exact: a matrix is singular or it is not."""

    def number(self, value: float) -> Any:
        """Return a float, exactly."""
        return rational(value)

    def matrix(self, rows: list[list[Any]]) -> Any:
        """Return the matrix of these rows."""
        return fmpq_mat(rows)

    def inverse(self, matrix: Any) -> Any | None:
        """Return the inverse; None where there is none."""
        return matrix.inv() if matrix.rank() == matrix.nrows() else None

    def ball(self, value: Any) -> arb:
        """Return a ball that holds the number."""
        return arb(value)


class Balls:
    """Midpoints and radii (Arb), in the precision of flint's context."""

    def number(self, value: float) -> Any:
        """Return a float, exactly."""
        return arb(value)

    def matrix(self, rows: list[list[Any]]) -> Any:
        """Return the matrix of these rows."""
        return arb_mat(rows)

    def inverse(self, matrix: Any) -> Any | None:
        """Return the inverse where it is certain; the matrix is scaled first, by powers of two."""
        p = matrix.nrows()
        unit = []
        for j in range(p):
            whole, exponent = matrix[j, j].mid().man_exp()
            unit.append(arb(2) ** -((int(exponent) + int(whole).bit_length()) // 2) if whole != 0 else arb(1))
        scaled = arb_mat([[matrix[i, j] * unit[i] * unit[j] for j in range(p)] for i in range(p)])
        one = arb_mat([[int(i == j) for j in range(p)] for i in range(p)])
        try:
            found = scaled.solve(one, algorithm="precond")
        except ZeroDivisionError:
            return None
        return arb_mat([[found[i, j] * unit[i] * unit[j] for j in range(p)] for i in range(p)])

    def ball(self, value: Any) -> arb:
        """Return the number itself."""
        return value


@dataclass(frozen=True, slots=True)
class PersonBounds:
    """Bounds from below and above."""

    leverage: tuple[float, float]
    residual: tuple[float, float]  #: of |r|
    length: tuple[float, float]
    negative: bool
    lost: bool = False


LOST = PersonBounds((np.inf, np.inf), (np.inf, np.inf), (np.inf, np.inf), False, lost=True)


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
        cls,
        numbers: Numbers,
        cross: Any,
        setting: tuple[Floats, Floats | None, list[int], bool],
        rows: list[tuple[Floats, float]],
    ) -> LinearEquations | None:
        """Take the sums ``[Z y]'[Z y]``; None where columns are not certainly independent.

        ``setting`` is the penalty, the precision, the columns kept and the intercept.
        """
        penalty, precision, kept, intercept = setting
        p = len(penalty)
        H = [[cross[i, j] + (numbers.number(penalty[i]) if i == j else 0) for j in range(p)] for i in range(p)]
        reduced = numbers.matrix([[H[i][j] for j in kept] for i in kept])
        moment = numbers.matrix([[cross[i, p]] for i in kept])
        form = None
        if precision is not None:
            A = numbers.matrix([[numbers.number(v) for v in row] for row in precision])
            form = A if len(kept) == p else _shortest(numbers, H, kept, intercept, A)
            if form is None:
                return None
        return cls(numbers, reduced, moment, form, kept, rows)

    def position(self, x: Floats, target: float) -> int | None:
        """Return where this person is among the rows that are kept one by one."""
        for k, (row, aim) in enumerate(self.rows):
            if aim == target and (row == x).all():
                return k
        return None

    def without(self, k: int) -> LinearEquations:
        """Leave out one of these rows."""
        rows = self.rows[:k] + self.rows[k + 1 :]
        return LinearEquations(self.numbers, self.H, self.moment, self.form, self.kept, rows)

    def column(self, x: Floats) -> Any:
        """Return a row's kept entries as a column."""
        return self.numbers.matrix([[self.numbers.number(x[j])] for j in self.kept])

    def solved(self) -> SolvedEquations | None:
        """Solve; None where H is singular, or may be."""
        H, moment = self.H, self.moment
        for x, target in self.rows:
            column = self.column(x)
            H = H + column * column.transpose()
            moment = moment + column * self.numbers.number(target)
        inverse = self.numbers.inverse(H)
        if inverse is None:
            return None
        return SolvedEquations(self, inverse, inverse * moment)


@dataclass(frozen=True, slots=True)
class SolvedEquations:
    """The same with the inverse of H and the estimate."""

    equations: LinearEquations
    inverse: Any
    theta: Any

    def joining(self, x: Floats, target: float) -> PersonBounds:
        """Answer for somebody who is not in these equations."""
        m, e, square = self._seen(x, target)
        return self._person(m, e, square / ((1 + m) * (1 + m)))

    def leaving(self, x: Floats, target: float) -> PersonBounds | None:
        """Answer for somebody who is; None where it is not certain that an estimate is left without."""
        m, e, square = self._seen(x, target)
        rest = 1 - m
        if not rest > 0:
            return LOST if isinstance(self.equations.numbers, Rationals) else None
        return self._person(m / rest, e / rest, square)

    def _seen(self, x: Floats, target: float) -> tuple[Any, Any, Any]:
        equations = self.equations
        column = equations.column(x)
        row, v = column.transpose(), self.inverse * column
        number = equations.numbers.number
        square = number(0.0) if equations.form is None else (v.transpose() * (equations.form * v))[0, 0]
        return (row * v)[0, 0], number(target) - (row * self.theta)[0, 0], square

    def _person(self, mu: Any, r: Any, square: Any) -> PersonBounds:
        ball = self.equations.numbers.ball
        residual = ball(r)
        return PersonBounds(ends(ball(mu)), ends(residual), root_ends(ball(square)), bool(residual < 0))


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


def ends(value: arb) -> tuple[float, float]:
    """Return floats below and above the absolute value."""
    return _below(value.abs_lower()), _above(value.abs_upper())


def root_ends(square: arb) -> tuple[float, float]:
    """Return floats below and above the root."""
    low = square.lower()
    return _below(low.sqrt().lower()) if low > 0 else 0.0, _above(square.abs_upper().sqrt().upper())


def _above(value: arb) -> float:
    if value == 0:
        return 0.0
    near = _near(value)
    return near if near < np.inf and arb(near) == value else float(np.nextafter(near, np.inf))


def _below(value: arb) -> float:
    if value == 0:
        return 0.0
    near = _near(value)
    return near if near < np.inf and arb(near) == value else float(np.nextafter(near, 0.0))


def _near(value: arb) -> float:
    """Round to a float, one unit off at most; beyond the largest, infinity."""
    if value > LARGEST:
        return float(np.inf)
    return float(value) if value > UNDERFLOWN else float(value * arb(2) ** 1000) * 2.0**-1000
