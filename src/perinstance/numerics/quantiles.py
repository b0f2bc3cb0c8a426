"""The quantile of losses, one definition for all: an attained value, never one between two people."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput


def attained_rank(n: int, levels: ArrayLike) -> NDArray[np.intp]:
    """Return the smallest ``k >= 1`` with ``k/n >= q`` for each level q: how many of n values lie at or below it.

    >>> attained_rank(100, [0.0, 0.07, 0.5, 1.0]).tolist()  # 0.07 * 100 is rounded to more than 7
    [1, 7, 50, 100]
    """
    q = np.asarray(levels, dtype=np.float64)
    if not ((q >= 0) & (q <= 1)).all():
        raise InvalidInput("quantile levels must lie in [0, 1]; the median is 0.5")
    k = np.ceil(q * n)
    k = np.where((k - 1) / n >= q, k - 1, np.where(k / n < q, k + 1, k))
    return np.clip(k, 1, n).astype(np.intp)


def attained_quantile(values: ArrayLike, levels: ArrayLike) -> Any:
    """Return the smallest of the values that at least a share q of them does not exceed, one for each level q.

    No interpolation, so an infinite loss stays one; q = 0 is the smallest value and q = 1 the largest.

    >>> attained_quantile([0.1, 4.0, 0.2, np.inf], [0.0, 0.5, 0.75, 1.0]).tolist()
    [0.1, 0.2, 4.0, inf]
    """
    array = real_values("values", values).ravel()
    if not len(array):
        raise InvalidInput("there is nobody to take a quantile over: pass at least one value")
    at = attained_rank(len(array), levels) - 1
    return np.partition(array, np.unique(at))[at]
