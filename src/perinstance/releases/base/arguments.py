"""Rows given to releases, validated where they are used (``__init__`` only stores, as scikit-learn asks)."""

from __future__ import annotations

from typing import Any

from perinstance.errors import InvalidTable


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Validate as scikit-learn does, but for the error of a text in a cell: numpy would quote the cell."""
    from sklearn.utils.validation import validate_data

    try:
        return validate_data(estimator, X, *y, **options)
    except ValueError as trouble:
        if "convert" not in str(trouble):
            raise
        raise InvalidTable("X and y must be numbers, got something else in some cell; encode it first") from None
