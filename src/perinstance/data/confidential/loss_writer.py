"""Per-person losses written as they come, to a private Parquet or CSV file.

In CSV every text is quoted, and one that a spreadsheet would take for a formula gets a leading apostrophe. Numbers
are written so that reading them gives the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from perinstance.data.confidential.private_files import private_file, refuse_unsafe_target
from perinstance.errors import InvalidInput

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_SPACE = " \n\v\f\u00a0\u2028\u2029\ufeff\u200e\u200f\0"  # what a spreadsheet may skip before it looks
_WIDE = str.maketrans("\uff1d\uff0b\uff0d\uff20", "=+-@")  # full-width signs are normalised by some


def spreadsheet_safe(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would execute.

    >>> spreadsheet_safe("=1+1"), spreadsheet_safe("007"), spreadsheet_safe("  @SUM(A1)")
    ("'=1+1", '007', "'  @SUM(A1)")
    """
    visible = text.lstrip(_SPACE)
    if visible[:1].translate(_WIDE).startswith(_FORMULA) or text[:1] in _FORMULA:
        return "'" + text
    return text


class LossWriter:
    """Write blocks of columns to one private file; it appears when the ``with`` block ends without error.

    ``columns`` are the same names in each block: ids (strings), numbers, kinds (strings).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        suffix = self.path.suffix.lower()
        if suffix not in (".csv", ".parquet"):
            raise InvalidInput("losses are written to a file called .csv or .parquet; choose such a name")
        refuse_unsafe_target(self.path)
        self._csv = suffix == ".csv"
        self._stack = ExitStack()
        self._file: IO[Any] | None = None
        self._sink: Any = None
        self.n_rows = 0

    def __enter__(self) -> LossWriter:
        self._file = self._stack.enter_context(private_file(self.path))
        return self

    def write(self, columns: Mapping[str, Any]) -> None:
        """Write one block: an array per column."""
        if self._file is None:
            raise InvalidInput("a LossWriter is used in a with statement: with LossWriter(path) as writer")
        batch = pa.table(safe_columns(columns) if self._csv else {n: _arrow(v) for n, v in columns.items()})
        if self._sink is None:
            if self._csv:
                needed = pcsv.WriteOptions(quoting_style="needed")
                self._sink = pcsv.CSVWriter(self._file, batch.schema, write_options=needed)
            else:
                self._sink = pq.ParquetWriter(self._file, batch.schema, compression="zstd")
            self._stack.callback(self._sink.close)  # a file whose end cannot be written goes like any other failure
        self._sink.write_table(batch)
        self.n_rows += batch.num_rows

    def __exit__(self, *failure: Any) -> None:
        try:
            self._stack.__exit__(*failure)
        finally:
            self._file = None


def safe_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns for CSV: names and texts that a spreadsheet would execute are escaped."""
    safe = {}
    for name, values in columns.items():
        array = _arrow(values)
        text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
        # most blocks of ids need no escaping and stay as they are
        if text and pc.any(pc.match_substring_regex(array, r"^[^0-9A-Za-z]")).as_py():
            array = pa.array([spreadsheet_safe(text) for text in array.to_pylist()], type=pa.large_string())
        safe[spreadsheet_safe(name)] = array
    return safe


def _arrow(values: Any) -> Any:
    try:
        arrow = isinstance(values, (pa.Array, pa.ChunkedArray))
        return values if arrow else pa.array(np.asarray(values), from_pandas=False)
    except UnicodeError:
        raise InvalidInput("a text holds half a character (a lone surrogate), which no file can; correct it") from None


def write_losses(path: str | os.PathLike[str], blocks: Iterable[Mapping[str, Any]]) -> int:
    """Write all blocks and return the number of rows."""
    with LossWriter(path) as writer:
        for block in blocks:
            writer.write(block)
    return writer.n_rows
