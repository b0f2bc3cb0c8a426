"""Raw columns in memory that a recipe, or other steps that learn nothing, turn into numbers block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.data.recipes.arrow_cells import as_arrow
from perinstance.data.recipes.preparation import EXAMPLE_ROWS, Preparation, PreparedRows
from perinstance.data.recipes.recipe import Recipe
from perinstance.errors import InvalidTable


@dataclass(frozen=True, slots=True)
class PreparedColumns:
    """See ``Columns``; ``table`` is a matrix, or a frame of the caller's own kind with the features alone."""

    table: Any
    prepared: PreparedRows
    numbers: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers."""
        return self.prepared.names

    @property
    def viewed(self) -> bool:
        """See ``Columns``."""
        return False

    def rows(self, start: int, stop: int) -> NDArray:
        """See ``Columns``."""
        return self.prepared.numbers(part_of(self.table, start, stop), start)


@dataclass(frozen=True, slots=True)
class RecipeTarget:
    """The target as a recipe declares it; see ``Vector``."""

    values: pa.Array
    recipe: Recipe

    def rows(self, start: int, stop: int) -> NDArray:
        """Return some rows as float64."""
        return self.recipe.target_numbers(self.values.slice(start, stop - start), start)

    def __len__(self) -> int:
        return len(self.values)


def prepare_columns(table: Any, preparation: Preparation) -> PreparedColumns:
    """Make the steps ready for this table of features."""
    if not len(table):
        raise InvalidTable("the table has no rows; there is nobody to audit")
    prepared = preparation.on(part_of(table, 0, EXAMPLE_ROWS))
    return PreparedColumns(table, prepared, tuple(range(len(prepared.names))))


def recipe_target(column: Any, recipe: Recipe) -> RecipeTarget:
    """Take a raw column as the target that the recipe declares."""
    return RecipeTarget(as_arrow(column), recipe)


def part_of(table: Any, start: int, stop: int) -> Any:
    """Return some rows of a matrix or of a frame, as the same kind."""
    if isinstance(table, np.ndarray):
        return table[start:stop]
    if hasattr(table, "iloc"):
        return table.iloc[start:stop]
    if hasattr(table, "slice"):  # polars, pyarrow
        return table.slice(start, min(stop, len(table)) - start)
    return table[start:stop]
