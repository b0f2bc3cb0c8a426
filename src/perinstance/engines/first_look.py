"""A step over a block that nobody has looked at yet: NaN and infinity are refused by row and column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from perinstance.data.checks.cells import is_finite, refuse_missing
from perinstance.data.source import Source
from perinstance.errors import InvalidTable
from perinstance.folds.block import Block

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CellNames:
    """What refusals call the rows and columns of a source; it travels to wherever the steps run."""

    first_row: int
    names: tuple[str, ...] | None
    numbers: tuple[int, ...] | None

    @classmethod
    def of(cls, source: Source) -> CellNames:
        """Take them from a source."""
        return cls(source.first_row, source.names, source.numbers)

    def refuse(self, block: Block) -> None:
        """Refuse what is not finite; return when everything is."""
        refuse_missing(block.X, block.y, block.start + self.first_row, self.names, self.numbers)


def checked_step(step: Callable[[Block], T], block: Block, cells: CellNames) -> T:
    """Step over a block, and refuse NaN and infinity.

    A statistic that shows them by itself (a Gram matrix does) says so by ``finite``, which saves a look at X.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            part = step(block)
    except Exception:
        try:
            cells.refuse(block)
        except InvalidTable as refusal:
            raise refusal from None  # the cause lies in the table, and the step's words may quote it
        raise
    finite = getattr(part, "finite", None)
    if not (is_finite(block.X, block.y) if finite is None else finite):
        cells.refuse(block)
    return part
