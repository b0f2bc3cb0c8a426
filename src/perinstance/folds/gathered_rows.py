"""A fold that keeps all rows, for whoever needs everybody at once: ``sweep.fold(partial(gather, why=...))``."""

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
    why: str  #: what needs everybody at once, and what to do instead: ``"a kernel model holds ...; use ..."``

    def __post_init__(self) -> None:
        if sum(len(y) for _, y in self.parts) > MAX_PEOPLE:
            reason, _, instead = self.why.partition("; ")
            raise InvalidInput(f"{reason}: more than {MAX_PEOPLE:,} people are refused; {instead}")

    def __add__(self, other: GatheredRows) -> GatheredRows:
        return GatheredRows(self.parts + other.parts, self.why)

    def table(self) -> tuple[Floats, Floats]:
        """Return all rows and their targets."""
        return np.concatenate([x for x, _ in self.parts]), np.concatenate([t for _, t in self.parts])


def gather(block: Block, why: str) -> GatheredRows:
    """Keep the rows of a block."""
    X, y = block.X, block.y
    return GatheredRows(((np.array(X, dtype=np.float64), np.array(y, dtype=np.float64)),), why)
