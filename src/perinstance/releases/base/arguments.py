"""Rows given to releases, validated where they are used (``__init__`` only stores, as scikit-learn asks)."""

from __future__ import annotations

import math
import numbers
import sys
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidTable
from perinstance.numerics.array_types import Floats

_NOT_NUMBERS = "X and y must be numbers, got something else in some cell; encode it first"


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Validate as scikit-learn does, but for errors that would quote a cell or the table."""
    from sklearn.utils.validation import validate_data

    try:
        return validate_data(estimator, X, *y, **options)
    except OverflowError:
        raise InvalidTable("X and y must be float64, got a whole number beyond its range; rescale it") from None
    except ValueError as trouble:
        if "Complex data" in str(trouble):
            raise InvalidTable(_complex()) from None
        if "convert" not in str(trouble):
            raise
        raise InvalidTable(_NOT_NUMBERS) from None


def rows_as_they_are(estimator: Any, X: Any, y: Any) -> tuple[Floats, Floats]:
    """Read rows for a release that promises: nothing that a row holds, nor how many there are, is a reason to refuse.

    Refused are declared facts: the number of columns, names, types (complex numbers, dates, text; in a column of
    objects anything that is not a number). A missing cell comes back as NaN, a number beyond float64 as an infinity;
    what the release makes of both is said by ``sampling.fixed_rows``.
    """
    from sklearn.utils.validation import column_or_1d, validate_data

    if y is None:
        raise InvalidTable(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    rows, targets = _real_numbers("X", X), column_or_1d(_real_numbers("y", y), warn=True)
    if rows.ndim != 2:
        raise InvalidTable(f"X must have two dimensions, one row per person, got {rows.ndim}. Reshape your data")
    if rows.shape[1] == 0:
        raise InvalidTable("X must have at least one column, got none")
    if len(rows) != len(targets):
        raise InvalidTable("X and y must have one entry per person each, got different numbers of rows")
    # the number of columns and their names are kept, as scikit-learn does
    validate_data(estimator, X if hasattr(X, "columns") else rows, skip_check_array=True)
    return rows, targets


def _complex() -> str:
    return "Complex data not supported: X and y must be real numbers; split them into real and imaginary parts"


def _real_numbers(name: str, values: Any) -> Floats:
    """Return float64 of the same shape; what is missing is NaN."""
    from scipy.sparse import issparse

    if issparse(values):
        raise InvalidTable(f"{name} is sparse, and must be an array or a table; call .toarray() first")
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise InvalidTable(f"{name} must have the same number of columns in every row") from None
    if array.dtype.kind == "c":
        raise InvalidTable(_complex())
    if array.dtype.kind == "O":
        return _each_number(array)
    if array.dtype.kind not in "fiub":
        raise InvalidTable(f"{name} must be numbers, got text, dates or another type; encode it first")
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(np.float64)


def _each_number(array: NDArray) -> Floats:
    return np.array([_number(value) for value in array.ravel().tolist()], dtype=np.float64).reshape(array.shape)


def _number(value: Any) -> float:
    """Return one object as a float: NaN if it is missing, an infinity if it is beyond float64.

    >>> _number(10**400), _number(None), _number(True)
    (inf, nan, 1.0)
    """
    pandas = sys.modules.get("pandas")  # where it was never imported nobody has its missing values
    if value is None or (pandas is not None and (value is pandas.NA or value is pandas.NaT)):
        return math.nan
    if isinstance(value, complex | np.complexfloating):
        raise InvalidTable(_complex()) from None
    if not isinstance(value, numbers.Real | Decimal | np.bool_):
        raise InvalidTable(_NOT_NUMBERS) from None
    number: Any = value
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    except ValueError:  # a signalling NaN
        return math.nan
