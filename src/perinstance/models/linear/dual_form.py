"""Ridge regression with about as many columns as people, or more: everybody without themselves, from one n x n matrix.

With ``K = XX' + alpha I`` and ``k_i = (K^-1)_ii``, without person i and without a difference of near numbers,

    mu = 1 / (alpha k_i) - 1,    r = (K^-1 y)_i / k_i,    H_with^-1 x = X' K^-1 e_i.

An intercept, which is not penalised, is projected out: a Householder reflection takes the ones to the first axis, the
other n - 1 rows of the reflected table are the whole problem, and ``e_i`` becomes the reflected unit vector.

Rounding makes ``K + E`` of K, with ``|E| <= B`` entry by entry, whatever the order of the sums: products lose
``p u |X||X|'``, the factorisation and the triangular solves ``3 n u |L||L|'`` (Higham 2002, chapters 3, 8, 10). Then
``eta = ||K^-1/2 E K^-1/2||`` is at most the spectral radius of ``|K^-1| B``, hence at most ``max (|K^-1| B d)_i / d_i``
for any d > 0 (Collatz and Wielandt). The numbers ``k_i`` are known to ``eta / (1 - eta)``, relatively, and ``u'K^-1 v``
to that share of ``sqrt(u'K^-1u  v'K^-1v)``; losses are rounded up by as much.
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

_U = UNIT / 2  #: what one operation loses at most, relatively

#: eta up to which the road is taken, by the work of factorising without each person: nothing looser than exact while
#: that takes seconds, and rather an upper bound than hours
_MOST_ETA = ((1e9, EXACT_SHARE / 8), (1e11, 1e-4), (float("inf"), 0.05))


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
    lost: Floats | None  #: (m, p) what the reflection may have taken from X; None without one

    def backward_error(self, L: Floats, d: Floats) -> Floats:
        """Return ``B d``."""
        m, p = self.X.shape
        rows, lower = np.abs(self.X), np.abs(L)
        total = (p + 2) * _U * (rows @ (rows.T @ d)) + 3 * (m + 2) * _U * (lower @ (lower.T @ d))
        if self.lost is not None:
            total += rows @ (self.lost.T @ d) + self.lost @ (rows.T @ d)
        return np.asarray(total)


def answer_in_dual_form(fit: Any, sweep: Sweep, X: Floats, y: Floats) -> DualAnswers | None:
    """Answer for rows X, y of the data; None where the primal road is the better one."""
    alpha, p = float(fit.penalty[0]), len(fit.theta)
    if not alpha > 0 or not 3 <= fit.n_people <= 2 * p:
        return None
    rows = sweep.fold(gather)
    everyone = np.concatenate([part for part, _ in rows.parts])
    targets = np.concatenate([part for _, part in rows.parts])
    table = (
        _projected(everyone, targets) if fit.fit_intercept else _Table(everyone, targets, np.eye(len(everyone)), None)
    )
    K = table.X @ table.X.T
    K[np.diag_indices_from(K)] += alpha
    try:
        L: Any = np.linalg.cholesky(K)
    except LinAlgError:
        return None
    inverse = solve_triangular(L, np.eye(len(L)), lower=True)
    Z = inverse if table.lost is None else solve_triangular(L, table.units, lower=True)  # L^-1 units
    eta = _eta(table, L, inverse)
    work = len(X) * float(p) ** 2 * (p + fit.n_people)
    limit = next(limit for most, limit in _MOST_ETA if work <= most)
    if not eta < limit:
        return None
    at = _positions(everyone, targets, X, y)
    Z, k = Z[:, at], np.einsum("ij,ij->j", Z, Z)[at]
    # eta / (1 - eta), sums of n products, and the unit vectors, which are rounded where they were reflected
    share = 2 * eta + 2 * len(everyone) * UNIT + 16 * UNIT / np.sqrt(alpha * k)
    if not (share < limit).all():  # a leverage so large that the unit vectors' rounding counts
        return None
    z = solve_triangular(L, table.y, lower=True)
    residual = Z.T @ z / k
    # a leverage that is raised by 2 share (1 + mu) takes the residual along: a posterior sample loses no less then
    lost = share * (np.linalg.norm(z) / np.sqrt(k) + 4 * np.abs(residual)) + UNIT * np.abs(y)
    if table.lost is not None:
        lost += (len(everyone) + 8) * UNIT * np.linalg.norm(targets) / np.sqrt(alpha * k)
    leverage = (1 + 2 * share) / (alpha * k) - 1
    error, length = 4 * share, np.empty(0)
    if fit.precision is not None:
        length, off = _lengths(fit, table, everyone, Z, L, share * np.sqrt(len(everyone) * k))
        error += off
    return DualAnswers(leverage, residual + np.copysign(lost, residual), length, error, lost)


def _eta(table: _Table, L: Floats, inverse: Floats) -> float:
    """Bound ``||K^-1/2 E K^-1/2||``; twice, because ``|K^-1|`` is rounded itself."""
    size = np.abs(inverse.T @ inverse)
    d = size @ table.backward_error(L, np.ones(len(L)))
    return 2 * float((size @ table.backward_error(L, d) / d).max()) if (d > 0).all() else float("inf")


def _projected(X: Floats, y: Floats) -> _Table:
    """Reflect the rows by ``I - 2 v v' / v'v``, v = ones + sqrt(n) e_1, and leave the first one out."""
    n = len(X)
    v = np.ones(n)
    v[0] += np.sqrt(n)
    share = 2 * v / (2 * (n + np.sqrt(n)))
    units = np.eye(n) - np.outer(v, share)
    lost = _U * np.abs(X) + (n + 8) * _U * np.outer(v, share @ np.abs(X))
    return _Table((X - np.outer(v, share @ X))[1:], (y - v * (share @ y))[1:], units[1:].copy(), lost[1:])


def _lengths(fit: Any, table: _Table, X: Floats, Z: Floats, L: Floats, rounded: Floats) -> tuple[Floats, Floats]:
    """Return ``||H_with^-1 x||_A`` rounded up, and the share of it that was added.

    A column of ``X' K^-1 e_i`` is off by its share of ``sqrt(k_i x'K^-1x)``, and these ``x'K^-1x`` sum to n at most:
    ``rounded`` is the length by which the whole can be off.
    """
    moved = Z.T @ solve_triangular(L, table.X, lower=True)  # rows: X' K^-1 e_i
    grown = 1.0
    if fit.fit_intercept:
        mean = X.mean(axis=0)
        slack = len(X) * UNIT * (1 + np.abs(moved) @ np.abs(X).mean(axis=0))
        moved = np.column_stack([moved, 1 / len(X) - moved @ mean])
        rounded, grown = rounded + slack, float(np.sqrt(1 + mean @ mean))
    C = np.linalg.cholesky(fit.precision).T
    # terms of a sum may cancel, here and in A = C'C: rounding goes by their sizes
    sizes = 4 * len(C) * UNIT * ((np.abs(moved) @ np.abs(C).T) ** 2).sum(axis=1)
    off = rounded * grown * float(np.sqrt(np.linalg.norm(C, 1) * np.linalg.norm(C, np.inf)))
    length = np.sqrt(((moved @ C.T) ** 2).sum(axis=1) + sizes) + off
    return length, np.divide(off, length, out=np.zeros(len(off)), where=length > 0)


def _positions(everyone: Floats, targets: Floats, X: Floats, y: Floats) -> list[int]:
    """Return where these people stand in the table; people with the same row and target are interchangeable."""
    where = {row.tobytes() + target.tobytes(): k for k, (row, target) in enumerate(zip(everyone, targets, strict=True))}
    return [where[row.tobytes() + target.tobytes()] for row, target in zip(X, y, strict=True)]
