"""Words as classes of a target or labels of groups.

The codes of classes are those that ``fit`` gives them, the order of words. People without a label are a group.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.data.checks.cells import is_absent, refuse_null, whole_text
from perinstance.errors import InvalidTable

MISSING = "missing"
_MOST = 1000  # classes


class DeclaredWords(tuple[str, ...]):
    """Classes that a release declared: whatever else stands in a table is missing, as it is when the release is made.

    >>> coded_target(["yes", "maybe", None, "no"], DeclaredWords(("no", "yes")))[0].tolist()
    [1.0, nan, nan, 0.0]
    """

    __slots__ = ()


def coded_target(
    values: Any, words: tuple[str, ...] | None, label: str = "the target"
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return positions of words among the classes, and these: ``words``, or, where that is None, all that occur."""
    array = np.asarray(values, dtype=object)
    if isinstance(words, DeclaredWords):
        code = {word: float(at) for at, word in enumerate(words)}
        cells = (code.get(one, np.nan) if isinstance(one, str) else np.nan for one in array)
        return np.fromiter(cells, np.float64, len(array)), words
    absent = np.array([is_absent(one) for one in array], dtype=bool)
    if absent.any():
        refuse_null(label, int(absent.argmax()))
    if not all(isinstance(one, str) for one in array):
        raise InvalidTable(f"{label} mixes words and numbers; write all its classes alike")
    found, codes = np.unique(array.astype(str), return_inverse=True)
    if words is not None:
        if not np.isin(found, words).all():
            raise InvalidTable(f"{label} has a class that the table does not have; ask about classes of the table")
        codes = np.searchsorted(words, found)[codes]
    elif len(found) > _MOST:
        raise InvalidTable(f"{label} has {len(found)} different words; is it a name rather than a class?")
    return codes.astype(np.float64), tuple(found.tolist()) if words is None else words


def refuse_numbers(words: tuple[str, ...] | None, label: str = "the target") -> None:
    """Refuse a target of numbers, by its type, where classes were declared in words: nobody would have one of them."""
    if isinstance(words, DeclaredWords):
        raise InvalidTable(
            f"{label} holds numbers, and the release declares its classes in words ({' and '.join(words)}); declare "
            "numbers, or pass the target in words"
        )


def label_texts(labels: Any) -> NDArray:
    """Return one text per person; None, NaN, NA and empty texts become the group ``"missing"``.

    >>> label_texts(["north", None, float("nan"), 3]).tolist()
    ['north', 'missing', 'missing', '3']
    """
    values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    return np.array([MISSING if _is_missing(one) else whole_text(one) for one in values], dtype=object)


def _is_missing(value: Any) -> bool:
    return not value.strip() if isinstance(value, str) else is_absent(value)
