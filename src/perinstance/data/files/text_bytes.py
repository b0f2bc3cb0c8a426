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
_BOM = b"\xef\xbb\xbf"
_MARKS = re.compile(rb'["\r\n]')


class ByteStream(io.RawIOBase):
    """Read a file from byte ``skip`` on.

    ``trouble`` keeps the refusal that ended the stream, for callers whose parser would hide it. With ``quotes`` the
    quotation marks are counted: an odd number at the end means that one was never closed, and that everything after
    it was swallowed as one field.
    """

    def __init__(self, path: Path, limits: Limits, skip: int = 0, quotes: bool = False) -> None:
        self.trouble: InvalidTable | None = None
        self._limits = limits
        self._raw: IO[bytes] = path.open("rb")
        self._packed = path.stat().st_size
        zipped = self._raw.read(2) == b"\x1f\x8b"
        self._raw.seek(0)
        self._file: IO[bytes] = gzip.GzipFile(fileobj=self._raw) if zipped else self._raw  # type: ignore[assignment]
        self._zipped = zipped
        self._count = 0
        self._quotes = 0
        while skip > 0:
            skip -= len(self._take(min(skip, 1 << 20)))
        self._watch = quotes

    _watch = False

    def readable(self) -> bool:
        """Whether the stream can be read: yes."""
        return True

    def read(self, size: int = -1) -> bytes:  # type: ignore[override]
        """Return up to ``size`` bytes."""
        try:
            data = self._take(size if size >= 0 else 1 << 20)
            if self._watch:
                self._quotes += data.count(b'"')
                if not data and size and self._quotes % 2:
                    raise InvalidTable("a quotation mark is left open until the end of the file; is it complete?")
        except InvalidTable as refusal:
            self.trouble = refusal
            raise
        return data

    def _take(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except (EOFError, OSError, zlib.error):
            raise InvalidTable("the file is damaged gzip or cannot be read to its end; is it complete?") from None
        self._count += len(data)
        if self._zipped:
            self._limits.check_expansion(self._count, self._packed, _GRACE)
        return data

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            if self._file is not self._raw:
                self._file.close()
            self._raw.close()
        super().close()


def read_header(path: Path, limits: Limits) -> tuple[bytes, int]:
    """Return the first line (quoted line breaks belong to it) without its byte order mark, and its length in bytes."""
    with ByteStream(path, limits) as stream:
        data, inside, at = bytearray(), False, 0
        while True:
            more = stream.read(1 << 16)
            data += more
            while mark := _MARKS.search(data, at):
                at = mark.end()
                if mark[0] == b'"':
                    inside = not inside
                elif not inside:
                    crlf = mark[0] == b"\r" and (bytes(data[at : at + 1]) or stream.read(1)) == b"\n"
                    return bytes(data[: at - 1]).removeprefix(_BOM), at + crlf
            at = len(data)
            limits.check_header(len(data))
            if not more:
                return bytes(data).removeprefix(_BOM), len(data)


def guessed_delimiter(path: str | os.PathLike[str]) -> str | None:
    """Return the mark between the names of a text file's header, if it is not the one its ending promises.

    Looked at is the header alone; a comma or a tab that is expected anyway is None.
    """
    place = Path(path)
    suffixes = {one.lower() for one in place.suffixes}
    if not suffixes & {".csv", ".tsv", ".txt"} or not place.is_file():
        return None
    line = read_header(place, Limits())[0].decode("utf-8", errors="replace")
    expected = "\t" if ".tsv" in suffixes else ","
    counts = {mark: line.count(mark) for mark in (",", ";", "\t", "|")}
    best = max(counts, key=lambda mark: counts[mark])
    return None if not counts[best] or counts[expected] == counts[best] else best
