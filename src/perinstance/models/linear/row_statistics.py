"""One product per person gives everything a linear release asks: ``q = [x 1] W`` with ``H^-1 = W W'``.

- leverage ``m = x'H^-1x = sum_j q_j^2``
- prediction ``x'theta = sum_j q_j b_j`` with ``b = W'X'y``, because ``theta = W W'X'y``
- movement ``||H^-1x||_A^2 = sum_j a_j q_j^2`` when W is chosen such that ``W'AW = diag(a)``; where the a_j are so far
  apart that they are not known to full precision, by a second product: ``||C W q||^2`` with ``A = C'C``

What rounding took is a multiple of ``sqrt(m)``. It is added to each number, rounded away from zero, and decides who is
left open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perinstance.models.linear.cholesky_qr import Factor
from perinstance.models.linear.gram_matrix import placed_rows
from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation import kernel, sum_kernel
from perinstance.numerics.rounding import (
    EXACT_PARAMETER,
    HALF_UNIT,
    LARGEST_SQUARE,
    LOOK_AT_ROWS,
    TINY,
    UNDERFLOWN,
    UNIT,
    USABLE_ERROR,
    WEIGHTS_ERROR,
    WEIGHTS_ERROR_SMALL,
)

#: an in-sample leverage above this is answered in balls; below, what 1 - m loses is charged (changes only speed)
HARD_LEVERAGE = 0.9999
#: codes of people who are not known well enough: only the residual is not, or something else
ROUGH_RESIDUAL, HARD = 1, 2


class RowRounding(NamedTuple):
    """What rounding can have taken from a person's numbers; it is added wherever a loss is stated.

    With s the scale, the error ``p u |x| |W|`` of a row of X W is at most ``p u ||x s|| ||W_j / s||`` in column j, u
    half a unit. With G the scaled H, ``||x s||^2 <= lambda_max(G) m``: all errors are multiples of sqrt(m). Where a few
    people are much larger than all others that is far too much for the others: their own ``|x| |W|`` is looked at.
    """

    leverage: float  #: of sqrt(m): relative
    leverage_row: float  #: the same, for the worst of rows; ``|x| column_cost / sqrt(m)`` of it for others
    residual: float  #: of e = y - x'theta, per sqrt(m)
    residual_row: float  #: the same, for the worst of rows
    length: float  #: of ||H^-1x||_A, per sqrt(m)
    length_row: float  #: the same, for the worst of rows
    share: float  #: of ||H^-1x||_A: relative, besides ``leverage``
    column_cost: Floats | None  #: (p,) None where it is not worth while to look at each row
    floor: float = 0.0  #: a residual counts as known when it is to a share of itself or of ``floor min(sqrt(mu), 1)``

    @property
    def total(self) -> float:
        """The relative error of sqrt(m), whatever the row."""
        return self.leverage + self.leverage_row


@dataclass(frozen=True, slots=True)
class Norm:
    """How ``||H^-1x||_A`` follows from q: by weights when they are accurate, by a second product otherwise."""

    weights: Floats  #: (rank,) a_j; empty when ``lift`` is used
    lift: Floats | None  #: (rank, p) (C W)'

    @property
    def largest(self) -> float:
        """``||C W||``: how long ``||H^-1x||_A`` can be, per sqrt(m)."""
        return float(np.sqrt(self.weights.max()) if self.lift is None else np.linalg.norm(self.lift, ord=2))


@dataclass(frozen=True, slots=True)
class Without:
    """What holds without each person of a block (for an outsider: as things stand), rounded away from zero."""

    leverage: Floats  #: mu
    residual: Floats  #: r; NaN where theta_without is not determined
    length: Floats  #: ||H_with^-1 x||_A, H taken with the person; empty when the fit has no norm
    share: Floats  #: what of leverage and length was charged, relatively; empty when the fit has no norm
    kind_code: NDArray[np.uint8]  #: 0 exact, 1 an upper bound because rounding took too much
    open: NDArray[np.bool_] | None = None  #: people of whom this does not say enough; they have a bound, or none


@dataclass(frozen=True, slots=True)
class RowMap:
    """What a row is multiplied by: ``W`` has one row per column of X and, with an intercept, one more at the end."""

    W: Floats
    image: Floats
    norm: Norm | None
    intercept: bool
    rounding: RowRounding
    large: bool = False  #: a residual that is not known well enough stays an upper bound: to fold again takes too long


class RowPlaces(NamedTuple):
    """Where the numbers of some rows are written; length and share are empty where no length is wanted."""

    leverage: Floats
    residual: Floats
    length: Floats
    share: Floats
    code: NDArray[np.uint8]


def row_statistics_of(rows_map: RowMap, X: NDArray, y: NDArray, inside: bool, floor: float = 0.0) -> Without:
    """Answer for one block."""
    (n, d), norm, rounding, W = X.shape, rows_map.norm, rows_map.rounding, rows_map.W
    lift, moved = (None, 0) if norm is None else (norm.lift, n)
    errors = rounding._replace(column_cost=None, floor=floor)
    weights = np.empty(0) if norm is None or lift is not None else norm.weights
    offset = W[d] if rows_map.intercept else np.zeros(W.shape[1])
    sums = offset, rows_map.image, weights
    out = RowPlaces(np.empty(n), np.empty(n), np.empty(moved), np.empty(moved), np.empty(n, dtype=np.uint8))
    y, hard, room = np.ascontiguousarray(y, dtype=np.float64), 0, np.empty((0, 0))
    for run, Z in placed_rows(X):
        room = room if len(room) >= len(Z) else np.empty((len(Z), W.shape[1]))
        Q = np.matmul(Z, W[:d], out=room[: len(Z)])
        squares = np.empty(0) if lift is None else np.square((Q + offset) @ lift).sum(axis=1)
        cost, part = rounding.column_cost, np.empty(0)
        if cost is not None:
            part = np.abs(Z) @ cost[:d] + (cost[d] if rows_map.intercept else 0.0)
        places = RowPlaces._make(column[run] for column in out)
        hard += finish_rows(Q, sums, squares, y[run], part, errors, inside, places)
    rows = Without(*out)
    if not hard:
        return rows
    left = out.code == HARD if rows_map.large else out.code > 0
    return Without(*out[:4], np.minimum(out.code, 1), left)


@sum_kernel
def _row_sums(Q, sums, m, t, square):  # pragma: no cover - compiled
    """Write ``sum q_j^2``, ``sum q_j image_j`` and, where there are weights, ``sum weights_j q_j^2`` of each row."""
    offset, image, weights = sums
    for i in range(len(Q)):
        a = b = 0.0
        for j in range(Q.shape[1]):
            q = Q[i, j] + offset[j]
            a += q * q
            b += q * image[j]
        m[i], t[i] = a, b
    for i in range(len(Q) if len(weights) else 0):
        a = 0.0
        for j in range(Q.shape[1]):
            q = Q[i, j] + offset[j]
            a += weights[j] * (q * q)
        square[i] = a


@kernel
def finish_rows(Q, sums, squares, y, part, errors, inside, out):  # pragma: no cover - compiled
    """Turn ``q = Q + offset`` into mu, r and the length, rounded away from zero; tell whether anybody is hard.

    ``part`` is ``|x| column_cost``, and becomes the share of the worst row's error that each row has; empty where every
    row is taken to be the worst.
    """
    mu, r, length, share, code = out
    wanted, looked, hard = len(length) > 0, len(part) > 0, 0
    _row_sums(Q, sums, mu, r, length)
    for i in range(len(squares)):  # one by one: the message of an array assignment takes three seconds to compile
        length[i] = squares[i]
    for i in range(len(part)):
        part[i] = min(1.0, part[i] / np.sqrt(max(mu[i], TINY)))
    for i in range(len(y)):
        m, e = mu[i], y[i] - r[i]
        size, worst = abs(e), part[i] if looked else 1.0
        away = errors.leverage + worst * errors.leverage_row
        root = np.sqrt(m) * (1.0 + away)
        lost = root * (errors.residual + worst * errors.residual_row) + UNIT * size
        up = root * root
        near = inside & (not m <= HARD_LEVERAGE)  # answered elsewhere
        rest = 1.0 / (1.0 - up) if inside & (not near) & (up < 1.0) else 1.0
        known = up >= 0.0  # zero times an error that has no bound is not
        mu[i] = up * rest if known else np.inf
        # a larger leverage tells more of a posterior sample only together with sqrt((1 + mu')/(1 + mu)) times the
        # residual; of those inside both are divided by 1 - m, which is more than that
        along = 1.0 if inside else 1.0 + 2.5 * away * min(1.0, up)
        stated = (size + lost) * rest * along
        r[i] = stated if e >= 0.0 else -stated
        rough = (not 4.0 * away * rest <= EXACT_PARAMETER) | (not m > UNDERFLOWN) | (not m < LARGEST_SQUARE)
        least = max(size, errors.floor * min(np.sqrt(mu[i]), 1.0))
        faint = not lost <= EXACT_PARAMETER * least
        found = HARD if near | rough else (ROUGH_RESIDUAL if faint else 0)
        code[i] = found
        hard += found
    for i in range(len(y) if wanted else 0):
        worst = part[i] if looked else 1.0
        away = 4.0 * (errors.leverage + worst * errors.leverage_row)
        square, m = length[i], mu[i] / (1.0 + mu[i]) if inside else mu[i]
        b = np.sqrt(square)
        lost = np.sqrt(m) * (errors.length + worst * errors.length_row) + b * errors.share
        stated = (b + lost) / (1.0 if inside else 1.0 + m * max(1.0 - away, 0.0))
        length[i] = stated if lost < np.inf else np.inf
        share[i] = lost / b + away
        rough = (not share[i] <= EXACT_PARAMETER) | (not square > UNDERFLOWN) | (not square < LARGEST_SQUARE)
        code[i] = HARD if rough else code[i]
        hard += rough
    return hard


@dataclass(frozen=True, slots=True)
class Rotated:
    """What choosing a basis for the norm cost."""

    error: float  #: of the factor
    lift: float  #: of the length, per sqrt(m)
    share: float  #: of the length, relatively


NOT_ROTATED = Rotated(0.0, 0.0, 0.0)


def rotated_basis(factor: Factor, image: Floats, A: Floats, small: bool) -> tuple[Floats, Floats, Norm, Rotated]:
    """Choose the basis in which one product serves both norms of a row.

    With ``W'AW = U diag(a) U'``: ``H^-1 = (WU)(WU)'`` and ``||H^-1x||_A^2 = x' WU diag(a) (WU)' x``. An eigenvalue is
    known to ``u max(a)`` only, so when they lie far apart W stays and the norm costs a second product. Where columns
    are left out, a direction is longer than W says, and nobody's length is answered here.
    """
    W, p = factor.W, len(A)
    if np.array_equal(A, np.eye(p)):  # most often, and between the passes one thread works for all
        lift, least, sizes = W, 1.0, float(np.linalg.norm(W))
    else:  # A = C'C: C W, the least eigenvalue of A scaled to a diagonal of ones, and || |C| |W| ||
        C, half = np.linalg.cholesky(A).T, np.sqrt(np.diag(A))
        least = float(np.linalg.eigvalsh(A / np.outer(half, half))[0])
        lift, sizes = C @ W, float(np.linalg.norm(np.abs(C) @ np.abs(W)))
    share = (p + 2) * p * HALF_UNIT / max(least, UNIT)  # of A = C'C, relatively to v'Av
    lost = (p + 2) * HALF_UNIT * sizes if not factor.null.size else np.inf
    M = lift.T @ lift
    a, U = np.linalg.eigh(M)
    off = np.inf
    if len(a) and a[0] > 0:
        rounded = 4 * len(a) * UNIT * float(np.linalg.norm(M))
        off = (float(np.linalg.norm(U.T @ M @ U - np.diag(a))) + rounded) / float(a[0])
    if off < (WEIGHTS_ERROR_SMALL if small else WEIGHTS_ERROR):
        size = float(np.linalg.norm(W / factor.scale[:, None]))
        orthogonal = float(np.linalg.norm(U.T @ U - np.eye(len(a))))
        cost = Rotated(2 * orthogonal + _product(p, small) * (1 + factor.largest * size), lost, share + off)
        return np.ascontiguousarray(W @ U), U.T @ image, Norm(a, None), cost
    return W, image, Norm(np.empty(0), np.ascontiguousarray(lift.T)), Rotated(0.0, 2 * lost, share)


def row_rounding(
    factor: Factor, basis: Floats, image: Floats, norm: Norm | None, rotated: Rotated, small: bool
) -> RowRounding:
    """Bound what is lost in ``q = x W`` and in sums over it."""
    if not basis.size:
        return RowRounding(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, None)
    u = _product(len(basis), small)
    error = factor.error + rotated.error
    error = error if error < USABLE_ERROR else np.inf
    columns = np.linalg.norm(basis / factor.scale[:, None], axis=0)
    size = np.abs(basis)
    # what a unit of each entry of x can cost, in q, in the prediction and in the length; what the worst row can cost
    costs = [np.linalg.norm(size, axis=1), size @ np.abs(image)]
    most = [float(np.linalg.norm(columns)), float(columns @ np.abs(image))]
    if norm is not None:
        root, lift = np.sqrt(norm.weights), None if norm.lift is None else np.abs(norm.lift)
        costs.append(np.linalg.norm(size * root if lift is None else size @ lift, axis=1))
        most.append(float(np.linalg.norm(columns * root if lift is None else columns @ lift)))
        frobenius = float(np.linalg.norm(root if norm.lift is None else norm.lift))  # of C W
    row = u * factor.largest * most[0]
    parts = [cost / (factor.largest * limit) for cost, limit in zip(costs, most, strict=True) if limit > 0]
    of_image = float(np.linalg.norm(image))
    # (I + E)^-1 differs from I by less than 1.12 ||E||, its root by less than 0.56 ||E||, while ||E|| < 0.1
    return RowRounding(
        leverage=0.56 * error + 2 * u,
        leverage_row=row,
        residual=(1.12 * error + 2 * u + rotated.error) * of_image + 1.12 * factor.image_error,
        residual_row=u * factor.largest * most[1],
        length=1.12 * error * norm.largest + rotated.lift + u * frobenius if norm is not None else 0.0,
        length_row=u * factor.largest * most[2] if norm is not None else 0.0,
        share=rotated.share + 2 * u,
        column_cost=np.max(parts, axis=0) if row > LOOK_AT_ROWS else None,
    )


def _product(p: int, small: bool) -> float:
    """Return what a sum of p products loses at most; over a large table in good condition, usually."""
    return (p + 8) * HALF_UNIT if small else 4 * float(np.sqrt(p)) * HALF_UNIT
