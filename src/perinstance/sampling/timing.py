"""Steady time: how long a draw takes depends on the noise, and must not tell.

The sampling step is padded to ``q, 2 q, 4 q, ...`` where the quantum q is a function of the number of coordinates and
of the size of the factorisations alone, two or three times what they take on a slow core. One bucket is the rule; a
draw that needs more precision (ill-conditioned data), or a machine under load, moves to the next. This hides the
sampling step only: reading and summing n rows takes time that grows with n.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

PER_DRAW = 0.004  # seconds
SPIN = 0.001
PER_COORDINATE = 100e-6
PER_FACTOR = 1.8e-6  # times d^(5/2): what a factorisation with balls was measured to take up to d = 200


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
