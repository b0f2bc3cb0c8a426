"""A column of labels (a ward, a region): text to report by, never a feature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.data.checks.ids import text_size
from perinstance.data.files.reader import counted
from perinstance.data.memory.column_choice import Chosen
from perinstance.data.memory.group_texts import MISSING
from perinstance.errors import InvalidTable, TooLarge

_ROWS = 1 << 16


def read_labels(scanned: Any, column: str) -> NDArray[np.str_]:
    """Read one column of a scanned file as texts, one per person; a missing label becomes ``"missing"``."""
    labels = getattr(getattr(scanned, "reader", None), "labels", None)
    if labels is None:
        raise InvalidTable("a .npy file has no column of labels; pass one label per person to to_html(groups=...)")
    if column not in labels:
        raise InvalidTable(
            f"the column to group by is not among the {len(labels)} columns of the table; check its name"
        )
    chosen = Chosen(features=(), target=None, ids=labels.index(column))
    codes: dict[str, int] = {}
    member: list[NDArray] = []
    for batch in counted(scanned.reader, scanned.limits, chosen, _ROWS, 1):
        if text_size(batch.column(0)) > scanned.limits.text_bytes:
            raise TooLarge("the column to group by holds long texts; a label is a short text")
        member.append(_encode(_texts(batch.column(0)), codes))
    names = np.array(list(codes), dtype=object)
    return names[np.concatenate(member)] if member else names


def _texts(column: pa.Array) -> pa.DictionaryArray:
    try:
        text = pc.cast(column, pa.large_string())
    except pa.ArrowException:
        raise InvalidTable("the column to group by holds neither text nor numbers; choose another") from None
    return pc.fill_null(text, MISSING).dictionary_encode()


def _encode(texts: pa.DictionaryArray, codes: dict[str, int]) -> NDArray:
    """Translate a batch's own codes into those of the whole file."""
    names = [name if name.strip() else MISSING for name in texts.dictionary.to_pylist()]  # a CSV file has no nulls
    own = np.array([codes.setdefault(name, len(codes)) for name in names], dtype=np.int64)
    return own[texts.indices.to_numpy(zero_copy_only=False)] if len(own) else np.empty(0, dtype=np.int64)
