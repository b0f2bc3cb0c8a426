"""A scanned file, read whole: for releases that promise, which need all rows and must refuse none of them.

Names and types are checked, and every row has the file's columns. Beyond that nothing that a row holds is a reason to
stop, because a refusal would tell about it: a cell that is missing, or no number in a file without types (CSV), is NaN,
and a file may have no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.base import clone

from perinstance.data.files.file_source import Scan, check_types
from perinstance.data.files.npy import NpyScan
from perinstance.data.memory.column_choice import Chosen, choose_columns
from perinstance.data.recipes.recipe import Recipe
from perinstance.data.source import BLOCK_BYTES, rows_per_block
from perinstance.errors import InvalidTable
from perinstance.numerics.array_types import Floats


@dataclass(frozen=True, slots=True)
class Loaded:
    """Features and target in memory; NaN is a missing cell. Confidential."""

    names: tuple[str, ...]
    X: NDArray[np.float64]
    y: NDArray[np.float64]


def load(
    scanned: Scan | NpyScan, target: Any, ids: Any = None, features: Any = None, recipe: Recipe | None = None
) -> Loaded:
    """Read the columns of a scanned file, by a recipe where there is one. Ids are left out.

    An id that repeats is refused. A promise holds for a row: to people of several rows it would be false.
    """
    labels: Any = scanned.columns
    if ids is not None:
        if isinstance(scanned, NpyScan):
            raise InvalidTable("a matrix of numbers has no ids; leave ids= away, or use a CSV or Parquet file")
        scanned.read_ids(ids)
    if recipe is not None:
        return _by_recipe(scanned, recipe, target, ids, features)
    chosen = replace(choose_columns(labels, target, ids, features), ids=None)
    if not chosen.features or chosen.target is None:
        raise InvalidTable("the file needs a target, and at least one feature besides target and ids")
    numbers = (*chosen.features, chosen.target)
    if isinstance(scanned, NpyScan):
        names = tuple(f"x{at}" for at in range(len(chosen.features)))
        whole = scanned.window(0, scanned.n_rows)[:, list(numbers)].astype(np.float64)
        return Loaded(names, whole[:, :-1], whole[:, -1])
    if scanned.reader.types is not None:
        check_types(scanned.reader, numbers)
    blocks = [np.empty((0, len(numbers))), *_matrices(scanned, chosen, len(numbers))]
    whole = np.concatenate(blocks)
    return Loaded(tuple(str(labels[at]) for at in chosen.features), whole[:, :-1], whole[:, -1])


def _by_recipe(scanned: Scan | NpyScan, recipe: Recipe, target: Any, ids: Any, features: Any) -> Loaded:
    """Turn raw rows into numbers; a cell for which the recipe has none is NaN."""
    if isinstance(scanned, NpyScan):
        raise InvalidTable("a recipe names columns, and a .npy file has no names; write a CSV or Parquet file")
    labels = scanned.reader.labels
    used = list(recipe.columns) if recipe.columns is not None else features
    chosen = replace(choose_columns(labels, target or recipe.target_column, ids, used), ids=None)
    if not chosen.features or chosen.target is None:
        raise InvalidTable("the file needs a target, and at least one feature besides target and ids")
    if recipe.target is None:
        recipe = clone(recipe).set_params(target={"column": labels[chosen.target], "as_is": True})
    names = [labels[at] for at in chosen.features]
    columns = tuple(str(name) for name in recipe.get_feature_names_out(names))
    rows, targets = [np.empty((0, len(columns)))], [np.empty(0)]
    for batch in scanned.reader.batches(chosen, rows_per_block(len(columns), BLOCK_BYTES), 1, raw=True):
        table = pa.table([batch.column(k) for k in range(len(names))], names=names)
        rows.append(recipe.rows(table, 0, refuse=False))
        targets.append(recipe.target_numbers(batch.column(len(names)), 0, refuse=False))
    return Loaded(columns, np.concatenate(rows), np.concatenate(targets))


def _matrices(scanned: Scan, chosen: Chosen, width: int) -> Iterator[Floats]:
    rows = rows_per_block(width, BLOCK_BYTES)
    reader = scanned.reader
    batches = reader.texts(chosen) if hasattr(reader, "texts") else reader.batches(chosen, rows, 1)
    for batch in batches:
        yield np.column_stack([_floats(batch.column(k)) for k in range(width)])


def _floats(array: pa.Array) -> Floats:
    """Return numbers as float64; what is null, or no number, is NaN."""
    if not pa.types.is_binary(array.type):
        return pc.cast(array, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    try:  # the parser and Python agree on what both call a number, so a cell means the same beside any other
        return pc.cast(pc.utf8_trim_whitespace(array.cast(pa.string())), pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        return np.array([_parsed(text) for text in array.to_pylist()], dtype=np.float64)


def _parsed(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan
