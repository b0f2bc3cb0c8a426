"""What every file format offers, and what is asked of each: no column twice, no more text than there is memory for.

A numpy matrix in a ``.npy`` file is mapped block by block: never more than a few blocks of it are resident.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.data.checks.cells import refuse_types, type_word
from perinstance.data.source import Chosen
from perinstance.errors import InvalidTable, TooLarge
from perinstance.folds.ids import text_size


@dataclass(frozen=True, slots=True)
class Limits:
    """Generous for honest files, finite for others.

    >>> Limits(cells=1e9).cells
    1000000000.0
    """

    cells: float = 2.0**36  #: rows times columns
    columns: int = 10_000  #: a Gram matrix of this many is 800 MB
    expansion: float = 500.0  #: bytes unpacked per byte of the file, for files that unpack to much (see below)
    header_bytes: int = 16 << 20  #: of a header line or a schema
    text_bytes: int = 1 << 30  #: of texts of one block, and of what is unpacked in one piece to much more than it is

    def check_columns(self, columns: int) -> None:
        """Refuse too wide a table."""
        if columns > self.columns:
            _refuse(f"the file has {columns} columns, more than the limit of {self.columns}", "columns")

    def check_cells(self, rows: int, columns: int, file_bytes: int) -> None:
        """Refuse a table whose header promises too many cells, in all or per byte of the file."""
        self.check_columns(columns)
        if rows * columns > self.cells:
            _refuse(f"the file claims {rows} rows and {columns} columns, more than {self.cells:.3g} cells", "cells")
        self.check_expansion(8 * rows * columns, file_bytes, grace=4 << 30)  # indicator columns pack 1000:1, honestly

    def check_expansion(self, unpacked: int, packed: int, grace: int) -> None:
        """Refuse what unpacks to more than ``grace`` bytes, out of almost nothing."""
        if unpacked > grace and unpacked > self.expansion * packed:
            found = f"{packed} bytes of file unpack to {unpacked} bytes or more, over {self.expansion:g} to one"
            _refuse(found, "expansion")

    def check_text(self, size: int) -> None:
        """Refuse a block of rows whose ids, or other texts, take too much."""
        if size > self.text_bytes:
            found = f"the texts of one block of rows take {size} bytes, more than the limit of {self.text_bytes}"
            _refuse(f"{found} (an id is a short text: is another column meant?)", "text_bytes")

    def check_header(self, size: int) -> None:
        """Refuse a header or schema that is itself too large to read."""
        if size > self.header_bytes:
            found = f"the header of the file takes {size} bytes, more than the limit of {self.header_bytes}"
            _refuse(found, "header_bytes")


def _refuse(found: str, limit: str) -> NoReturn:
    raise TooLarge(f"{found}; if that is meant, pass limits=Limits({limit}=...)")


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
