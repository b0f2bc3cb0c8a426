"""The bytes of a text file, unpacked if they are gzip, counted while they pass."""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from pathlib import Path
from typing import IO

from perinstance.data.checks.limits import Limits
from perinstance.errors import InvalidTable

_GRACE = 16 << 20  # a gzip file may unpack to this much at any ratio
_LINE = re.compile(rb'(?:[^"\r\n]+|"[^"]*")*')  # without its end; line breaks in quotation marks belong to it


class ByteStream(io.RawIOBase):
    """A file to be read from its beginning.

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
            end = _LINE.match(data).end()  # type: ignore[union-attr] - it matches nothing, too
            if not more or data[end : end + 1] in (b"\r", b"\n"):
                return data[:end]
            limits.check_header(len(data))


def guessed_delimiter(path: str | os.PathLike[str]) -> str | None:
    """Return the mark between the names of a text file's header, if it is not the one its ending promises.

    Looked at is the header alone; a comma or a tab that is expected anyway is None.
    """
    place = Path(path)
    suffixes = {one.lower() for one in place.suffixes}
    if not suffixes & {".csv", ".tsv", ".txt"} or not place.is_file():
        return None
    line = read_header(place, Limits()).decode("utf-8", errors="replace")
    expected = "\t" if ".tsv" in suffixes else ","
    counts = {mark: line.count(mark) for mark in (",", ";", "\t", "|")}
    best = max(counts, key=lambda mark: counts[mark])
    return None if not counts[best] or counts[expected] == counts[best] else best
