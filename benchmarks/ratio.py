"""One line of the table of ratios, and the clock behind it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times longer ``what`` takes than ``against``, and the limit that is promised."""

    what: str
    against: str
    value: float
    limit: float | None = None  #: the ratio may not exceed it
    at_least: float | None = None  #: the ratio may not stay below it

    @property
    def holds(self) -> bool:
        """Whether the promise is kept (true where nothing is promised)."""
        above = self.limit is None or self.value <= self.limit
        return above and (self.at_least is None or self.value >= self.at_least)


def seconds(work: Callable[[], object], repeats: int = 7) -> float:
    """Return the least processor time of this thread over some repeats: what others run does not count."""
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best
