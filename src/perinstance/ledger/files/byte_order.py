"""The order of many ids, by their bytes: eight of them at a time, as one whole number.

Sorting whole numbers is several times faster than comparing texts. What all ids share at their start is skipped, and
after each round only those that are still equal go on.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.numerics.numba_compile import exact_kernel


def id_order(ids: pa.LargeStringArray) -> NDArray[np.int64]:
    r"""Return the positions that sort the ids.

    >>> id_order(pa.array(["b", "a", "ab", "a\0"], type=pa.large_string())).tolist()
    [1, 3, 2, 0]
    """
    n = len(ids)
    if n < 2:
        return np.arange(n)
    _, offsets, text = ids.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[ids.offset : ids.offset + n + 1]
    data = np.frombuffer(text, dtype=np.uint8) if text is not None else np.empty(0, dtype=np.uint8)
    extremes = pc.min_max(ids)
    first, last = (extremes[end].as_py().encode() for end in ("min", "max"))
    skip = len(os.path.commonprefix([first, last]))
    keys = np.empty(n, dtype=np.uint64)
    _eight_bytes(ends, data, np.arange(n), skip, keys)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    longest = int(np.diff(ends).max())
    # runs of equal keys, by the place at which each one starts
    same = keys[1:] == keys[:-1]
    if not same.any():
        return order
    tied = np.flatnonzero(np.r_[False, same] | np.r_[same, False])
    run = np.cumsum(np.r_[True, ~same])[tied]
    while len(tied):
        skip += 8
        who = order[tied]
        keys = np.diff(ends)[who].astype(np.uint64)  # nothing is left to compare: the shorter is the smaller
        if skip < longest:
            _eight_bytes(ends, data, who, skip, keys)
        inner = np.lexsort((keys, run))
        order[tied] = who[inner]
        keys = keys[inner]
        if skip >= longest:
            break
        same = (keys[1:] == keys[:-1]) & (run[1:] == run[:-1])
        still = np.r_[False, same] | np.r_[same, False]
        run = np.cumsum(np.r_[True, ~same])[still]
        tied = tied[still]
    return order


@exact_kernel
def _eight_bytes(ends, data, who, skip, out):  # pragma: no cover - compiled
    """Read eight bytes of each id from ``skip`` on as a whole number, zeros behind its end."""
    for i in range(len(who)):
        start, stop = ends[who[i]] + skip, ends[who[i] + 1]
        key = np.uint64(0)
        for k in range(start, start + 8):
            key = (key << np.uint64(8)) | np.uint64(data[k] if k < stop else 0)
        out[i] = key
