"""What a machine's threads can reach at all: arithmetic in registers, reading memory and being given fresh pages of it.

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

from perinstance.folds.first_touch import LARGE
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
ANSWER = 33  # bytes that an audit writes for each person
FRESH = 32 << 20  # bytes from which an array has fresh pages each time: what is smaller, the C library keeps
PAGE = 512  # numbers of a small page


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Of ``threads`` threads instead of one."""

    threads: int
    arithmetic: float  #: times as many fused products in the same time
    memory: float  #: times as many bytes read in the same time
    bytes_per_second: float  #: read by all threads
    fresh: float  #: bytes of fresh pages that the system hands to all threads per second
    fresh_to_one: float  #: and to one

    def of_audit(self, first: float, second: float, n: int, d: int) -> float:
        """Return how many times faster an audit can get whose two passes take one thread so many seconds.

        Each pass takes all threads as long as its arithmetic or its memory does, whichever is longer, for nothing of
        the second can be done before the first has ended: the first reads the table; the second reads it again and
        writes 33 bytes a person, whose lines are read before; and their pages, of large arrays, are the system's.
        One thread's waiting for memory counts as arithmetic, and what it does between the passes scales like them.
        """
        table, answers = 8.0 * n * (d + 1), float(ANSWER * n)
        reading = max(first / self.arithmetic, table / self.bytes_per_second)
        fresh = answers if 8 * n >= FRESH else 0.0
        alone = max(0.0, second - fresh / self.fresh_to_one) / self.arithmetic
        answering = max(alone, (table + 2 * answers) / self.bytes_per_second) + fresh / self.fresh
        return (first + second) / (reading + answering)

    def __str__(self) -> str:
        return (
            f"{self.threads} threads instead of one: {self.arithmetic:.1f} times the arithmetic in registers, "
            f"{self.memory:.1f} times the reading of memory ({self.bytes_per_second / 1e9:.0f} GB/s), "
            f"{self.fresh / self.fresh_to_one:.1f} times the fresh pages ({self.fresh / 1e9:.0f} GB/s)"
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


@njit(nogil=True)
def touch_pages(x):  # pragma: no cover - compiled
    """Write one number of every page."""
    for i in range(0, len(x), PAGE):
        x[i] = 0.0


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


def fresh_rate(threads: int, repeats: int = 3) -> float:
    """Return bytes of fresh pages per second, by all threads together: each has large pages of its own."""
    best, step = 0.0, LARGE // 8
    touch_pages(np.empty(PAGE))
    for _ in range(repeats):
        numbers = np.empty(NUMBERS // 2)
        first = -numbers.ctypes.data % LARGE // 8
        pages = (len(numbers) - first) // step
        cuts = first + step * np.linspace(0, pages, TURNS * threads + 1).astype(int)

        def work(k: int, numbers: np.ndarray = numbers, cuts: np.ndarray = cuts) -> None:
            touch_pages(numbers[cuts[k] : cuts[k + 1]])

        best = max(best, rate(work, 8.0 * step * pages, threads, 1))
    return best


def ceiling(threads: int, repeats: int = 3) -> Ceiling:
    """Measure it."""
    numbers = np.ones(NUMBERS)
    read, one = reading_rate(numbers, threads, repeats), reading_rate(numbers, 1, repeats)
    del numbers
    arithmetic = arithmetic_rate(threads, repeats) / arithmetic_rate(1, repeats)
    return Ceiling(threads, arithmetic, read / one, read, fresh_rate(threads, repeats), fresh_rate(1, repeats))
