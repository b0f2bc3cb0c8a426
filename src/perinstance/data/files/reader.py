"""What every file format offers, and what is asked of each: no column twice, no more text than there is memory for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from perinstance.data.checks.ids import text_size
from perinstance.data.checks.limits import Limits
from perinstance.data.memory.column_choice import Chosen
from perinstance.errors import InvalidTable, TooLarge


class Reader(Protocol):
    """One file format: names, types and batches of chosen columns."""

    @property
    def labels(self) -> tuple[Any, ...]:
        """Names of all columns; their numbers where they have none (numpy)."""

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
    def stored(self) -> int:
        """Bytes of the file, or of all its files, as they are stored."""

    @property
    def starts_quickly(self) -> bool:
        """Whether the first rows come without the rest being decoded."""

    @property
    def rereadable(self) -> bool:
        """Whether a second reading costs next to nothing."""

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the features, then the target, then the ids (if chosen), at most ``rows`` rows at a time.

        With ``raw`` features and target may be anything: a recipe will read them.
        """


def counted(
    reader: Reader, limits: Limits, chosen: Chosen, rows: int, threads: int, raw: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield batches, and refuse a file whose ids unpack to much more than it is; what memory cannot hold is typed."""
    text = 0
    try:
        for batch in reader.batches(chosen, rows, threads, raw):
            if chosen.ids is not None:
                text += text_size(batch.column(batch.num_columns - 1))
                limits.check_expansion(text, reader.stored, limits.text_bytes)
            only = [batch]
            del batch  # whoever asks for it is to have the only one
            yield only.pop()
    except pa.ArrowException as error:  # codes of words that are not there
        raise damaged("the file", error) from None
    except MemoryError:
        raise TooLarge("the file unpacks to more than there is memory for; is it what it claims to be?") from None


def unique_labels(names: Sequence[str]) -> tuple[str, ...]:
    """Refuse two columns of one name."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names):
        if name in seen:
            raise InvalidTable(f"columns {seen[name]} and {number} have the same name; rename one of them")
        seen[name] = number
    return tuple(names)


def damaged(name: str, error: Exception) -> InvalidTable:
    """Return the refusal of a file that a decoder gave up; its words may quote a cell, so only their kind is told."""
    return InvalidTable(f"{name!r} cannot be read ({type(error).__name__}); is it complete?")
