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
from perinstance.numerics.compilation.turn_counters import add_turns, next_turn
from perinstance.numerics.numba_compile import kernel

#: bytes of a large page
LARGE = 2 << 20


class Touches(NamedTuple):
    """One number of each large page of some arrays, and which of these numbers is the next that nobody has taken."""

    counter: NDArray[np.int64]
    places: tuple[NDArray[np.int64], ...]
    runs: NDArray[np.int64]  #: (.., 2) the number, and which of the places

    @classmethod
    def of(cls, *places: Floats) -> Touches:
        """Cut some arrays, which are not empty, where large pages end; those of the first rows come first."""
        runs = []
        for which, place in enumerate(places):
            first = -place.ctypes.data % LARGE // 8
            runs += [(start, which) for start in (0, *range(first, len(place), LARGE // 8))]
        words = tuple(place.view(np.int64) for place in places)
        return cls(np.zeros(1, dtype=np.int64), words, np.array(sorted(runs), dtype=np.int64))

    @classmethod
    def nothing(cls, places: int) -> Touches:
        """Return what touches no page."""
        empty = np.empty(0, dtype=np.int64)
        return cls(np.zeros(1, dtype=np.int64), (empty,) * places, empty.reshape(0, 2))


@kernel
def touch(touches):  # pragma: no cover - compiled
    """Touch one page after the other, until none is left, together with other threads.

    Nothing is added to a number of each, in one step: somebody may be writing there already.
    """
    counter, places, runs = touches
    k = next_turn(counter, 0)
    while k < len(runs):
        add_turns(places[runs[k, 1]], runs[k, 0], np.int64(0))
        k = next_turn(counter, 0)
