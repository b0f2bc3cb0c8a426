"""Labels of groups in memory, one per person: a missing one is a group of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = "missing"  #: the group of people without a label


def group_words(labels: Any) -> NDArray:
    """Return the labels as they are, or as texts where some are missing.

    >>> group_words(["north", None, "south"]).tolist()
    ['north', 'missing', 'south']
    """
    plain = np.asarray(labels)
    if plain.dtype.kind not in "fOMm":
        return plain
    values = plain.astype(object).ravel()
    gaps = np.array([one is None or one != one or str(one) in ("<NA>", "NaT") for one in values], dtype=bool)
    if not gaps.any():
        return plain
    words = [MISSING if gap else _written(one) for gap, one in zip(gaps, values, strict=True)]
    return np.array(words, dtype=object).reshape(plain.shape)


def _written(one: Any) -> str:
    return str(int(one)) if isinstance(one, float) and one.is_integer() else str(one)
