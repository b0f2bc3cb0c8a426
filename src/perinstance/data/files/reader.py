"""What every file format offers: names, types and batches of chosen columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from perinstance.data.memory.column_choice import Chosen


class Reader(Protocol):
    """One file format: names, types and batches of chosen columns."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of all columns."""

    @property
    def types(self) -> tuple[pa.DataType, ...] | None:
        """Types of all columns; None where the format has none (CSV), and numbers are parsed strictly."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, when the file says so."""

    @property
    def first_row(self) -> int:
        """What the file calls the row of its first person: 0, or 2 where a header line is counted."""

    @property
    def starts_quickly(self) -> bool:
        """Whether the first rows come without the rest being decoded."""

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the features, then the target, then the ids (if chosen), at most ``rows`` rows at a time.

        With ``raw`` features and target may be anything: a recipe will read them.
        """
