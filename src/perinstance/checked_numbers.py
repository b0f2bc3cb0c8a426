"""Numbers and words from users, validated: what is wrong, what was got, what to do."""

from __future__ import annotations

import numbers
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput

_NO_NUMBERS = {"U": "text", "S": "bytes", "T": "text", "b": "truth values", "c": "complex numbers"}
_BEYOND = "a number beyond 1.8e308"
_NO_NUMBERS |= {"M": "dates", "m": "durations", "V": "records"}


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
    if not is_number(value) or got(value) == _BEYOND:
        raise InvalidInput(f"{name} must be a number, got {got(value)}")
    return float(value)


def real_values(name: str, values: Any) -> NDArray[np.float64]:
    """Validate numbers of any shape: float64, NaN and infinities among them.

    numpy would take texts and truth values for numbers, drop imaginary parts, and show what lies under a mask.

    >>> real_values("rate", [1, 0.5])
    array([1. , 0.5])
    >>> real_values("rate", "x")
    Traceback (most recent call last):
    ...
    perinstance.errors.InvalidInput: rate must be numbers, got text; pass an array of float64
    """
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            raise _no_numbers(name, "masked entries")
        values = values.data
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # rows of different lengths; arrays that live elsewhere
        raise _no_numbers(name, f"{type(values).__name__} that is no array") from None
    if array.dtype.kind == "O":
        array = np.array([_real(name, entry) for entry in array.ravel().tolist()], np.float64).reshape(array.shape)
    if array.dtype.kind not in "fiu":
        raise _no_numbers(name, _NO_NUMBERS.get(array.dtype.kind, str(array.dtype)))
    with np.errstate(over="ignore"):
        found = array.astype(np.float64, copy=False)
    if array.dtype.itemsize > 8 and (np.isinf(found) & ~np.isinf(array)).any():
        raise _no_numbers(name, _BEYOND)
    return found


def _real(name: str, entry: Any) -> float:
    """Return one object of an array as a float; None is a missing number."""
    if entry is None:
        return float("nan")
    if isinstance(entry, (bool, np.bool_)) or not isinstance(entry, (numbers.Real, Decimal)):
        raise _no_numbers(name, f"an entry of type {type(entry).__name__}")
    try:
        return float(entry)
    except (OverflowError, ValueError):
        raise _no_numbers(name, _BEYOND) from None


def _no_numbers(name: str, what: str) -> InvalidInput:
    return InvalidInput(f"{name} must be numbers, got {what}; pass an array of float64")


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
    """Say what was got: a number, or the type of anything else.

    >>> got(0.5), got(None), got("0.5"), got(10**400)
    ('0.5', 'None', 'str', 'a number beyond 1.8e308')
    """
    if not is_number(value):
        return "None" if value is None else type(value).__name__
    try:
        return f"{value:g}"
    except OverflowError:
        return _BEYOND


def is_unicode(text: str) -> bool:
    r"""Tell whether a text can be stored: half a character (a lone surrogate) cannot.

    >>> is_unicode("Ä"), is_unicode("\ud800")
    (True, False)
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_number(value: Any) -> bool:
    """Tell a real number from a text, a truth value or a duration."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.timedelta64))


def is_whole(value: Any) -> bool:
    """Tell a whole number from anything else."""
    return is_number(value) and isinstance(value, (int, np.integer))


def truth_value(name: str, value: Any) -> bool:
    """Validate True or False: a text that says no is no False.

    >>> truth_value("fit_intercept", "no")
    Traceback (most recent call last):
    ...
    perinstance.errors.InvalidInput: fit_intercept must be True or False, got str
    """
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInput(f"{name} must be True or False, got {got(value)}")
    return bool(value)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Validate a word."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidInput(f"{name} must be one of {choices}, got {value!r}")
    return str(value)


def _number(name: str, value: Any, wanted: str) -> float:
    if not isinstance(value, (str, bytes, bool, np.bool_, np.complexfloating, np.timedelta64, np.ma.MaskedArray)):
        with suppress(TypeError, ValueError, OverflowError):  # float() would take those
            return float(value)
    raise InvalidInput(f"{name} must be a number {wanted}, got {type(value).__name__}; try {name}=1.0")
