"""Classes that were declared in advance, and labels as +1, -1, or missing.

Which classes there are must not be learnt from the table: a class that one person alone has would be published with
them. A label that is none of the two declared ones is missing, and the row counts as if the person had not been there.

Numbers declared for labels of words (or the other way round) would make everybody missing, and a model of nobody would
be published. That is refused by the *type* of the labels, which is declared, never by what they hold; a list has none,
and whoever declares nothing is warned whatever is in it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa

from perinstance.checked_numbers import got
from perinstance.errors import ClassesNotDeclared, InvalidInput, InvalidTable
from perinstance.folds.block import in_order_of
from perinstance.numerics.array_types import Floats

_KINDS = dict.fromkeys("biuf", "numbers") | dict.fromkeys("UT", "texts") | {"O": "any", "c": "complex"}
HOW = "declare the two classes as the labels are written, such as classes=('no', 'yes')"


def declared_classes(classes: Any) -> tuple[Any, Any]:
    """Validate the two declared classes; the second is the one whose probability is modelled. None: 0 and 1.

    >>> declared_classes([0, 1]), declared_classes(("no", "yes")), declared_classes(None)
    ((0, 1), ('no', 'yes'), (0, 1))
    """
    if classes is None:
        return 0, 1
    how = "declare two different numbers or two different texts, such as classes=(0, 1)"
    if isinstance(classes, str) or not hasattr(classes, "__len__") or len(classes) != 2:
        more = "of more classes publish one model each against the rest, which add up, or use OutputPerturbation"
        raise InvalidInput(f"classes must be two, got {got(classes)}; {how}; {more}")
    first, second = (one.item() if isinstance(one, np.generic) else one for one in classes)
    alike = all(isinstance(one, str) for one in (first, second)) or all(
        isinstance(one, bool | int | float) and one == one for one in (first, second)
    )
    if not alike or first == second:
        raise InvalidInput(f"classes must be two different numbers or texts, got {first!r} and {second!r}; {how}")
    return first, second


def classes_of_labels(classes: Any, y: Any) -> tuple[Any, Any]:
    """Return the declared classes; refuse those that labels of this type cannot be.

    >>> classes_of_labels(None, np.array([True, False]))
    (0, 1)
    """
    kind, of = _kind(y), str(getattr(y, "dtype", None) or getattr(y, "type", None) or type(y).__name__)
    if kind == "complex":
        raise InvalidTable("Complex data not supported: labels are numbers or texts")
    if classes is None and isinstance(y, list | tuple):
        warnings.warn(
            "labels in a list have no type, and no classes were declared: 0 and 1 are taken for them, and any other "
            "label counts as missing; declare classes=(0, 1), or classes=('no', 'yes') as the labels are written",
            ClassesNotDeclared,
            stacklevel=3,
        )
    elif classes is None and kind != "numbers":
        raise InvalidInput(f"classes must be declared where the type of y does not say numbers, got {of}; {HOW}")
    two = declared_classes(classes)
    wanted = "texts" if isinstance(two[0], str) else "numbers"
    if kind not in ("any", wanted):
        raise InvalidInput(
            f"classes are {two[0]!r} and {two[1]!r}, and y has {kind} by its type ({of}): every row would count "
            f"as missing; {HOW}"
        )
    return two


def _kind(y: Any) -> str:
    """Return what the type of labels says they are: any is a list, objects, categories."""
    import narwhals.stable.v1 as nw

    if isinstance(y, list | tuple):
        return "any"
    series = nw.from_native(y, allow_series=True, pass_through=True)
    if not isinstance(series, nw.Series):
        return _KINDS.get(np.asarray(y).dtype.kind, "other things")
    dtype = series.dtype
    if dtype.is_numeric() or dtype == nw.Boolean:
        return "numbers"
    if dtype in (nw.Object, nw.Unknown, nw.Categorical):
        return "any"
    return "texts" if dtype in (nw.String, nw.Enum) else "other things"


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
    known = {classes[0]: -1.0, classes[1]: 1.0}

    def sign(cell: Any) -> float:
        try:
            return known.get(cell, np.nan)
        except Exception:  # a list, a missing value that refuses to be compared: no class
            return np.nan

    return np.array([sign(cell) for cell in cells], dtype=np.float64)


def signs_of_numbers(y: Any, classes: Any) -> Floats:
    """Return the signs of a target that an audit has made numbers: of texts, their places in alphabetical order.

    >>> signs_of_numbers(np.array([0.0, 1.0]), ("yes", "no")).tolist()  # no, yes
    [1.0, -1.0]
    """
    return signs(np.asarray(y), numbers_of_classes(classes))


def numbers_of_classes(classes: Any) -> tuple[float, float]:
    """Return the two declared classes as numbers: of texts, their places in alphabetical order."""
    two = declared_classes(classes)
    if isinstance(two[0], str):
        return (0.0, 1.0) if two[0] < two[1] else (1.0, 0.0)
    return two


def labels_as_they_are(estimator: Any, X: Any, y: Any) -> Any:
    """Return one label per person in the order of X; refused are declared facts, the number of columns of y."""
    if y is None:
        raise InvalidTable(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    import narwhals.stable.v1 as nw

    y = in_order_of(X, y)
    if isinstance(y, pa.Array):  # as a column: it keeps its type, whatever is missing
        y = pa.chunked_array([y])
    frame = nw.from_native(y, pass_through=True, allow_series=True)
    if isinstance(frame, nw.DataFrame) and len(frame.columns) == 1:
        y = frame.get_column(frame.columns[0]).to_native()
    if np.ma.is_masked(y):
        numbers = y.dtype.kind in "fiu"  # declared by the type, which stays one of numbers
        y = np.where(np.ma.getmaskarray(y), np.nan if numbers else None, y.data if numbers else y.data.astype(object))
    if not hasattr(y, "shape") and hasattr(y, "__array__") and not isinstance(y, pa.ChunkedArray):
        y = np.asarray(y)
    shape: Any = np.shape(y) if hasattr(y, "shape") else (len(y),) if hasattr(y, "__len__") else ()
    if len(shape) == 2 and shape[1] == 1:
        return np.asarray(y)[:, 0]
    if len(shape) != 1:
        raise InvalidTable(f"y must have one label per person, got {len(shape)} dimensions; pass one column")
    return y
