"""Small and awkward: what holds without one person, in exact rational arithmetic.

Every float is a rational number. With a handful of people and columns the normal equations can be solved without any
rounding, whatever their condition; singular or not is then a fact and not a matter of tolerance.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from flint import fmpq, fmpq_mat

from perinstance.numerics.array_types import Floats


def exact_without(rows: Floats, aim: Floats, penalty: Floats, x: Floats, target: float) -> tuple[float, float, Floats]:
    """Return mu, r and ``H_with^-1 x`` for ``H = rows'rows + diag(penalty)``; (inf, nan, 0) when x is out of its range.

    >>> exact_without(np.array([[1.0], [1.0]]), np.array([1.0, 2.0]), np.zeros(1), np.array([1.0]), 4.0)
    (0.5, 2.5, array([0.33333333]))
    """
    p = len(x)
    Z, b = _matrix(rows), _matrix(aim[:, None])
    H = Z.transpose() * Z if len(rows) else fmpq_mat(p, p)
    g = Z.transpose() * b if len(rows) else fmpq_mat(p, 1)
    for j in range(p):
        H[j, j] += _rational(penalty[j])
    row = [_rational(v) for v in x]
    system = fmpq_mat(p, p + 2, [v for i in range(p) for v in [*(H[i, j] for j in range(p)), row[i], g[i, 0]]])
    echelon, _ = system.rref()
    v, theta = [fmpq(0)] * p, [fmpq(0)] * p
    for i in range(p):
        lead = next((j for j in range(p + 1) if echelon[i, j] != 0), None)
        if lead == p:  # 0 = 1: no combination of the others' rows gives x
            return np.inf, np.nan, np.zeros(p)
        if lead is not None:
            v[lead], theta[lead] = echelon[i, p], echelon[i, p + 1]
    mu = sum((a * c for a, c in zip(row, v, strict=True)), fmpq(0))
    r = _rational(target) - sum((a * c for a, c in zip(row, theta, strict=True)), fmpq(0))
    return _float(mu), _float(r), np.array([_float(c / (1 + mu)) for c in v])


def _rational(value: float) -> fmpq:
    return fmpq(*float(value).as_integer_ratio())


def _float(value: fmpq) -> float:
    return float(Fraction(int(value.p), int(value.q)))


def _matrix(values: Floats) -> fmpq_mat:
    rows, columns = values.shape
    return fmpq_mat(rows, columns, [_rational(v) for v in values.ravel()])
