"""The last iterate, or all of them, in ball arithmetic: for few coefficients the two Gaussians are known to all digits.

Sums over people are exact integers, powers of ``M = I - eta H`` are balls. With ``W S_Q W' = I`` the pair is
``N(v, I + N)`` against ``N(0, I)``, and rotations make N diagonal but for a matrix E of norm e.

What E, and rounding to float64, may take is charged. Lemma: ``x -> A x + noise`` of covariance ``I - AA'`` keeps
``N(0, I)`` and takes ``(v, N)`` to ``(A v, A N A')``; a pair that is taken to another loses no less. With ``D`` the
diagonal, ``N = diag(D / (1 - t), G, -G)``, ``v = (m / sqrt(1 - t), 0, 0)`` and
``A = (sqrt(1 - t) I, sqrt(t) B, sqrt(t) C)``, ``BB', CC' = (I +- E / (t G)) / 2``, which exist for ``e <= t G``:
``AA' = I``, ``A v = m`` and ``A N A' = D + E``. The coordinates of excess ``+-G`` have a log ratio below ``1100 G`` but
for a probability below 1e-300, and a shift of three times that loses no less than whoever answers at random with that
log ratio: they are one more coordinate, of shift ``ENCLOSED_SHIFT``. Raising a ``|D_j|`` by a share and ``|m_j|`` by
half of it is the lemma once more, with A diagonal; a loss never falls with a ``|m_j|``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb, arb_mat

from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import EXACT, UPPER
from perinstance.numerics.rounding import ENCLOSED_ERROR, ENCLOSED_SHIFT, EXACT_PARAMETER, NORM_UP, ROTATIONS
from perinstance.pairs import GeneralGaussian
from perinstance.sampling.ball_arithmetic import Matrix, Undecided, exact


def charged(N: Matrix, v: Matrix) -> GeneralGaussian:
    """Return the pair ``N(v, I + N)`` against ``N(0, I)``: diagonalised, raised by what was lost, and labelled."""
    nu, m, e, off = _diagonal(N, v)
    if not e <= ENCLOSED_ERROR:
        raise Undecided
    wide, shift = nu * NORM_UP, (np.abs(m) + off) * NORM_UP
    wide, shift = np.append(wide, 0.0), np.append(shift, ENCLOSED_SHIFT)
    size = np.hypot(np.linalg.norm(nu), np.linalg.norm(m))
    lost = np.hypot(np.linalg.norm(wide[:-1] - nu), np.linalg.norm(shift[:-1] - np.abs(m))) + ENCLOSED_SHIFT
    code = EXACT if lost <= EXACT_PARAMETER * size else UPPER
    if not ((wide > -1.0).all() and np.isfinite(wide).all()):  # no ratio of variances that float64 can hold
        wide, shift, code = np.zeros_like(wide), np.full_like(shift, np.inf), UPPER
    return GeneralGaussian(wide[None, :], shift[None, :], np.array([code], dtype=np.uint8))


def _diagonal(N: Matrix, v: Matrix) -> tuple[Floats, Floats, float, float]:
    """Return eigenvalues, the vector along them, and what is left of the matrix and may be wrong in the vector."""
    n = N.nrows()
    middle = np.array([[float(a.mid()) for a in row] for row in N.tolist()])
    if not np.isfinite(middle).all():
        raise Undecided
    V = arb_mat([[exact(a) for a in row] for row in np.linalg.eigh(0.5 * (middle + middle.T))[1].tolist()])
    for _ in range(4):  # orthogonal to all digits
        V = (V * (identity(n) * 3 - V.transpose() * V) * arb(0.5)).mid()
    crooked = _size(V.transpose() * V - identity(n))
    turned, along = V.transpose() * N * V, V.transpose() * v
    size = _size(turned)
    lost = _radius(turned) + (2 * crooked + ROTATIONS) * size
    off = _radius(along) + (crooked + ROTATIONS) * _size(along)
    values, m = _jacobi(turned.mid().tolist(), along.mid().entries())
    return np.array([float(a) for a in values]), np.array([float(a) for a in m]), lost, off


def _jacobi(A: list[list[Any]], v: list[Any]) -> tuple[list[Any], list[Any]]:
    """Rotate plane by plane until nothing is left beside the diagonal, the vector along with it."""
    n = len(A)
    least = max((abs(a) for row in A for a in row), key=float, default=arb(0)) * arb(ROTATIONS) / (8 * n)
    for _ in range(40):
        planes = [(i, j) for i in range(n) for j in range(i + 1, n) if abs(A[i][j]) > least]
        if not planes:
            return [A[i][i] for i in range(n)], v
        for i, j in planes:
            if not abs(A[i][j]) > least:
                continue
            c, s = _rotation(A[i][i], A[i][j], A[j][j])
            for row in A:
                row[i], row[j] = (c * row[i] - s * row[j]).mid(), (s * row[i] + c * row[j]).mid()
            A[i], A[j] = (
                [(c * a - s * b).mid() for a, b in zip(A[i], A[j], strict=True)],
                [(s * a + c * b).mid() for a, b in zip(A[i], A[j], strict=True)],
            )
            v[i], v[j] = (c * v[i] - s * v[j]).mid(), (s * v[i] + c * v[j]).mid()
    raise Undecided


def _rotation(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Return cosine and sine of the rotation that makes ``[[a, b], [b, c]]`` diagonal."""
    t = (c - a) / (2 * b)
    tangent = (1 / (abs(t) + (1 + t * t).sqrt())).mid()
    tangent = -tangent if t < 0 else tangent
    cosine = (1 + tangent * tangent).rsqrt().mid()
    return cosine, (tangent * cosine).mid()


def power_sum(M: Matrix, T: int) -> Matrix:
    """``I + M + ... + M^(T-1)``, by doubling."""
    total, power = identity(M.nrows()), M  # of one term, and M^1
    for bit in bin(T)[3:]:
        total, power = total + total * power, power * power
        if bit == "1":
            total, power = total * M + identity(M.nrows()), power * M
    return total


def identity(n: int) -> Matrix:
    """``I``, exactly."""
    return arb_mat([[arb(int(i == j)) for j in range(n)] for i in range(n)])


def _size(M: Matrix) -> float:
    """Bound the norm of a matrix or vector."""
    return float(np.sqrt(sum(float(abs(a).upper()) ** 2 for a in M.entries()))) * NORM_UP


def _radius(M: Matrix) -> float:
    return float(np.sqrt(sum(float(a.rad()) ** 2 for a in M.entries()))) * NORM_UP
