"""``H = R'R`` and its inverse ``H^-1 = W W'`` for ``H = [X 1]'[X 1] + diag(penalty)``, by folds over the rows.

One fold and a Cholesky factorisation are enough while H, its columns scaled to length one, has a condition number
below 1e5. Beyond, ``X'X`` has already lost the digits that are wanted, so the rows are folded again as seen through the
first factor, ``Q = X R1^-1``, and ``Q'Q = R2'R2`` is harmless: ``R = R2 R1`` (CholeskyQR2, Yamamoto et al. 2015). Where
Cholesky breaks down the first factor belongs to ``H + s I`` (shifted CholeskyQR, Fukaya et al. 2020). What is still
singular after that is a direction that nobody's data determines; it is left out of R and W and kept in ``null``.

What rounding did to it all is bounded, ``W'HW = I + E`` with ``||E|| <= error``, except for a large table in good
condition, where it is measured (``_measured``); a small one is sharpened (``_sharpened``). In the scaled columns
the sums of the last fold are off by ``u depth trace``, its rows by ``p u |x| |W|``; the last factor's inverse V is
looked at (``V'GV``), and ``W = W1 V`` loses ``p u |W1| |V|``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtrs

from perinstance.errors import NumericalTrouble
from perinstance.folds.sweep import Sweep
from perinstance.models.linear.gram_matrix import Gram, exact_equations, gram
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import HALF_UNIT, NORM_UP, SMALLEST, TINY, UNIT, USABLE_ERROR

#: beyond this condition number of the scaled H the rows are folded once more
CONDITION_LIMIT = 1e5
MAX_PASSES = 5
#: bits of the balls around a small table's sums
SHARPENED_BITS = 160
#: tables up to this number of products and columns have their factor sharpened
SMALL_TABLE, FEW_COLUMNS = 5_000_000, 32


@dataclass(frozen=True, slots=True)
class Factor:
    """``H = R'R``, ``W'HW = I`` on the directions that the data determines."""

    R: Floats  #: (rank, p)
    W: Floats  #: (p, rank); upper triangular when ``triangular``
    null: Floats  #: (p, p - rank): orthonormal in scaled coordinates; H null = 0
    scale: Floats  #: (p,) the scaled coordinates of x are x * scale
    method: str  #: "cholesky", "cholesky-qr2", "shifted cholesky-qr3" ...
    error: float  #: bound of ``||E||``, ``W'HW = I + E``; infinite where there is none
    image_error: float  #: bound of ``||image - W'X'y||``
    largest: float  #: bound of ``||H^(1/2) scale||``: a row is as long as ``largest sqrt(m)`` at most, scaled
    triangular: bool

    @property
    def rank(self) -> int:
        """The number of directions that the data (and the penalty) determines."""
        return self.R.shape[0]

    @property
    def condition(self) -> float:
        """The condition number of H on its range, columns scaled to length one; not free: singular values."""
        length = np.linalg.norm(self.R, axis=0)
        return float(np.linalg.cond(self.R / np.where(length > 0, length, 1.0))) ** 2 if self.R.size else 1.0


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
    # powers of two: scaling by them loses nothing
    scale = np.where(length > 0, np.ldexp(1.0, -np.frexp(np.where(length > 0, length, 1.0))[1]), 1.0)

    R, W = np.diag(1.0 / scale), np.diag(scale)  # so far: H = R' G R, G = W' H W
    G, moment = H * np.outer(scale, scale), first.moment * scale
    lost = _Lost.of_sums(first, G, scale)
    passes, grown, triangular = 1, 0.0, True
    small = first.n * len(H) ** 2 <= SMALL_TABLE and len(H) <= FEW_COLUMNS
    longest = 0.0
    while True:
        values = np.linalg.eigvalsh(G)
        if passes == 1:
            longest = 1.01 * float(np.sqrt(max(values[-1], 0.0)))
        fine = values[0] * CONDITION_LIMIT > values[-1] > 0
        if passes == MAX_PASSES or not values[-1] > 0 or fine:
            break
        noise = _null(values)
        if passes > 1 and noise.any() and (noise | (values * CONDITION_LIMIT > values[-1])).all():
            break  # a clean gap, every other eigenvalue large enough for Cholesky: what is left is truly singular
        chol, s = _shifted_cholesky(G, values, first.n)
        grown = max(grown, np.sqrt(values[-1] / s) if s > 0 else 0.0)
        inverse = _inverse(chol)
        R, W = chol @ R, W @ inverse
        again: Gram = sweep.fold(partial(gram, intercept=intercept, W=W))
        passes += 1
        B = np.sqrt(penalty)[:, None] * W
        G, moment = again.cross + B.T @ B, again.moment
        lost = lost.of_rows(again, G, W / scale[:, None])

    null_directions = _null(values) if passes > 1 or values[-1] <= 0 else np.zeros(len(values), dtype=bool)
    image_error = error = np.inf
    if null_directions.any():
        R, W, image, null = _on_range(G, moment, (R, W), scale, null_directions)
        triangular = False
    else:
        chol = np.linalg.cholesky(G).T
        inverse = _inverse(chol)
        if passes == 1 and fine:
            error, image_error = _measured(values, lost.target)
        else:
            error, image_error = lost.factor(G, moment, W / scale[:, None], inverse)
        # a product with a diagonal matrix is the rows or columns, times a power of two
        R, W = (chol / scale, scale[:, None] * inverse) if passes == 1 else (chol @ R, W @ inverse)
        image = inverse.T @ moment
        if small:
            W, image, error, image_error = _sharpened(sweep, penalty, intercept, W)
        null = np.zeros((len(H), 0))
    name = "cholesky" if passes == 1 else f"{'shifted ' if grown else ''}cholesky-qr{passes}"
    error, image_error = (error, image_error) if error < USABLE_ERROR else (np.inf, np.inf)
    factor = Factor(R, W, null, scale, name, error, image_error, longest, triangular)
    return Solved(factor, H, image, first.n, first.square)


def _on_range(
    G: Floats, moment: Floats, factors: tuple[Floats, Floats], scale: Floats, null_directions: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return R, W, the image and the open directions where some eigenvalues of G are zero."""
    R, W = factors
    values, V = np.linalg.eigh(G)
    keep = ~null_directions
    root = np.sqrt(values[keep])
    null, _ = np.linalg.qr((W @ V[:, ~keep]) / scale[:, None])
    image = (V[:, keep] / root).T @ moment
    return (root[:, None] * V[:, keep].T) @ R, W @ (V[:, keep] / root), image, null


@dataclass(frozen=True, slots=True)
class _Lost:
    """What rounding took from the sums of the last fold, in the norm of matrices and of vectors."""

    gram: float  #: of G = W'HW
    moment: float  #: of W'X'y
    largest: float  #: the root of the trace of the scaled H, rounded up
    target: float  #: ||y||, rounded up

    @classmethod
    def of_sums(cls, sums: Gram, G: Floats, scale: Floats) -> _Lost:
        """Return what the first fold lost: ``sum |a b| <= ||a|| ||b||`` is summed to ``depth`` additions."""
        p, trace = len(G), float(np.trace(G))
        target = float(np.sqrt(sums.square * (1 + sums.n * UNIT) + sums.n * TINY))
        share = (sums.depth + 4) * HALF_UNIT
        under = 2 * sums.n * SMALLEST * float(scale.max())
        gram = share * trace + p * under * float(scale.max())
        return cls(gram, share * np.sqrt(trace) * target + np.sqrt(p) * under, 1.01 * np.sqrt(trace), target)

    def of_rows(self, sums: Gram, G: Floats, scaled: Floats) -> _Lost:
        """Return what a fold of the rows ``Q = X W`` lost: ``p u |x| |W|``; ``scaled`` is W over the scale."""
        p, root = len(G), np.sqrt(float(np.trace(G)))
        rows = (p + 2) * HALF_UNIT * self.largest * float(np.linalg.norm(scaled))  # of all rows together
        share = (sums.depth + p + 8) * HALF_UNIT
        gram = share * root**2 + 2 * rows * (root + rows)
        return _Lost(gram, (share * root + rows) * self.target, self.largest, self.target)

    def factor(self, G: Floats, moment: Floats, scaled: Floats, V: Floats) -> tuple[float, float]:
        """Return the bounds for ``W V``, V the inverse of the factor of G."""
        p, size = len(G), float(np.linalg.norm(V, ord=2))
        seen = float(np.linalg.norm(V.T @ G @ V - np.eye(p)))
        rounded = (2 * p + 2) * HALF_UNIT * float(np.linalg.norm(np.abs(V).T @ np.abs(G) @ np.abs(V)))
        product = (p + 2) * HALF_UNIT * self.largest * float(np.linalg.norm(np.abs(scaled) @ np.abs(V)))
        error = seen + rounded + size**2 * self.gram
        error += product * (2 * (1 + error) + product)
        image = size * (self.moment + (p + 2) * HALF_UNIT * p * float(np.linalg.norm(moment))) + product * self.target
        return error, image


def _measured(values: Floats, target: float) -> tuple[float, float]:
    """Return the errors of one fold over a large table in good condition: measured, and doubled.

    Sums of many rows lose far less than the bound, which would leave open everybody whose residual is small. Over
    tables of 60,000 rows (normal, uniform, offset, skewed, binary, rounded) the factor was off by ``u cond`` and the
    image by ``2.6 u sqrt(cond) ||y||``, with fewer than eight columns, where a library adds, by 34.
    """
    condition = float(values[-1] / values[0])
    moments = 72
    return UNIT * (2 * condition + 4 * float(np.sqrt(len(values)))), UNIT * moments * float(np.sqrt(condition)) * target


def _sharpened(sweep: Sweep, penalty: Floats, intercept: bool, W: Floats) -> tuple[Floats, Floats, float, float]:
    """Sharpen a small table's factor: ``W'HW`` in balls around exact sums, and one step towards the identity.

    Return W, ``W'X'y`` and bounds of the errors of both: ``||W'HW - I||`` and that of the vector. In floats the bound
    of what a factor lost grows with the number of rows; here it does not, so that people are charged a few units.
    """
    p, sums = len(W), exact_equations(sweep, penalty, intercept)
    with working_precision(SHARPENED_BITS):
        H, moment = arb_mat(sums[0]), arb_mat(sums[1])
        for last in (False, True):
            lift = arb_mat([[arb(v) for v in row] for row in W.tolist()])
            left = (lift.transpose() * (H * lift) - arb_mat(np.eye(p, dtype=int).tolist())).entries()
            off = np.array([float(entry.mid()) for entry in left]).reshape(p, p)
            if not last:
                W = W - W @ (np.triu(off, 1) + np.diag(np.diag(off)) / 2)
        error = float(np.linalg.norm([float(entry.abs_upper()) for entry in left])) * NORM_UP
        exact = (lift.transpose() * moment).entries()
        image = np.array([float(entry.mid()) for entry in exact])
        lost = [float((entry - arb(v)).abs_upper()) for entry, v in zip(exact, image.tolist(), strict=True)]
    return W, image, error, float(np.linalg.norm(lost)) * NORM_UP


def _inverse(chol: Floats) -> Floats:
    """Return the inverse of an upper factor; LAPACK is called as it is, for the other threads wait meanwhile."""
    inverse, failed = dtrtrs(chol, np.eye(len(chol)))
    if failed:
        raise np.linalg.LinAlgError("a triangular factor is singular")
    return np.asarray(inverse, dtype=np.float64)


def _null(values: Floats) -> NDArray[np.bool_]:
    """Tell the eigenvalues that are rounding noise."""
    return values <= 64 * len(values) * UNIT * max(values[-1], 0.0)


def _shifted_cholesky(G: Floats, values: Floats, n: int) -> tuple[Floats, float]:
    """Return the upper factor of G, or of ``G + s I`` with the smallest shift that is safe."""
    if values[0] > 64 * len(G) * UNIT * values[-1]:
        return np.asarray(np.linalg.cholesky(G).T, dtype=np.float64), 0.0
    # only the rounding of the d x d factorisation and of the sums has to be covered
    s = (64 * len(G) + np.sqrt(n)) * UNIT * max(values[-1], 1.0)
    return np.asarray(np.linalg.cholesky(G + s * np.eye(len(G))).T, dtype=np.float64), float(s)
