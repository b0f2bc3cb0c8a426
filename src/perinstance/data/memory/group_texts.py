"""Labels of groups as texts; people without a label are a group of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = "missing"


def label_texts(labels: Any) -> NDArray:
    """Return one text per person; None, NaN, NA and empty texts become the group ``"missing"``.

    >>> label_texts(["north", None, float("nan"), 3]).tolist()
    ['north', 'missing', 'missing', '3']
    """
    values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    return np.array([MISSING if _is_missing(value) else _written(value) for value in values], dtype=object)


def _written(value: Any) -> str:
    """A whole number that a missing label made a float is written as the whole number that it was."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_missing(value: Any) -> bool:
    """NaN and NaT differ from themselves, pandas' NA does not tell whether it does, polars and Arrow have None."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    try:
        return bool(value != value)
    except TypeError:
        return True
