"""Memory for everybody's answers, which the system provides while rows are still on their way to the device.

The first write to each page of new memory makes the system look for one and clear it. For the answers of 2e7 people
that takes as long as all that is left to do when the last row has come.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import sys
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: what nearly every audit keeps of a person: leverage, residual, a parameter of the pair and epsilon; a label
COLUMNS = (*(np.dtype(np.float64),) * 4, np.dtype(np.uint8))
#: bytes that the system is asked for at a time, by so many threads
AT_A_TIME, THREADS = 16 << 20, 2
#: Linux's number for "provide these pages, as if they were written to; what is written there stays" (from 5.14 on)
POPULATE_WRITE = 23


class AnswerMemory:
    """Arrays that the system is providing memory for; where it does not, they are as good as others."""

    def __init__(self, n: int) -> None:
        self.arrays: list[NDArray] = [np.empty(n, dtype=one) for one in COLUMNS]
        runs = [
            (one, start) for one in self.arrays for start in range(0, one.nbytes, AT_A_TIME) if _populate() is not None
        ]
        self._left = itertools.count()
        self._end = len(runs)
        self._threads = [threading.Thread(target=self._provide, args=(runs,), daemon=True) for _ in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def _provide(self, runs: list[tuple[NDArray, int]]) -> None:
        populate = _populate()
        while (k := next(self._left)) < self._end:
            array, start = runs[k]
            begin = -(-(array.ctypes.data + start) // mmap.PAGESIZE) * mmap.PAGESIZE
            end = array.ctypes.data + min(start + AT_A_TIME, array.nbytes)
            if end > begin and populate(begin, end - begin, POPULATE_WRITE):
                return  # an older system, or no memory left: whoever writes there will see

    def take(self, n: int, dtype: Any) -> NDArray:
        """Return an array for n answers: one of those that are ready, where one is left."""
        for k, one in enumerate(self.arrays):
            if len(one) == n and one.dtype == dtype:
                return self.arrays.pop(k)
        return np.empty(n, dtype=dtype)

    def close(self) -> None:
        """Ask for no more."""
        self._end = 0
        for thread in self._threads:
            thread.join()
        self.arrays.clear()


@functools.cache
def _populate() -> Any:
    """Return the system's call, which lets the interpreter's lock go; None on other systems."""
    if not sys.platform.startswith("linux"):
        return None
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return madvise
