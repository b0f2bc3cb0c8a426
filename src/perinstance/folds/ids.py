"""Ids of people: strings exactly as written.

"007" and "7" are two people, "NA" and "null" are ids like any other. An id that is absent (null, NaN, the empty
string) is refused, and so is an id that occurs twice: a loss must belong to one person.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.errors import InvalidTable, RepeatedIds
from perinstance.numerics.compilation import exact_kernel


def read_ids(values: Any, start: int = 0) -> pa.Array:
    """Turn a column of strings or integers into an arrow array of strings; refuse anything else."""
    array = _as_arrow(values)
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.cast(kind.value_type), kind.value_type
    if pa.types.is_null(kind) and not len(array):  # nobody
        return pa.array([], pa.string())
    if not (is_text(kind) or pa.types.is_integer(kind)):
        raise InvalidTable(f"ids must be strings or whole numbers, got {kind}; convert them to text as it is written")
    if array.null_count:
        raise _absent(start, pc.is_null(array), "missing")
    try:
        array.validate(full=True)
    except pa.ArrowException:
        raise InvalidTable("ids must be valid UTF-8, got other bytes; decode them first") from None
    if not pa.types.is_string(kind):
        array = array.cast(pa.string() if array.nbytes < 2**30 else pa.large_string())
    empty = pc.equal(pc.binary_length(array), 0)
    if pc.any(empty).as_py():
        raise _absent(start, empty, "empty")
    return array


def person_codes(values: Any) -> NDArray[np.int64]:
    """Return a number from 0 for each row: rows of one id have one number."""
    codes: NDArray = read_ids(values).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return codes.astype(np.int64)


def _absent(start: int, cells: pa.BooleanArray, what: str) -> InvalidTable:
    return InvalidTable(f"ids, row {start + pc.index(cells, True).as_py()}: an id is {what}; give everyone one")


def text_size(column: pa.Array) -> int:
    """Return the bytes of a column of texts once each row has its own, without unpacking a dictionary."""
    if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):
        lengths = pc.cast(pc.binary_length(column.dictionary), pa.int64())
        return int(pc.sum(lengths.take(column.indices)).as_py() or 0)
    if is_text(column.type):
        return int(pc.sum(pc.cast(pc.binary_length(column), pa.int64())).as_py() or 0)
    return int(column.nbytes)


def refuse_duplicates(ids: pa.ChunkedArray, or_declare: bool = False) -> None:
    """Refuse ids that repeat, and say how many people have several rows, never which.

    Eight bytes a row: 64-bit hashes are sorted, and only ids whose hashes agree are compared as strings.
    """
    hashes = id_hashes(ids)
    ordered = np.sort(hashes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return
    suspects = ids.take(pa.array(np.flatnonzero(np.isin(hashes, twice))))
    people = repeated_people(suspects)
    if people:
        raise several_rows(people, or_declare=or_declare)


def repeated_people(ids: pa.ChunkedArray) -> int:
    """Return how many different ids occur more than once."""
    return int(pc.sum(pc.greater(pc.value_counts(ids).field("counts"), 1)).as_py() or 0)


def several_rows(people: int, at_least: str = "", or_declare: bool = False) -> RepeatedIds:
    """Return the refusal of a table in which people have several rows: what holds for a row does not hold for them."""
    declare = ", or declare rows_per_person (at the shell: --rows-per-person)" if or_declare else ""
    have = "person has" if people == 1 else "people have"
    return RepeatedIds(
        f"ids repeat: {at_least}{people:,} {have} several rows, and what is promised or told holds for one row; make "
        "one row of each person's rows (their sum, mean or latest), by a rule fixed without looking at the outcome"
        f"{declare}"
    )


def id_hashes(ids: pa.ChunkedArray) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each id; different ids may share one."""
    hashes = np.empty(len(ids), dtype=np.uint64)
    at = 0
    for chunk in ids.chunks:
        _, offsets, text = chunk.buffers()
        if len(chunk):
            width = np.int32 if pa.types.is_string(ids.type) else np.int64
            ends = np.frombuffer(offsets, dtype=width)[chunk.offset : chunk.offset + len(chunk) + 1]
            data = np.frombuffer(text, dtype=np.uint8) if text is not None else np.empty(0, dtype=np.uint8)
            _fnv1a(ends, data, hashes[at : at + len(chunk)])
        at += len(chunk)
    return hashes


@exact_kernel
def _fnv1a(ends, data, out):  # pragma: no cover - compiled
    for i in range(len(out)):
        h = np.uint64(14695981039346656037)
        for k in range(ends[i], ends[i + 1]):
            h = (h ^ np.uint64(data[k])) * np.uint64(1099511628211)
        out[i] = h


def _as_arrow(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if isinstance(values, pa.Array):
        return values
    if hasattr(values, "to_arrow") and not isinstance(values, np.ndarray):  # polars
        return _as_arrow(values.to_arrow())
    # a list becomes objects: numpy would write 7 and "7" alike, and cut NULs from the end of a text
    try:
        array = np.array(values, dtype=object) if isinstance(values, (list, tuple)) else np.asarray(values)
    except UnicodeError:
        raise InvalidTable("ids must be text that can be stored, got a lone surrogate; write them in UTF-8") from None
    if array.ndim != 1:
        raise InvalidTable(f"ids must have one dimension, got {array.ndim}; pass one id per row")
    try:
        if array.dtype.kind in "OUT":
            # from_pandas: None, NaN and NaT are null; a mixture of types raises instead of merging 7 and "7"
            return pa.array(array.astype(object), from_pandas=True)
        return pa.array(array)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InvalidTable(
            "ids must all be strings or all be whole numbers, got a mixture or something else; "
            "convert them to strings as they are written"
        ) from None


def is_text(kind: pa.DataType) -> bool:
    """Tell whether cells of this type are texts."""
    view = hasattr(pa.types, "is_string_view") and pa.types.is_string_view(kind)
    return view or pa.types.is_string(kind) or pa.types.is_large_string(kind)
