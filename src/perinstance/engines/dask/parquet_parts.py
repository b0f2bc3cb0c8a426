"""Files that the workers read themselves: each partition is some row groups of Parquet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perinstance.data.source import Source
from perinstance.folds.block import Block

PART_BYTES = 64 << 20  #: of numbers in one partition, or one row group where that is more


def file_parts(source: Source) -> tuple[Any, ...] | None:
    """Cut a file source into sources of some row groups each; None where the format cannot be read from the middle."""
    cut = getattr(getattr(source, "reader", None), "parts", None)
    if cut is None:
        return None
    rows = max(1, PART_BYTES // (8 * (source.n_features + 1)))
    return tuple(replace(source, reader=part) for part in cut(rows))  # type: ignore[type-var]


def read_part(part: Source, offset: int) -> tuple[Block, ...]:
    """Run on a worker: read the blocks of one partition, ``offset`` rows behind the first one of the table."""
    blocks = (piece() for piece in part.pieces())
    return tuple(Block(block.X, block.y, block.start + offset, block.ids) for block in blocks)
