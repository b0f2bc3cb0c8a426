"""Classes that were declared in advance, and labels as +1, -1, or missing.

Which classes there are must not be learnt from the table: a class that one person alone has would be published with
them. A label that is none of the two declared ones is missing, and the row counts as if the person had not been there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.checked_numbers import got
from perinstance.errors import InvalidInput, InvalidTable
from perinstance.folds.row_order import in_order_of
from perinstance.numerics.array_types import Floats


def declared_classes(classes: Any) -> tuple[Any, Any]:
    """Validate the two declared classes; the second is the one whose probability is modelled.

    >>> declared_classes([0, 1]), declared_classes(("no", "yes"))
    ((0, 1), ('no', 'yes'))
    """
    how = "declare two different numbers or two different texts, such as classes=(0, 1)"
    if isinstance(classes, str) or not hasattr(classes, "__len__") or len(classes) != 2:
        raise InvalidInput(f"classes must be two, got {got(classes)}; {how}")
    first, second = (one.item() if isinstance(one, np.generic) else one for one in classes)
    alike = all(isinstance(one, str) for one in (first, second)) or all(
        isinstance(one, bool | int | float) and one == one for one in (first, second)
    )
    if not alike or first == second:
        raise InvalidInput(f"classes must be two different numbers or texts, got {first!r} and {second!r}; {how}")
    return first, second


def class_array(classes: tuple[Any, Any]) -> NDArray:
    """Return the classes as scikit-learn keeps them."""
    return np.array(classes)


def signs(y: Any, classes: tuple[Any, Any]) -> Floats:
    """Return -1 for the first class, +1 for the second, NaN for whatever else there is.

    >>> signs(["yes", "no", None, 3], ("no", "yes")).tolist()
    [1.0, -1.0, nan, nan]
    """
    if isinstance(y, list | tuple):  # no type is declared: what numpy would make of a label depends on the others
        cells = list(y)
    else:
        array = np.asarray(y)
        if array.dtype.kind in "fiub" and not isinstance(classes[0], str):
            return np.where(array == classes[1], 1.0, np.where(array == classes[0], -1.0, np.nan))
        cells = array.tolist()
    sign = {classes[0]: -1.0, classes[1]: 1.0}
    return np.array([_sign(cell, sign) for cell in cells], dtype=np.float64)


def _sign(cell: Any, sign: dict[Any, float]) -> float:
    try:
        return sign.get(cell, float("nan"))
    except Exception:  # a list, a missing value that refuses to be compared: no class
        return float("nan")


def labels_as_they_are(X: Any, y: Any) -> Any:
    """Return one label per person in the order of X; refused are declared facts, the number of columns of y."""
    if y is None:
        raise InvalidTable("PrivateLogisticRegression requires y to be passed, but the target y is None")
    y = in_order_of(X, y)
    if not hasattr(y, "shape") and hasattr(y, "__array__"):
        y = np.asarray(y)
    shape: Any = np.shape(y) if hasattr(y, "shape") else (len(y),) if hasattr(y, "__len__") else ()
    if len(shape) == 2 and shape[1] == 1:
        return np.asarray(y)[:, 0]
    if len(shape) != 1:
        raise InvalidTable(f"y must have one label per person, got {len(shape)} dimensions; pass one column")
    return y
