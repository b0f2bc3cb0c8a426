"""A file's target of two words (yes and no), read as classes: their codes are those that ``fit`` gives them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from perinstance.data.files.group_labels import read_labels
from perinstance.data.memory.group_texts import MISSING
from perinstance.data.recipes.preparation import Preparation
from perinstance.data.recipes.recipe import Recipe
from perinstance.numerics.array_types import Floats


def two_classes(scanned: Any, target: Any) -> Preparation | None:
    """Return what reads the target if it is two words; None when it is anything else, which is read as numbers.

    The classes of a classifier are published with it, so they are no secret; finding them takes a pass over the column.
    """
    reader = getattr(scanned, "reader", None)
    if reader is None or target not in reader.labels:
        return None
    if reader.types is not None and not _may_be_words(reader.types[reader.labels.index(target)]):
        return None
    words = sorted(set(read_labels(scanned, target).tolist()))
    if len(words) != 2 or MISSING in words or all(_is_number(word) for word in words):
        return None
    if words[0].lower() == words[1].lower():
        return None
    return yes_or_no(target, *words)


class WordOrMissing(Recipe):
    """A recipe whose target is missing, not refused, where it is none of the declared words."""

    def target_numbers(self, array: pa.Array, start: int, first_row: int = 0, refuse: bool = True) -> Floats:
        """See ``Recipe``; nothing is refused."""
        return super().target_numbers(array, start, first_row, refuse=False)


def yes_or_no(target: Any, no: str, yes: str, others_missing: bool = False) -> Preparation:
    """Return what reads a target of these two words as 0 and 1; other words are refused, or missing."""
    declared = {"column": target, "no": [no], "yes": [yes]}
    return Preparation((Recipe(),), WordOrMissing(target=declared) if others_missing else Recipe(target=declared))


def _may_be_words(kind: pa.DataType) -> bool:
    text = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(text) or pa.types.is_large_string(text)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
