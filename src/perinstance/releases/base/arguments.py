"""Parameters and rows of releases, validated where they are used (``__init__`` only stores, as scikit-learn asks)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from perinstance.errors import InvalidInput, InvalidTable


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


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Validate as scikit-learn does, but for the error of a text in a cell: numpy would quote the cell."""
    try:
        return validate_data(estimator, X, *y, **options)
    except ValueError as trouble:
        if "convert" not in str(trouble):
            raise
        raise InvalidTable("X and y must be numbers, got something else in some cell; encode it first") from None
