"""A fold that keeps all rows, for models that need everybody at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.numerics.array_types import Floats

#: the Gram matrix of so many people takes 3.2 GB
MAX_PEOPLE = 20_000


@dataclass(frozen=True, slots=True)
class GatheredRows:
    """Rows that were gathered; adding two puts them behind each other."""

    parts: tuple[tuple[Floats, Floats], ...]

    def __add__(self, other: GatheredRows) -> GatheredRows:
        total = GatheredRows(self.parts + other.parts)
        if sum(len(y) for _, y in total.parts) > MAX_PEOPLE:
            raise InvalidInput(
                f"a kernel model holds an n x n matrix; more than {MAX_PEOPLE} people are refused: use a linear model"
            )
        return total


def gather(block: Block) -> GatheredRows:
    """Keep the rows of a block."""
    X, y = block.X, block.y
    return GatheredRows(((np.array(X, dtype=np.float64), np.array(y, dtype=np.float64)),))
