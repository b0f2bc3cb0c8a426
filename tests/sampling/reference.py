"""The slow road: the same draws with 400 digits of mpmath, no balls, no shared code."""

from __future__ import annotations

import hashlib

import mpmath
import numpy as np
from mpmath import mp, mpf

DIGITS = 400
BITS = 1600  # of each string: far below the grid even after the inverse


def stream(label: str) -> tuple[int, mpf]:
    """Sign bit and uniform V of a SHAKE-256 stream."""
    value = int.from_bytes(hashlib.shake_256(label.encode()).digest(BITS // 8), "big")
    return value >> (BITS - 1), mpf(value & ((1 << (BITS - 1)) - 1)) / mpf(2) ** (BITS - 1)


def normal(label: str) -> mpf:
    """Standard normal of a stream: Newton's method on ``erfc(x) = V`` from a double."""
    from scipy.special import erfcinv

    negative, V = stream(label)
    x = mpf(float(erfcinv(float(V))))
    for _ in range(7):
        x += (mpmath.erfc(x) - V) * mpmath.sqrt(mp.pi) / 2 * mpmath.exp(x * x)
    assert abs(mpmath.erfc(x) / V - 1) < mpf(10) ** (20 - DIGITS)
    z = mpmath.sqrt(2) * x
    return -z if negative else z


def laplace(label: str) -> mpf:
    """Standard Laplace variate of a stream."""
    negative, V = stream(label)
    return mpmath.log(V) if negative else -mpmath.log(V)


def rounded(values: list[mpf], exponent: int) -> tuple[int, ...]:
    """Nearest multiples of ``2^exponent``."""
    return tuple(int(mpmath.floor(v * mpf(2) ** -exponent + mpf(1) / 2)) for v in values)


def matrix(values: np.ndarray) -> mpmath.matrix:
    """Floats as the exact numbers they are."""
    return mpmath.matrix([[mpf(v) for v in row] for row in np.atleast_2d(values).tolist()])


def equations(X: np.ndarray, y: np.ndarray, alpha: float) -> tuple[mpmath.matrix, mpmath.matrix]:
    """``H`` and ``b``, entry by entry."""
    Xm, ym = matrix(X), matrix(y[:, None])
    return Xm.T * Xm + mpf(alpha) * mpmath.eye(X.shape[1]), Xm.T * ym


def posterior(X, y, alpha, gamma, z):
    """``H^-1 b + L^-T z / sqrt(gamma)``."""
    H, b = equations(X, y, alpha)
    L = mpmath.cholesky(H)
    return list(mpmath.lu_solve(H, b) + mpmath.lu_solve(L.T, mpmath.matrix(z)) / mpmath.sqrt(mpf(gamma)))


def objective(X, y, alpha, scale, z):
    """``H^-1 (b - scale z)``."""
    H, b = equations(X, y, alpha)
    return list(mpmath.lu_solve(H, b - mpf(scale) * mpmath.matrix(z)))


def output(X, y, alpha, scale, A, z):
    """``H^-1 b + scale M^-T z``, ``A = M M'``."""
    H, b = equations(X, y, alpha)
    M = mpmath.cholesky(matrix(A))
    return list(mpmath.lu_solve(H, b) + mpf(scale) * mpmath.lu_solve(M.T, mpmath.matrix(z)))
