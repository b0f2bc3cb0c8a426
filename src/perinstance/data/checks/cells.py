"""What may stand in a table, and how a refusal speaks of it.

Refusals name columns by number (counting from 0) and name, and rows as the table counts them: from 0 in memory and in
Parquet, from 1 with the header in a CSV file. They never carry a cell. A column's name is added only when it is made of
harmless characters and certainly is a name: the first line of a CSV file may be a person, unless the caller named one
of its columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidTable
from perinstance.folds.block import plain_targets

LARGEST_INTEGER = 2**53  # every integer up to here is a float64; beyond, neighbours merge
NULL = "a missing value (null)"
_SHOWN = 20  # columns named in one message
_HARMLESS = re.compile(r"[^\W\d][\w .()/%°\-]{0,59}")


def column_label(number: int | None, name: object = None) -> str:
    """Speak of a column.

    >>> column_label(3), column_label(3, "bmi"), column_label(3, "=cmd()"), column_label(None)
    ('column 3', "column 3 ('bmi')", 'column 3', 'the target')
    """
    if number is None:
        return "the target"
    return f"column {number} ('{name}')" if _is_harmless(name) else f"column {number}"


def named_column(name: object) -> str:
    """Speak of a column by the name that the caller wrote; one that could disturb a terminal is left out.

    >>> named_column("Größe (cm)"), named_column("=cmd()")
    ("column 'Größe (cm)'", 'a column')
    """
    return f"column '{name}'" if _is_harmless(name) else "a column"


def _is_harmless(name: object) -> bool:
    return isinstance(name, str) and _HARMLESS.fullmatch(name) is not None


#: what a column holds, by the name of its type in numpy, Arrow or narwhals; nothing is said of plain numbers
_WORDS = {
    "": r"u?int(8|16|32|64)|(half)?float(16|32|64)?|double|bool(ean)?",
    "extended precision": r"float\d+|longdouble",
    "text": r"(large_|fixed_size_)?(str|bytes|binary).*",
    "objects": r"object",
    "categories": r"(dictionary|categorical|enum).*",
    "complex numbers": r"complex.*",
    "dates or times": r"(date|time|duration|month).*",
    "decimals": r"decimal.*",
    "records": r"void.*",
}
_ADVICE = {
    "text": "if it names people pass it as ids=, else declare it in a perinstance.Recipe or leave it out",
    "objects": "convert it to one numeric type, or declare it in a perinstance.Recipe",
    "complex numbers": "split it into real and imaginary parts",
    "dates or times": "declare the range of dates in a perinstance.Recipe, or count days from a fixed day",
    "extended precision": "convert it to float64",
    "decimals": "convert it to float64 or to integers",
    "categories": "declare them in a perinstance.Recipe",
}


def type_word(kind: Any) -> str:
    """Say what a column of this type holds that is not numbers.

    >>> type_word(np.dtype("f4")), type_word(np.dtype("U5")), type_word("timestamp[s]"), type_word("list<double>")
    ('', 'text', 'dates or times', 'something that is not a number')
    """
    name = (kind.name if isinstance(kind, np.dtype) else str(kind)).lower()
    return next((word for word, form in _WORDS.items() if re.fullmatch(form, name)), "something that is not a number")


def refuse_types(words: Mapping[str, str]) -> None:
    """Refuse all columns that are not made of numbers, at once; ``words`` says what each holds, by its label."""
    words = {label: word for label, word in words.items() if word}
    several = "; ".join(f"{label} holds {word}" for label, word in words.items())
    if len(words) == 1:
        advice = _ADVICE.get(next(iter(words.values())), "convert it to float64")
        raise InvalidTable(f"{several}, a table to audit holds numbers only; {advice}")
    if words:
        raise InvalidTable(
            f"{several}; a table to audit holds numbers only: declare these columns in a perinstance.Recipe, "
            "pass the one that names people as ids=, or leave them out"
        )


def as_floats(array: NDArray, start: int, label: str | None = None) -> NDArray:
    """Give floats: float64 and float32 as they are, anything else as float64; ``start`` is the first row's number.

    ``label`` names the column; without it the array is a matrix and its columns are numbered.
    """
    if array.dtype == np.float64 or array.dtype == np.float32:
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        wide = (array > LARGEST_INTEGER) | (array < -LARGEST_INTEGER if array.dtype.kind == "i" else False)
        if wide.any():
            place = np.argwhere(wide)[0]
            refuse_integer(label or column_label(int(place[-1])), start + int(place[0]))
    return array.astype(np.float64)


def unique_labels(labels: Iterable[Any], before: str = "") -> tuple[Any, ...]:
    """Refuse two columns of one name; ``before`` begins the sentence."""
    first: dict[Any, int] = {}
    for number, label in enumerate(labels):
        try:
            twin = first.setdefault(label, number)
        except TypeError:
            raise InvalidTable(f"{before}a column has a name that is no plain word; rename it") from None
        if twin != number:
            raise InvalidTable(f"{before}columns {twin} and {number} have the same name; rename one of them")
    return tuple(first)


def stacked(columns: Sequence[NDArray], rows: int) -> NDArray:
    """Make one matrix, column by column, of float32 where all columns are."""
    kind = np.float32 if all(column.dtype == np.float32 for column in columns) else np.float64
    X = np.empty((rows, len(columns)), dtype=kind, order="F")
    for at, column in enumerate(columns):
        X[:, at] = column
    return X


def is_finite(X: NDArray, y: NDArray) -> bool:
    """Tell quickly whether a block may hold NaN or infinity (a sum of huge numbers may raise a false alarm)."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(X.sum()) and np.isfinite(plain_targets(y).sum()))


def refuse_missing(
    X: NDArray, y: NDArray, start: int, names: tuple[str, ...] | None = None, columns: tuple[int, ...] | None = None
) -> None:
    """Find NaN and infinities and refuse them by row and column, all columns at once; return when there is none.

    ``columns`` are the numbers of the features in the caller's table, when a target or ids stood between them.
    """
    y = plain_targets(y)
    bad, wrong = ~np.isfinite(X), ~np.isfinite(y)
    columns = tuple(range(X.shape[1])) if columns is None else columns
    suspects = [
        (column_label(columns[at], names[at] if names else None), X[:, at]) for at in np.flatnonzero(bad.any(axis=0))
    ]
    suspects += [(column_label(None), y)] if wrong.any() else []
    found = {}
    for label, column in suspects:
        row = int((~np.isfinite(column)).argmax())
        found[label] = (start + row, "a missing value (NaN)" if np.isnan(column[row]) else "an infinity")
    count = bad.sum() + wrong.sum()
    refuse_cells(found, f" (the block of rows {start} to {start + len(y) - 1} has {count} such cells)")


def refuse_cells(found: Mapping[str, tuple[int, str]], more: str = "") -> None:
    """Refuse the columns found, by the row and kind of their first bad cell; return when there are none."""
    if found:
        shown = [f"{label}, row {row}: {what}" for label, (row, what) in list(found.items())[:_SHOWN]]
        shown += [f"and {len(found) - _SHOWN} more columns"] if len(found) > _SHOWN else []
        raise InvalidTable(f"{'; '.join(shown)}; remove or fill such rows{more}")


def refuse_integer(label: str, row: int) -> NoReturn:
    """Refuse an integer that would be rounded."""
    raise InvalidTable(
        f"{label}, row {row}: an integer beyond 2^53 does not survive as a float64; "
        "rescale the column, or pass it as ids if it is a number on a card"
    )


def is_absent(value: Any) -> bool:
    """Tell whether a cell is empty: NaN and NaT differ from themselves, pandas' NA does not tell whether it does."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def whole_text(value: Any) -> str:
    """Write a cell; a whole number that a missing neighbour made a float is 1, not 1.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
