"""The slow road: refit with and without a person in exact rational arithmetic, and look at the two distributions.

Every float is a rational number, so the solutions of the normal equations with and without somebody are known
exactly, singular or not. Nothing here knows about leverages or rank-one updates.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import mpmath as mp
import numpy as np
from flint import fmpq, fmpq_mat


def rational(value) -> fmpq:
    part = Fraction(float(value))
    return fmpq(part.numerator, part.denominator)


def to_float(value: fmpq) -> float:
    return float(Fraction(int(value.p), int(value.q)))


def to_mpf(value: fmpq):
    return mp.mpf(int(value.p)) / mp.mpf(int(value.q))


def matrix(array) -> fmpq_mat:
    array = np.atleast_2d(array)
    return fmpq_mat(*array.shape, [rational(v) for v in array.ravel()])


def design(X, intercept: bool):
    X = np.asarray(X, dtype=np.float64).reshape(len(X), -1)
    return np.hstack([X, np.ones((len(X), 1))]) if intercept else X


def hangs_on_last_bits(X, intercept: bool) -> bool:
    """Whether columns depend on each other up to rounding, but not exactly; without a penalty such a table is refused.

    By exact orthogonalisation: some column is off the span of those before it by less than 1e-12 of itself.
    """
    basis: list[list[Fraction]] = []
    for column in design(X, intercept).T.tolist():
        whole = [Fraction(v) for v in column]
        left = whole
        for one in basis:
            share = _dot(left, one) / _dot(one, one)
            left = [v - share * w for v, w in zip(left, one, strict=True)]
        if any(left):
            if _dot(left, left) < Fraction(1e-24) * _dot(whole, whole):
                return True
            basis.append(left)
    return False


def _dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((v * w for v, w in zip(a, b, strict=True)), Fraction(0))


@dataclass
class Solution:
    """All minimisers: ``theta + null c``. ``theta`` is the limit alpha -> 0 when there are many."""

    H: fmpq_mat
    theta: fmpq_mat
    null: fmpq_mat | None


def solve(X, y, alpha, intercept: bool) -> Solution:
    Z = matrix(design(X, intercept)) if len(X) else None
    p = np.asarray(X).shape[1] + int(intercept)
    H = Z.transpose() * Z if Z is not None else fmpq_mat(p, p)
    for j in range(p - int(intercept)):
        H[j, j] += rational(alpha)
    g = Z.transpose() * matrix(np.asarray(y, dtype=np.float64)[:, None]) if Z is not None else fmpq_mat(p, 1)
    augmented = fmpq_mat(p, p + 1, [v for i in range(p) for v in [*[H[i, j] for j in range(p)], g[i, 0]]])
    echelon, _ = augmented.rref()
    pivots = []
    for i in range(p):
        lead = next((j for j in range(p) if echelon[i, j] != 0), None)
        if lead is not None:
            pivots.append(lead)
    free = [j for j in range(p) if j not in pivots]
    theta = fmpq_mat(p, 1)
    for i, j in enumerate(pivots):
        theta[j, 0] = echelon[i, p]
    if not free:
        return Solution(H, theta, None)
    null = fmpq_mat(p, len(free))
    for k, f in enumerate(free):
        null[f, k] = fmpq(1)
        for i, j in enumerate(pivots):
            null[j, k] = -echelon[i, f]
    M = null * fmpq(1)
    if intercept:
        for k in range(len(free)):
            M[p - 1, k] = fmpq(0)
    gram = M.transpose() * null
    if gram.rank() < len(free):  # nobody is there: even the intercept is open
        return Solution(H, theta, null)
    return Solution(H, theta - null * gram.solve(M.transpose() * theta), null)


@dataclass
class Truth:
    """What holds without the person, exactly; ``leverage`` None is infinite."""

    leverage: fmpq | None
    residual: fmpq | None
    movement: fmpq_mat | None  #: theta_with - theta_without
    without: Solution
    with_: Solution


def neighbours(X, y, x, target, alpha, intercept: bool) -> Truth:
    """X, y without the person; x, target hers."""
    x = np.asarray(x, dtype=np.float64).ravel()
    X = np.asarray(X, dtype=np.float64).reshape(len(y), len(x))
    before = solve(X, y, alpha, intercept)
    after = solve(np.vstack([X, x]), np.append(y, target), alpha, intercept)
    row = matrix(design(x[None, :], intercept)).transpose()
    if before.null is not None:
        outside = row.transpose() * before.null
        if any(v != 0 for v in outside.entries()):
            return Truth(None, None, None, before, after)
    direction = _solve_any(before.H, row)
    mu = (row.transpose() * direction)[0, 0]
    r = rational(target) - (row.transpose() * before.theta)[0, 0]
    return Truth(mu, r, after.theta - before.theta, before, after)


def _solve_any(H: fmpq_mat, b: fmpq_mat) -> fmpq_mat:
    p = H.nrows()
    rows = [v for i in range(p) for v in [*[H[i, j] for j in range(p)], b[i, 0]]]
    echelon, _ = fmpq_mat(p, p + 1, rows).rref()
    out = fmpq_mat(p, 1)
    for i in range(p):
        lead = next((j for j in range(p) if echelon[i, j] != 0), None)
        if lead is not None:
            out[lead, 0] = echelon[i, p]
    return out


def leave_out(X, y, i, alpha, intercept: bool) -> Truth:
    keep = np.arange(len(y)) != i
    return neighbours(np.asarray(X)[keep], np.asarray(y)[keep], np.asarray(X)[i], y[i], alpha, intercept)


def distance(truth: Truth, A) -> float:
    """``||theta_with - theta_without||_A``."""
    square = (truth.movement.transpose() * matrix(A) * truth.movement)[0, 0]
    with mp.workdps(40):
        return float(mp.sqrt(to_mpf(square)))


def gaussians(truth: Truth, covariance) -> tuple:
    """P and Q of the output as (mean, covariance) in mpmath; ``covariance(H)`` maps an mp matrix to one."""
    answer = []
    for side in (truth.without, truth.with_):
        p = side.H.nrows()
        H = mp.matrix(p, p)
        mean = mp.matrix(p, 1)
        for i in range(p):
            mean[i] = to_mpf(side.theta[i, 0])
            for j in range(p):
                H[i, j] = to_mpf(side.H[i, j])
        answer.append((mean, covariance(H)))
    return tuple(answer)
