"""What a machine's threads can reach at all: arithmetic in registers, and reading memory, by one thread and by many.

Cores get slower when all are busy (a lower clock, two threads on one core, neighbours on a shared machine), and all of
them share the memory. No program scales beyond that, so the scaling of an audit is told next to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numba import njit

from perinstance.numerics.simd_vectors import (
    eight_in_a_register,
    load4,
    load8,
    multiply_add4,
    multiply_add8,
    store4,
    store8,
)

EIGHT = eight_in_a_register()
LOAD, FUSED, STORE = (load8, multiply_add8, store8) if EIGHT else (load4, multiply_add4, store4)
STEPS = 20_000_000  # of ten chains: some hundredths of a second
NUMBERS = 1 << 27  # that are read: 1 GB, more than any cache holds
TURNS = 4  # pieces a thread


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Of ``threads`` threads instead of one."""

    threads: int
    arithmetic: float  #: times as many fused products in the same time
    memory: float  #: times as many bytes read in the same time
    bytes_per_second: float  #: read by all threads

    def of_audit(self, seconds: float, n: int, d: int) -> float:
        """Return how many times faster a run of so many seconds can get that reads a table twice.

        It writes 33 bytes a person, and each line that is written is read before. As fast as all cores compute, or as
        memory is read, whichever is slower.
        """
        moved = n * (2 * 8 * (d + 1) + 2 * 33)
        return min(self.arithmetic, seconds / (moved / self.bytes_per_second))

    def __str__(self) -> str:
        return (
            f"{self.threads} threads instead of one: {self.arithmetic:.1f} times the arithmetic in registers, "
            f"{self.memory:.1f} times the reading of memory ({self.bytes_per_second / 1e9:.0f} GB/s)"
        )


@njit(nogil=True)
def chains(steps, room):  # pragma: no cover - compiled
    """Ten chains of fused products that never leave the registers; as many as two units need to be busy."""
    a, b = LOAD(room, 0), LOAD(room, 8)
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 = a, a, a, a, a, a, a, a, a, a
    for _ in range(steps):
        c0, c1, c2 = FUSED(c0, b, a), FUSED(c1, b, a), FUSED(c2, b, a)
        c3, c4, c5 = FUSED(c3, b, a), FUSED(c4, b, a), FUSED(c5, b, a)
        c6, c7, c8, c9 = FUSED(c6, b, a), FUSED(c7, b, a), FUSED(c8, b, a), FUSED(c9, b, a)
    c0, c1, c2, c3, c4 = FUSED(c0, c5, a), FUSED(c1, c6, a), FUSED(c2, c7, a), FUSED(c3, c8, a), FUSED(c4, c9, a)
    STORE(room, 0, FUSED(FUSED(c0, c1, c2), c3, c4))


@njit(nogil=True, fastmath=True)
def total(x):  # pragma: no cover - compiled
    """Read everything."""
    s = 0.0
    for i in range(len(x)):
        s += x[i]
    return s


def rate(work: Callable[[int], object], amount: float, threads: int, repeats: int) -> float:
    """Return the amount per second at best, of ``TURNS`` pieces a thread."""
    best = np.inf
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: time.sleep(0.01), range(threads)))  # all threads stand ready
        for _ in range(repeats):
            begin = time.perf_counter()
            list(pool.map(work, range(TURNS * threads)))
            best = min(best, time.perf_counter() - begin)
    return amount / best


def arithmetic_rate(threads: int, repeats: int = 3) -> float:
    """Return steps of the chains per second, of all threads together."""
    steps = STEPS // TURNS
    rooms = [np.full(16, 0.5) for _ in range(TURNS * threads)]
    chains(1, rooms[0])
    return rate(lambda k: chains(steps, rooms[k]), steps * len(rooms), threads, repeats)


def reading_rate(numbers: np.ndarray, threads: int, repeats: int = 3) -> float:
    """Return bytes per second, of all threads together."""
    cuts = np.linspace(0, len(numbers), TURNS * threads + 1).astype(int)
    total(numbers[:8])
    return rate(lambda k: total(numbers[cuts[k] : cuts[k + 1]]), numbers.nbytes, threads, repeats)


def ceiling(threads: int, repeats: int = 3) -> Ceiling:
    """Measure it."""
    numbers = np.ones(NUMBERS)
    read = reading_rate(numbers, threads, repeats)
    return Ceiling(
        threads,
        arithmetic_rate(threads, repeats) / arithmetic_rate(1, repeats),
        read / reading_rate(numbers, 1, repeats),
        read,
    )
