"""Pieces of a block that stay in the cache while they are worked on."""

from __future__ import annotations

from collections.abc import Iterator

from numpy.typing import NDArray

#: bytes of one piece of a block: its rows and their image together stay in the second-level cache
PIECE_BYTES = 1 << 19


def pieces(X: NDArray, width: int) -> Iterator[slice]:
    """Cut the rows of a block into runs that stay in the cache together with ``width`` numbers each."""
    rows = max(64, PIECE_BYTES // (8 * max(width, 1)))
    for start in range(0, len(X), rows):
        yield slice(start, min(start + rows, len(X)))
