"""Coordinates in which the Hessian is the identity and the noise's precision is diagonal.

With ``H = L L'`` (columns scaled first) and ``L^-1 A L^-T = V diag(nu) V'``, the rows ``t = V'L^-1 x`` give at once

    x'H^-1 x = sum t_k^2,   |H^-1 x|_A^2 = sum nu_k t_k^2,   |A H^-1 x|^2 in the H^-1 norm = sum nu_k^2 t_k^2,

so that every norm a certificate needs costs one d x d product per person.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from perinstance.errors import InvalidInput, NumericalTrouble
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import HALF_UNIT, TERM_ROUNDINGS, UNIT

#: above this condition number (columns scaled) no bound can be stated in double precision
CONDITION_LIMIT = 1e13

FLAT = (
    "the objective is flat in some direction, so it has no single minimum (columns that repeat each other, more "
    "coefficients than people, or classes that a plane separates); use a penalty: alpha > 0, or a finite C"
)


@dataclass(frozen=True, slots=True)
class Whitening:
    """``T H T' = I`` and ``T A^-1.. `` diagonal: ``H^-1 = T'T``, ``H^-1 A H^-1 = T' diag(nu) T``."""

    T: Floats  #: (d, d)
    nu: Floats  #: (d,) eigenvalues of A relative to H, from above: what rounding may have taken from them is added
    condition: float  #: of H, columns scaled to length one
    lost: float = 0.0  #: by how much ``T H T'`` may differ from the identity in any direction, H's own sums included

    @property
    def error(self) -> float:
        """What a certificate charges sixteen times for each length that it takes from products ``t = T x``.

        A product of p terms loses ``p u/2 |T||x|`` in any order, and ``||T||x|| <= sqrt(p condition) |t|`` (columns
        scaled), so a leverage loses ``p^1.5 sqrt(condition) u``, and what is left without a person twice as much again.
        T itself may be ``lost`` off.
        """
        p = len(self.nu)
        return UNIT * (p + p**1.5 * self.condition**0.5 / 8) + self.lost

    @property
    def unusable(self) -> bool:
        """Whether so much may be lost that nothing of second order in it is charged for: only a refit is trusted."""
        return not 1e3 * self.error < 1

    def solve(self, g: Floats) -> Floats:
        """``H^-1 g`` for rows g."""
        return (g @ self.T.T) @ self.T

    def norm(self, g: Floats) -> float:
        """``|g|`` in the H^-1 norm."""
        return float(np.linalg.norm(self.T @ g))

    def norm_bound(self, entries: Floats) -> float:
        """Bound ``|g|`` in the H^-1 norm when its entries are at most these."""
        return float(np.linalg.norm(np.abs(self.T) @ entries))


def whiten(H: Floats, precision: Floats | None = None, chain: float = 0.0) -> Whitening:
    """Return the whitening of H (positive definite) and of a precision A (None: the identity).

    ``chain`` is how many additions a term of H went through at most, where the sums state it. Then entry (i, j) is off
    by at most ``chain u/2 sqrt(H_ii H_jj)`` (Cauchy and Schwarz), the p x p matrix of these with columns scaled has a
    norm of at most ``p chain u/2``, and in the norm of H that is ``p chain u/2`` over the smallest eigenvalue of the
    scaled H. The same holds for any other sum of ``w z z'``, relative to its own largest eigenvalue in that norm: its
    diagonal is at most that eigenvalue times H's.
    """
    diagonal = np.diag(H)
    if not np.isfinite(H).all():
        raise NumericalTrouble("the Hessian overflows float64; divide the largest columns by a public constant")
    if not (diagonal > 0).all():
        raise NumericalTrouble(FLAT)
    scale = 1 / np.sqrt(diagonal)
    C = H * np.outer(scale, scale)
    values = np.linalg.eigvalsh(C)
    if not values[0] * CONDITION_LIMIT > values[-1]:
        raise NumericalTrouble(FLAT)
    root = np.linalg.cholesky(C)
    W = solve_triangular(root, np.diag(scale), lower=True)
    A = None if precision is None else np.asarray(precision, dtype=np.float64)
    if A is not None and A.shape != H.shape:
        raise InvalidInput(f"the precision must be {H.shape[0]} x {H.shape[0]}, got shape {A.shape}")
    inner = W @ W.T if A is None else W @ A @ W.T
    nu, V = np.linalg.eigh((inner + inner.T) / 2)
    if not nu[-1] < 1e150:  # its square is wanted too
        raise NumericalTrouble(
            "coefficients of columns as small as these overflow float64; "
            "multiply the smallest columns by a public constant"
        )
    T = V.T @ W
    # a step along the small eigenvalues of a precision must not be measured too short by the rounding of the large ones
    unsure = _off_diagonal(T, np.eye(len(nu)) if A is None else A, nu)
    in_sums = (chain + TERM_ROUNDINGS) * HALF_UNIT * len(nu) / float(values[0]) if chain else 0.0
    lost = _off_diagonal(T / scale, C, np.ones(len(nu))) + in_sums
    return Whitening(T, np.maximum(nu, 0.0) + unsure, float(values[-1] / values[0]), lost)


def _off_diagonal(T: Floats, M: Floats, diagonal: Floats) -> float:
    """Bound the norm of ``T M T' - diag``, whatever became of T on its way: formed, and what forming it may lose.

    Two products of p terms lose ``p u |T||M||T'|`` in any order, scaling and differences a few u more.
    """
    found = T @ M @ T.T
    found.flat[:: len(T) + 1] -= diagonal
    size = np.linalg.norm(np.abs(T) @ np.abs(M) @ np.abs(T).T)
    return float(np.linalg.norm(found) + UNIT * (len(T) + 4) * size)
