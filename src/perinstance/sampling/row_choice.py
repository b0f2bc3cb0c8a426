"""Which rows of a person are used where nobody may have more than k: drawn, never chosen by position or by value.

Each row gets 64 bits of the operating system, and of each person the k rows with the smallest are used. Where two rows
of one person got the same bits, all bits are drawn again: every choice of k rows is then exactly equally likely, and
what is chosen of one person is independent of all others.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray


def chosen_rows(people: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """Mark the rows that are used: all rows of a person who has at most k, and k rows of everybody else.

    >>> chosen_rows(np.array([0, 1, 0, 2, 1, 0]), 3).tolist()
    [True, True, True, True, True, True]
    >>> int(chosen_rows(np.array([0, 1, 0, 2, 1, 0]), 1).sum())
    3
    """
    n = len(people)
    while True:
        bits = np.frombuffer(secrets.token_bytes(8 * n), dtype=np.uint64)
        order = np.lexsort((bits, people))
        same = people[order][1:] == people[order][:-1]
        if not (same & (bits[order][1:] == bits[order][:-1])).any():
            break
    first = np.ones(n, dtype=bool)
    first[1:] = ~same
    starts = np.flatnonzero(first)
    used = np.empty(n, dtype=bool)
    used[order] = np.arange(n) - np.repeat(starts, np.diff(np.append(starts, n))) < k
    return used
