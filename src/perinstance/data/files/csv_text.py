"""CSV and CSV.gz: numbers parsed strictly, ids left exactly as written, errors that never quote a cell.

pyarrow's streaming parser does the work, under synthetic column names; its error texts quote cells, so they are
dropped, and the place of the trouble is found again by reading the bad column as text.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

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
    unique_labels,
)
from perinstance.data.files.reader import Limits, Reader
from perinstance.data.recipes.arrow_cells import read_numbers
from perinstance.data.source import Chosen
from perinstance.errors import InvalidTable, TooLarge

_CHUNK = 2 << 20  # bytes of text parsed at a time; also the longest line there may be
_RAGGED = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_GRACE = 16 << 20  # a gzip file may unpack to this much at any ratio
_LINE = re.compile(rb'(?:[^"\r\n]+|"[^"]*")*')  # without its end; line breaks in quotation marks belong to it
_MARKS = ",;\t|"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelimitedReader(Reader):
    """Text whose first line names the columns."""

    path: Path
    delimiter: str
    decimal: str = "."
    encoding: str = "utf-8"
    lenient: bool = False  #: bytes that are no text are replaced, not refused
    first_row: int = 2  #: the header is row 1

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
                for at, column in () if raw else zip(chosen.numbers, batch.columns, strict=False):
                    sizes = np.abs(column.to_numpy(zero_copy_only=False))
                    wide |= {at} if np.nanmax(sizes, initial=0.0) >= LARGEST_INTEGER else set()
                count += batch.num_rows
                self.limits.check_cells(count, len(self.labels), self.stored)
        except _Refusal as refusal:
            raise self._locate(refusal, () if raw else chosen.numbers) from None
        if wide:
            self._refuse_cells(sorted(wide))

    def _read(
        self, numbers: Sequence[int], ids: int | None, kind: pa.DataType, threads: int
    ) -> Iterator[pa.RecordBatch]:
        types = {str(at): kind for at in numbers} | ({} if ids is None else {str(ids): pa.string()})
        names = [str(at) for at in range(len(self.labels))]
        read = pcsv.ReadOptions(
            column_names=names,
            skip_rows_after_names=1,
            block_size=_CHUNK,
            use_threads=threads > 1,
            encoding="utf8" if self.encoding == "utf-8" else self.encoding,  # pyarrow reads utf8 without transcoding
        )
        convert = pcsv.ConvertOptions(
            column_types=types, include_columns=list(types), strings_can_be_null=False, decimal_point=self.decimal
        )
        with ByteStream(self.path, self.limits) as stream:
            try:
                parse = pcsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
                yield from pcsv.open_csv(stream, read, parse, convert)
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
        return InvalidTable(
            "the file is not UTF-8 text in comma-separated columns; convert it, or pass delimiter= (another encoding "
            "is declared in a recipe)"
        )

    def _refuse_cells(self, numbers: Sequence[int]) -> None:
        """Read everything as text, and refuse the first bad cell of each column.

        It is missing, no number, or a whole number beyond 2^53, which a float64 rounds; 1e300 is a float and may stay.
        """
        start, texts, gaps, wide = self.first_row, {}, {}, {}  # type: int, dict[str, int], dict[str, int], dict[str, int]
        for batch in self._read(numbers, None, pa.string(), 1):
            for at, column in zip(numbers, batch.columns, strict=True):
                label, cells = column_label(at, self.labels[at]), read_numbers(column, self.decimal)
                long = pc.match_substring_regex(column, r"^\s*[+-]?[0-9]{16,}\s*$").to_numpy(zero_copy_only=False)
                for row in np.flatnonzero(long).tolist():
                    if abs(int(column[row].as_py()[:400])) > LARGEST_INTEGER:
                        wide.setdefault(label, start + row)
                if cells.missing.any():
                    gaps.setdefault(label, start + int(cells.missing.argmax()))
                bad = cells.unreadable & ~long
                if bad.any() and label not in texts:
                    texts[label] = start + int(bad.argmax())
                    comma = self.decimal == "." and self.delimiter != ","
                    if comma and not read_numbers(column.slice(int(bad.argmax()), 1), ",").unreadable.any():
                        raise InvalidTable(
                            f"{label}, row {texts[label]}: a number with a decimal comma; pass decimal=','"
                        )
            start += batch.num_rows
        refuse_types({f"{label}, row {row}": "text" for label, row in texts.items()})
        refuse_cells({label: (row, NULL) for label, row in gaps.items()})
        for label, row in wide.items():
            refuse_integer(label, row)


class _Refusal(Exception):  # noqa: N818 - never leaves this file
    """What the parser said; its text may quote a cell and is only searched for numbers."""


def _texts(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowException:  # bytes that are no text
        return pa.array([one.decode(errors="replace") for one in column.to_pylist()], pa.string())


def open_delimited(
    path: Path, delimiter: str | None, limits: Limits, decimal: str = ".", encoding: str = "utf-8"
) -> DelimitedReader:
    """Read the header line, and nothing else."""
    try:  # the standard name of an encoding in which a comma, a quotation mark and a line's end are single bytes
        encoding = codecs.lookup(encoding).name
        plain = 'a,;\t"\n'.encode(encoding)
    except (LookupError, TypeError, UnicodeError):
        raise InvalidTable("the encoding is not known; try 'utf-8', 'cp1252' or 'latin-1'") from None
    if plain != b'a,;\t"\n':
        raise InvalidTable("in this encoding a comma is no single byte; save the file as UTF-8")
    line = read_header(path, limits)
    if line[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in line:
        raise InvalidTable("the file is UTF-16 or not text at all; save it as UTF-8")
    try:
        text = line.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError:
        raise InvalidTable(
            f"the header of the file is not {encoding.upper()}; save the file as UTF-8, or declare its encoding in a "
            "recipe (often cp1252)"
        ) from None
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
    names, other = _fields(text, mark), _best_mark(text, mark)
    if len(names) < 2 and other != mark:
        points = " and decimal='.'" if other == decimal else ""
        raise InvalidTable(
            f"the header, read by delimiter={mark!r}, is one column; by {other!r} it is {len(_fields(text, other))}: "
            f"pass delimiter={other!r}{points}, or put the header in quotation marks if it is one name"
        )
    stored, labels = path.stat().st_size, unique_labels(names)
    return DelimitedReader(
        labels=labels, stored=stored, path=path, limits=limits, delimiter=mark, decimal=decimal, encoding=encoding
    )


def guessed_marks(path: str | os.PathLike[str]) -> tuple[str | None, str]:
    """Return the mark between a header's names, if it is not the one that the file's ending promises; its encoding.

    That is "utf-8" where the file's first megabytes are UTF-8, or where it is no text, "cp1252" else: a draft says so.
    """
    place = Path(path)
    suffixes = {one.lower() for one in place.suffixes}
    if not suffixes & {".csv", ".tsv", ".txt"} or not place.is_file():
        return None, "utf-8"
    expected = "\t" if ".tsv" in suffixes else ","
    best = _best_mark(read_header(place, Limits()).decode("utf-8", errors="replace"), expected)
    with ByteStream(place, Limits()) as stream:
        data = stream.read(_CHUNK)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return None if best == expected else best, "cp1252"
    return None if best == expected else best, "utf-8"


def _best_mark(line: str, expected: str) -> str:
    """Return the mark that parts a header into the most columns; the expected one, if no other does better."""
    return max(expected, *_MARKS, key=lambda mark: len(_fields(line, mark)))


def _fields(line: str, mark: str) -> list[str]:
    return next(csv.reader(io.StringIO(line, newline=""), delimiter=mark, strict=False), [])


class ByteStream(io.RawIOBase):
    """The bytes of a text file, unpacked if they are gzip, counted while they pass.

    ``trouble`` keeps the refusal that ended the stream: a parser would hide it. An odd number of quotation marks at the
    end means that one was never closed, and that everything behind it was swallowed as one field.
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        self.trouble: InvalidTable | None = None
        self._limits = limits
        self._packed = path.stat().st_size
        self._raw = path.open("rb")
        self._zipped = self._raw.peek(2)[:2] == b"\x1f\x8b"
        self._file: IO[bytes] = gzip.GzipFile(fileobj=self._raw) if self._zipped else self._raw  # type: ignore[assignment]
        self._count = self._quotes = 0
        self._ended = False

    def readable(self) -> bool:
        """Whether the stream can be read: yes."""
        return True

    def read(self, size: int = -1) -> bytes:  # type: ignore[override]
        """Return up to ``size`` bytes."""
        try:
            size = size if size >= 0 else 1 << 20
            data = self._file.read(size)
            self._count += len(data)
            self._quotes += data.count(b'"')
            if self._zipped:
                self._limits.check_expansion(self._count, self._packed, _GRACE)
            if len(data) < size and not self._ended:
                if self._quotes % 2:
                    raise InvalidTable("a quotation mark is left open until the end of the file; is it complete?")
                data, self._ended = data + b"\n", True  # the parser takes a header without an end for a long line
        except InvalidTable as refusal:
            self.trouble = refusal
            raise
        except (EOFError, OSError, zlib.error):
            self.trouble = InvalidTable("the file is damaged gzip or cannot be read to its end; is it complete?")
            raise self.trouble from None
        return data

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._file.close()
            self._raw.close()
        super().close()


def read_header(path: Path, limits: Limits) -> bytes:
    """Return the first line."""
    with ByteStream(path, limits) as stream:
        data = b""
        while True:
            more = stream.read(max(1 << 16, len(data)))
            data += more
            line = _LINE.match(data)
            assert line is not None  # it matches nothing, too
            end = line.end()
            if not more or data[end : end + 1] in (b"\r", b"\n"):
                return data[:end]
            limits.check_header(len(data))
