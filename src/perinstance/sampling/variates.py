"""Standard normal and Laplace variates as functions of a bit string.

The first bit is the sign, the others are the binary digits of V, uniform on (0, 1):
``|Z| = sqrt(2) erfcinv(V)`` is half-normal and ``|Z| = -log V`` is exponential. n bits of the string put V in an
interval of width ``2^(1-n)``, hence Z in a ball; more bits shrink the ball around the same Z. There is no rejection.
"""

from __future__ import annotations

from typing import Literal

from flint import arb

from perinstance.sampling.ball_arithmetic import Ball, Undecided
from perinstance.sampling.random_bits import BitString

Noise = Literal["gaussian", "laplace"]
NOISES: tuple[Noise, ...] = ("gaussian", "laplace")


def variate(noise: Noise, bits: BitString, n: int) -> Ball:
    """Enclose the standard variate that this bit string stands for, knowing n of its bits."""
    k = bits.prefix(n)
    digits = n - 1
    negative = k >> digits
    k &= (1 << digits) - 1
    if k == 0:  # V may be as small as 0: the magnitude has no upper bound yet
        raise Undecided
    V = arb((2 * k + 1, -digits - 1), (1, -digits - 1))  # [k, k+1] 2^-digits
    magnitude = V.erfcinv() * arb(2).sqrt() if noise == "gaussian" else -V.log()
    return -magnitude if negative else magnitude
