"""Randomness of the operating system: an endless string of fair bits per coordinate, and which rows are used.

A draw is a function of an infinite bit string. Asking for a longer prefix *appends*: earlier bits never change, so
refining a draw is not drawing again. Nothing is buffered beyond the prefix itself, so a forked process shares no
future bit with its parent.
"""

from __future__ import annotations

import secrets
from typing import Literal, Protocol

import numpy as np
from flint import arb
from numpy.typing import NDArray

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


def chosen_rows(people: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """Mark the rows that are used: all rows of a person who has at most k, and k rows of everybody else.

    They are drawn, never chosen by position or by value. Each row gets 64 bits, and of each person the k rows with the
    smallest are used. Where two rows of one person got the same bits, all bits are drawn again: every choice of k rows
    is then exactly equally likely, and what is chosen of one person is independent of all others.

    >>> chosen_rows(np.array([0, 1, 0, 2, 1, 0]), 3).tolist()
    [True, True, True, True, True, True]
    >>> int(chosen_rows(np.array([0, 1, 0, 2, 1, 0]), 1).sum())
    3
    """
    n = len(people)
    while True:
        bits = np.frombuffer(secrets.token_bytes(8 * n), dtype=np.uint64)
        order = np.lexsort((bits, people))
        same = people[order][1:] == people[order][:-1]
        if not (same & (bits[order][1:] == bits[order][:-1])).any():
            break
    first = np.ones(n, dtype=bool)
    first[1:] = ~same
    starts = np.flatnonzero(first)
    used = np.empty(n, dtype=bool)
    used[order] = np.arange(n) - np.repeat(starts, np.diff(np.append(starts, n))) < k
    return used
