"""Rows given to releases, validated where they are used (``__init__`` only stores, as scikit-learn asks)."""

from __future__ import annotations

from typing import Any

from perinstance.errors import InvalidTable
from perinstance.folds.row_order import in_order_of


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Validate as scikit-learn does, but for two things.

    A text in a cell is not quoted, as numpy would; and a pandas target is matched with the rows of X by its index.
    """
    y = tuple(_one_target(in_order_of(X, one)) for one in y)
    from sklearn.utils.validation import validate_data

    try:
        return validate_data(estimator, X, *y, **options)
    except ValueError as trouble:
        if "convert" not in str(trouble):
            raise
        raise InvalidTable("X and y must be numbers, got something else in some cell; encode it first") from None


def _one_target(y: Any) -> Any:
    shape: Any = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] > 1:
        raise InvalidTable(
            f"the target has {shape[1]} columns, and a release has one; publish a release for each of them, "
            "and compose their losses"
        )
    return y
