"""The fits without and with a group, enclosed in balls: every number of a group's pair, and what it may be wrong by.

Coefficients are ``theta = lift z``. With the data at hand z is theta itself, the sums ``X'X`` and ``X'y`` are exact
integers (``sampling.exact_gram``), and precision is raised until the answer has its digits. From the confidential fit
alone z are the coordinates in which H is the identity, but for what its factorisation may have lost: that is the radius
of the balls to begin with. Ball arithmetic carries it to the end, and whoever asks charges it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpz_mat

from perinstance.errors import InvalidInput, NumericalTrouble
from perinstance.folds.sweep import Sweep
from perinstance.models.linear.ridge import DualFit, LinearFit, by_columns, shortest
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import FIT_SAFETY, UNIT
from perinstance.sampling.ball_arithmetic import Ball, Matrix, Undecided, exact, inverse_factor
from perinstance.sampling.exact_gram import ExactGram

#: precisions that are tried with the data at hand, in bits; the fit alone is worth the first
BITS = (256, 512, 1024, 2048, 4096)
#: up to so many directions a symmetric matrix is diagonalised in balls, beyond in float64
FEW = 16
#: there an entry beside the diagonal is gone when it is this many bits below the largest
GONE = 180


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The group as it was given: rows (without the constant of an intercept) and targets."""

    X: Floats
    y: Floats
    inside: bool  #: part of the data of the fit; else they would join


@dataclass(frozen=True, slots=True)
class GroupNeighbours:
    """``H`` and the estimate without the group, and what the group adds. All of it in balls."""

    rows: Matrix  #: (k, q) the group's rows in coordinates z
    aim: list[Ball]  #: (k,) their targets
    added: Matrix  #: (q, q) rows'rows
    toward: Matrix  #: (q, 1) rows'(aim - rows z), z without them
    miss: Ball  #: the length of aim - rows z
    root: Matrix  #: (q, q) W with ``H_without^-1 = W'W``
    z: Matrix  #: (q, 1) the estimate without them
    lift: Matrix  #: (p, q)
    raw: Matrix  #: (p, p) the group's X'X
    raw_toward: Matrix  #: (p, 1) its X'(y - X theta), theta without them


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Eigenvalues of a symmetric matrix, a vector in the eigenvectors, and what the matrix may be wrong by."""

    values: Floats
    above: Floats  #: 1 + values, with digits of its own where that is small
    along: Floats
    lost: float  #: in the norm of the matrix
    vector_lost: float  #: in the length of the vector


def has_limit(fit: LinearFit | DualFit, sweep: Sweep | ExactGram, people: GroupRows) -> bool | None:
    """Tell, exactly, whether the estimate without the group exists; None: some direction is open to everybody."""
    sums = group_sums(fit, sweep, people)
    rank = fmpz_mat(sums[0].normal_equations(fit.penalty).H.tolist()).rank()
    if rank == len(fit.theta):
        return True
    return None if fmpz_mat(sums[1].normal_equations(fit.penalty).H.tolist()).rank() == rank else False


def table_sums(fit: LinearFit | DualFit, sweep: Sweep) -> ExactGram:
    """Return the exact sums of the data of a fit, in one pass."""
    if sweep.n_features != fit.n_features:
        raise InvalidInput(f"the fit has {fit.n_features} features and the data {sweep.n_features}; pass its own data")
    table: ExactGram = sweep.fold(lambda block: ExactGram.of(block.X, block.y, bool(fit.fit_intercept)))
    if table.n != fit.n_people:
        raise InvalidInput(f"the fit was made with {fit.n_people} people and the data has {table.n}; pass its own data")
    return table


def group_sums(fit: LinearFit | DualFit, data: Sweep | ExactGram, people: GroupRows) -> tuple[ExactGram, ExactGram]:
    """Return the exact sums without and with the group."""
    table = data if isinstance(data, ExactGram) else table_sums(fit, data)
    own = ExactGram.of(people.X, people.y, bool(fit.fit_intercept))
    if not people.inside:
        return table, table + own
    return table + ExactGram(-own.entries, own.exponent, -own.n), table


def enclosed(
    fit: LinearFit | DualFit,
    people: GroupRows,
    sweep: Sweep | ExactGram | None,
    ask: Callable[[GroupNeighbours], tuple[Any, bool]],
) -> Any:
    """Return what ``ask`` makes of the neighbours: from the data to as many digits as it wants, else from the fit.

    ``ask`` returns its answer and whether that has all its digits.
    """
    sums = None if sweep is None else group_sums(fit, sweep, people)
    answer = None
    for bits in BITS if sums is not None else BITS[:1]:
        with working_precision(bits):
            try:
                if sums is None:
                    here = _from_fit(fit, people)
                else:
                    equations = sums[0].normal_equations(fit.penalty)
                    p, root = equations.d, inverse_factor(equations.matrix())
                    here = _neighbours(fit, people, root, arb_mat(p, 1, equations.right_side()), arb_mat(p, p, 1))
                answer, sharp = ask(here)
            except (Undecided, ZeroDivisionError):
                continue
        if sharp:
            return answer
    if answer is None and sums is not None:
        raise InvalidInput(
            "these people are not part of the data (without them it would have less than nothing), or the numbers of "
            "their pair lie beyond float64; pass rows of the data, or scale its columns by public constants"
        )
    if answer is None:
        raise NumericalTrouble(
            "without this group the fit is too close to singular to be had from the fit with everyone; pass the data "
            "as sweep=(X, y), or fit the data without them and pass that fit with inside=False"
        )
    return answer


def balls(M: Floats) -> Matrix:
    """Return a matrix of floats as balls without radius."""
    return arb_mat([[exact(value) for value in row] for row in M.tolist()])


def _from_fit(fit: LinearFit | DualFit, people: GroupRows) -> GroupNeighbours:
    """Take the coordinates of the factorisation, in which H is the identity but for its error."""
    fit = by_columns(fit)
    q, off = fit.rank, FIT_SAFETY * fit.factor.error
    unit = arb_mat([[arb(int(i == j), off) for j in range(q)] for i in range(q)])
    lost = off * float(np.linalg.norm(fit.image)) + FIT_SAFETY * (UNIT * fit.square**0.5 + fit.factor.image_error)
    image, basis = fit.image, fit.basis
    if q < len(fit.theta):  # some directions are open: the shortest coefficients are published
        image, basis = fit.factor.R @ fit.theta, shortest(fit.factor, fit.fit_intercept)
    moment = arb_mat(q, 1, [arb(float(v), lost) for v in image])
    lift = balls(basis)
    if people.inside:
        own = ExactGram.of(people.X, people.y, bool(fit.fit_intercept)).normal_equations()
        added = lift.transpose() * arb_mat(own.matrix()) * lift
        moment = moment - lift.transpose() * arb_mat(own.d, 1, own.right_side())
        unit = unit - added
    return _neighbours(fit, people, inverse_factor(unit.tolist()), moment, lift)


def _neighbours(
    fit: LinearFit | DualFit, people: GroupRows, root: Matrix, moment: Matrix, lift: Matrix
) -> GroupNeighbours:
    own = ExactGram.of(people.X, people.y, bool(fit.fit_intercept))
    equations = own.normal_equations()
    p = equations.d
    raw, raw_moment = arb_mat(equations.matrix()), arb_mat(p, 1, equations.right_side())
    z = root.transpose() * (root * moment)
    added, toward = lift.transpose() * raw * lift, lift.transpose() * raw_moment
    square = own.fraction(p, p)
    missed = exact(square) - (2 * z.transpose() * toward)[0, 0] + (z.transpose() * added * z)[0, 0]
    full = np.column_stack([people.X, np.ones((len(people.X), p - people.X.shape[1]))])
    rows = balls(full) * lift
    aim, miss = [exact(v) for v in people.y.tolist()], missed.nonnegative_part().sqrt()
    raw_toward = raw_moment - raw * (lift * z)
    return GroupNeighbours(rows, aim, added, toward - added * z, miss, root, z, lift, raw, raw_toward)


def spectrum(M: Matrix, vector: Matrix) -> Spectrum:
    """Diagonalise a symmetric matrix of balls; radii are counted as what it may be wrong by."""
    n = M.nrows()
    lost = float(np.sqrt(sum(float(entry.rad()) ** 2 for entry in M.entries())))
    vector_lost = float(np.sqrt(sum(float(entry.rad()) ** 2 for entry in vector.entries())))
    if n <= FEW:
        diagonal, turned = _jacobi(M.mid().tolist(), vector.mid().entries())
        values, above, along = (
            np.array([float(x) for x in of]) for of in (diagonal, [1 + x for x in diagonal], turned)
        )
        return Spectrum(values, above, along, lost * (1 + UNIT), vector_lost * (1 + UNIT))
    middle = np.array([[float(v.mid()) for v in row] for row in M.tolist()])
    v = np.array([float(x.mid()) for x in vector.entries()])
    values, V = np.linalg.eigh(0.5 * (middle + middle.T))
    rounded = 16 * n * UNIT
    size = float(np.abs(values).max(initial=0.0))
    turned_by = rounded * float(np.linalg.norm(v))
    return Spectrum(values, 1 + values, V.T @ v, lost + rounded * size, vector_lost + turned_by)


def _jacobi(A: list[list[Ball]], v: list[Ball]) -> tuple[list[Ball], list[Ball]]:
    """Rotate plane by plane until nothing is left beside the diagonal (Jacobi), the vector along with it."""
    n = len(A)
    least = max((abs(x) for row in A for x in row), key=float, default=arb(0)) * arb((1, -GONE))
    for _ in range(60):
        done = True
        for i in range(n):
            for j in range(i + 1, n):
                if not abs(A[i][j]) > least:
                    continue
                done = False
                # cosine and sine of the rotation that makes [[A_ii, A_ij], [A_ij, A_jj]] diagonal
                t = (A[j][j] - A[i][i]) / (2 * A[i][j])
                tangent = (1 / (abs(t) + (1 + t * t).sqrt())).mid()
                tangent = -tangent if t < 0 else tangent
                c = (1 + tangent * tangent).rsqrt().mid()
                s = (tangent * c).mid()
                for row in A:
                    row[i], row[j] = (c * row[i] - s * row[j]).mid(), (s * row[i] + c * row[j]).mid()
                A[i], A[j] = (
                    [(c * x - s * y).mid() for x, y in zip(A[i], A[j], strict=True)],
                    [(s * x + c * y).mid() for x, y in zip(A[i], A[j], strict=True)],
                )
                v[i], v[j] = (c * v[i] - s * v[j]).mid(), (s * v[i] + c * v[j]).mid()
        if done:
            break
    return [A[i][i] for i in range(n)], v
