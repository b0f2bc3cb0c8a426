"""Blocks of rows, and the one small protocol behind everything that can be audited.

A source hands out *pieces*: calls that each return one block. Making a piece is cheap and in row order; calling it is
the work (slicing, converting, decoding) and may happen in another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from perinstance.folds.block import Block

if TYPE_CHECKING:
    import pyarrow as pa

    from perinstance.data.answer_tables import Flavour

#: of a block that is a view of the caller's array, which costs no memory, only turns: at least, and at most
FEW_BYTES, VIEW_BYTES = 6 << 20, 24 << 20
#: such blocks are equal, and a multiple of this many as soon as there are enough: threads share them out evenly
SHARED_BLOCKS = 32
BLOCK_BYTES = 8 << 20  #: of X and y in one block; a sweep holds a few blocks per thread, near 64 MB in total


Piece = Callable[[], Block]


class Source(Protocol):
    """A table of numbers with a target, read block by block."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the features; None when they have none (numpy)."""

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """Numbers of the features in the caller's table, for messages; None when they are all of its columns."""

    @property
    def first_row(self) -> int:
        """What refusals call the row of the first person: 0, or 2 where the file counts a header line."""

    @property
    def n_features(self) -> int:
        """Number of features, without target and ids."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None when only reading to the end tells (CSV)."""

    @property
    def rereadable(self) -> bool:
        """Whether a second reading costs next to nothing (memory), so that blocks need not be kept."""

    @property
    def ids(self) -> pa.ChunkedArray | None:
        """All ids, when they are known without reading the table."""

    @property
    def has_ids(self) -> bool:
        """Whether people have ids, here or in the blocks."""

    @property
    def flavour(self) -> Flavour:
        """How answers are given back."""

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """Yield the pieces in row order; the cut never depends on ``threads``. None is what suits the source."""


def rows_per_view(n_rows: int, n_features: int) -> int:
    """Rows of each block of a table that lies in memory as it is wanted: equal blocks, so that no thread waits long."""
    size = 8 * n_rows * (n_features + 1)
    count = -(-size // FEW_BYTES)
    if count > SHARED_BLOCKS:
        count = SHARED_BLOCKS * -(-size // (SHARED_BLOCKS * VIEW_BYTES))
    return max(1, -(-n_rows // count))


def rows_per_block(n_features: int, block_bytes: int) -> int:
    """Rows whose features and target fill ``block_bytes``, or a little less.

    Columns of such a length do not fall on each other in a cache of some pages: it is 0.618 pages of 16 kB and some
    whole ones, and the multiples of that number are spread as evenly as can be.
    """
    rows = max(1, block_bytes // (8 * (n_features + 1)))
    return rows if rows < 8192 else rows - (rows - 1264) % 2048
