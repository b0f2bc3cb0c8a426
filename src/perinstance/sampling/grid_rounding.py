"""The grid point of an ideal draw, decided by enclosures that are refined until they decide.

When the ball of every coordinate lies between two rounding boundaries the grid point is known. When it does not, more
bits are appended to the *same* strings and the precision is doubled: nothing is drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb

from perinstance.errors import NumericalTrouble
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.sampling.ball_arithmetic import Undecided, dyadic
from perinstance.sampling.ideal_laws import Ideal
from perinstance.sampling.random_bits import BitString

FIRST_PRECISION = 192  # bits of precision, and of each string, in the first attempt: hardly any draw needs more
LAST_PRECISION = 1 << 15


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
