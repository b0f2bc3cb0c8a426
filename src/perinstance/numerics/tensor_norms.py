"""How large a symmetric form of third or fourth order is on the sphere, from above.

A quartic is ``V'QV`` with ``V = vec(v v')``, so it is at most the largest eigenvalue of Q on symmetric matrices. Q is
not the only matrix with this form: ``V'(e e' - I)V = 0`` for every v, e = vec(I). So the largest eigenvalue of
``Q + z (e e' - I)`` is a bound for each z, and the best z is taken (the first step of the sum-of-squares relaxation;
without it ``-|v|^4`` would be taken for zero).
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from scipy.optimize import minimize_scalar

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import UNIT


def cubic_top(S: Floats) -> float:
    """Bound ``|S[a,b,c]|`` over unit vectors, S symmetric: the root of the largest ``|S[v,v]|^2``, which is a quartic.

    >>> S = np.zeros((2, 2, 2)); S[0, 0, 0] = 3.0
    >>> round(cubic_top(S), 6)
    3.0
    """
    p = len(S)
    if p == 0:
        return 0.0
    U = S.reshape(p, p * p)
    return float(np.sqrt(max(quartic_top(U.T @ U), 0.0)))


def quartic_size(Q: Floats) -> float:
    """Bound ``|Q[v,v,v,v]|`` over unit vectors; for a symmetric tensor this is ``|Q[a,b,c,d]|`` as well (Banach)."""
    p = len(Q)
    flat = Q.reshape(p * p, p * p)
    return max(quartic_top(flat), quartic_top(-flat), 0.0)


def quartic_top(Q: Floats) -> float:
    """Bound ``V'QV``, ``V = vec(v v')``, over unit vectors v.

    >>> round(quartic_top(np.eye(9)), 9), round(quartic_top(-np.eye(9)), 9)
    (1.0, -1.0)
    """
    if not np.isfinite(Q).all():
        return np.inf
    p = int(round(np.sqrt(len(Q))))
    first, second = np.triu_indices(p)
    basis = np.zeros((p * p, len(first)))  # of the symmetric matrices, orthonormal
    weight = np.where(first == second, 0.5, np.sqrt(0.5))
    basis[first * p + second, np.arange(len(first))] += weight
    basis[second * p + first, np.arange(len(first))] += weight
    inner = basis.T @ (Q + Q.T) @ basis / 2
    e = basis.T @ np.eye(p).ravel()
    zero = np.outer(e, e) - np.eye(len(e))

    def top(z: float) -> float:
        return float(np.linalg.eigvalsh(inner + z * zero)[-1])

    size = float(np.linalg.norm(inner, 2))
    if size == 0:
        return 0.0
    best = top(0.0)
    if p > 1:
        bounds = (-size, size)
        best = min(
            best, float(minimize_scalar(top, bounds=bounds, method="bounded", options={"xatol": 1e-4 * size}).fun)
        )
    return best + 64 * len(e) * UNIT * size * p


def symmetric(Q: Floats, axes: tuple[int, ...]) -> Floats:
    """Average a tensor over all orders of some of its indices.

    >>> symmetric(np.array([[0.0, 1.0], [3.0, 0.0]]), (0, 1))
    array([[0., 2.],
           [2., 0.]])
    """
    orders = [dict(zip(axes, order, strict=True)) for order in permutations(axes)]
    return np.asarray(sum(np.transpose(Q, [o.get(i, i) for i in range(Q.ndim)]) for o in orders) / len(orders))
