"""The basis in which one product serves both norms of a row, and what rounding can take from a row in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perinstance.models.linear.cholesky_qr import Factor
from perinstance.models.linear.row_statistics import Norm, RowRounding
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import (
    HALF_UNIT,
    LOOK_AT_ROWS,
    UNIT,
    USABLE_ERROR,
    WEIGHTS_ERROR,
    WEIGHTS_ERROR_SMALL,
)


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
    lift, least, sizes = _lifted(A, W)
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


def _lifted(A: Floats, W: Floats) -> tuple[Floats, float, float]:
    """Return C W with ``A = C'C``, the least eigenvalue of A scaled to a diagonal of ones, and ``|| |C| |W| ||``."""
    if np.array_equal(A, np.eye(len(A))):  # most often, and between the passes one thread works for all
        return W, 1.0, float(np.linalg.norm(W))
    C = np.linalg.cholesky(A).T
    half = np.sqrt(np.diag(A))
    least = float(np.linalg.eigvalsh(A / np.outer(half, half))[0])
    return C @ W, least, float(np.linalg.norm(np.abs(C) @ np.abs(W)))


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
    row = u * factor.largest * most[0]
    parts = [cost / (factor.largest * limit) for cost, limit in zip(costs, most, strict=True) if limit > 0]
    of_image = float(np.linalg.norm(image))
    # (I + E)^-1 differs from I by less than 1.12 ||E||, its root by less than 0.56 ||E||, while ||E|| < 0.1
    return RowRounding(
        leverage=0.56 * error + 2 * u,
        leverage_row=row,
        residual=(1.12 * error + 2 * u + rotated.error) * of_image + 1.12 * factor.image_error,
        residual_row=u * factor.largest * most[1],
        length=1.12 * error * norm.largest + rotated.lift + u * norm.frobenius if norm is not None else 0.0,
        length_row=u * factor.largest * most[2] if norm is not None else 0.0,
        share=rotated.share + 2 * u,
        column_cost=np.max(parts, axis=0) if row > LOOK_AT_ROWS else None,
    )


def _product(p: int, small: bool) -> float:
    """Return what a sum of p products loses at most; over a large table in good condition, usually."""
    return (p + 8) * HALF_UNIT if small else 4 * float(np.sqrt(p)) * HALF_UNIT
