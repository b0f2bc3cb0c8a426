"""A scanned file, read whole: for releases, which need all rows at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.data.checks.cells import is_finite, refuse_missing
from perinstance.data.memory.table import read_table
from perinstance.data.recipes.preparation import preparation_of
from perinstance.data.recipes.recipe import Recipe
from perinstance.data.source import Source


@dataclass(frozen=True, slots=True)
class Loaded:
    """Features and target in memory. Confidential."""

    names: tuple[str, ...]
    X: NDArray[np.float64]
    y: NDArray[np.float64]


def load(scanned: Any, target: Any, ids: Any = None, features: Any = None, recipe: Recipe | None = None) -> Loaded:
    """Read the columns of a scanned file, by a recipe where there is one; missing and infinite values are refused."""
    preparation = preparation_of(recipe)
    source: Source = read_table(scanned, target=target, ids=ids, features=features, preparation=preparation)
    names = source.names or tuple(f"x{k}" for k in range(source.n_features))
    blocks = []
    for piece in source.pieces():
        block = piece()
        if not is_finite(block.X, block.y):
            refuse_missing(block.X, block.y, block.start + source.first_row, source.names, source.numbers)
        blocks.append(block)
    X = np.concatenate([np.asarray(block.X, dtype=np.float64) for block in blocks])
    return Loaded(tuple(str(name) for name in names), X, np.concatenate([block.y for block in blocks]))
