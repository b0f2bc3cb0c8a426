"""The few people whose leverage is near one: factorise without each of them instead of computing 1 - m.

At most p people can have a leverage above one half or so, hence all of them are taken out of the fold together
(``Rest``), and for each one the p x p factor of the rest is stacked on the others' rows and triangularised by
Householder reflections with sorted rows and pivoted columns, which keeps the digits of rows of very different size
(Cox and Higham 1998). With few columns that last step is done in rational arithmetic, and with few people everything:
no condition number matters there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.linear.cholesky_qr import factorise
from perinstance.models.linear.row_statistics import leverages
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.rational_solve import exact_without
from perinstance.numerics.rounding import UNIT

#: tables up to this size are answered in rational arithmetic; with so few columns, the last step of larger ones is
EXACT_PEOPLE, EXACT_COLUMNS = 64, 12


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What holds without each of these people, rounded away from zero."""

    leverage: Floats  #: mu; infinite for somebody who determines a direction alone
    residual: Floats  #: r; NaN when theta_without is not determined at the row
    direction: Floats  #: (k, p) (theta_with - theta_without) / r = H_with^-1 x
    direction_error: Floats  #: per ``||C W||``, the length in the norm of C'C by which direction can be off
    error: Floats  #: estimated relative error of the leverage
    lost: Floats  #: what was added to the residual for rounding


@dataclass(frozen=True, slots=True)
class _Taken:
    """The rows that were taken out."""

    X: Floats
    y: Floats

    def __add__(self, other: _Taken) -> _Taken:
        return _Taken(np.vstack([self.X, other.X]), np.concatenate([self.y, other.y]))


@dataclass(frozen=True, slots=True)
class _Rest(Sweep):
    """The sweep over everybody but the people who dominate."""

    whole: Sweep
    dominates: Callable[[NDArray], NDArray[np.bool_]]

    @property
    def n_features(self) -> int:
        return self.whole.n_features

    def fold(self, step: Callable[[Block], Any]) -> Any:
        def kept(block: Block) -> Any:
            out = self.dominates(block.X)
            return step(block.picked(~out)) if out.any() else step(block)

        return self.whole.fold(kept)

    def map(self, step: Callable[[Block], Any]) -> Iterator[Any]:
        raise NotImplementedError("only folds are asked of the rest")


def hold_out(fit: Any, sweep: Sweep, X: Floats, y: Floats) -> LeftOut:
    """Answer for rows X, y of the data, all of them of leverage near one."""
    p = len(fit.theta)
    few = fit.n_people <= EXACT_PEOPLE and p <= EXACT_COLUMNS  # then nothing has to be rounded at all

    def dominates(rows: NDArray) -> NDArray[np.bool_]:
        if few:
            return np.ones(len(rows), dtype=bool)
        return leverages(rows, fit.basis, fit.fit_intercept) > 0.9

    def take(block: Block) -> _Taken:
        out = block.picked(dominates(block.X))
        return _Taken(np.asarray(out.X, dtype=np.float64), np.asarray(out.y, dtype=np.float64))

    taken: _Taken = sweep.fold(take)
    rest = factorise(_Rest(sweep, dominates), fit.penalty, fit.fit_intercept)
    known = 16 * (rest.factor.error + rest.factor.row_error)  # a direction is known less well than a leverage
    ones = np.ones((len(taken.X), int(fit.fit_intercept)))
    others = np.hstack([taken.X, ones])
    mine = np.hstack([X, np.ones((len(X), int(fit.fit_intercept)))])
    leverage, residual, direction = np.empty(len(X)), np.empty(len(X)), np.zeros((len(X), p))
    off, error, lost = np.zeros(len(X)), np.zeros(len(X)), np.zeros(len(X))
    for i, (x, target) in enumerate(zip(mine, y, strict=True)):
        same = np.flatnonzero((others == x).all(axis=1) & (taken.y == target))
        keep = np.ones(len(others), dtype=bool)
        keep[same[:1]] = False
        if few:
            exact = exact_without(others[keep], taken.y[keep], fit.penalty, x, target)
            leverage[i], residual[i], direction[i] = exact
            error[i] = 2 * UNIT
            residual[i] *= 1 + UNIT
            continue
        rows = np.vstack([rest.factor.R, others[keep]])
        aim = np.concatenate([rest.image, taken.y[keep]])
        leverage[i], residual[i], direction[i], condition, rank = _without(rows, aim, x, target)
        if np.isinf(leverage[i]):
            continue
        error[i] = 64 * p * UNIT * condition + (known if rest.n else 0.0)
        # H is off by R'E R, hence H_with^-1 x = v by H_with^-1 R'E R v, and R H_with^-1 R' <= 1: ||C W|| ||E|| ||R v||
        off[i] = 64 * p * UNIT * condition * float(np.linalg.norm(rows @ direction[i]))
        if rank == p <= EXACT_COLUMNS:  # then only the factor of the rest is rounded
            leverage[i], residual[i], direction[i] = exact_without(rows, aim, np.zeros(p), x, target)
            error[i] = 2 * UNIT + (known if rest.n else 0.0)
            off[i] = 0.0
        if rest.n:
            off[i] += rest.factor.direction_error * float(np.linalg.norm(rest.factor.R @ direction[i]))
        # a prediction is a sum of sqrt(mu) ||aim||, whatever it comes to in the end
        size = error[i] * float(np.linalg.norm(aim)) + known * np.sqrt(rest.square)
        lost[i] = np.sqrt(leverage[i]) * size + error[i] * abs(residual[i]) + UNIT * abs(target)
        residual[i] = np.copysign(abs(residual[i]) + lost[i], residual[i])
    return LeftOut(leverage * (1 + 2 * error), residual, direction, off, error, lost)


def _without(rows: Floats, aim: Floats, x: Floats, target: float) -> tuple[float, float, Floats, float, int]:
    """Return mu, r, H_with^-1 x, a condition number and the rank: ``rows'rows = H_without``, ``rows'aim = X'y``."""
    p = len(x)
    length = np.sqrt(np.einsum("ij,ij->j", rows, rows))
    scale = np.where(length > 0, 1.0 / np.where(length > 0, length, 1.0), 1.0)
    scaled, mine = rows * scale, x * scale
    order = np.argsort(-np.abs(scaled).max(axis=1, initial=0.0), kind="stable")
    if len(rows) < p:
        scaled = np.vstack([scaled[order], np.zeros((p - len(rows), p))])
        aim = np.concatenate([aim[order], np.zeros(p - len(rows))])
    else:
        scaled, aim = scaled[order], aim[order]
    Q, R, pivot = qr(scaled, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    rank = int((diagonal > 16 * p * UNIT * max(diagonal[0], UNIT)).sum())
    a = mine[pivot]
    u = solve_triangular(R[:rank, :rank], a[:rank], trans="T") if rank else np.empty(0)
    if rank < p:
        # in the range of the rest, the first entries of a row determine the others
        gap = a[rank:] - (R[:rank, rank:].T @ u if rank else 0.0)
        if np.abs(gap).max() > 1e3 * p * UNIT * np.abs(a).max():
            return np.inf, np.nan, np.zeros(p), 1.0, rank
    mu = float(u @ u)
    b = Q.T @ aim
    r = float(target - u @ b[:rank])
    v = np.zeros(p)
    v[pivot[:rank]] = solve_triangular(R[:rank, :rank], u) if rank else 0.0
    # sorted rows and pivoted columns make the errors row-wise, most of the time: the condition number that counts lies
    # between that of R with rows of equal length and that of R itself; the errors seen stay below the geometric mean
    inner = R[:rank, :rank] / np.linalg.norm(R[:rank, :rank], axis=1, keepdims=True)
    condition = float(np.sqrt(np.linalg.cond(inner) * np.linalg.cond(R[:rank, :rank]))) if rank else 1.0
    return mu, r, v * scale / (1.0 + mu), condition, rank
