"""Some consecutive rows of a table, what a fold and a map are given; and pieces of it that stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive rows: ``X`` is float64 or float32, ``y`` is float64."""

    X: NDArray
    y: NDArray
    start: int = 0  #: number of the first row, counting from 0
    ids: pa.Array | None = None  #: strings as written; None when the table has no ids or knows them all in advance

    def picked(self, rows: NDArray) -> Block:
        """Return some of the rows, by a mask or by positions."""
        return Block(self.X[rows], self.y[rows], self.start)

    def with_target(self, y: NDArray) -> Block:
        """Return the same rows with another target."""
        return Block(self.X, y, self.start)

    def __len__(self) -> int:
        return len(self.y)


#: bytes of one piece of a block: its rows and their image together stay in the second-level cache
PIECE_BYTES = 1 << 19


def pieces(X: NDArray, width: int, rows: int | None = None) -> Iterator[slice]:
    """Cut the rows of a block into runs of so many; None: that stay in the cache together with ``width`` numbers."""
    rows = rows or max(64, PIECE_BYTES // (8 * max(width, 1)))
    for start in range(0, len(X), rows):
        yield slice(start, min(start + rows, len(X)))
