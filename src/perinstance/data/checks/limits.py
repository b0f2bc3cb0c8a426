"""How much a file may unpack to. A few kilobytes can claim to be gigabytes; the claim is read before the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from perinstance.errors import TooLarge


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
