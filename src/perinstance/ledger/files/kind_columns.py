"""Columns of kinds: words in the file, codes in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.pairs.interface.kinds import KINDS


def is_kind(name: str) -> bool:
    """Tell whether a column holds kinds, by its name."""
    return name == "kind" or name.endswith("_kind")


def coded(codes: NDArray[Any]) -> pa.DictionaryArray:
    """Write codes of kinds as words."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8, copy=False)), pa.array(KINDS))


def column_of(name: str, values: Any) -> pa.Array:
    """Return a column for a file: kinds by their codes, numbers as they are."""
    if not is_kind(name):
        return pa.array(values)
    return coded(np.select([values == kind for kind in KINDS], range(len(KINDS))))


def plain(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return numbers as they are, and kinds as their codes."""
    if not pa.types.is_dictionary(column.type):
        return column.to_numpy()
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    places = np.array([KINDS.index(word) for word in whole.dictionary.to_pylist()], dtype=np.uint8)
    if len(places) == 1:  # the usual case: everybody has one kind
        return np.full(len(whole), places[0])
    indices = whole.indices.to_numpy(zero_copy_only=False)
    if (places == np.arange(len(places))).all():
        return indices.astype(np.uint8)
    return places[indices]
