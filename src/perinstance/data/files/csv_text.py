"""CSV and CSV.gz: numbers parsed strictly, ids left exactly as written, errors that never quote a cell.

pyarrow's streaming parser does the work, under synthetic column names; its error texts quote cells, so they are
dropped, and the place of the trouble is found again by reading the bad column as text.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
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
from perinstance.data.files.parquet import unique_labels
from perinstance.data.files.text_bytes import ByteStream, read_header
from perinstance.data.memory.column_choice import Chosen
from perinstance.errors import InvalidTable, TooLarge

_CHUNK = 2 << 20  # bytes of text parsed at a time; also the longest line there may be
_RAGGED = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_MISSING = ("", *pcsv.ConvertOptions().null_values)


@dataclass(frozen=True, slots=True)
class DelimitedReader:
    """See ``Reader``."""

    path: Path
    labels: tuple[str, ...]
    delimiter: str
    skip: int  #: bytes of the header
    limits: Limits
    decimal: str = "."
    types: None = None
    n_rows: None = None
    first_row: int = 2  #: the header is row 1
    starts_quickly: bool = True

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """See ``Reader``; raw cells are texts."""
        numbers = [*chosen.features, *(() if chosen.target is None else (chosen.target,))]
        kind = pa.string() if raw else pa.float64()
        wide: set[int] = set()
        at = 0
        try:
            for batch in self._read(numbers, chosen.ids, kind, threads):
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)
                if not raw:
                    wide |= {k for k in range(len(numbers)) if _has_wide(batch.column(k))}
                at += batch.num_rows
                self.limits.check_cells(at, len(self.labels), self.path.stat().st_size)
        except _Refusal as refusal:
            raise self._locate(refusal, numbers, chosen.ids) from None
        if wide:
            self._refuse_long_integers([numbers[k] for k in sorted(wide)])

    def texts(self, chosen: Chosen) -> Iterator[pa.RecordBatch]:
        """Yield the features, then the target, as the bytes of their cells; only the number of fields is checked."""
        numbers = [*chosen.features, *(() if chosen.target is None else (chosen.target,))]
        try:
            yield from self._read(numbers, None, pa.binary(), 1)
        except _Refusal as refusal:
            raise self._locate(refusal, [], None) from None

    def _read(self, numbers: list[int], ids: int | None, kind: pa.DataType, threads: int) -> Iterator[pa.RecordBatch]:
        wanted = [*numbers, *(() if ids is None else (ids,))]
        types = {str(at): kind for at in numbers} | ({} if ids is None else {str(ids): pa.string()})
        with ByteStream(self.path, self.limits, self.skip, quotes=True) as stream:
            try:
                reader = pcsv.open_csv(
                    stream,
                    pcsv.ReadOptions(
                        column_names=[str(at) for at in range(len(self.labels))],
                        block_size=_CHUNK,
                        use_threads=threads > 1,
                    ),
                    pcsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                    pcsv.ConvertOptions(
                        column_types=types,
                        include_columns=[str(at) for at in wanted],
                        strings_can_be_null=False,
                        decimal_point=self.decimal,
                    ),
                )
                yield from reader
            except (pa.ArrowException, InvalidTable) as error:
                if stream.trouble is not None:
                    raise stream.trouble from None
                if str(error) == "Empty CSV file":
                    return
                raise _Refusal(str(error)) from None

    def _locate(self, refusal: _Refusal, numbers: list[int], ids: int | None) -> InvalidTable:
        """Say where the trouble is, from numbers only."""
        ragged = _RAGGED.match(refusal.text)
        if ragged:
            row = f"row {int(ragged[1]) - 1 + self.first_row}" if ragged[1] else "some row"
            return InvalidTable(f"{row} has {ragged[3]} fields where the header has {ragged[2]}; repair that line")
        if "straddling" in refusal.text or "exceeds" in refusal.text:
            return TooLarge(f"a line is longer than {_CHUNK} bytes; is a quotation mark left open?")
        try:
            self._refuse_cells(numbers)
        except InvalidTable as error:
            return error
        except _Refusal:
            pass
        return InvalidTable("the file is not UTF-8 text in comma-separated columns; convert it, or pass delimiter=")

    def _refuse_cells(self, numbers: list[int]) -> None:
        """Read everything as text, and refuse the first bad cell of each column: missing, or no number."""
        start, texts, gaps = self.first_row, {}, {}  # type: int, dict[int, int], dict[int, int]
        for batch in self._read(numbers, None, pa.string(), 1):
            for k, at in enumerate(numbers):
                if at not in texts and at not in gaps:
                    bad = _first_bad(_with_points(batch.column(k), self.decimal))
                    if bad is not None:
                        missing = batch.column(k)[bad].as_py().strip() in _MISSING
                        (gaps if missing else texts)[at] = start + bad
                        if self._other_decimal(batch.column(k).slice(bad, 1)):
                            raise InvalidTable(
                                f"{self._label(at)}, row {start + bad}: a number with a decimal comma; pass decimal=','"
                            )
            start += batch.num_rows
        refuse_types({f"{self._label(at)}, row {row}": "text" for at, row in sorted(texts.items())})
        refuse_cells({self._label(at): (row, NULL) for at, row in sorted(gaps.items())})

    def _other_decimal(self, text: pa.Array) -> bool:
        """Tell whether a text would be a number if a comma were the decimal."""
        return self.decimal == "." and self.delimiter != "," and _parses(_with_points(text, ","))

    def _refuse_long_integers(self, numbers: list[int]) -> None:
        """Refuse whole numbers beyond 2^53, which a float64 rounds; 1e300 is a float and may stay."""
        start = self.first_row
        for batch in self._read(numbers, None, pa.string(), 1):
            for k, at in enumerate(numbers):
                whole = pc.match_substring_regex(batch.column(k), r"^\s*[+-]?[0-9]{16,}\s*$")
                for row in pc.indices_nonzero(whole).to_pylist():
                    if abs(int(batch.column(k)[row].as_py()[:400])) > LARGEST_INTEGER:
                        refuse_integer(self._label(at), start + row)
            start += batch.num_rows

    def _label(self, at: int) -> str:
        """Name a column: whoever reads numbers has named the target, so the header is one."""
        return column_label(at, self.labels[at])


class _Refusal(Exception):  # noqa: N818 - never leaves this file
    """What the parser said; its text may quote a cell and is only searched for numbers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


def _has_wide(array: pa.Array) -> bool:
    values = array.to_numpy(zero_copy_only=False)
    return bool(len(values)) and bool(np.nanmax(np.abs(values), initial=0.0) >= LARGEST_INTEGER)


def _with_points(texts: pa.Array, decimal: str) -> pa.Array:
    """Write decimal commas as points; a point was no decimal there, and is none now."""
    if decimal == ".":
        return texts
    return pc.replace_substring(pc.replace_substring(texts, ".", "_"), decimal, ".")


def _first_bad(texts: pa.Array) -> int | None:
    """Return the first text that is no number, by halving."""
    if _parses(texts):
        return None
    start, stop = 0, len(texts)
    while stop - start > 1:
        middle = (start + stop) // 2
        start, stop = (start, middle) if not _parses(texts.slice(start, middle - start)) else (middle, stop)
    return start


def _parses(texts: pa.Array) -> bool:
    try:
        pc.cast(pc.utf8_trim_whitespace(texts), pa.float64())
    except pa.ArrowException:
        return False
    return True


def open_delimited(path: Path, delimiter: str | None, limits: Limits, decimal: str = ".") -> DelimitedReader:
    """Read the header line, and nothing else."""
    line, skip = read_header(path, limits)
    if line[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in line:
        raise InvalidTable("the file is UTF-16 or not text at all; save it as UTF-8")
    try:
        text = line.decode("utf-8")
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
    return DelimitedReader(path, unique_labels(names), mark, skip, limits, decimal)


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
