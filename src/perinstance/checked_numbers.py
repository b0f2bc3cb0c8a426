"""Single numbers and words from users, validated: what is wrong, what was got, what to do."""

from __future__ import annotations

from contextlib import suppress
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
    >>> positive("scale", "1")
    Traceback (most recent call last):
    ...
    perinstance.errors.InvalidInput: scale must be a number > 0, got str; try scale=1.0
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


def real_number(name: str, value: Any) -> float:
    """Validate a number that is neither a text nor a truth value."""
    if not is_number(value):
        raise InvalidInput(f"{name} must be a number, got {got(value)}")
    return float(value)


def probability(name: str, value: Any, example: str = "1e-6") -> float:
    """Validate a number strictly between 0 and 1.

    >>> probability("delta", 0)
    Traceback (most recent call last):
    ...
    perinstance.errors.InvalidInput: delta must lie in (0, 1), got 0; try delta=1e-6
    """
    if not is_number(value) or not 0 < value < 1:
        raise InvalidInput(f"{name} must lie in (0, 1), got {got(value)}; try {name}={example}")
    return float(value)


def whole_number(name: str, value: Any, least: int, most: int, example: int) -> int:
    """Validate a whole number within limits; 4.0 is one, True is not.

    >>> whole_number("degrees_of_freedom", 2.5, 1, 1000, 4)
    Traceback (most recent call last):
    ...
    perinstance.errors.InvalidInput: degrees_of_freedom must be a whole number from 1 to 1000, got 2.5; try 4
    """
    if not is_number(value) or not least <= value <= most or value != int(value):
        raise InvalidInput(f"{name} must be a whole number from {least} to {most}, got {got(value)}; try {example}")
    return int(value)


def got(value: Any) -> str:
    """Say what was got: a number, or the type of anything else."""
    return f"{value:g}" if is_number(value) else "None" if value is None else type(value).__name__


def is_number(value: Any) -> bool:
    """Tell a number from a text or a truth value."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Tell a whole number from anything else."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Validate a word."""
    if value not in choices:
        raise InvalidInput(f"{name} must be one of {choices}, got {value!r}")
    return str(value)


def _number(name: str, value: Any, wanted: str) -> float:
    if not isinstance(value, (str, bytes, bool, np.bool_, np.complexfloating)):  # float() would take them
        with suppress(TypeError, ValueError, OverflowError):
            return float(value)
    raise InvalidInput(f"{name} must be a number {wanted}, got {type(value).__name__}; try {name}=1.0")
