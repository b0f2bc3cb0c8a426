"""Cells of raw tables read as numbers, words or days; what cannot be read is marked, and refused without being shown.

Nothing here depends on more than one cell: a person's numbers are the same in every table and in every block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.data.checks.cells import is_absent, named_column, whole_text
from perinstance.errors import InvalidTable
from perinstance.folds.ids import is_text
from perinstance.numerics.array_types import Floats

if TYPE_CHECKING:
    from perinstance.data.recipes.column_kinds import ColumnKind

#: Texts that stand for a missing cell, unless a recipe declares them as a category.
MISSING_TEXTS = ("", "#N/A", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "-")
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_ISO = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S")
_DAY_MICROSECONDS = 86_400_000_000
_SHOWN = 10  # columns named in one message
_WRONG = {
    "missing": "missing (null, NaN or empty), and the recipe has no answer for it",
    "range": "not a finite number",
    "as_is": "not a finite number (text, NaN or infinity)",
    "yes": "neither a word for yes nor one for no",
    "dates": "not a date as declared",
}


@dataclass(frozen=True, slots=True)
class ReadCells:
    """One value per row; where a cell is missing or unreadable the value is without meaning."""

    values: NDArray
    missing: NDArray[np.bool_]
    unreadable: NDArray[np.bool_]

    def answered(self, answer: float | None) -> NDArray:
        """Return the values, with the answer where a cell is missing."""
        return self.values if answer is None else np.where(self.missing, answer, self.values)


def as_arrow(values: Any) -> pa.Array:
    """Return a column of any kind as one Arrow array; mixed objects become texts."""
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if isinstance(values, pa.Array):
        return values
    if not isinstance(values, np.ndarray) and hasattr(values, "to_arrow"):  # narwhals, polars
        try:
            return as_arrow(values.to_arrow())
        except (pa.ArrowException, TypeError, ValueError):
            values = np.asarray(values.to_numpy(), dtype=object)
    array = np.asarray(values)
    try:
        return pa.array(array, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # a mixture: True beside "yes", 1 beside "1"; None and NaN stay missing, half a character is a question mark
        texts = [str(one).lower() if isinstance(one, bool) else whole_text(one) for one in array.tolist()]
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        return pa.array(texts, pa.string(), mask=np.array([is_absent(one) for one in array.tolist()], dtype=bool))


def read_numbers(array: pa.Array, decimal: str) -> ReadCells:
    """Read numbers; texts are parsed with ``decimal`` as their decimal mark."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _through_dictionary(array, lambda words: read_numbers(words, decimal))
    if is_text(kind):
        text = pc.utf8_trim_whitespace(array)
        gaps = _gaps(text)
        if decimal != ".":  # a point was no decimal there, and is none now
            text = pc.replace_substring(pc.replace_substring(text, ".", "_"), decimal, ".")
        readable = pc.fill_null(pc.match_substring_regex(text, _NUMBER), False).to_numpy(zero_copy_only=False)
        values = _floats(pc.cast(pc.if_else(pa.array(readable), text, None), pa.float64()))
        return ReadCells(values, gaps, np.where(readable, ~np.isfinite(values), ~gaps))
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        array = pc.cast(array, pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return _all_unreadable(array)
    values = _floats(array)
    missing = np.isnan(values) if pa.types.is_floating(array.type) else _nulls(array)  # nulls have become NaN
    return ReadCells(values, missing, np.isinf(values))


def read_words(array: pa.Array, codes: Mapping[str, int], fold_case: bool = False) -> ReadCells:
    """Read words: the code of each, -1 for one that has none."""
    if not pa.types.is_dictionary(array.type):
        array = (array if is_text(array.type) else _written_out(array)).dictionary_encode()
    return _through_dictionary(array, lambda words: _codes_of(words, codes, fold_case))


def read_days(array: pa.Array, form: str | tuple[str, ...] | None) -> ReadCells:
    """Read dates and times as days since 1970-01-01; texts by ``form`` (strptime; the first of several that fits), or
    as ISO 8601 without one.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _through_dictionary(array, lambda words: read_days(words, form))
    if is_text(kind):
        return _through_dictionary(array.dictionary_encode(), lambda words: _parsed_days(words, form))
    if not (pa.types.is_null(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return _all_unreadable(array)
    return ReadCells(_days(array), _nulls(array), np.zeros(len(array), dtype=bool))


def _codes_of(words: pa.Array, codes: Mapping[str, int], fold_case: bool) -> ReadCells:
    if not is_text(words.type):
        words = _written_out(words)
    trimmed = pc.utf8_trim_whitespace(words)
    known = pa.array([one.lower() if fold_case else one for one in codes], trimmed.type)
    at = pc.index_in(pc.utf8_lower(trimmed) if fold_case else trimmed, value_set=known)
    found = pc.fill_null(pa.array(list(codes.values()), pa.int32()).take(at), -1).to_numpy(zero_copy_only=False)
    return ReadCells(found, (found < 0) & _gaps(trimmed), np.zeros(len(found), dtype=bool))


def _parsed_days(words: pa.Array, form: str | tuple[str, ...] | None) -> ReadCells:
    text = pc.utf8_trim_whitespace(words)
    gaps = _gaps(text)
    forms = (form,) if isinstance(form, str) else form or _ISO
    days = pc.coalesce(*(pc.strptime(text, format=one, unit="us", error_is_null=True) for one in forms))
    bad = pc.is_null(days).to_numpy(zero_copy_only=False) & ~gaps
    return ReadCells(_days(days), gaps, bad)


def _days(array: pa.Array) -> Floats:
    kind = array.type
    if pa.types.is_date32(kind):
        return _floats(pc.cast(array, pa.int32()))
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        array = array.cast(pa.timestamp(kind.unit))  # the instant in UTC
    micro = pc.cast(array, pa.timestamp("us"), safe=False)
    return _floats(pc.cast(micro, pa.int64())) / _DAY_MICROSECONDS


def _through_dictionary(array: pa.DictionaryArray, read: Any) -> ReadCells:
    """Read the distinct words once, and hand them out by the column's codes."""
    missing = _nulls(array.indices)
    if not len(array.dictionary):
        return ReadCells(np.zeros(len(array)), missing, ~missing)
    at = pc.fill_null(array.indices, 0).to_numpy(zero_copy_only=False)
    words: ReadCells = read(array.dictionary)
    return ReadCells(words.values[at], words.missing[at] | missing, words.unreadable[at] & ~missing)


def _written_out(array: pa.Array) -> pa.Array:
    """Write numbers and truth values as a person would: 1, not 1.0."""
    kind = array.type
    if pa.types.is_null(kind):
        return pc.cast(array, pa.string())
    if pa.types.is_floating(kind):
        values = _floats(array)
        whole = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2.0**53)
        if whole[np.isfinite(values)].all():
            array = pa.array(np.where(whole, values, 0).astype(np.int64), mask=~np.isfinite(values))
    try:
        return pc.cast(array, pa.string())
    except pa.ArrowException:
        return pa.array(["\x00"] * len(array))  # lists, records: nobody declares them as a word


def _all_unreadable(array: pa.Array) -> ReadCells:
    return ReadCells(np.zeros(len(array)), _nulls(array), ~_nulls(array))


def _gaps(text: pa.Array) -> NDArray[np.bool_]:
    listed = pc.is_in(text, value_set=pa.array(MISSING_TEXTS, text.type))
    return pc.or_(pc.is_null(text), listed).to_numpy(zero_copy_only=False)


def _nulls(array: pa.Array) -> NDArray[np.bool_]:
    return pc.is_null(array).to_numpy(zero_copy_only=False)


def _floats(array: pa.Array) -> Floats:
    """Nulls become NaN."""
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table of any kind, by columns."""

    columns: Any
    names: list[Any] | None
    n_columns: int
    n_rows: int

    def column(self, at: int) -> pa.Array:
        """Return one column."""
        if isinstance(self.columns, (pa.Table, pa.RecordBatch)):
            return as_arrow(self.columns.column(at))
        return as_arrow(self.columns[:, at] if self.names is None else self.columns.get_column(self.names[at]))


def raw_table(X: Any) -> RawTable:
    """Take pandas, polars, pyarrow and whatever narwhals knows by names, matrices by position."""
    import narwhals.stable.v1 as nw

    if isinstance(X, (pa.Table, pa.RecordBatch)):  # as blocks of a file come: nothing to look up
        return RawTable(X, X.schema.names, X.num_columns, X.num_rows)
    frame = X if isinstance(X, (np.ndarray, list, tuple)) else nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise InvalidTable("the table is lazy; call .collect() first")
    if isinstance(frame, nw.DataFrame):
        return RawTable(frame, list(frame.columns), len(frame.columns), len(frame))
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise InvalidTable("Sparse data was passed for X, but dense data is required; use '.toarray()'")
    try:
        values = np.asarray(X)
        values = np.asarray(X, dtype=object) if values.dtype.kind in "US" and values is not X else values
    except Exception:  # whatever a foreign __array__ raises may quote a cell
        raise InvalidTable("X is no rectangular table; pass a matrix or a table") from None
    if values.ndim != 2:
        raise InvalidTable(
            f"Expected 2D array, got {values.ndim}D array instead: X must have one row per person. Reshape your data."
        )
    for axis, what in ((1, f"feature(s) (shape={values.shape})"), (0, "sample(s)")):
        if values.shape[axis] == 0:
            raise InvalidTable(f"Found array with 0 {what} while a minimum of 1 is required.")
    if values.dtype.kind == "c":
        raise InvalidTable("Complex data not supported: split it into real and imaginary parts")
    return RawTable(values, None, values.shape[1], values.shape[0])


@dataclass(slots=True)
class RefusedCells:
    """Collects the columns of one block; ``start`` is the number of its first row."""

    start: int
    refuse: bool = True  #: False: whoever asked takes cells without a number as NaN
    na: tuple[str, ...] = ()  #: words that mean missing, in every column
    found: list[str] = field(default_factory=list)

    def fill(self, name: str, kind: ColumnKind, array: Any, decimal: str, out: NDArray) -> None:
        """Write one column's numbers to ``out``, and take note of the cells that have none."""
        cells = kind.read(kind.rules.cleaned(as_arrow(array), decimal, self.na), decimal)
        gaps = cells.missing & (kind.missing is None)
        for lost, what in ((cells.unreadable, next(iter(kind.plain))), (gaps, "missing")):
            if lost.any():
                count, row, last = int(lost.sum()), self.start + int(lost.argmax()), self.start + len(lost) - 1
                more = f" (and {count - 1} more up to row {last})" if count > 1 else ""  # of the rows read so far
                self.found.append(f"{named_column(name)}, row {row}{more}: {_WRONG[what]}")
        kind.fill(cells, out)
        if not self.refuse:
            out[gaps | cells.unreadable] = np.nan

    def refuse_any(self) -> None:
        """Refuse all columns at once, by name and row, if anything was found."""
        left_out = len(self.found) - _SHOWN
        shown = "; ".join(self.found[:_SHOWN]) + (f"; and {left_out} more columns" if left_out > 0 else "")
        if self.found and self.refuse:
            raise InvalidTable(f"{shown}. Declare missing = ..., correct the cells, or declare the column otherwise")
