"""Single numbers from users, validated: what is wrong, what was got, what to do."""

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
    number = _number(name, value, "> 0")
    if not 0 < number < np.inf:
        raise InvalidInput(f"{name} must be a number > 0, got {number:g}; try {name}=1.0")
    return number


def non_negative(name: str, value: Any) -> float:
    """Validate a number >= 0.

    >>> non_negative("alpha", 0)
    0.0
    """
    number = _number(name, value, ">= 0")
    if not 0 <= number < np.inf:
        raise InvalidInput(f"{name} must be a number >= 0, got {number:g}; try {name}=1.0")
    return number


def _number(name: str, value: Any, wanted: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be a number {wanted}, got {type(value).__name__}; try {name}=1.0") from None
