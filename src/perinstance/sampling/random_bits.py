"""An endless string of fair bits per coordinate, from the operating system, appended as needed.

A draw is a function of an infinite bit string. Asking for a longer prefix *appends*: earlier bits never change, so
refining a draw is not drawing again. Nothing is buffered beyond the prefix itself, so a forked process shares no
future bit with its parent.
"""

from __future__ import annotations

import secrets
from typing import Protocol


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
