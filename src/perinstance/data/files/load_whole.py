"""Columns of a scanned file, read whole: labels, a target of two words, a table to publish from, a recipe's draft.

Releases that promise need all rows and must refuse none of them. Names and types are checked, and every row has the
file's columns. Beyond that nothing that a row holds is a reason to stop, because a refusal would tell about it: a cell
that is missing, or no number in a file without types (CSV), is NaN, and a file may have no rows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.base import clone

from perinstance.data.files.csv_text import DelimitedReader, guessed_delimiter
from perinstance.data.files.file_source import Scan, check_types, scan
from perinstance.data.memory.columns import MISSING
from perinstance.data.recipes.preparation import Preparation
from perinstance.data.recipes.recipe import Recipe
from perinstance.data.recipes.recipe_file import draft_text, word_of_texts, word_of_type
from perinstance.data.source import BLOCK_BYTES, Chosen, choose_columns, rows_per_block
from perinstance.errors import InvalidInput, InvalidTable
from perinstance.folds.ids import is_text, text_size
from perinstance.numerics.array_types import Floats

_LABEL_ROWS = 1 << 16  # of labels read at a time
_DRAFT_ROWS = 10_000  # of a CSV file, to tell numbers, dates and words apart


@dataclass(frozen=True, slots=True)
class Loaded:
    """Features and target in memory; NaN is a missing cell. Confidential."""

    names: tuple[str, ...]
    X: NDArray[np.float64]
    y: NDArray[np.float64]


def load(scanned: Scan, target: Any, ids: Any = None, features: Any = None, recipe: Recipe | None = None) -> Loaded:
    """Read the columns of a scanned file, by a recipe where there is one. Ids are left out.

    An id that repeats is refused. A promise holds for a row: to people of several rows it would be false.
    """
    if ids is not None:
        scanned.read_ids(ids)
    labels, reader = scanned.columns, scanned.reader
    if isinstance(reader, DelimitedReader):
        reader = replace(reader, lenient=True)
    if recipe is not None:
        if scanned.unnamed:
            raise InvalidTable("a recipe names columns, and a .npy file has no names; write a CSV or Parquet file")
        features = list(recipe.columns) if recipe.columns is not None else features
        target = target or recipe.target_column
    chosen = replace(choose_columns(labels, target, ids, features), ids=None)
    if not chosen.features or chosen.target is None:
        raise InvalidTable("the file needs a target, and at least one feature besides target and ids")
    if recipe is None:
        check_types(reader, chosen.numbers)
        recipe = Recipe(decimal=getattr(reader, "decimal", "."))
    if recipe.target is None:
        recipe = clone(recipe).set_params(target={"column": str(labels[chosen.target]), "as_is": True})
    names = [f"x{k}" if scanned.unnamed else str(labels[at]) for k, at in enumerate(chosen.features)]
    columns = tuple(str(name) for name in recipe.get_feature_names_out(names))
    X, y = [np.empty((0, len(columns)))], [np.empty(0)]
    for batch in reader.batches(chosen, rows_per_block(len(columns), BLOCK_BYTES), 1, raw=True):
        X.append(recipe.rows(pa.table(batch.columns[:-1], names=names), 0, refuse=False))
        y.append(recipe.target_numbers(batch.columns[-1], 0, refuse=False))
    return Loaded(columns, np.concatenate(X), np.concatenate(y))


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
    for batch in scanned.reader.counted(scanned.limits, chosen, _LABEL_ROWS):
        scanned.limits.check_text(text_size(batch.column(0)))
        try:
            texts = pc.fill_null(pc.cast(batch.column(0), pa.large_string()), MISSING).dictionary_encode()
        except pa.ArrowException:
            raise InvalidTable("the column to group by holds neither text nor numbers; choose another") from None
        words = [name if name.strip() else MISSING for name in texts.dictionary.to_pylist()]  # a CSV file has no nulls
        own = np.array([codes.setdefault(name, len(codes)) for name in words], dtype=np.int64)
        member.append(own[texts.indices.to_numpy(zero_copy_only=False)])
    return np.array(list(codes), dtype=object)[np.concatenate(member)]


def two_classes(scanned: Scan, target: Any) -> Preparation | None:
    """Return what reads the target if it is two words; None when it is anything else, which is read as numbers.

    The classes of a classifier are published with it, so they are no secret; finding them takes a pass over the column.
    """
    labels, types = scanned.columns, scanned.reader.types
    if scanned.unnamed or target not in labels:
        return None
    kind = pa.string() if types is None else types[labels.index(target)]
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


def draft_of_file(
    path: str | os.PathLike[str],
    target: str | None = None,
    leave_out: tuple[str, ...] = (),
    decimal: str = ".",
    delimiter: str | None = None,
) -> str:
    """Return the TOML of a recipe's first draft; of a CSV file, what most cells of a column are stands for its type."""
    if decimal not in (".", ","):
        raise InvalidInput("decimal must be '.' or ','")
    mark = delimiter or guessed_delimiter(path)
    scanned = scan(path, delimiter=mark)
    reader, labels = scanned.reader, scanned.columns
    if scanned.unnamed:
        raise InvalidInput("a .npy file holds numbers without names; a recipe needs a table with names")
    if any(name not in labels for name in leave_out):
        raise InvalidInput("a column to leave out is not among the columns of the table; check its name")
    used = [at for at, name in enumerate(labels) if name not in leave_out]
    if reader.types is None:
        first = next(reader.batches(Chosen(tuple(used), None, None), _DRAFT_ROWS, 1, raw=True), None)
        texts = [pa.array([], pa.string()) for _ in used] if first is None else first.columns
        words = [word_of_texts(one, decimal) for one in texts]
    else:
        words = [word_of_type(reader.types[at]) for at in used]
    named = {labels[at]: word for at, word in zip(used, words, strict=True)}
    return draft_text(named, target, decimal, mark if reader.types is None else None)
