"""People of whom floats do not say enough, answered in ball arithmetic: every number comes with a radius that holds.

That is whoever determines a direction nearly alone, outsiders in a direction that only a small penalty holds, people
whom the estimate fits almost exactly, and everybody where the columns are close to dependent. X'X is summed again
without rounding, and H is inverted in balls of so many bits that differences lose nothing that matters. Whether an
estimate exists without somebody is decided by a rank, modulo primes. Whom none of it settles has an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from flint import arb, arb_mat, fmpq_mat, nmod_mat
from numpy.typing import NDArray

from perinstance.folds.sweep import Sweep
from perinstance.models.linear.gram_matrix import exact_equations
from perinstance.models.linear.row_statistics import Without
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.exact_linear_algebra.exact_rank import PRIMES
from perinstance.numerics.exact_linear_algebra.exact_sums import rational
from perinstance.numerics.rounding import BOUND_UP, EXACT_PARAMETER, LARGEST, UNDERFLOWN, UNIT

#: Bits of the balls; the last are for squares as far apart as floats can be, of few columns (or people, where there are
#: more columns). They change the width.
PRECISIONS, LAST_PRECISIONS, FEW_COLUMNS = (384,), (6000,), 24


class PersonBounds(NamedTuple):
    """What is known of one person."""

    bounds: Floats  #: (3, 2): mu, |r| and ||H_with^-1 x||_A, from below and above
    negative: bool  #: r < 0


@dataclass(frozen=True, slots=True)
class PeopleBounds:
    """Bounds from below and above, one entry per person."""

    bounds: Floats  #: (3, 2, k) mu, |r| and ||H_with^-1 x||_A; lengths are zero when no norm is asked for
    negative: NDArray[np.bool_]  #: r < 0
    lost: NDArray[np.bool_]  #: they determine a direction alone

    @classmethod
    def unknown(cls, k: int) -> PeopleBounds:
        """Return what is known before anything is."""
        bounds = np.zeros((3, 2, k))
        bounds[:, 1] = np.inf
        return cls(bounds, np.zeros(k, dtype=bool), np.zeros(k, dtype=bool))

    def picked(self, at: NDArray[np.intp]) -> PeopleBounds:
        """Return what is known of some people, each as often as asked."""
        return PeopleBounds(self.bounds[:, :, at], self.negative[at], self.lost[at])

    def rough(self, floor: float) -> NDArray[np.bool_]:
        """Tell who is not known well enough; see ``ridge.without`` for the floor."""
        low, high = self.bounds[:, 0], self.bounds[:, 1]
        least = low.copy()
        least[1] = np.maximum(low[1], floor * np.minimum(np.sqrt(low[0]), 1.0))
        with np.errstate(invalid="ignore"):
            return ~((high - low <= EXACT_PARAMETER * least).all(axis=0) | self.lost)

    def narrow(self, i: int, found: PersonBounds) -> None:
        """Take in what was found of a person; older bounds stay where they are closer."""
        self.negative[i] = found.negative
        self.bounds[:, 0, i] = np.maximum(self.bounds[:, 0, i], found.bounds[:, 0])
        self.bounds[:, 1, i] = np.minimum(self.bounds[:, 1, i], found.bounds[:, 1])

    def stated(self, floor: float, moves: bool) -> Without:
        """Round away from zero; ``moves`` says whether lengths were asked for."""
        (mu_low, mu), (_, r), (length_low, length) = self.bounds
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # a larger leverage tells more of a posterior sample only together with this much more of the residual
            # (beyond the largest float it loses everything anyway, and a movement does not need it)
            along = np.sqrt(np.where(np.isinf(mu), 1.0, (1 + mu) / (1 + mu_low))) * BOUND_UP
            residual = np.where(self.lost, np.nan, np.copysign(r * along, np.where(self.negative, -1.0, 1.0)))
            share = np.full(len(mu), 4 * UNIT)
            for low, high in ((mu_low, mu), (length_low, length)):
                share += np.where(high > low, (high - low) / low, 0.0)
        mu, length = (np.where(self.lost, np.inf, one) for one in (mu, length))
        length, share = (length, share) if moves else (length[:0], share[:0])
        return Without(mu, residual, length, share, self.rough(floor).astype(np.uint8))


def answered_people(fit: Any, sweep: Sweep, X: Floats, y: Floats, inside: bool, floor: float) -> PeopleBounds:
    """Answer for rows X, y, of the data (``inside``) or not; rows that are equal bit by bit are answered once."""
    first, place = distinct_rows(X, y)
    return _answered(fit, sweep, X[first], y[first], inside, floor).picked(place)


def distinct_rows(X: Floats, y: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return positions of distinct rows of (X, y), and for each row which of them it is."""
    rows = np.column_stack([X, y])
    bits = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    _, first, place = np.unique(bits, return_index=True, return_inverse=True)
    return first, place


def _answered(fit: Any, sweep: Sweep, X: Floats, y: Floats, inside: bool, floor: float) -> PeopleBounds:
    """Answer for distinct rows."""
    found = PeopleBounds.unknown(len(X))
    Z = np.hstack([X, np.ones((len(X), int(fit.fit_intercept)))])
    H, moment = exact_equations(sweep, fit.penalty, fit.fit_intercept)
    kept = list(range(len(Z.T))) if fit.columns is None else fit.columns.tolist()
    columns = [fmpq_mat([[rational(x[j])] for j in kept]) for x in Z]
    within = _part(H, kept, kept)
    for bits in PRECISIONS + (LAST_PRECISIONS if len(kept) <= FEW_COLUMNS else ()):
        todo = np.flatnonzero(found.rough(floor))
        if not len(todo):
            break
        with working_precision(bits):
            solved = SolvedEquations.of(H, moment, kept, fit)
            for i in todo.tolist():
                answer = None if solved is None else solved.answer(columns[i], float(y[i]), inside)
                if answer is not None:
                    found.narrow(i, answer)
        for i in np.flatnonzero(np.isinf(found.bounds[0, 1]) & inside).tolist():  # whose leverage was not told from one
            column = columns[i]
            rest, _ = (within - column * column.transpose()).numer_denom()
            found.lost[i] = max(nmod_mat(rest, q).rank() for q in PRIMES) < len(kept)
    zero = np.flatnonzero(found.rough(floor) & (found.bounds[1, 0] == 0) & (len(kept) <= FEW_COLUMNS))
    if len(zero) and within.rank() == len(kept):  # a ball never says that a residual is nothing
        theta = within.solve(_part(moment, kept, [0]))
        for i in zero.tolist():
            if (columns[i].transpose() * theta)[0, 0] == rational(y[i]):
                found.bounds[1, :, i] = 0.0
    return found


def _part(matrix: fmpq_mat, rows: list[int], columns: list[int]) -> fmpq_mat:
    return fmpq_mat(len(rows), len(columns), [matrix[i, j] for i in rows for j in columns])


@dataclass(frozen=True, slots=True)
class SolvedEquations:
    """The inverse of H on the columns that determine the fit, and the estimate, in balls."""

    inverse: arb_mat
    theta: arb_mat
    form: arb_mat | None  #: the square of a direction's length is ``v'form v``; None: no length is asked

    @classmethod
    def of(cls, H: fmpq_mat, moment: fmpq_mat, kept: list[int], fit: Any) -> SolvedEquations | None:
        """Solve in the present precision; None where H is singular, or may be."""
        inverse, form = inverted(arb_mat(_part(H, kept, kept))), None
        if inverse is None:
            return None
        if fit.precision is not None:
            form = arb_mat([[arb(v) for v in row] for row in fit.precision.tolist()])
            if len(kept) < H.nrows():
                lift = _shortest(H, kept, inverse, fit.fit_intercept)
                if lift is None:
                    return None
                form = lift.transpose() * (form * lift)
        return cls(inverse, inverse * arb_mat(_part(moment, kept, [0])), form)

    def answer(self, exact: fmpq_mat, target: float, inside: bool) -> PersonBounds | None:
        """Answer for a row, as a column; None where it is not certain that an estimate is left without it."""
        column = arb_mat(exact)
        row, v = column.transpose(), self.inverse * column
        square = arb(0) if self.form is None else (v.transpose() * (self.form * v))[0, 0]
        m, e = (row * v)[0, 0], arb(target) - (row * self.theta)[0, 0]
        if not inside:
            return person_bounds(m, e, square / ((1 + m) * (1 + m)))
        rest = 1 - m
        return person_bounds(m / rest, e / rest, square) if rest > 0 else None


def _shortest(H: fmpq_mat, kept: list[int], inverse: arb_mat, intercept: bool) -> arb_mat | None:
    """Return the shortest directions, where some columns depend on those kept; None where they are not certain.

    ``N = (-C, 1)`` spans the directions that change no prediction, ``C = H_kept^-1 H_kept,others``. A direction v on
    the kept columns stands for ``P v``, ``P = 1 - N (N'MN)^-1 N'M`` with ``M = diag(1, .., 1, 0)`` under an intercept.
    """
    p = H.nrows()
    others = [j for j in range(p) if j not in kept]
    C = inverse * arb_mat(_part(H, kept, others))
    N = [[-C[kept.index(i), k] if i in kept else arb(i == j) for k, j in enumerate(others)] for i in range(p)]
    full = arb_mat(N)
    weighed = arb_mat([*N[:-1], [arb(0)] * len(others)] if intercept else N)
    inner = inverted(full.transpose() * weighed)
    if inner is None:
        return None
    P = full * inner * weighed.transpose()
    return arb_mat([[arb(i == j) - P[i, j] for j in kept] for i in range(p)])


def inverted(matrix: arb_mat) -> arb_mat | None:
    """Return the inverse in the present precision, scaled by powers of two first; None where it is not certain."""
    p, unit = matrix.nrows(), []
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


def person_bounds(mu: arb, r: arb, square: arb) -> PersonBounds:
    """Return floats around the leverage, the size of the residual and the root of a squared length."""
    low = square.lower()
    least = low.sqrt().lower() if low > 0 else arb(0)
    values = (mu.abs_lower(), mu.abs_upper(), r.abs_lower(), r.abs_upper(), least, square.abs_upper().sqrt().upper())
    floats = [_rounded(value, np.inf if k % 2 else 0.0) for k, value in enumerate(values)]
    return PersonBounds(np.array(floats).reshape(3, 2), bool(r < 0))


def _rounded(value: arb, towards: float) -> float:
    """Round a number >= 0 to a float, up or down; beyond the largest to infinity, and as far as can be if unknown."""
    if not value <= LARGEST:
        return float(np.inf) if value > LARGEST else towards
    near = float(value) if value > UNDERFLOWN else float(value * arb(2) ** 1000) * 2.0**-1000
    return near if arb(near) == value else float(np.nextafter(near, towards))
