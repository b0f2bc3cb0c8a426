"""Least squares and ridge regression: the confidential fit, and what holds without each person.

``theta = argmin ||y - X w - c||^2 + alpha ||w||^2``. An intercept c is one more column of ones, **last** in theta, H
and every p x p matrix, with penalty zero (scikit-learn's convention). With H taken over everyone, ``m = x'H^-1x``
and ``e = y - x'theta``, the answers for a person of the data come without a refit (MATH 1b):

    mu = m / (1 - m),   r = e / (1 - m),   theta_with - theta_without = H^-1 x r

and for somebody outside ``mu = m``, ``r = e``, ``theta_with - theta_without = H^-1 x r / (1 + mu)``.
When alpha = 0 and the data leaves directions open, theta is the limit alpha -> 0 (the shortest coefficients);
somebody who alone determines a direction moves it without limit, and their loss is infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from perinstance.checked_numbers import non_negative
from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep, SteppedSweep, Sweep
from perinstance.models.interface import MovedByPerson, Movement
from perinstance.models.linear.cholesky_qr import SMALL_TABLE, Factor, Solved, factorise
from perinstance.models.linear.row_statistics import (
    NOT_ROTATED,
    Norm,
    RowMap,
    RowRounding,
    Without,
    rotated_basis,
    row_rounding,
    row_statistics_of,
)
from perinstance.models.linear.wide_fit import DualFit, RidgeCoefficients, dual_fit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import EXACT, UPPER
from perinstance.numerics.exact_linear_algebra.exact_rank import Span, span
from perinstance.numerics.rounding import SMALLEST, TINY, UNIT

#: products beyond which nobody is left open only because the estimate almost fits: to sum again takes longer than the
#: audit (changes the width)
LARGE_TABLE = 10_000_000


#: work of answering one by one, without a penalty and with more columns than people, that takes many seconds: an
#: infinite upper bound is an answer then
LONG_WORK = 1e7


@dataclass(frozen=True, slots=True, repr=False)
class LinearFit(RidgeCoefficients):
    """The confidential fit with everyone. The intercept, if any, is last everywhere."""

    theta: Floats  #: (p,) p = n_features + fit_intercept
    H: Floats  #: (p, p) [X 1]'[X 1] + diag(penalty)
    factor: Factor  #: H = R'R, H^-1 = W W'
    basis: Floats  #: (p, rank) H^-1 = basis basis' on the range of H
    norm: Norm | None  #: how ||H^-1x||_A follows from x basis, where a precision A was given
    image: Floats  #: (rank,) basis' X'y
    n_people: int
    penalty: Floats  #: (p,) the diagonal added to X'X
    fit_intercept: bool
    square: float  #: y'y
    precision: Floats | None  #: (p, p) the matrix A
    rounding: RowRounding
    span: Span | None  #: of the rows, exactly; None when no direction is open
    columns: NDArray[np.intp] | None  #: where some are open, columns that determine all others

    @property
    def condition(self) -> float:
        """The condition number of H with its columns scaled to length one."""
        return self.factor.condition

    @property
    def factorisation(self) -> str:
        """How H was factorised: ``cholesky``, or ``cholesky-qr2`` and beyond where that would lose digits."""
        return self.factor.method

    @property
    def error(self) -> float:
        """The relative error that rounding may have caused in the in-sample leverages; losses are rounded up by it."""
        return 2 * self.rounding.total

    @property
    def rank(self) -> int:
        """The number of directions that data and penalty determine."""
        return self.factor.rank

    @property
    def gram(self) -> Floats:
        """``[X 1]'[X 1]``."""
        return self.H - np.diag(self.penalty)

    def inverse(self) -> Floats:
        """Return H^-1 (on the range of H)."""
        return self.basis @ self.basis.T


def linear_fit(
    sweep: Sweep,
    alpha: float,
    fit_intercept: bool,
    precision: Floats | None = None,
    moves: bool = False,
    own_ones: bool = False,
) -> LinearFit | DualFit:
    """Fit with everyone, by columns or, where there are more of them than people, by rows.

    With a precision A, or with ``moves`` (A = I), lengths ``||H^-1x||_A`` are known too. ``own_ones``: the last column
    of X stands for the ones of an intercept (weighted rows bring their own), and is not penalised.
    """
    if precision is not None:
        precision, moves, p = np.asarray(precision, dtype=np.float64), True, sweep.n_features + int(fit_intercept)
        if precision.shape != (p, p):
            ones = " (the last row and column belong to the intercept)" if fit_intercept else ""
            raise InvalidInput(f"precision must be {p} x {p}{ones}, got shape {precision.shape}")
    wide = None if own_ones else dual_fit(sweep, float(alpha), fit_intercept, precision, moves)
    return fit_by_columns(sweep, alpha, fit_intercept, precision, moves, own_ones) if wide is None else wide


def by_columns(fit: LinearFit | DualFit) -> LinearFit:
    """Return the fit with its p x p matrices, for analyses that need them."""
    if isinstance(fit, LinearFit):
        return fit
    return fit_by_columns(ArraySweep(fit.X, fit.y), fit.alpha, fit.fit_intercept, fit.precision, fit.moves)


def fit_by_columns(
    sweep: Sweep,
    alpha: float,
    fit_intercept: bool,
    precision: Floats | None = None,
    moves: bool = False,
    own_ones: bool = False,
) -> LinearFit:
    """Fit with everyone; with a norm, in the basis in which both norms of a row are sums of squares."""
    p = sweep.n_features + int(fit_intercept)
    precision = np.eye(p) if moves and precision is None else precision
    penalty = np.full(p, float(alpha))
    if fit_intercept or own_ones:
        penalty[-1] = 0.0
    solved = factorise(sweep, penalty, fit_intercept)
    spanned = None if alpha > 0 else _exact_span(sweep, solved.factor, fit_intercept)
    short = shortest(solved.factor, fit_intercept)
    theta, columns = short @ solved.image, None
    if spanned is not None:
        solved, columns = _on_some_columns(sweep, solved, spanned, penalty, fit_intercept)
    basis, image, norm = solved.factor.W, solved.image, None
    small = solved.n * p**2 <= SMALL_TABLE or solved.factor.method != "cholesky"
    rotated = NOT_ROTATED
    if precision is not None:
        basis, image, norm, rotated = rotated_basis(solved.factor, image, precision, small)
    return LinearFit(
        theta=theta,
        H=solved.H,
        factor=solved.factor,
        basis=basis,
        norm=norm,
        image=image,
        n_people=solved.n,
        penalty=penalty,
        fit_intercept=fit_intercept,
        square=solved.square,
        precision=precision,
        rounding=row_rounding(solved.factor, basis, image, norm, rotated, small),
        span=spanned,
        columns=columns,
    )


def _exact_span(sweep: Sweep, factor: Factor, intercept: bool) -> Span | None:
    """Return what the rows span where rounding says that it is not everything, and check that it is not rounding."""
    if not factor.null.size:
        return None
    found: Span = sweep.fold(lambda block: span(block.X, block.y, intercept))
    if found.rank > factor.rank:
        raise NumericalTrouble(
            f"the columns are linearly dependent up to rounding, but not exactly: of {len(factor.R.T)} directions "
            f"float64 sees {factor.rank} and exact arithmetic {found.rank}, so the estimate hangs on the last bits of "
            "the data; use a larger alpha, or leave out a column"
        )
    return found


@dataclass(frozen=True)
class _SomeColumns(SteppedSweep):
    """The sweep over some columns of X."""

    sweep: Sweep
    columns: NDArray[np.intp]

    @property
    def n_features(self) -> int:
        return len(self.columns)

    def stepped(self, step: Callable[[Block], Any]) -> Callable[[Block], Any]:
        return lambda block: step(Block(block.X[:, self.columns], block.y, block.start))


def _on_some_columns(
    sweep: Sweep, solved: Solved, spanned: Span, penalty: Floats, intercept: bool
) -> tuple[Solved, NDArray[np.intp]]:
    """Factorise columns that determine all others: rows that everybody spans have the same leverages there."""
    columns = np.sort(max(spanned.pivots, key=len)).astype(np.intp)
    p = len(penalty)
    ones = intercept and bool(len(columns)) and columns[-1] == p - 1
    features = columns[:-1] if ones else columns
    if not len(columns):
        return solved, columns
    part = factorise(_SomeColumns(sweep, features), penalty[columns], ones)
    W = np.zeros((p, part.factor.rank))
    W[columns] = part.factor.W
    found = part.factor
    certain = found.error if not found.null.size else np.inf
    factor = replace(
        solved.factor, W=W, error=certain, image_error=found.image_error, largest=found.largest, triangular=False
    )
    return replace(solved, factor=factor, image=part.image), columns


def row_map(fit: LinearFit) -> RowMap:
    """Return what a row is multiplied by for its statistics."""
    large = fit.n_people * len(fit.theta) ** 2 > LARGE_TABLE
    return RowMap(fit.basis, fit.image, fit.norm, fit.fit_intercept, fit.rounding, large)


def without(fit: LinearFit | DualFit, X: NDArray, y: NDArray, inside: bool = True, floor: float = 0.0) -> Without:
    """Map: what holds without each person of one block; whoever is not known well enough is left open.

    A residual is known when rounding took at most a small share of it, or of ``floor min(sqrt(mu), 1)``: a posterior
    sample with ``floor = gamma^-1/2`` is moved by the leverage alone where the residual is far smaller than that.
    """
    if isinstance(fit, DualFit):
        return fit.without(X, y, inside, floor)
    rows = row_statistics_of(row_map(fit), X, y, inside, floor)
    hard, known = rows.open, np.zeros(len(y), dtype=bool)
    if not inside and fit.span is not None:
        known = ~fit.span.contains(X, fit.fit_intercept)
        rows.leverage[known], rows.residual[known] = np.inf, np.nan
        if len(rows.length):
            rows.length[known] = np.inf
    if hard is None:
        return rows
    if not fit.fit_intercept:
        nothing = np.flatnonzero(hard)
        nothing = nothing[~X[nothing].any(axis=1)]  # somebody without any feature is in no equation
        rows.leverage[nothing], rows.residual[nothing] = 0.0, y[nothing]
        if len(rows.length):
            rows.length[nothing] = 0.0
        known[nothing] = True
    rows.kind_code[known] = EXACT
    hard = hard & ~known
    return replace(rows, open=hard if hard.any() else None)


def refined(
    fit: LinearFit | DualFit, sweep: Sweep, X: NDArray, y: NDArray, inside: bool = True, floor: float = 0.0
) -> Without:
    """Answer for the people that ``without`` left open, by numbers that know their error."""
    from perinstance.models.linear.open_people import answered_people

    if isinstance(fit, DualFit):
        return fit.refined(X, y, inside, floor)
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if inside and fit.span is not None and fit.n_people < len(fit.theta):
        # independent rows without a penalty: everybody determines a direction alone
        alone = fit.span.rank == fit.n_people
        if alone or len(X) * float(len(fit.theta)) ** 2 * (len(fit.theta) + fit.n_people) > LONG_WORK:
            length = np.full(0 if fit.precision is None else len(X), np.inf)
            labels = np.full(len(X), EXACT if alone else UPPER, dtype=np.uint8)
            return Without(np.full(len(X), np.inf), np.full(len(X), np.nan), length, length.copy(), labels)
    return answered_people(fit, sweep, X, y, inside, floor).stated(floor, fit.precision is not None)


@dataclass(frozen=True, slots=True)
class LinearProblem:
    """Ridge regression with penalty alpha on the coefficients and none on the intercept."""

    alpha: float
    fit_intercept: bool = False
    #: rows come times the root of their weight, the ones of an intercept behind them
    weighted: bool = field(default=False, repr=False)

    @property
    def moved(self) -> MovedByPerson:
        """The coefficients."""
        return "ridge"

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> LinearFit | DualFit:
        """Fit with everyone; every method is exact here."""
        ones = self.fit_intercept and self.weighted
        return linear_fit(sweep, self.alpha, self.fit_intercept and not ones, precision, moves=True, own_ones=ones)

    def movement(self, fit: LinearFit | DualFit, block: Block, inside: bool = True) -> Movement:
        """Map: the people of one block."""
        X, y = block.X, block.y
        return movement_of(without(fit, X, y, inside))

    def refine(self, fit: LinearFit | DualFit, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Answer for the people that ``movement`` left open."""
        return movement_of(refined(fit, sweep, block.X, block.y, inside))


def movement_of(found: Without) -> Movement:
    """Return how far people move the coefficients, of whom residual and length are known: ``|r| ||H^-1x||``.

    It is infinite where it is not determined, and an upper bound where it underflows.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        distance = np.abs(found.residual) * found.length
    distance[np.isnan(distance)] = np.inf
    faint = (distance < TINY) & (found.residual != 0) & (found.length != 0)
    distance[faint] += SMALLEST
    kind = np.where(faint, UPPER, found.kind_code).astype(np.uint8)
    return Movement(found.leverage, found.residual, distance, kind, found.open)


def ridge_problem(estimator: Any) -> LinearProblem:
    """Read scikit-learn's Ridge or LinearRegression; what has no closed form is refused."""
    if getattr(estimator, "positive", False):
        raise RefusedModel(
            "positive=True is refused: one person can switch a constraint on or off, which is not smooth; "
            "use positive=False"
        )
    alpha = getattr(estimator, "alpha", 0.0)
    if np.ndim(alpha) != 0:
        raise RefusedModel("one alpha per target is refused: a release has one target; pass a single number")
    return LinearProblem(non_negative("alpha", alpha), bool(estimator.fit_intercept))


def shortest(factor: Factor, intercept: bool) -> Floats:
    """Return S with ``R S = I`` that makes ``theta = S W'X'y`` the limit alpha -> 0: the shortest coefficients.

    Where nothing is open that is W. Else, in scaled coordinates, ``Z + N c`` with c from the least squares problem
    ``min ||M s (Z + N c)||``, N the open directions, s the scale, M = diag(1, .., 1, 0) with an intercept. Scales may
    be far apart: sorted rows and pivots keep the digits of each row, and what one round leaves the next ones take.
    """
    if not factor.null.size:
        return factor.W
    Z = factor.W / factor.scale[:, None]
    weight = factor.scale.copy()
    if intercept:
        weight[-1] = 0.0
    order = np.argsort(-weight, kind="stable")
    # an entry that is noise would look like a direction that moves that coefficient, at the cost of enormous other ones
    N = np.where(np.abs(factor.null) > 64 * len(weight) * UNIT, factor.null, 0.0)
    Q, U, pivot = qr((weight[:, None] * N)[order], mode="economic", pivoting=True)
    N = N[:, pivot]
    for _ in range(3):
        Z = Z - N @ solve_triangular(U, Q.T @ (weight[:, None] * Z)[order])
    return np.asarray(Z * factor.scale[:, None], dtype=np.float64)
