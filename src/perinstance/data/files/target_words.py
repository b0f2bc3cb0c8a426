"""Columns of words in a file: labels to report by, and a target of two words (yes and no) that is read as classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.data.checks.ids import is_text, text_size
from perinstance.data.files.reader import counted
from perinstance.data.memory.class_words import MISSING
from perinstance.data.memory.column_choice import Chosen
from perinstance.data.recipes.preparation import Preparation
from perinstance.data.recipes.recipe import Recipe
from perinstance.errors import InvalidTable
from perinstance.numerics.array_types import Floats

_ROWS = 1 << 16


def read_labels(scanned: Any, column: str) -> NDArray[np.str_]:
    """Read one column of a scanned file as texts, one per person; a missing label becomes ``"missing"``."""
    labels = getattr(getattr(scanned, "reader", None), "labels", None)
    if labels is None or isinstance(labels[0], int):
        raise InvalidTable("a .npy file has no column of labels; pass one label per person to to_html(groups=...)")
    if column not in labels:
        raise InvalidTable(
            f"the column to group by is not among the {len(labels)} columns of the table; check its name"
        )
    chosen = Chosen(features=(), target=None, ids=labels.index(column))
    codes: dict[str, int] = {}
    member = [np.empty(0, dtype=np.int64)]
    for batch in counted(scanned.reader, scanned.limits, chosen, _ROWS, 1):
        scanned.limits.check_text(text_size(batch.column(0)))
        try:
            texts = pc.fill_null(pc.cast(batch.column(0), pa.large_string()), MISSING).dictionary_encode()
        except pa.ArrowException:
            raise InvalidTable("the column to group by holds neither text nor numbers; choose another") from None
        words = [name if name.strip() else MISSING for name in texts.dictionary.to_pylist()]  # a CSV file has no nulls
        own = np.array([codes.setdefault(name, len(codes)) for name in words], dtype=np.int64)
        member.append(own[texts.indices.to_numpy(zero_copy_only=False)])
    return np.array(list(codes), dtype=object)[np.concatenate(member)]


def two_classes(scanned: Any, target: Any) -> Preparation | None:
    """Return what reads the target if it is two words; None when it is anything else, which is read as numbers.

    The classes of a classifier are published with it, so they are no secret; finding them takes a pass over the column.
    """
    reader = scanned.reader
    if isinstance(reader.labels[0], int) or target not in reader.labels:
        return None
    kind = pa.string() if reader.types is None else reader.types[reader.labels.index(target)]
    if not is_text(kind.value_type if pa.types.is_dictionary(kind) else kind):
        return None
    words = sorted(set(read_labels(scanned, target).tolist()))
    if len(words) != 2 or MISSING in words or all(_is_number(word) for word in words):
        return None
    return None if words[0].lower() == words[1].lower() else yes_or_no(target, *words)


class WordOrMissing(Recipe):
    """A recipe whose target is missing, not refused, where it is none of the declared words."""

    def target_numbers(self, array: pa.Array, start: int, refuse: bool = True) -> Floats:
        """See ``Recipe``; nothing is refused."""
        return super().target_numbers(array, start, refuse=False)


def yes_or_no(target: Any, no: str, yes: str, others_missing: bool = False) -> Preparation:
    """Return what reads a target of these two words as 0 and 1; other words are refused, or missing."""
    declared = {"column": target, "no": [no], "yes": [yes]}
    return Preparation((Recipe(),), WordOrMissing(target=declared) if others_missing else Recipe(target=declared))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
