"""Student noise on an estimate, as a function of exact data and bit strings: ``theta_hat + scale z / sqrt(g/nu)``.

z is standard normal in d dimensions and g chi-squared with nu degrees of freedom, a whole number: ``-2 log V`` of nu/2
uniform numbers, and one squared normal number if nu is odd. Their bits come out of the first coordinate's string, dealt
out in turn, so a draw is still a function of one string for each coordinate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.checked_numbers import positive, whole_number
from perinstance.sampling.ball_arithmetic import Ball, exact
from perinstance.sampling.exact_gram import NormalEquations
from perinstance.sampling.ideal_laws import estimate
from perinstance.sampling.random_bits import BitString
from perinstance.sampling.variates import variate

MOST_DEGREES = 1000  # beyond, Student noise is Gaussian noise to three digits


def check_degrees(degrees_of_freedom: Any) -> int:
    """Validate nu: whole, so that a chi-squared number is made of whole uniform and normal ones."""
    return whole_number("degrees_of_freedom", degrees_of_freedom, 1, MOST_DEGREES, 4)


@dataclass(frozen=True, slots=True)
class DealtBits:
    """Every ``of``-th bit of a string, from ``first`` on: strings dealt from one are independent of each other."""

    bits: BitString
    first: int
    of: int

    def prefix(self, n: int) -> int:
        """Return the first n bits of this share."""
        whole = format(self.bits.prefix(n * self.of), f"0{n * self.of}b")
        return int(whole[self.first :: self.of], 2)


@dataclass(frozen=True, slots=True, eq=False)
class ExactStudent:
    """``theta_hat + scale z / sqrt(g/nu)``; ``center`` as in ``ExactOutput``."""

    center: NormalEquations | Sequence[Any] | NDArray[np.float64]
    scale: float
    degrees_of_freedom: int

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        check_degrees(self.degrees_of_freedom)

    @property
    def d(self) -> int:
        """Number of coefficients."""
        return self.center.d if isinstance(self.center, NormalEquations) else len(self.center)

    @property
    def work(self) -> int:
        """One factorisation for the center, and the uniform numbers of g."""
        return isinstance(self.center, NormalEquations) * self.d**3 + 100 * int(self.degrees_of_freedom)

    def enclose(self, strings: Sequence[BitString], n: int) -> list[Ball]:
        """Enclose each coordinate."""
        nu = int(self.degrees_of_freedom)
        parts = 1 + nu // 2 + nu % 2
        shares = [DealtBits(strings[0], k, parts) for k in range(parts)]
        g = sum((2 * abs(variate("laplace", one, n)) for one in shares[1 : 1 + nu // 2]), exact(0))
        if nu % 2:
            g = g + variate("gaussian", shares[-1], n) ** 2
        length = exact(self.scale) * (exact(nu) / g).sqrt()
        center = self.center
        theta = estimate(center) if isinstance(center, NormalEquations) else [exact(v) for v in center]
        own = [shares[0], *strings[1:]]
        return [t + length * variate("gaussian", bits, n) for t, bits in zip(theta, own, strict=True)]
