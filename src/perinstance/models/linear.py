"""Least squares and ridge regression: the confidential fit, and what holds without each person.

``theta = argmin ||y - X w - c||^2 + alpha ||w||^2``. An intercept c is one more column of ones, **last** in theta, H
and every p x p matrix, with penalty zero (scikit-learn's convention). With H taken over everyone, ``m = x'H^-1x``
and ``e = y - x'theta``, the answers for a person of the data come without a refit (MATH 1b):

    mu = m / (1 - m),   r = e / (1 - m),   theta_with - theta_without = H^-1 x r

and for somebody outside ``mu = m``, ``r = e``, ``theta_with - theta_without = H^-1 x r / (1 + mu)``.
When alpha = 0 and the data leaves directions open, theta is the limit alpha -> 0 (the shortest coefficients);
somebody who alone holds up a direction moves it without limit, and her loss is infinite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput, RefusedModel
from perinstance.models.factor import Factor, factorise
from perinstance.models.leverage import sweep_rows
from perinstance.models.problem import Movement
from perinstance.models.sweep import Sweep

Floats = NDArray[np.float64]

#: an in-sample leverage above this is answered by a factorisation without the person: 1 - m would lose digits
HARD_LEVERAGE = 0.95
#: a larger part of a row's scaled length than this in an open direction puts the row outside the range of H
OFF_RANGE = 1e-9


@dataclass(frozen=True, slots=True)
class LinearFit:
    """The confidential fit with everyone. The intercept, if any, is last everywhere."""

    theta: Floats  #: (p,) p = n_features + fit_intercept
    H: Floats  #: (p, p) [X 1]'[X 1] + diag(penalty)
    factor: Factor  #: H = R'R, H^-1 = W W'
    basis: Floats  #: (p, rank) H^-1 = basis basis'; where a precision A was given also basis' A basis = diag(weights)
    weights: Floats | None
    image: Floats  #: (rank,) basis' X'y
    n_people: int
    penalty: Floats  #: (p,) the diagonal added to X'X
    fit_intercept: bool
    square: float  #: y'y
    precision: Floats | None = None  #: (p, p) the matrix A

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
        """An estimate of the relative error of the leverages."""
        return self.factor.error

    @property
    def rank(self) -> int:
        """The number of directions that data and penalty determine."""
        return self.factor.rank

    def inverse(self) -> Floats:
        """Return H^-1 (on the range of H)."""
        return self.basis @ self.basis.T


@dataclass(frozen=True, slots=True)
class Without:
    """What holds without each person of a block (for an outsider: as things stand)."""

    leverage: Floats  #: mu
    residual: Floats  #: r; NaN where theta_without is not determined
    length: Floats  #: ||H_with^-1 x||_A, H taken with the person; empty when the fit has no precision
    open: NDArray[np.bool_] | None = None


def linear_fit(sweep: Sweep, alpha: float, fit_intercept: bool, precision: Floats | None = None) -> LinearFit:
    """Fit with everyone; with a precision A, in the basis in which both norms of a row are sums of squares."""
    p = sweep.n_features + int(fit_intercept)
    penalty = np.full(p, float(alpha))
    if fit_intercept:
        penalty[-1] = 0.0
    solved = factorise(sweep, penalty, fit_intercept)
    W = solved.factor.W
    if solved.factor.null.size:
        W = shortest(solved.factor, fit_intercept) @ W
    fit = LinearFit(
        theta=W @ solved.image,
        H=solved.H,
        factor=solved.factor,
        basis=W,
        weights=None,
        image=solved.image,
        n_people=solved.n,
        penalty=penalty,
        fit_intercept=fit_intercept,
        square=solved.square,
    )
    return fit if precision is None else rotate(fit, precision)


def rotate(fit: LinearFit, precision: Floats) -> LinearFit:
    """Turn the basis such that ``basis' A basis`` is diagonal: one product then serves both norms.

    With ``H^-1 = W W'`` and ``W'AW = U diag(a) U'``: ``H^-1 = (WU)(WU)'`` and
    ``||H^-1x||_A^2 = x' WU diag(a) (WU)' x``.
    """
    p = len(fit.theta)
    A = np.asarray(precision, dtype=np.float64)
    if A.shape != (p, p):
        ones = " (the last row and column belong to the intercept)" if fit.fit_intercept else ""
        raise InvalidInput(f"precision must be {p} x {p}{ones}, got shape {A.shape}")
    a, U = np.linalg.eigh(fit.basis.T @ A @ fit.basis)
    turned = np.ascontiguousarray(fit.basis @ U)
    return replace(fit, basis=turned, weights=np.maximum(a, 0.0), image=U.T @ fit.image, precision=A)


def without(fit: LinearFit, X: NDArray, y: NDArray, inside: bool = True) -> Without:
    """Map: what holds without each person of one block; people of leverage near one are left open."""
    rows = sweep_rows(X, fit.basis, fit.image, fit.weights, fit.fit_intercept)
    m, e, length = rows.leverage, y - rows.prediction, np.sqrt(rows.movement, out=rows.movement)
    if inside:
        hard = m > HARD_LEVERAGE
        left = np.subtract(1.0, m)
        left[hard] = 1.0
        m /= left
        e /= left
        return Without(m, e, length, hard if hard.any() else None)
    if len(length):
        length /= 1.0 + m
    if fit.factor.null.size:
        outside = _off_range(fit, X)
        m[outside], e[outside] = np.inf, np.nan
        if len(length):
            length[outside] = np.inf
    return Without(m, e, length)


def refined(fit: LinearFit, sweep: Sweep, X: NDArray, y: NDArray) -> Without:
    """Answer for people of the data whose leverage is near one, by factorising without each of them."""
    from perinstance.models.holdout import hold_out

    held = hold_out(fit, sweep, np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64))
    if fit.precision is None:
        return Without(held.leverage, held.residual, np.empty(0))
    direction = held.direction
    if fit.factor.null.size:
        direction = direction @ shortest(fit.factor, fit.fit_intercept).T
    length = np.sqrt(np.einsum("ij,jk,ik->i", direction, fit.precision, direction))
    return Without(held.leverage, held.residual, np.where(np.isinf(held.leverage), np.inf, length))


@dataclass(frozen=True, slots=True)
class LinearProblem:
    """Ridge regression with penalty alpha on the coefficients and none on the intercept."""

    alpha: float
    fit_intercept: bool = False

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> LinearFit:
        """Fit with everyone; every method is exact here."""
        p = sweep.n_features + int(self.fit_intercept)
        return linear_fit(sweep, self.alpha, self.fit_intercept, np.eye(p) if precision is None else precision)

    def movement(self, fit: LinearFit, X: NDArray, y: NDArray, inside: bool = True) -> Movement:
        """Map: the people of one block."""
        return _movement(without(fit, X, y, inside))

    def refine(self, fit: LinearFit, sweep: Sweep, X: NDArray, y: NDArray, inside: bool = True) -> Movement:
        """Answer for the people of leverage near one; outsiders never are left open."""
        return _movement(refined(fit, sweep, X, y) if inside else without(fit, X, y, False))


def _movement(held: Without) -> Movement:
    distance = np.abs(held.residual)
    distance *= held.length
    distance[np.isinf(held.leverage)] = np.inf
    return Movement(held.leverage, held.residual, distance, "exact", held.open)


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
    return LinearProblem(check_alpha(alpha), bool(estimator.fit_intercept))


def check_alpha(alpha: Any) -> float:
    """Validate the penalty: a number >= 0."""
    try:
        value = float(alpha)
    except (TypeError, ValueError):
        raise InvalidInput(f"alpha must be a number >= 0, got {type(alpha).__name__}") from None
    if not 0 <= value < np.inf:
        raise InvalidInput(f"alpha must be a number >= 0, got {value:g}; try alpha=1.0")
    return value


def shortest(factor: Factor, intercept: bool) -> Floats:
    """Return the projector that makes a solution the limit alpha -> 0: no part in ``null`` but for the intercept.

    With N the open directions and M = diag(1, .., 1, 0): ``I - N (N'MN)^-1 N'M``.
    """
    N, _ = np.linalg.qr(factor.null * factor.scale[:, None])
    M = N.copy()
    if intercept:
        M[-1] = 0.0
    return np.eye(len(N)) - N @ np.linalg.lstsq(M.T @ N, M.T, rcond=None)[0]


def _off_range(fit: LinearFit, X: NDArray) -> NDArray[np.bool_]:
    """Tell the rows that have a part in a direction that the data leaves open."""
    d = fit.n_features
    scaled = X * fit.factor.scale[:d]
    part = scaled @ fit.factor.null[:d]
    length = np.einsum("ij,ij->i", scaled, scaled)
    if fit.fit_intercept:
        part += fit.factor.scale[d] * fit.factor.null[d]
        length += fit.factor.scale[d] ** 2
    return np.sqrt(np.einsum("ij,ij->i", part, part)) > OFF_RANGE * np.sqrt(length)
