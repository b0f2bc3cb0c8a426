"""An endless string of fair bits per coordinate, from the operating system, appended as needed.

A draw is a function of an infinite bit string. Asking for a longer prefix *appends*: earlier bits never change, so
refining a draw is not drawing again. Nothing is buffered beyond the prefix itself, so a forked process shares no
future bit with its parent.
"""

from __future__ import annotations

import secrets
from typing import Literal, Protocol

from flint import arb

from perinstance.sampling.ball_arithmetic import Ball, Undecided

Noise = Literal["gaussian", "laplace"]
NOISES: tuple[Noise, ...] = ("gaussian", "laplace")


class BitString(Protocol):
    """What a draw asks of its randomness."""

    def prefix(self, n: int) -> int:
        """Return the first n bits as an integer, the first bit being the most significant."""


class SystemBits:
    """The bit string of one coordinate of one release. There is no seed.

    >>> bits = SystemBits()
    >>> bits.prefix(64) == bits.prefix(256) >> 192
    True
    """

    __slots__ = ("_bits", "_length")

    def __init__(self) -> None:
        self._bits = 0
        self._length = 0

    def prefix(self, n: int) -> int:
        """Return the first n bits, drawing what is missing from ``secrets``."""
        missing = n - self._length
        if missing > 0:
            self._bits = (self._bits << missing) | secrets.randbits(missing)
            self._length = n
        return self._bits >> (self._length - n)

    def __repr__(self) -> str:  # the bits are the noise: they must not reach a log
        return f"SystemBits({self._length} bits drawn)"


def variate(noise: Noise, bits: BitString, n: int) -> Ball:
    """Enclose the standard normal or Laplace variate that a bit string stands for, knowing n of its bits.

    The first bit is the sign, the others are the binary digits of V, uniform on (0, 1): ``|Z| = sqrt(2) erfcinv(V)`` is
    half-normal and ``|Z| = -log V`` exponential. n bits put V in an interval of width ``2^(1-n)``, hence Z in a ball;
    more bits shrink the ball around the same Z. There is no rejection.
    """
    k = bits.prefix(n)
    digits = n - 1
    negative = k >> digits
    k &= (1 << digits) - 1
    if k == 0:  # V may be as small as 0: the magnitude has no upper bound yet
        raise Undecided
    V = arb((2 * k + 1, -digits - 1), (1, -digits - 1))  # [k, k+1] 2^-digits
    magnitude = V.erfcinv() * arb(2).sqrt() if noise == "gaussian" else -V.log()
    return -magnitude if negative else magnitude
