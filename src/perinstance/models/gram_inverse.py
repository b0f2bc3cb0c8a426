"""``M = (K + alpha I)^-1`` by Cholesky's method, with bounds of everything that rounding took.

Write ``A = K + alpha I`` with the exact K, ``l_i^2 = s(x_i)^2 + alpha``, u for UNIT. What is factorised and solved with
differs from A by at most ``kappa l_i l_j`` in each entry, kappa a multiple of u (Higham, Accuracy and Stability,
theorems 10.3 and 10.4: n + 1 roundings of the factor, 3n + 1 of a solution; plus those of the kernel). So, as
``A >= alpha I``:

- M_ii: with the computed inverse m of the rounded matrix, column i,
  ``|M_ii - m_i| <= kappa (l'|m|)^2 (1 + kappa |l|^2/alpha)`` and what its own computation lost;
- a solution x of ``A x = b`` with ``|b - Ax| <= rho``, row by row: it is off by at most
  ``|m|'rho + kappa |l| l'|m| |rho|/alpha`` in place i, and by at most ``sqrt(M_ii/alpha) |rho|``. The residual is
  computed after the solution, in sums of few terms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dlauum, dtrtri

from perinstance.errors import NumericalTrouble
from perinstance.models.kernel_functions import CovarianceFunction
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import KERNEL_PIVOT, UNIT

#: rows of the Gram matrix that are filled at once
ROWS = 1024
#: products that are summed before sums of them are: 64 + n/64 roundings instead of n
TERMS = 64


@dataclass(frozen=True, slots=True)
class GramInverse:
    """The factor of ``K + alpha I``, and the diagonal of its inverse."""

    kernel: CovarianceFunction
    noise: float  #: alpha
    X: Floats
    root: Floats  #: lower Cholesky factor
    lengths: Floats  #: l
    columns: Floats  #: |M|, the lower triangle
    among: Floats  #: bounds ``|M| l``
    norms: Floats  #: square roots of the diagonal of the inverse, as computed
    spread: float  #: ``|M|`` may be off by this times ``norms_i norms_j``
    diagonal: Floats  #: M_ii
    diagonal_low: Floats
    diagonal_high: Floats

    @property
    def kappa(self) -> float:
        """How far, in units of ``l_i l_j``, the factor is from that of the exact matrix."""
        return (len(self.X) + self.kernel.units + 6.0) * UNIT

    def solve(self, b: Floats) -> Floats:
        """Solve for the columns of b."""
        return cho_solve((self.root, True), b, check_finite=False)

    def residual(self, b: Floats, x: Floats) -> Floats:
        """Bound ``|b - A x|``, entry by entry."""
        n = len(self.X)
        rest = b - self.noise * x
        for i in range(0, n, ROWS):
            K = self.kernel.value(self.X[i : i + ROWS], self.X)
            total = np.zeros((len(K), x.shape[1]))
            for j in range(0, n, TERMS):
                total += K[:, j : j + TERMS] @ x[j : j + TERMS]
            rest[i : i + ROWS] -= total
        units = TERMS + n / TERMS + self.kernel.units + 6.0
        return np.abs(rest) + UNIT * (np.abs(b) + units * self.lengths[:, None] * (self.lengths @ np.abs(x)))

    def lost(self, residual: Floats) -> Floats:
        """Bound what solutions with these residuals (one column each) are off by, row by row."""
        size = column_lengths(residual)
        known = dsymm(1.0, self.columns, residual, lower=1) + self.spread * np.outer(self.norms, self.norms @ residual)
        second = self.kappa * np.linalg.norm(self.lengths) / self.noise * np.outer(self.among, size)
        whole = np.sqrt(self.diagonal_high / self.noise)[:, None] * size
        return (1.0 + self.kappa) * np.minimum(known + second, whole)


def column_lengths(columns: Floats) -> Floats:
    """Return the length of each column, without underflow."""
    largest = np.abs(columns).max(axis=0, initial=0.0)
    return largest * np.linalg.norm(columns / np.where(largest > 0, largest, 1.0), axis=0)


def invert_gram(kernel: CovarianceFunction, noise: float, X: Floats) -> GramInverse:
    """Fill the Gram matrix in blocks, factorise it in place and invert the factor: two n x n matrices, no more."""
    n = len(X)
    root = _factor(kernel, noise, X)
    lengths = np.sqrt(kernel.square(X) + noise)
    inverse, info = dtrtri(root, lower=1)
    if info:
        raise NumericalTrouble("the Gram matrix is singular; use a larger alpha")
    diagonal = np.einsum("ij,ij->j", inverse, inverse)
    norms = np.sqrt(diagonal)
    one = n * UNIT
    # X L = I + F or L X = I + F, depending on the library: |F| <= n u |X||L|, whose norm is at most this
    off = float(one * np.linalg.norm(norms) * np.linalg.norm(lengths))
    if not off < 0.25:
        raise NumericalTrouble("alpha is too small next to the kernel for double precision; use a larger alpha")
    spread = 4.0 * off + one
    twice = np.zeros(n)  # |X|'|X| l, some rows of X at a time
    for i in range(0, n, ROWS):
        part = np.abs(inverse[i : i + ROWS])
        twice += part.T @ (part @ lengths)
    own = one * diagonal + 2.0 * one * norms * twice + 8.0 * off**2 * diagonal
    columns, _ = dlauum(inverse, lower=1, overwrite_c=1)
    np.abs(columns, out=columns)
    among = dsymm(1.0, columns, lengths[:, None], lower=1)[:, 0] * (1.0 + one) + spread * norms * (norms @ lengths)
    kappa = (n + kernel.units + 6.0) * UNIT
    lost = own + kappa * among**2 * (1.0 + kappa * (lengths @ lengths) / noise)
    # A <= (1 + zeta) L L', zeta = kappa |l|^2 |L^-1|^2, says more where the first is useless; and M_ii >= 1/A_ii
    zeta = 2.0 * kappa * (lengths @ lengths) * diagonal.sum()
    low = np.maximum(diagonal - lost, (diagonal - own) / (1.0 + zeta))
    low = np.maximum(low, (1.0 - 4.0 * UNIT) / lengths**2)
    high = np.maximum(np.minimum(diagonal + lost, (1.0 + UNIT) / noise), low)
    return GramInverse(
        kernel, noise, X, root, lengths, columns, among, norms, spread, np.clip(diagonal, low, high), low, high
    )  # fmt: skip


def _factor(kernel: CovarianceFunction, noise: float, X: Floats) -> Floats:
    n = len(X)
    G = np.empty((n, n), order="F")
    for i in range(0, n, ROWS):
        for j in range(0, i + ROWS, ROWS):  # the lower triangle is enough
            block = kernel.value(X[i : i + ROWS], X[j : j + ROWS])
            if not np.isfinite(block).all():
                raise NumericalTrouble("the kernel of two rows is not a finite number; scale the features")
            G[i : i + ROWS, j : j + ROWS] = block
    G[np.diag_indices(n)] += noise
    try:
        root = cholesky(G, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        raise NumericalTrouble("K + alpha I is not positive definite in double precision; use a larger alpha") from None
    # K comes rounded: beyond this, alpha drowns in it
    if np.diag(root).min() ** 2 < KERNEL_PIVOT * np.diag(root).max() ** 2:
        raise NumericalTrouble("alpha is too small next to the kernel for double precision; use a larger alpha")
    return root
