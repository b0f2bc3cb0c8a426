"""One draw from an ideal distribution, rounded to a public grid: the only way this package makes noise.

The grid point is exactly the rounding of the ideal draw (``ideal_laws.settle``). Rounding is post-processing, so the
release is as private as the ideal one and nothing is charged to delta.

How long a draw takes depends on the noise, and must not tell. It is padded to ``q, 2 q, 4 q, ...`` where the quantum q
is a function of the number of coordinates and of the size of the factorisations alone, two or three times what they
take on a slow core. One bucket is the rule. Reading and summing n rows is not hidden: it takes time that grows with n.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.checked_numbers import got, is_number
from perinstance.errors import InvalidInput
from perinstance.numerics.rounding import LARGEST
from perinstance.sampling.ideal_laws import Ideal, settle
from perinstance.sampling.known_answers import self_test
from perinstance.sampling.random_bits import SystemBits

GRID = 2.0**-40
PER_DRAW = 0.004  # seconds
SPIN = 0.001
PER_COORDINATE = 100e-6
PER_FACTOR = 1.8e-6  # times d^(5/2): what a factorisation with balls was measured to take up to d = 200


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
        found = []
        for k in self.integers:
            try:
                found.append(k * p / q)  # correctly rounded, for integers of any size
            except OverflowError:
                found.append(LARGEST if k > 0 else -LARGEST)
        return np.array(found, dtype=np.float64)


def draw(ideal: Ideal, grid: float = GRID) -> GridPoint:
    """Draw once with the operating system's randomness; round to the nearest multiple of ``grid``, a power of two."""
    exponent = grid_exponent(grid)
    self_test()
    with steady_time(quantum(ideal.d, ideal.work)):
        strings = [SystemBits() for _ in range(ideal.d)]
        return GridPoint(settle(ideal, strings, exponent), float(grid))


def grid_exponent(grid: float) -> int:
    """Return e with ``grid = 2^e``; anything but a power of two is refused."""
    fraction, exponent = math.frexp(grid) if is_number(grid) and 0 < grid <= LARGEST else (0.0, 0)
    if fraction != 0.5:
        raise InvalidInput(f"grid must be a power of two, got {got(grid)}; try 2**-40")
    return exponent - 1


def quantum(coordinates: int, work: int) -> float:
    """Seconds that a draw is padded to: a public function of public sizes."""
    return PER_DRAW + PER_COORDINATE * coordinates + PER_FACTOR * work ** (5 / 6)


@contextmanager
def steady_time(seconds: float) -> Iterator[None]:
    """Leave after ``seconds``, or twice, four times ... as long; also when the body fails."""
    start = time.monotonic()
    try:
        yield
    finally:
        end = seconds
        while time.monotonic() - start > end:
            end *= 2
        time.sleep(max(0.0, start + end - SPIN - time.monotonic()))
        while time.monotonic() - start < end:  # how late a sleeper wakes up depends on how long it slept
            pass
