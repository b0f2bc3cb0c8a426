"""Sums of products over rows without any rounding: every float is a rational number.

>>> import numpy as np
>>> rational_sums(np.array([[1.0, 0.5], [3.0, 0.25]])).cross
[ 10,  5/4]
[5/4, 5/16]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import fmpq, fmpq_mat, fmpz, fmpz_mat

from perinstance.numerics.array_types import Floats

#: rows at a time
ROWS = 4096


@dataclass(frozen=True, slots=True)
class RationalSums:
    """``Z'Z`` over some rows; adding two gives that over both sets of rows."""

    cross: fmpq_mat
    finite = True  # the first fold has looked at every cell

    def __add__(self, other: RationalSums) -> RationalSums:
        return RationalSums(self.cross + other.cross)


def rational_sums(Z: Floats) -> RationalSums:
    """Return the sums over the rows of Z."""
    p = Z.shape[1]
    total = fmpq_mat(p, p)
    for start in range(0, len(Z), ROWS):
        fraction, exponent = np.frexp(Z[start : start + ROWS])
        whole = np.ldexp(fraction, 53).astype(np.int64)
        exponent = np.where(whole != 0, exponent - 53, 2000)
        least = np.minimum(exponent.min(axis=0), 1000)
        shift = np.where(whole != 0, exponent - least, 0)
        cells = [fmpz(a << b) for a, b in zip(whole.ravel().tolist(), shift.ravel().tolist(), strict=True)]
        M = fmpz_mat(len(fraction), p, cells)
        unit = [fmpq(2) ** int(k) for k in least]
        product = M.transpose() * M
        total = total + fmpq_mat(p, p, [product[i, j] * (unit[i] * unit[j]) for i in range(p) for j in range(p)])
    return RationalSums(total)


def rational(value: float) -> fmpq:
    """Return a float as the rational that it is."""
    return fmpq(*float(value).as_integer_ratio())
