"""Memory that begins and ends with a page, as a disk wants it where nothing is copied on the way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Bytes

PAGE = 4096  #: addresses, offsets and sizes are multiples of it


def padded(size: int) -> int:
    """Return the next multiple of a page."""
    return -(-size // PAGE) * PAGE


def pages(size: int) -> Bytes:
    """Return new memory of at least so many bytes; what is beyond them is zero."""
    room = np.empty(padded(size) + PAGE, dtype=np.uint8)
    start = -room.ctypes.data % PAGE
    whole = room[start : start + padded(size)]
    whole[size:] = 0
    return whole


def flat_bytes(array: NDArray) -> Bytes:
    """See an array as the bytes it is made of; it lies in one piece, in rows or in columns."""
    return array.reshape(-1, order="A").view(np.uint8)
