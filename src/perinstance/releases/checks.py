"""Parameters of releases, validated where they are used (``__init__`` only stores, as scikit-learn asks)."""

from __future__ import annotations

from typing import Any

import numpy as np

from perinstance.errors import InvalidInput


def positive(name: str, value: Any) -> float:
    """Validate a number > 0.

    >>> positive("scale", 4)
    4.0
    >>> positive("scale", 0)
    Traceback (most recent call last):
    ...
    perinstance.errors.InvalidInput: scale must be a number > 0, got 0; try scale=1.0
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be a number > 0, got {type(value).__name__}; try {name}=1.0") from None
    if not 0 < number < np.inf:
        raise InvalidInput(f"{name} must be a number > 0, got {number:g}; try {name}=1.0")
    return number


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Validate a word."""
    if value not in choices:
        raise InvalidInput(f"{name} must be one of {choices}, got {value!r}")
    return str(value)
