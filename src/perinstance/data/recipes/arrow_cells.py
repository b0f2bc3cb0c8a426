"""Cells of one raw column, as Arrow has them, read as numbers, texts or days; what cannot be read is marked.

Nothing here depends on more than one cell: a person's numbers are the same in every table and in every block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.data.checks.cells import is_absent, whole_text
from perinstance.data.checks.ids import is_text
from perinstance.numerics.array_types import Floats

#: Texts that stand for a missing cell, unless a recipe declares them as a category.
MISSING_TEXTS = ("", "#N/A", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "-")
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_DAY_MICROSECONDS = 86_400_000_000


@dataclass(frozen=True, slots=True)
class ReadCells:
    """One value per row; where a cell is missing or unreadable the value is without meaning."""

    values: NDArray
    missing: NDArray[np.bool_]
    unreadable: NDArray[np.bool_]

    def answered(self, answer: float | None) -> NDArray:
        """Return the values, with the answer where a cell is missing."""
        return self.values if answer is None else np.where(self.missing, answer, self.values)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words of a column, each with the number it stands for."""

    words: tuple[str, ...]
    codes: tuple[int, ...]
    fold_case: bool = False


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
        # a mixture: True beside "yes", 1 beside "1"; None and NaN stay missing
        texts = [str(one).lower() if isinstance(one, bool) else whole_text(one) for one in array.tolist()]
        absent = [is_absent(one) for one in array.tolist()]
        return pa.array([None if gone else text for text, gone in zip(texts, absent, strict=True)], pa.string())


def read_numbers(array: pa.Array, decimal: str) -> ReadCells:
    """Read numbers; texts are parsed with ``decimal`` as their decimal mark."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _through_dictionary(array, lambda words: read_numbers(words, decimal))
    if is_text(kind):
        return _parsed_numbers(array, decimal)
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        array = pc.cast(array, pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return _all_unreadable(array)
    values = _floats(array)
    missing = np.isnan(values) if pa.types.is_floating(array.type) else _nulls(array)  # nulls have become NaN
    return ReadCells(values, missing, np.isinf(values))


def read_words(array: pa.Array, vocabulary: Vocabulary) -> ReadCells:
    """Read words: the code of each, -1 for one that the vocabulary does not have."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _through_dictionary(array, lambda words: read_words(words, vocabulary))
    if not is_text(kind):
        array = _written_out(array)
    # texts repeat: only the distinct ones are looked at
    return _through_dictionary(array.dictionary_encode(), lambda words: _codes_of(words, vocabulary))


def read_days(array: pa.Array, form: str | None) -> ReadCells:
    """Read dates and times as days since 1970-01-01; texts by ``form`` (strptime), or as ISO 8601 without one."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _through_dictionary(array, lambda words: read_days(words, form))
    if is_text(kind):
        return _through_dictionary(array.dictionary_encode(), lambda words: _parsed_days(words, form))
    if not (pa.types.is_null(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return _all_unreadable(array)
    return ReadCells(_days(array), _nulls(array), np.zeros(len(array), dtype=bool))


def _codes_of(words: pa.Array, vocabulary: Vocabulary) -> ReadCells:
    trimmed = pc.utf8_trim_whitespace(words)
    asked = pc.utf8_lower(trimmed) if vocabulary.fold_case else trimmed
    known = pa.array([one.lower() if vocabulary.fold_case else one for one in vocabulary.words], asked.type)
    at = pc.fill_null(pc.index_in(asked, value_set=known), -1).to_numpy(zero_copy_only=False)
    codes = np.append(np.asarray(vocabulary.codes, dtype=np.int32), np.int32(-1))[at]
    return ReadCells(codes, (codes < 0) & _gaps(trimmed), np.zeros(len(codes), dtype=bool))


def _parsed_numbers(array: pa.Array, decimal: str) -> ReadCells:
    text = pc.utf8_trim_whitespace(array)
    gaps = _gaps(text)
    if decimal != ".":  # a point was no decimal there, and is none now
        text = pc.replace_substring(pc.replace_substring(text, ".", "_"), decimal, ".")
    readable = pc.fill_null(pc.match_substring_regex(text, _NUMBER), False).to_numpy(zero_copy_only=False)
    values = _floats(pc.cast(pc.if_else(pa.array(readable), text, None), pa.float64()))
    return ReadCells(values, gaps, np.where(readable, ~np.isfinite(values), ~gaps))


def _parsed_days(words: pa.Array, form: str | None) -> ReadCells:
    text = pc.utf8_trim_whitespace(words)
    gaps = _gaps(text)
    forms = (form,) if form else ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S")
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
