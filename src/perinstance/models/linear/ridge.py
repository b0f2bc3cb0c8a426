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

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from perinstance.checked_numbers import non_negative
from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.interface.fit_health import FitHealth
from perinstance.models.interface.problem import MovedByPerson, Movement
from perinstance.models.linear.cholesky_qr import Factor, factorise
from perinstance.models.linear.row_statistics import Norm, RowMap, RowRounding, row_statistics_of
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.exact_rank import Span, span
from perinstance.numerics.rounding import EXACT_RESIDUAL, EXACT_SHARE, LOOK_AT_ROWS, UNIT, WEIGHTS_ERROR


@dataclass(frozen=True, slots=True)
class LinearFit:
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

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return len(self.theta) - int(self.fit_intercept)

    @property
    def coef(self) -> Floats:
        """The coefficients of the columns of X."""
        return self.theta[: self.n_features]

    @property
    def intercept(self) -> float:
        """The constant; zero when none was fitted."""
        return float(self.theta[-1]) if self.fit_intercept else 0.0

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
    def health(self) -> FitHealth:
        """Condition, factorisation, error and rank."""
        return FitHealth(self.n_people, self.condition, self.factorisation, self.error, self.rank)

    @property
    def gram(self) -> Floats:
        """``[X 1]'[X 1]``."""
        return self.H - np.diag(self.penalty)

    def inverse(self) -> Floats:
        """Return H^-1 (on the range of H)."""
        return self.basis @ self.basis.T


@dataclass(frozen=True, slots=True)
class Without:
    """What holds without each person of a block (for an outsider: as things stand), rounded away from zero."""

    leverage: Floats  #: mu
    residual: Floats  #: r; NaN where theta_without is not determined
    length: Floats  #: ||H_with^-1 x||_A, H taken with the person; empty when the fit has no precision
    kind_code: NDArray[np.uint8]  #: 0 exact, 1 an upper bound because rounding took too much
    open: NDArray[np.bool_] | None = None


def linear_fit(sweep: Sweep, alpha: float, fit_intercept: bool, precision: Floats | None = None) -> LinearFit:
    """Fit with everyone; with a precision A, in the basis in which both norms of a row are sums of squares."""
    p = sweep.n_features + int(fit_intercept)
    penalty = np.full(p, float(alpha))
    if fit_intercept:
        penalty[-1] = 0.0
    solved = factorise(sweep, penalty, fit_intercept)
    spanned = _exact_span(sweep, solved.factor, fit_intercept)
    basis, image, norm = solved.factor.W, solved.image, None
    short = shortest(solved.factor, fit_intercept)
    theta = short @ image
    share = 0.0
    if precision is not None:
        precision = _square(precision, p, fit_intercept)
        basis, image, norm, share = _rotated(short, basis, image, precision)
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
        rounding=_rounding(solved.factor, basis, image, norm, share),
        span=spanned,
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


def _rotated(S: Floats, W: Floats, image: Floats, A: Floats) -> tuple[Floats, Floats, Norm, float]:
    """Choose the basis in which one product serves both norms of a row.

    With ``W'AW = U diag(a) U'``: ``H^-1 = (WU)(WU)'`` and ``||H^-1x||_A^2 = x' WU diag(a) (WU)' x``. An eigenvalue is
    known to ``u max(a)`` only, so when they lie far apart W stays and the norm costs a second product.
    """
    C = np.linalg.cholesky(A).T
    lift = C @ S
    a, U = np.linalg.eigh(lift.T @ lift)
    share = len(a) * UNIT * float(a[-1] / a[0]) if len(a) and a[0] > 0 else np.inf
    if share < WEIGHTS_ERROR:
        return np.ascontiguousarray(W @ U), U.T @ image, Norm(a, None), share
    return W, image, Norm(np.empty(0), np.ascontiguousarray(lift.T)), 0.0


def _rounding(factor: Factor, basis: Floats, image: Floats, norm: Norm | None, share: float) -> RowRounding:
    if not basis.size:
        return RowRounding(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, None)
    u = 2 * np.sqrt(len(basis)) * UNIT  # errors of either sign: sqrt(p), not p; and room for the bases themselves
    largest = float(np.linalg.norm(factor.R * factor.scale, ord=2))  # sqrt(lambda_max(G))
    columns = np.linalg.norm(basis / factor.scale[:, None], axis=0)
    size = np.abs(basis)
    # what a unit of each entry of x can cost, in q, in the prediction and in the length; what the worst row can cost
    costs = [np.linalg.norm(size, axis=1), size @ np.abs(image)]
    most = [float(np.linalg.norm(columns)), float(columns @ np.abs(image))]
    if norm is not None:
        weights = np.diag(np.sqrt(norm.weights)) if norm.lift is None else np.abs(norm.lift)
        costs.append(np.linalg.norm(size @ weights, axis=1))
        most.append(float(np.linalg.norm(columns @ weights)))
    row = factor.row_error / 2 + u * largest * most[0]
    parts = [cost / (largest * limit) for cost, limit in zip(costs, most, strict=True) if limit > 0]
    norm_of_image = float(np.linalg.norm(image))
    return RowRounding(
        leverage=factor.error / 2,
        leverage_row=row,
        residual=(u + factor.error) * norm_of_image,
        residual_row=u * largest * most[1] + 8 * factor.row_error * norm_of_image,
        length=factor.direction_error * norm.largest if norm is not None else 0.0,
        length_row=u * largest * most[2] if norm is not None else 0.0,
        share=share,
        column_cost=np.max(parts, axis=0) if row > LOOK_AT_ROWS else None,
    )


def _square(precision: Floats, p: int, intercept: bool) -> Floats:
    A = np.asarray(precision, dtype=np.float64)
    if A.shape != (p, p):
        ones = " (the last row and column belong to the intercept)" if intercept else ""
        raise InvalidInput(f"precision must be {p} x {p}{ones}, got shape {A.shape}")
    return A


def without(fit: LinearFit, X: NDArray, y: NDArray, inside: bool = True) -> Without:
    """Map: what holds without each person of one block; people of leverage near one are left open."""
    triangular = fit.norm is None and fit.factor.triangular
    rows_map = RowMap(fit.basis, fit.image, fit.norm, fit.fit_intercept, fit.rounding, triangular)
    rows = row_statistics_of(rows_map, X, y, inside)
    if not inside and fit.span is not None:
        outside = ~fit.span.contains(X, fit.fit_intercept)
        rows.leverage[outside], rows.residual[outside] = np.inf, np.nan
        if len(rows.length):
            rows.length[outside] = np.inf
    kind_code = rows.kind_code if rows.open is None else np.where(rows.open, 0, rows.kind_code).astype(np.uint8)
    return Without(rows.leverage, rows.residual, rows.length, kind_code, rows.open)


def refined(fit: LinearFit, sweep: Sweep, X: NDArray, y: NDArray) -> Without:
    """Answer for people of the data whose leverage is near one, by factorising without each of them."""
    from perinstance.models.linear.dual_form import answer_in_dual_form
    from perinstance.models.linear.high_leverage import hold_out

    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    dual = answer_in_dual_form(fit, sweep, X, y)
    if dual is not None:
        return Without(dual.leverage, dual.residual, dual.length, _rough(dual.error, dual.residual, dual.lost, y))
    found = hold_out(fit, sweep, X, y)
    length, lost = np.empty(0), np.zeros(len(X))
    if fit.precision is not None and fit.norm is not None:
        direction, lost = found.direction, found.direction_error * fit.norm.largest
        if fit.factor.null.size:
            image = direction @ fit.factor.R.T
            direction = image @ shortest(fit.factor, fit.fit_intercept).T
            lost += fit.factor.direction_error * np.linalg.norm(image, axis=1) * fit.norm.largest
        C = np.linalg.cholesky(fit.precision).T
        # terms of a sum may cancel, here and in A = C'C: rounding goes by their sizes
        rounded = 4 * len(C) * UNIT * ((np.abs(direction) @ np.abs(C).T) ** 2).sum(axis=1)
        length = np.sqrt(((direction @ C.T) ** 2).sum(axis=1) + rounded) + lost
        lost = np.divide(lost, length, out=lost, where=length > 0)
        length[np.isinf(found.leverage)] = np.inf
    rough = _rough(np.maximum(found.error, lost), found.residual, found.lost, y)
    return Without(found.leverage, found.residual, length, rough)


def _rough(error: Floats, residual: Floats, lost: Floats, y: Floats) -> NDArray[np.uint8]:
    """Tell whose rounding took too much for an exact answer."""
    r, size = np.abs(residual), np.abs(y) + np.abs(y - residual)
    rough = (error > EXACT_SHARE) | ((lost > EXACT_SHARE * r) & (lost > EXACT_RESIDUAL * size))
    return rough.astype(np.uint8)


@dataclass(frozen=True, slots=True)
class LinearProblem:
    """Ridge regression with penalty alpha on the coefficients and none on the intercept."""

    alpha: float
    fit_intercept: bool = False

    @property
    def moved(self) -> MovedByPerson:
        """The coefficients."""
        return "ridge"

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> LinearFit:
        """Fit with everyone; every method is exact here."""
        p = sweep.n_features + int(self.fit_intercept)
        return linear_fit(sweep, self.alpha, self.fit_intercept, np.eye(p) if precision is None else precision)

    def movement(self, fit: LinearFit, block: Block, inside: bool = True) -> Movement:
        """Map: the people of one block."""
        X, y = block.X, block.y
        return _movement(without(fit, X, y, inside))

    def refine(self, fit: LinearFit, sweep: Sweep, block: Block, inside: bool = True) -> Movement:
        """Answer for the people of leverage near one; outsiders never are left open."""
        X, y = block.X, block.y
        return _movement(refined(fit, sweep, X, y) if inside else without(fit, X, y, False))


def _movement(found: Without) -> Movement:
    distance = np.abs(found.residual)
    distance *= found.length
    distance[np.isinf(found.leverage)] = np.inf
    return Movement(found.leverage, found.residual, distance, found.kind_code, found.open)


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
