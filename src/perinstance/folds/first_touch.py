"""The pages of everybody's answers, asked of the system by all threads before they write to them.

A page is cleared when somebody first writes to it, and a large one (2 MB) takes a tenth of a millisecond. Neighbouring
rows are different threads' turns, so that many of them would come to the same page at once, and each would clear one
for itself, of which all but one are thrown away. Here each thread touches other pages; small ones are left as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation.turn_counters import next_turn, touch_number
from perinstance.numerics.numba_compile import brief_kernel, kernel

#: bytes of a large page
LARGE = 2 << 20


class Touches(NamedTuple):
    """One number of each large page of some arrays, and which of these numbers is the next that nobody has taken."""

    counter: NDArray[np.int64]
    places: tuple[NDArray[np.int64], ...]
    runs: NDArray[np.int64]  #: (.., 2) the number, and which of the places

    @classmethod
    def of(cls, *places: Floats) -> Touches:
        """Cut some arrays, which are not empty, where large pages end; those of the last rows come first."""
        words = tuple(place.view(np.int64) for place in places)
        return cls(np.zeros(1, dtype=np.int64), words, _runs(words))

    @classmethod
    def nothing(cls, places: int) -> Touches:
        """Return what touches no page."""
        empty = np.empty(0, dtype=np.int64)
        return cls(np.zeros(1, dtype=np.int64), (empty,) * places, empty.reshape(0, 2))


@brief_kernel
def _runs(places):  # pragma: no cover - compiled
    """Find one number of each large page: the first of the array, and the first of each page that begins in it."""
    step, most, total = LARGE // 8, 0, 0
    firsts, counts = np.empty(len(places), dtype=np.int64), np.empty(len(places), dtype=np.int64)
    for which in range(len(places)):
        firsts[which] = -places[which].ctypes.data % LARGE // 8
        counts[which] = 1 + max(0, -((firsts[which] - len(places[which])) // step))
        most, total = max(most, counts[which]), total + counts[which]
    runs, at = np.empty((total, 2), dtype=np.int64), 0
    for k in range(most - 1, -1, -1):
        for which in range(len(places)):
            if k < counts[which]:
                runs[at, 0], runs[at, 1] = (firsts[which] + (k - 1) * step if k > 0 else 0), which
                at += 1
    return runs


@kernel
def touch(touches):  # pragma: no cover - compiled
    """Touch one page after the other, until none is left, together with other threads.

    A number of each is written as it is, in one step: somebody may be writing there already.
    """
    counter, places, runs = touches
    k = next_turn(counter, 0)
    while k < len(runs):
        touch_number(places[runs[k, 1]], runs[k, 0])
        k = next_turn(counter, 0)
