"""Rows given to releases, validated where they are used (``__init__`` only stores, as scikit-learn asks)."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from typing import Any

import numpy as np

from perinstance.errors import InvalidTable
from perinstance.folds.block import in_order_of
from perinstance.numerics.array_types import Floats

_NOT_NUMBERS = "X and y must be numbers, got something else in some cell; encode it first"
_COMPLEX = "Complex data not supported: X and y must be real numbers; split them into real and imaginary parts"
_TEXTS = ("string", "str", "category", "String", "Date", "Categorical")


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Validate as scikit-learn does, but for three things.

    No error quotes a cell or the table; a pandas target is matched with the rows of X by its index; and what an audit
    refuses is not taken for numbers either: text, dates, what lies under a mask.
    """
    from sklearn.utils.validation import validate_data

    y = tuple(_one_target(in_order_of(X, one)) for one in y)
    for name, given in (("X", X), *(("y", one) for one in y)):
        refuse_mask(name, given)
        _refuse_types(name, given, "USMm")
    try:
        return validate_data(estimator, X, *y, **options)
    except OverflowError:
        raise InvalidTable("X and y must be float64, got a whole number beyond its range; rescale it") from None
    except ValueError as trouble:
        if "Complex data" in str(trouble):
            raise InvalidTable(_COMPLEX) from None
        if "Expected 2D array" in str(trouble):
            raise InvalidTable(_two_dimensions(X)) from None
        if "convert" not in str(trouble):
            raise
        raise InvalidTable(_NOT_NUMBERS) from None


def rows_as_they_are(estimator: Any, X: Any, y: Any) -> tuple[Floats, Floats]:
    """Read rows for a release that promises: nothing that a row holds, nor how many there are, is a reason to refuse.

    Refused are declared facts: the number of columns, names, types (complex numbers, dates, text). In a column of
    objects, which declares nothing, a cell that is no number is a missing one. A missing cell comes back as NaN, a
    number beyond float64 as an infinity; what the release makes of both is said by ``promises.declared_box``.
    """
    from sklearn.utils.validation import column_or_1d, validate_data

    if y is None:
        raise InvalidTable(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    y = _one_target(in_order_of(X, y))
    rows, targets = numbers_as_they_are("X", X), column_or_1d(numbers_as_they_are("y", y), warn=True)
    if rows.ndim != 2:
        raise InvalidTable(_two_dimensions(rows))
    if rows.shape[1] == 0:
        raise InvalidTable("X must have at least one column, got none")
    if len(rows) != len(targets):
        raise InvalidTable("X and y must have one entry per person each, got different numbers of rows")
    # the number of columns and their names are kept, as scikit-learn does
    validate_data(estimator, X if hasattr(X, "columns") else rows, skip_check_array=True)
    return rows, targets


def refuse_mask(name: str, given: Any) -> None:
    """Refuse masked entries: numpy would take what lies under the mask."""
    if np.ma.is_masked(given):
        raise InvalidTable(f"{name} has masked entries; fill them, or leave those rows out")


def _refuse_types(name: str, given: Any, kinds: str) -> None:
    """Refuse an array of these kinds, and a table one of whose columns is declared to be text, dates or complex."""
    other = InvalidTable(f"{name} must be numbers, got text, dates or another type; encode it first")
    if getattr(getattr(given, "dtype", None), "kind", "O") in kinds:
        raise other
    for one in getattr(given, "dtypes", ()) if hasattr(given, "columns") else ():
        kind = getattr(one, "kind", "O")
        if kind == "c":
            raise InvalidTable(_COMPLEX)
        if kind in "MmUS" or str(one) in _TEXTS:
            raise other


def _two_dimensions(X: Any) -> str:
    return f"X must have two dimensions, one row per person, got {np.ndim(X)}. Reshape your data"


def numbers_as_they_are(name: str, values: Any) -> Floats:
    """Return float64 of the same shape; what is missing is NaN."""
    from scipy.sparse import issparse

    if issparse(values):
        raise InvalidTable(f"{name} is sparse, and must be an array or a table; call .toarray() first")
    _refuse_types(name, values, "")
    if np.ma.is_masked(values) and values.dtype.kind in "fiub":
        values = np.ma.filled(values.astype(np.float64), np.nan)
    ragged = InvalidTable(f"{name} must have the same number of columns in every row")
    try:
        # lists declare no type: what numpy would make of them depends on the cells
        array = np.array(values, dtype=object) if isinstance(values, list | tuple) else np.asarray(values)
    except ValueError:  # rows of different lengths
        raise ragged from None
    if array.dtype.kind == "O":
        cells = array.ravel().tolist()
        if any(isinstance(cell, list | tuple) for cell in cells):
            raise ragged
        return np.array([_number(cell) for cell in cells], dtype=np.float64).reshape(array.shape)
    if array.dtype.kind == "c":
        raise InvalidTable(_COMPLEX)
    if array.dtype.kind not in "fiub":
        raise InvalidTable(f"{name} must be numbers, got text, dates or another type; encode it first")
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(np.float64)


def _number(value: Any) -> float:
    """Return one object as a float: NaN if it is missing or no number, an infinity if it is beyond float64.

    >>> _number(10**400), _number(None), _number(True), _number("3")
    (inf, nan, 1.0, nan)
    """
    if not isinstance(value, numbers.Real | Decimal | np.bool_):
        return math.nan
    number: Any = value
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def _one_target(y: Any) -> Any:
    shape: Any = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] > 1:
        raise InvalidTable(
            f"the target has {shape[1]} columns, and a release has one; publish a release for each of them, "
            "and compose their losses"
        )
    return y
