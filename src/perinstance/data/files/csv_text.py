"""CSV and CSV.gz: numbers parsed strictly, ids left exactly as written, errors that never quote a cell.

pyarrow's streaming parser does the work, under synthetic column names; its error texts quote cells, so they are
dropped, and the place of the trouble is found again by reading the bad column as text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from perinstance.data.checks.cells import (
    LARGEST_INTEGER,
    NULL,
    column_label,
    refuse_cells,
    refuse_integer,
    refuse_types,
)
from perinstance.data.checks.limits import Limits
from perinstance.data.files.reader import unique_labels
from perinstance.data.files.text_bytes import ByteStream, read_header
from perinstance.data.memory.column_choice import Chosen
from perinstance.data.recipes.arrow_cells import read_numbers
from perinstance.errors import InvalidTable, TooLarge

_CHUNK = 2 << 20  # bytes of text parsed at a time; also the longest line there may be
_RAGGED = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")


@dataclass(frozen=True, slots=True)
class DelimitedReader:
    """See ``Reader``."""

    path: Path
    labels: tuple[str, ...]
    delimiter: str
    limits: Limits
    decimal: str = "."
    lenient: bool = False  #: bytes that are no text are replaced, not refused
    types: None = None
    n_rows: None = None
    first_row: int = 2  #: the header is row 1
    starts_quickly: bool = True
    rereadable: bool = False

    @property
    def stored(self) -> int:
        """See ``Reader``."""
        return self.path.stat().st_size

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """See ``Reader``; raw cells are texts."""
        kind = pa.float64() if not raw else pa.binary() if self.lenient else pa.string()
        wide: set[int] = set()
        count = 0
        try:
            for batch in self._read(chosen.numbers, chosen.ids, kind, threads):
                for start in range(0, batch.num_rows, rows):
                    part = batch.slice(start, rows)
                    yield pa.record_batch([_texts(one) for one in part.columns], part.schema.names) if raw else part
                if not raw:
                    wide |= {at for at, column in zip(chosen.numbers, batch.columns, strict=False) if _has_wide(column)}
                count += batch.num_rows
                self.limits.check_cells(count, len(self.labels), self.stored)
        except _Refusal as refusal:
            raise self._locate(refusal, () if raw else chosen.numbers) from None
        if wide:
            self._refuse_long_integers(sorted(wide))

    def _read(
        self, numbers: Sequence[int], ids: int | None, kind: pa.DataType, threads: int
    ) -> Iterator[pa.RecordBatch]:
        types = {str(at): kind for at in numbers} | ({} if ids is None else {str(ids): pa.string()})
        with ByteStream(self.path, self.limits) as stream:
            try:
                yield from pcsv.open_csv(
                    stream,
                    pcsv.ReadOptions(
                        column_names=[str(at) for at in range(len(self.labels))],
                        skip_rows_after_names=1,  # the header
                        block_size=_CHUNK,
                        use_threads=threads > 1,
                    ),
                    pcsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                    pcsv.ConvertOptions(
                        column_types=types,
                        include_columns=list(types),
                        strings_can_be_null=False,
                        decimal_point=self.decimal,
                    ),
                )
            except (pa.ArrowException, InvalidTable) as error:
                if stream.trouble is not None:
                    raise stream.trouble from None
                if str(error) != "Empty CSV file":
                    raise _Refusal(str(error)) from None

    def _locate(self, refusal: _Refusal, numbers: Sequence[int]) -> InvalidTable:
        """Say where the trouble is, from numbers only."""
        text = str(refusal)
        ragged = _RAGGED.match(text)
        if ragged:
            row = f"row {ragged[1]}" if ragged[1] else "some row"  # it counts the header too
            return InvalidTable(f"{row} has {ragged[3]} fields where the header has {ragged[2]}; repair that line")
        if "straddling" in text or "exceeds" in text:
            return TooLarge(f"a line is longer than {_CHUNK} bytes; is a quotation mark left open?")
        try:
            self._refuse_cells(numbers)
        except InvalidTable as error:
            return error
        except _Refusal:
            pass
        return InvalidTable("the file is not UTF-8 text in comma-separated columns; convert it, or pass delimiter=")

    def _refuse_cells(self, numbers: Sequence[int]) -> None:
        """Read everything as text, and refuse the first bad cell of each column: missing, or no number."""
        start, texts, gaps = self.first_row, {}, {}  # type: int, dict[str, int], dict[str, int]
        for batch in self._read(numbers, None, pa.string(), 1):
            for at, column in zip(numbers, batch.columns, strict=True):
                label, cells = column_label(at, self.labels[at]), read_numbers(column, self.decimal)
                if cells.missing.any():
                    gaps.setdefault(label, start + int(cells.missing.argmax()))
                if cells.unreadable.any() and label not in texts:
                    bad = int(cells.unreadable.argmax())
                    texts[label] = start + bad
                    comma = self.decimal == "." and self.delimiter != ","
                    if comma and not read_numbers(column.slice(bad, 1), ",").unreadable.any():
                        raise InvalidTable(
                            f"{label}, row {start + bad}: a number with a decimal comma; pass decimal=','"
                        )
            start += batch.num_rows
        refuse_types({f"{label}, row {row}": "text" for label, row in texts.items()})
        refuse_cells({label: (row, NULL) for label, row in gaps.items()})

    def _refuse_long_integers(self, numbers: Sequence[int]) -> None:
        """Refuse whole numbers beyond 2^53, which a float64 rounds; 1e300 is a float and may stay."""
        start = self.first_row
        for batch in self._read(numbers, None, pa.string(), 1):
            for at, column in zip(numbers, batch.columns, strict=True):
                whole = pc.match_substring_regex(column, r"^\s*[+-]?[0-9]{16,}\s*$")
                for row in pc.indices_nonzero(whole).to_pylist():
                    if abs(int(column[row].as_py()[:400])) > LARGEST_INTEGER:
                        refuse_integer(column_label(at, self.labels[at]), start + row)
            start += batch.num_rows


class _Refusal(Exception):  # noqa: N818 - never leaves this file
    """What the parser said; its text may quote a cell and is only searched for numbers."""


def _has_wide(array: pa.Array) -> bool:
    values = array.to_numpy(zero_copy_only=False)
    return bool(len(values)) and bool(np.nanmax(np.abs(values), initial=0.0) >= LARGEST_INTEGER)


def _texts(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowException:  # bytes that are no text
        return pa.array([one.decode(errors="replace") for one in column.to_pylist()], pa.string())


def open_delimited(path: Path, delimiter: str | None, limits: Limits, decimal: str = ".") -> DelimitedReader:
    """Read the header line, and nothing else."""
    line = read_header(path, limits)
    if line[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in line:
        raise InvalidTable("the file is UTF-16 or not text at all; save it as UTF-8")
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidTable("the header of the file is not UTF-8; save the file as UTF-8") from None
    if not text.strip():
        raise InvalidTable("the file is empty, or its first line is; the first line must name the columns")
    if decimal not in (".", ","):
        raise InvalidTable("decimal must be '.' or ','")
    mark = delimiter or ("\t" if ".tsv" in path.suffixes else ";" if decimal == "," else ",")
    if len(mark) != 1 or mark in '"\r\n' or not mark.isascii():
        raise InvalidTable("delimiter must be one character, for example ',' or ';' or a tab")
    if mark == decimal:
        raise InvalidTable("the delimiter and the decimal are the same character; pass another delimiter")
    limits.check_columns(text.count(mark) + 1)
    names = _fields(text, mark)
    if len(names) < 2:
        _refuse_delimiter(text, mark, decimal)
    return DelimitedReader(path, unique_labels(names), mark, limits, decimal)


def _fields(line: str, mark: str) -> list[str]:
    return next(csv.reader(io.StringIO(line, newline=""), delimiter=mark, strict=False), [])


def _refuse_delimiter(line: str, mark: str, decimal: str) -> None:
    """Refuse a mark that leaves the header in one piece where another one parts it."""
    other = max((one for one in ",;\t|" if one != mark), key=lambda one: len(_fields(line, one)))
    if len(_fields(line, other)) > 1:
        points = " and decimal='.'" if other == decimal else ""
        raise InvalidTable(
            f"the header, read by delimiter={mark!r}, is one column; by {other!r} it is {len(_fields(line, other))}: "
            f"pass delimiter={other!r}{points}, or put the header in quotation marks if it is one name"
        )
