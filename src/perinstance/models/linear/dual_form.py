"""Ridge regression with about as many columns as people, or more: everybody without themselves, from one n x n matrix.

With ``K = XX' + alpha I`` and ``k_i = (K^-1)_ii``, without person i and without a difference of near numbers,

    mu = 1 / (alpha k_i) - 1,    r = (K^-1 y)_i / k_i,    H_with^-1 x = X' K^-1 e_i.

An intercept, which is not penalised, is projected out: a Householder reflection takes the ones to the first axis, the
other n - 1 rows of the reflected table are the whole problem, and ``e_i`` becomes the reflected unit vector.

Rounding makes ``K + E`` of K. With ``eta >= ||K^-1/2 E K^-1/2||`` the numbers ``k_i`` are known to ``eta / (1 - eta)``,
relatively, and ``u'K^-1 v`` to that share of ``sqrt(u'K^-1 u  v'K^-1 v)``; losses are rounded up by as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular

from perinstance.folds.gathered_rows import gather
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import EXACT_SHARE, UNIT

#: work of factorising without each person, beyond which a looser bound is preferred to hours
_MOST_WORK = 2e10


@dataclass(frozen=True, slots=True)
class DualAnswers:
    """What holds without each of these people, rounded away from zero."""

    leverage: Floats  #: mu
    residual: Floats  #: r
    length: Floats  #: ``||H_with^-1 x||_A``; empty when no precision was asked for
    error: Floats  #: relative error of mu and of the length, at most
    lost: Floats  #: what was added to the residual for rounding


@dataclass(frozen=True, slots=True)
class _Table:
    """The rows with the intercept projected out, and the unit vectors of people in the same coordinates."""

    X: Floats  #: (m, p), m = n, or n - 1 with an intercept
    y: Floats
    units: Floats  #: (m, n): the identity without an intercept
    size: float  #: Frobenius norm of the rows as they came


def answer_in_dual_form(fit: Any, sweep: Sweep, X: Floats, y: Floats) -> DualAnswers | None:
    """Answer for rows X, y of the data; None where the primal road is the better one."""
    alpha, p = float(fit.penalty[0]), len(fit.theta)
    if not alpha > 0 or not 3 <= fit.n_people <= 2 * p:
        return None
    rows = sweep.fold(gather)
    everyone = np.concatenate([part for part, _ in rows.parts])
    targets = np.concatenate([part for _, part in rows.parts])
    table = _projected(everyone, targets) if fit.fit_intercept else _whole(everyone, targets)
    K = table.X @ table.X.T
    norm = float(np.linalg.norm(K))
    K[np.diag_indices_from(K)] += alpha
    try:
        L: Any = np.linalg.cholesky(K)
    except LinAlgError:
        return None
    Z = solve_triangular(L, table.units, lower=True, overwrite_b=True)  # L^-1 units
    k = np.einsum("ij,ij->j", Z, Z)
    eta = _backward_error(table, norm + alpha * len(K)) * min(1 / alpha, float(np.sum(k)))
    work = len(X) * float(p) ** 2 * (p + fit.n_people)
    if not eta < (EXACT_SHARE / 8 if work < _MOST_WORK else 0.05):
        return None
    at = _positions(everyone, targets, X, y)
    share = 2 * eta + len(K) * UNIT  # eta / (1 - eta), and the sums of squares
    z = solve_triangular(L, table.y, lower=True)
    residual = (Z.T @ z)[at] / k[at]
    lost = share * (np.linalg.norm(z) / np.sqrt(k[at]) + 2 * np.abs(residual)) + UNIT * np.abs(y)
    leverage = (1 + 2 * share) / (alpha * k[at]) - 1
    error = np.full(len(X), 4 * share)
    length = np.empty(0)
    if fit.precision is not None:
        length, off = _lengths(fit, table, everyone, Z, L, k, at, share)
        error += off
    return DualAnswers(leverage, residual + np.copysign(lost, residual), length, error, lost)


def _backward_error(table: _Table, norm: float) -> float:
    """Return a bound of ``||E||``: products, factorisation and triangular solves, and the reflection of the rows.

    Errors have either sign: those of n^2 products of p terms each add up to a matrix of norm ``u sqrt(p / n) ||K||``,
    in the Frobenius norm, and the others to ``u ||K||`` or so. What is seen is a tenth of this, and less.
    """
    rows, columns = table.X.shape
    terms = UNIT * (16 + 4 * np.sqrt(columns / rows))
    return float(terms * (norm + table.size * np.linalg.norm(table.X) * (table.X.shape[0] != table.units.shape[1])))


def _whole(X: Floats, y: Floats) -> _Table:
    return _Table(X, y, np.eye(len(X)), 0.0)


def _projected(X: Floats, y: Floats) -> _Table:
    """Reflect the rows by ``I - 2 v v' / v'v``, v = ones + sqrt(n) e_1, and leave the first one out."""
    n = len(X)
    v = np.ones(n)
    v[0] += np.sqrt(n)
    square = 2 * (n + np.sqrt(n))
    units = np.eye(n) - np.outer(v, 2 * v / square)
    return _Table(
        (X - np.outer(v, 2 / square * (v @ X)))[1:],
        (y - v * (2 / square * (v @ y)))[1:],
        units[1:].copy(),
        float(np.linalg.norm(X)),
    )


def _lengths(
    fit: Any, table: _Table, X: Floats, Z: Floats, L: Floats, k: Floats, at: Any, share: float
) -> tuple[Floats, Floats]:
    """Return ``||H_with^-1 x||_A`` rounded up, and the share of it that was added."""
    moved = Z.T[at] @ solve_triangular(L, table.X, lower=True)  # rows: X' K^-1 e_i
    grown = 1.0
    if fit.fit_intercept:
        mean = X.mean(axis=0)
        moved = np.column_stack([moved, 1 / len(X) - moved @ mean])
        grown = float(np.sqrt(1 + mean @ mean))
    C = np.linalg.cholesky(fit.precision).T
    # each column of X' K^-1 e_i is off by its share of sqrt(k_i x'K^-1x), and these x'K^-1x sum to n at most
    off = share * np.sqrt(len(X) * k[at]) * grown * float(np.linalg.norm(C, ord=2))
    rounded = 4 * len(C) * UNIT * ((np.abs(moved) @ np.abs(C).T) ** 2).sum(axis=1)
    length = np.sqrt(((moved @ C.T) ** 2).sum(axis=1) + rounded) + off
    return length, off / length


def _positions(everyone: Floats, targets: Floats, X: Floats, y: Floats) -> list[int]:
    """Return where these people stand in the table; people with the same row and target are interchangeable."""
    where = {row.tobytes() + target.tobytes(): k for k, (row, target) in enumerate(zip(everyone, targets, strict=True))}
    return [where[row.tobytes() + target.tobytes()] for row, target in zip(X, y, strict=True)]
