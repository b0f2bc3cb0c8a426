"""Sums of products over rows without any rounding: every float is a rational number.

Columns are scaled by powers of two and cut into slices of ``BITS`` bits, whose products are whole numbers that floats
add up exactly (Ozaki et al. 2012, *Error-free transformations of matrix multiplication*).

>>> import numpy as np
>>> rational_sums(np.array([[1.0, 0.5], [3.0, 0.25]])).cross
[ 10,  5/4]
[5/4, 5/16]
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats

#: Bits of a slice, and rows at a time: sums of products stay below 2^53.
BITS, ROWS = 20, 1 << 10
#: Rows of which sums over all slices, at most 107, stay below 2^63.
MOST_ROWS = 1 << 16
#: Cells so many bits below the others are scaled later, so that none underflows: a multiple of BITS.
FAR = 45 * BITS


@dataclass(frozen=True, slots=True)
class RationalSums:
    """``Z'Z = whole 2^(exponent_i + exponent_j)`` over some rows; adding two gives that over both sets of rows."""

    whole: NDArray  #: (p, p) integers of any length
    exponent: NDArray[np.int64]
    finite = True  # the first fold has looked at every cell

    def __add__(self, other: RationalSums) -> RationalSums:
        least = np.minimum(self.exponent, other.exponent)
        above = [(one.exponent - least).astype(object) for one in (self, other)]
        whole = (self.whole << np.add.outer(above[0], above[0])) + (other.whole << np.add.outer(above[1], above[1]))
        return RationalSums(whole, least)

    @property
    def cross(self) -> fmpq_mat:
        """``Z'Z``."""
        p, unit = len(self.exponent), [fmpq(2) ** int(k) for k in self.exponent]
        return fmpq_mat(p, p, [fmpq(self.whole[i, j]) * unit[i] * unit[j] for i in range(p) for j in range(p)])


def rational_sums(Z: Floats) -> RationalSums:
    """Return the sums over the rows of Z."""
    n, p = Z.shape
    if n > MOST_ROWS:
        return rational_sums(Z[:MOST_ROWS]) + rational_sums(Z[MOST_ROWS:])
    exponent = np.frexp(np.abs(Z).max(axis=0, initial=0.0))[1].astype(np.int64)
    sums: defaultdict[int, NDArray] = defaultdict(lambda: np.zeros((p, p), dtype=np.int64))
    for start in range(0, n, ROWS):
        slices = _slices(Z[start : start + ROWS], exponent)
        S, rows = len(slices), np.hstack([Z[start : start + ROWS, :0], *slices])
        products = (rows.T @ rows).reshape(S, p, S, p).astype(np.int64)
        for i in range(S):
            for j in range(S):
                sums[i + j] += products[i, :, j, :]
    last = max(sums, default=0)
    whole: Any = sum((part.astype(object) << BITS * (last - k) for k, part in sums.items()), np.zeros((p, p), object))
    return RationalSums(whole, exponent - BITS * (last + 2) // 2)


def _slices(Z: Floats, exponent: NDArray) -> list[Floats]:
    """Return whole numbers Z_1, Z_2, ... below 2^BITS with ``Z = 2^exponent sum_k Z_k 2^(-BITS k)``."""
    rest, later = np.zeros(Z.shape), Z
    slices: list[Floats] = []
    while len(later) or rest.any():
        done = BITS * len(slices)
        if len(later) and done % FAR == 0:
            far, shift = np.abs(later) < np.ldexp(1.0, exponent - done - FAR), done - exponent
            far &= later != 0.0
            some = far.any()  # seldom
            near, later = (np.where(far, 0.0, later), np.where(far, later, 0.0)) if some else (later, later[:0])
            # scaled in two steps, as one power of two may be beyond the range of floats
            rest += near * np.ldexp(1.0, shift // 2) * np.ldexp(1.0, shift - shift // 2)
        rest *= 2.0**BITS
        slices.append(np.trunc(rest))
        rest -= slices[-1]
    return slices


def rational(value: float) -> fmpq:
    """Return a float as the rational that it is."""
    return fmpq(*float(value).as_integer_ratio())
