"""``H = R'R`` and its inverse ``H^-1 = W W'`` for ``H = [X 1]'[X 1] + diag(penalty)``, by folds over the rows.

One fold and a Cholesky factorisation are enough while H, its columns scaled to length one, has a condition number
below 1e5: the leverages then carry about ``0.3 u cond(H)`` of relative error. Beyond, ``X'X`` has already lost the
digits that are wanted, so the rows are folded again as seen through the first factor, ``Q = X R1^-1``, and
``Q'Q = R2'R2`` is harmless: ``R = R2 R1`` (CholeskyQR2, Yamamoto et al. 2015). Where Cholesky breaks down the first
factor belongs to ``H + s I`` (shifted CholeskyQR, Fukaya et al. 2020). What is still singular after that is a
direction that nobody's data determines; it is left out of R and W and kept in ``null``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from perinstance.errors import NumericalTrouble
from perinstance.folds.sweep import Sweep
from perinstance.models.linear.gram_matrix import Gram, gram
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import UNIT

#: beyond this condition number of the scaled H the rows are folded once more
CONDITION_LIMIT = 1e5
MAX_PASSES = 5


@dataclass(frozen=True, slots=True)
class Factor:
    """``H = R'R``, ``W'HW = I`` on the directions that the data determines."""

    R: Floats  #: (rank, p)
    W: Floats  #: (p, rank); upper triangular when ``triangular``
    null: Floats  #: (p, p - rank): orthonormal in scaled coordinates; H null = 0
    scale: Floats  #: (p,) the scaled coordinates of x are x * scale
    condition: float  #: of H on its range, columns scaled to length one
    method: str  #: "cholesky", "cholesky-qr2", "shifted cholesky-qr3" ...
    backward: float  #: estimated relative error of R as a factor of H
    error: float  #: estimated relative error of a leverage
    row_error: float  #: what is added to it for the largest rows; for others in proportion to their length
    triangular: bool

    @property
    def rank(self) -> int:
        """The number of directions that the data (and the penalty) determines."""
        return self.R.shape[0]

    @property
    def direction_error(self) -> float:
        """Bound ``||E||`` of ``H^-1 = W (I + E) W'``.

        A direction ``H^-1x = W q`` is off by ``W E q``, as long as ``||W|| ||E|| ||q||`` whatever its own length: where
        it is short because the data determines it well, what leaks in from others is not in proportion to it. The Gram
        matrix counts once; the rounding of the rows x W counts twice in it, and that of W on both sides.
        """
        return self.error + 4 * self.row_error


@dataclass(frozen=True, slots=True)
class Solved:
    """What the folds leave behind: the factor, H itself and ``image = W'X'y``."""

    factor: Factor
    H: Floats
    image: Floats
    n: int
    square: float  #: y'y


def factorise(sweep: Sweep, penalty: Floats, intercept: bool) -> Solved:
    """Fold as often as the condition asks for."""
    first: Gram = sweep.fold(partial(gram, intercept=intercept))
    H = first.cross + np.diag(penalty)
    if not (np.isfinite(H).all() and np.isfinite(first.moment).all()):
        raise NumericalTrouble(
            "the sums of squares of this table overflow float64; divide the largest columns by a public constant"
        )
    length = np.sqrt(np.diag(H))
    scale = np.where(length > 0, 1.0 / np.where(length > 0, length, 1.0), 1.0)

    R, W = np.diag(1.0 / scale), np.diag(scale)  # so far: H = R' G R, G = W' H W
    G, moment = H * np.outer(scale, scale), first.moment * scale
    passes, grown, triangular = 1, 0.0, True
    while True:
        values = np.linalg.eigvalsh(G)
        if values[0] * CONDITION_LIMIT > values[-1] > 0 or passes == MAX_PASSES:
            break
        if passes > 1 and _null(values).any() and not _middle(values).any():
            break  # a clean gap: what is left is truly singular
        chol, s = _shifted_cholesky(G, values, first.n)
        grown = max(grown, np.sqrt(values[-1] / s) if s > 0 else 0.0)
        inverse = solve_triangular(chol, np.eye(len(chol)))
        R, W = chol @ R, W @ inverse
        again: Gram = sweep.fold(partial(gram, intercept=intercept, W=W))
        passes += 1
        B = np.sqrt(penalty)[:, None] * W
        G, moment = again.cross + B.T @ B, again.moment

    null_directions = _null(values) if passes > 1 or values[-1] <= 0 else np.zeros(len(values), dtype=bool)
    if null_directions.any():
        values, V = np.linalg.eigh(G)
        keep = ~null_directions
        root = np.sqrt(values[keep])
        null, _ = np.linalg.qr((W @ V[:, ~keep]) / scale[:, None])
        R, moment, W = (root[:, None] * V[:, keep].T) @ R, moment, W @ (V[:, keep] / root)
        image = (V[:, keep] / root).T @ moment
        triangular = False
        values = values[keep] if keep.any() else np.ones(1)
    else:
        chol = np.linalg.cholesky(G).T
        inverse = solve_triangular(chol, np.eye(len(chol)))
        R, W = chol @ R, W @ inverse
        image = inverse.T @ moment
        null = np.zeros((len(H), 0))
    condition = float(np.linalg.cond(R * scale)) ** 2 if R.size else 1.0
    # the last Gram matrix costs 0.3 u cond, now and then three times that, and twice u cond is charged for it;
    # a row of X W costs u |x| |W|: kappa(X) = sqrt(cond H), not its square
    backward = UNIT * (2 * float(values[-1] / values[0]) + 4 * len(H))
    error, row_error = backward, UNIT * np.sqrt(condition) if passes > 1 else 0.0
    name = "cholesky" if passes == 1 else f"{'shifted ' if grown else ''}cholesky-qr{passes}"
    if null.size:
        error += 10 * UNIT * grown  # the shifted factor has rotated the kept directions by about this much
    factor = Factor(R, W, null, scale, condition, name, backward, float(error), float(row_error), triangular)
    return Solved(factor, H, image, first.n, first.square)


def _null(values: Floats) -> NDArray[np.bool_]:
    """Tell the eigenvalues that are rounding noise."""
    return values <= 64 * len(values) * UNIT * max(values[-1], 0.0)


def _middle(values: Floats) -> NDArray[np.bool_]:
    """Tell the eigenvalues that are not noise but too small for a Cholesky factorisation to keep its digits."""
    return ~_null(values) & (values * CONDITION_LIMIT <= values[-1])


def _shifted_cholesky(G: Floats, values: Floats, n: int) -> tuple[Floats, float]:
    """Return the upper factor of G, or of ``G + s I`` with the smallest shift that is safe."""
    if values[0] > 64 * len(G) * UNIT * values[-1]:
        return np.asarray(np.linalg.cholesky(G).T, dtype=np.float64), 0.0
    # only the rounding of the d x d factorisation and of the sums has to be covered
    s = (64 * len(G) + np.sqrt(n)) * UNIT * max(values[-1], 1.0)
    return np.asarray(np.linalg.cholesky(G + s * np.eye(len(G))).T, dtype=np.float64), float(s)
