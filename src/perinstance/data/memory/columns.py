"""Where the numbers of an in-memory table lie, how some rows of them become one block, and words as classes or labels.

A matrix of floats is never copied: a block is a view. Everything else (integers, booleans, tables of columns) is
converted block by block, so that there is never a second table in memory. The codes of classes are those that ``fit``
gives them, the order of words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.data.checks.cells import (
    NULL,
    as_floats,
    column_label,
    is_absent,
    refuse_cells,
    refuse_types,
    stacked,
    type_word,
    whole_text,
)
from perinstance.data.recipes.preparation import EXAMPLE_ROWS, Preparation, PreparedRows, rows_between
from perinstance.errors import InvalidTable

MISSING = "missing"
_MOST = 1000  # classes


@dataclass(frozen=True, slots=True)
class Matrix:
    """A numpy matrix, possibly without some of its columns."""

    values: NDArray
    numbers: tuple[int, ...]  #: of the features in the caller's table
    names: tuple[str, ...] | None = None

    @property
    def viewed(self) -> bool:
        """Whether ``rows`` gives views of the caller's memory instead of new arrays."""
        return self._as_it_lies and self.values.dtype in (np.float64, np.float32)

    @property
    def _as_it_lies(self) -> bool:
        """Whether the features are all columns, in the order in which they lie."""
        return self.numbers == tuple(range(self.values.shape[1]))

    def rows(self, start: int, stop: int) -> NDArray:
        """Return some rows of the features as floats, in two dimensions."""
        part = self.values[start:stop]
        return as_floats(part if self._as_it_lies else part[:, list(self.numbers)], start)


@dataclass(frozen=True, slots=True)
class PreparedColumns:
    """Raw columns that a recipe, or other steps that learn nothing, turn into numbers block by block."""

    table: Any  #: a matrix, or a frame of the caller's own kind with the features alone
    prepared: PreparedRows
    numbers: tuple[int, ...]
    names: tuple[str, ...]
    viewed: bool = False

    def rows(self, start: int, stop: int) -> NDArray:
        """Return some rows as numbers, in two dimensions."""
        return self.prepared.numbers(rows_between(self.table, start, stop), start)


def prepare_columns(table: Any, preparation: Preparation) -> PreparedColumns:
    """Make the steps ready for this table of features."""
    if not len(table):
        raise InvalidTable("the table has no rows; there is nobody to audit")
    prepared = preparation.on(rows_between(table, 0, EXAMPLE_ROWS))
    return PreparedColumns(table, prepared, tuple(range(len(prepared.names))), prepared.names)


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """A narwhals DataFrame: columns of several types."""

    frame: Any
    labels: tuple[Any, ...]  #: of the features, as the frame calls them
    numbers: tuple[int, ...]
    names: tuple[str, ...]
    viewed: bool = False

    def rows(self, start: int, stop: int) -> NDArray:
        """Return some rows as floats, in two dimensions."""
        part = self.frame[start:stop]
        shown = [column_label(number, label) for label, number in zip(self.labels, self.numbers, strict=True)]
        series = {text: part.get_column(label) for text, label in zip(shown, self.labels, strict=True)}
        gaps = {label: first_null(one) for label, one in series.items()}
        refuse_cells({label: (start + row, NULL) for label, row in gaps.items() if row is not None})
        return stacked([series_floats(one, start, label) for label, one in series.items()], stop - start)


Columns = Matrix | PreparedColumns | FrameColumns  #: the features of a table


def first_null(series: Any) -> int | None:
    """Return the position of the first null of a narwhals column, if it has one."""
    native = series.to_native()
    # A numpy-backed pandas column marks missing values by NaN, which the sweep finds for nothing.
    if isinstance(getattr(native, "dtype", None), np.dtype) or not series.null_count():
        return None
    return int(series.is_null().to_numpy().argmax())


def series_floats(series: Any, start: int, label: str) -> NDArray:
    """Turn some rows of one narwhals column into floats; ``start`` is the number of the first."""
    gap = first_null(series)
    if gap is not None:
        refuse_cells({label: (start + gap, NULL)})
    array = np.asarray(series.to_numpy())
    if array.dtype.kind == "O":  # nullable types of older pandas
        array = array.astype(np.float64 if series.dtype.is_float() else np.int64)
    refuse_types({label: type_word(array.dtype)})
    return as_floats(array, start, label)


@dataclass(frozen=True, slots=True)
class Vector:
    """The target: one number per row, from numpy or from a column."""

    values: Any  #: a numpy array, or a narwhals Series
    label: str = "the target"
    words: tuple[str, ...] = ()  #: that the numbers are positions of

    def rows(self, start: int, stop: int) -> NDArray:
        """Return some rows as float64."""
        part = self.values[start:stop]
        read = as_floats if isinstance(part, np.ndarray) else series_floats
        return read(part, start, self.label).astype(np.float64, copy=False)

    def __len__(self) -> int:
        return len(self.values)


def plain_array(values: Any, what: str) -> NDArray:
    """Make an array of lists, tensors and array-likes without quoting what is in them."""
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            rows = np.flatnonzero(np.ma.getmaskarray(values).reshape(len(values), -1).any(axis=1))
            refuse_cells({what: (int(rows[0]), NULL)})
        values = values.data
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise InvalidTable(f"{what} is a sparse matrix; the audit needs dense rows, pass .toarray()")
    try:
        return np.asarray(values)
    except Exception:  # whatever a foreign __array__ raises may quote a cell
        raise InvalidTable(f"{what} is no rectangular table of numbers; pass a matrix or a table") from None


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
        refuse_cells({label: (int(absent.argmax()), NULL)})
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
    absent = [not one.strip() if isinstance(one, str) else is_absent(one) for one in values]
    texts = [MISSING if gone else whole_text(one) for one, gone in zip(values, absent, strict=True)]
    return np.array(texts, dtype=object)
