"""One draw from an ideal distribution, rounded to a public grid: the only way this package makes noise.

The ideal draw is enclosed in balls. When the ball of every coordinate lies between two rounding boundaries the grid
point is known, and is exactly the rounding of the ideal draw. When it does not, more bits are appended to the *same*
strings and the precision is doubled: nothing is drawn again. Rounding is post-processing, so the release is as private
as the ideal one and nothing is charged to delta (threat T19).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb
from numpy.typing import NDArray

from perinstance.errors import InvalidInput, NumericalTrouble
from perinstance.sampling.bits import BitString, SystemBits
from perinstance.sampling.enclosure import Undecided, dyadic, working_precision
from perinstance.sampling.ideal import Ideal

GRID = 2.0**-40
FIRST_PRECISION = 192  # bits of precision, and of each string, in the first attempt: one in 2^100 draws needs more
LAST_PRECISION = 1 << 15


@dataclass(frozen=True, slots=True)
class GridPoint:
    """Integers times a public power of two: what a release publishes.

    >>> GridPoint((3, -1), grid=0.25).values
    array([ 0.75, -0.25])
    """

    integers: tuple[int, ...]
    grid: float

    @property
    def values(self) -> NDArray[np.float64]:
        """The point as float64: exact up to ``2^53 grid``, correctly rounded beyond (post-processing)."""
        p, q = self.grid.as_integer_ratio()
        return np.array([_divide(k * p, q) for k in self.integers], dtype=np.float64)


def draw(ideal: Ideal, grid: float = GRID) -> GridPoint:
    """Draw once with the operating system's randomness; round to the nearest multiple of ``grid``, a power of two."""
    exponent = grid_exponent(grid)
    strings = [SystemBits() for _ in range(ideal.d)]
    return GridPoint(settle(ideal, strings, exponent), float(grid))


def settle(ideal: Ideal, strings: Sequence[BitString], exponent: int) -> tuple[int, ...]:
    """Return k such that ``k 2^exponent`` is the rounding of the draw that the strings stand for."""
    precision = FIRST_PRECISION
    while precision <= LAST_PRECISION:
        with working_precision(precision):
            try:
                unit, half = dyadic(1, -exponent), arb(0.5)
                cells = [(ball * unit + half).floor().unique_fmpz() for ball in ideal.enclose(strings, precision)]
            except Undecided:
                cells = [None]
        if None not in cells:
            return tuple(int(k) for k in cells)
        precision *= 2
    raise NumericalTrouble(
        f"a draw could not be enclosed tightly enough with {LAST_PRECISION} bits: the problem is conditioned beyond "
        "reason; use a larger alpha, or scale the columns"
    )


def grid_exponent(grid: float) -> int:
    """Return e with ``grid = 2^e``; anything but a power of two is refused."""
    fraction, exponent = math.frexp(grid) if math.isfinite(grid) else (0.0, 0)
    if fraction != 0.5:
        raise InvalidInput(f"grid must be a power of two, got {grid!r}; try 2**-40")
    return exponent - 1


def _divide(p: int, q: int) -> float:
    try:
        return p / q  # correctly rounded, for integers of any size
    except OverflowError:
        return math.copysign(float(np.finfo(np.float64).max), p)
