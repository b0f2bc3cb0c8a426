"""Sums of columns without a rounding error, whatever the columns hold: timestamps, 1e300, signs that cancel.

Numbers of one sign and exponent are integers in the same unit: their 53 bits are added as integers, in two halves that
cannot overflow (the large superaccumulator of Neal, *Fast exact summation*, arXiv:1505.05571). The sum does not depend
on the order of rows, on blocks or threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perinstance.folds.block import Block, pieces
from perinstance.numerics.compilation import exact_kernel

# The bits of a float64, highest first: a sign, 11 of the exponent, 52 of the fraction below an unwritten one.
FRACTION_BITS, EXPONENTS = 52, 2048
HALF_BITS = 26
FRACTION, HALF, ONE = (np.uint64(v) for v in ((1 << FRACTION_BITS) - 1, (1 << HALF_BITS) - 1, 1 << FRACTION_BITS))
TO_EXPONENT, TO_HALF, EXPONENT = (np.uint64(v) for v in (FRACTION_BITS, HALF_BITS, EXPONENTS - 1))

UNIT_BITS = 1074  # sums are counted in units of 2^-1074, the smallest float
COLUMNS = 64  # summed at a time: each has 64 KB of sums


@dataclass(frozen=True, slots=True)
class ColumnSums:
    """How many rows there are, and the exact sum of each column in units of ``2^-1074``. Confidential."""

    n: int
    units: tuple[int, ...]
    finite: bool  #: False when a NaN or an infinity was met; the sums say nothing then

    def __add__(self, other: ColumnSums) -> ColumnSums:
        units = tuple(a + b for a, b in zip(self.units, other.units, strict=True))
        return ColumnSums(self.n + other.n, units, self.finite and other.finite)


def column_sums(block: Block) -> ColumnSums:
    """Fold: the exact sums of one block's columns.

    >>> sums = column_sums(Block(np.array([[1e300], [1.0], [-1e300]]), np.zeros(3)))
    >>> sums.units[0] == 1 << 1074
    True
    """
    units: list[int] = []
    finite = True
    for start in range(0, block.X.shape[1], COLUMNS):
        X = block.X[:, start : start + COLUMNS]
        sums = np.zeros((X.shape[1], 2 * EXPONENTS, 2), dtype=np.uint64)
        for run in pieces(X, X.shape[1]):
            _add_by_exponent(np.asarray(X[run], dtype=np.float64).view(np.uint64), sums)
        finite = finite and not sums[:, [EXPONENTS - 1, -1]].any()
        for column in sums:
            total = 0
            for place in np.flatnonzero(column[:, 0] | column[:, 1]).tolist():
                low, high = column[place].tolist()
                part = (low + (high << HALF_BITS)) << max(place % EXPONENTS - 1, 0)
                total += part if place < EXPONENTS else -part
            units.append(total)
    return ColumnSums(len(block.X), tuple(units), finite)


@exact_kernel
def _add_by_exponent(bits, sums):  # pragma: no cover - compiled
    """Add the integers of rows, given as the bits of float64, to ``sums[column, sign and exponent, half]``."""
    for j in range(bits.shape[1]):
        for i in range(bits.shape[0]):
            word = bits[i, j]
            place, whole = word >> TO_EXPONENT, word & FRACTION
            if place & EXPONENT:
                whole |= ONE
            sums[j, place, 0] += whole & HALF
            sums[j, place, 1] += whole >> TO_HALF
