"""Memory for everybody's answers, which the system provides while rows are still on their way to the device.

The first write to each page of new memory makes the system look for one and clear it. For the answers of 2e7 people
that takes as long as all that is left to do when the last row has come.
"""

from __future__ import annotations

import mmap
import threading
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: what nearly every audit keeps of a person: leverage, residual, a parameter of the pair and epsilon; a label
COLUMNS = (*(np.dtype(np.float64),) * 4, np.dtype(np.uint8))
#: bytes whose pages are written to at a time, by so many threads
AT_A_TIME, THREADS = 8 << 20, 2


class AnswerMemory:
    """Arrays whose pages are written to ahead, as far as there is time for it."""

    def __init__(self, n: int) -> None:
        self.arrays: list[NDArray] = [np.empty(n, dtype=one) for one in COLUMNS]
        bytes_of = [one.view(np.uint8) for one in self.arrays]
        self._left = deque(one[k : k + AT_A_TIME] for one in bytes_of for k in range(0, len(one), AT_A_TIME))
        self._threads = [threading.Thread(target=self._touch, daemon=True) for _ in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def _touch(self) -> None:
        while True:
            try:
                run = self._left.popleft()
            except IndexError:
                return
            run[:: mmap.PAGESIZE] = 0

    def take(self, n: int, dtype: Any) -> NDArray:
        """Return an array for n answers, which nobody else writes to: one of those made ahead, where one is left."""
        self._stop()
        for k, one in enumerate(self.arrays):
            if len(one) == n and one.dtype == dtype:
                return self.arrays.pop(k)
        return np.empty(n, dtype=dtype)

    def _stop(self) -> None:
        self._left.clear()
        for thread in self._threads:
            thread.join()

    def close(self) -> None:
        """Let go of what nobody has taken."""
        self._stop()
        self.arrays.clear()
