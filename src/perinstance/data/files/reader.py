"""What every file format offers: names, types and batches of chosen columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from perinstance.data.checks.ids import text_size
from perinstance.data.checks.limits import Limits
from perinstance.data.memory.column_choice import Chosen
from perinstance.errors import TooLarge


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


def counted(
    reader: Reader, limits: Limits, chosen: Chosen, rows: int, threads: int, raw: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield batches, and refuse a file whose ids unpack to much more than it is; what memory cannot hold is typed."""
    size, text = _stored_bytes(reader), 0
    try:
        for batch in reader.batches(chosen, rows, threads, raw):
            if chosen.ids is not None:
                text += text_size(batch.column(batch.num_columns - 1))
                limits.check_expansion(text, size, limits.text_bytes)
            only = [batch]
            del batch  # whoever asks for it is to have the only one
            yield only.pop()
    except MemoryError:
        raise TooLarge("the file unpacks to more than there is memory for; is it what it claims to be?") from None


def _stored_bytes(reader: Any) -> int:
    """Return the bytes of the file, or of all its files, as they are stored."""
    if hasattr(reader, "dataset"):
        files = [Path(one) for one in getattr(reader.dataset, "files", ())]
        return sum(one.stat().st_size for one in files if one.is_file())
    return sum(int(one.stat().st_size) for one in getattr(reader, "paths", None) or (reader.path,))
