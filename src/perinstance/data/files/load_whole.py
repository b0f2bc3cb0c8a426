"""A scanned file, read whole: for releases that promise, which need all rows and must refuse none of them.

Names and types are checked, and every row has the file's columns. Beyond that nothing that a row holds is a reason to
stop, because a refusal would tell about it: a cell that is missing, or no number in a file without types (CSV), is NaN,
and a file may have no rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import clone

from perinstance.data.files.csv_text import DelimitedReader
from perinstance.data.files.file_source import Scan, check_types
from perinstance.data.memory.column_choice import choose_columns
from perinstance.data.recipes.recipe import Recipe
from perinstance.data.source import BLOCK_BYTES, rows_per_block
from perinstance.errors import InvalidTable


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
    labels, reader = scanned.reader.labels, scanned.reader
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
