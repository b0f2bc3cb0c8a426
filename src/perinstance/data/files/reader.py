"""What every file format offers, and what is asked of each: no column twice, no more text than there is memory for.

A numpy matrix in a ``.npy`` file is mapped block by block: never more than a few blocks of it are resident.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.data.checks.cells import refuse_types, type_word
from perinstance.data.checks.limits import Limits
from perinstance.data.source import Chosen
from perinstance.errors import InvalidTable, TooLarge
from perinstance.folds.ids import text_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One file format: names, types and batches of chosen columns."""

    labels: tuple[Any, ...]  #: names of all columns; their numbers where they have none (numpy)
    types: tuple[pa.DataType, ...] | None = None  #: of all columns; None where the format has none (CSV)
    n_rows: int | None = None  #: when the file says so
    limits: Limits = Limits()  #: on what the file may unpack to
    stored: int  #: bytes of the file, or of all its files, as they are stored
    first_row: int = 0  #: what the file calls the row of its first person: 0, or 2 where a header line is counted
    starts_quickly: bool = True  #: whether the first rows come without the rest being decoded
    rereadable: bool = False  #: whether a second reading costs next to nothing

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the features, then the target, then the ids (if chosen), at most ``rows`` rows at a time.

        With ``raw`` features and target may be anything: a recipe will read them.
        """
        raise NotImplementedError

    def counted(self, chosen: Chosen, rows: int, threads: int = 1, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield batches, and refuse a file whose ids unpack to much more than it is, or than memory can hold."""
        text = 0
        try:
            for batch in self.batches(chosen, rows, threads, raw):
                if chosen.ids is not None:
                    size = text_size(batch.column(batch.num_columns - 1))
                    self.limits.check_text(size)
                    text += size
                    self.limits.check_expansion(text, self.stored, self.limits.text_bytes)
                only = [batch]
                del batch  # whoever asks for it is to have the only one
                yield only.pop()
        except pa.ArrowException as error:  # codes of words that are not there
            raise damaged("the file", error) from None
        except MemoryError:
            raise TooLarge("the file unpacks to more than there is memory for; is it what it claims to be?") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class NpyReader(Reader):
    """A matrix whose columns are called by number."""

    path: Path
    rereadable: bool = True

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """See ``Reader``."""
        names = [str(at) for at in chosen.wanted]
        for start in range(0, self.n_rows or 0, rows):
            window = _mapped(self.path)[start : start + rows]  # the mapping ends with it
            columns = [np.ascontiguousarray(window[:, at]) for at in chosen.wanted]
            native = [one.astype(one.dtype.newbyteorder("="), copy=False) for one in columns]
            yield pa.RecordBatch.from_arrays([pa.array(one) for one in native], names=names)


def open_npy(path: Path) -> NpyReader:
    """Read the header; pickled objects are never loaded."""
    mapped = _mapped(path)
    if mapped.ndim != 2:
        raise InvalidTable(f"the matrix must have two dimensions, one row per person, got {mapped.ndim}")
    refuse_types({"the matrix": type_word(mapped.dtype)})
    kind = pa.from_numpy_dtype(mapped.dtype.newbyteorder("="))
    n, d = mapped.shape
    return NpyReader(labels=tuple(range(d)), types=(kind,) * d, n_rows=n, stored=path.stat().st_size, path=path)


def _mapped(path: Path) -> NDArray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError):
        raise InvalidTable(f"{path.name!r} cannot be mapped as a numpy matrix; save floats with numpy.save") from None


def damaged(name: str, error: Exception) -> InvalidTable:
    """Return the refusal of a file that a decoder gave up; its words may quote a cell, so only their kind is told."""
    return InvalidTable(f"{name!r} cannot be read ({type(error).__name__}); is it complete?")
