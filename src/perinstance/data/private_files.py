"""Files that only their owner may read, and per-person losses written into them as they come.

A confidential file is created 0600 before its first byte, whatever the umask, under a name of its own beside the
target, and moved into place when it is complete: readers see the old file or the whole new one, never a part, and
what was there before under wider permissions is replaced, not written into. Links are refused: writing through one
would put confidential numbers wherever it points.

Losses go to Parquet or CSV. In CSV every text is quoted, and one that a spreadsheet would take for a formula gets a
leading apostrophe. Numbers are written so that reading them gives the same bits.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from perinstance.errors import FULL, DiskFull, InvalidInput, UnsafeFile
from perinstance.event_log import LOG

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_SPACE = " \n\v\f\u00a0\u2028\u2029\ufeff\u200e\u200f\0"  # what a spreadsheet may skip before it looks
_WIDE = str.maketrans("\uff1d\uff0b\uff0d\uff20", "=+-@")  # full-width signs are normalised by some


@contextlib.contextmanager
def private_file(path: str | os.PathLike[str], mode: str = "wb", **open_options: Any) -> Iterator[IO[Any]]:
    """Open a file for writing that nobody else can read; it appears at ``path`` when the block ends without error.

    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with private_file(os.path.join(folder, "losses.csv"), "w") as file:
    ...         _ = file.write("confidential")
    ...     oct(os.stat(os.path.join(folder, "losses.csv")).st_mode)[-3:]
    '600'
    """
    if mode not in ("wb", "w"):
        raise ValueError(f"a private file is opened with 'w' or 'wb', got {mode!r}")
    target = Path(path)
    refuse_unsafe_target(target)
    draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    begun = False
    try:
        with open(os.open(draft, _NEW, 0o600), mode, **open_options) as file:
            os.fchmod(file.fileno(), 0o600)  # a default access-control list of the folder may have widened it
            begun = True
            yield file
            file.flush()
            os.fsync(file.fileno())
        refuse_unsafe_target(target)  # again: somebody may have been quick
        os.replace(draft, target)
        LOG.info("wrote a file that only its owner can read")
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        name = target.parent.resolve().name
        if isinstance(error, OSError) and error.errno in FULL:
            raise DiskFull(
                f"the disk is full: there is no room for a file in {name!r}; "
                "nothing was left half-written: make room, or choose another folder"
            ) from None
        if isinstance(error, OSError) and not begun:
            raise UnsafeFile(f"{name!r} cannot be written into ({error.strerror}); choose another") from None
        raise


def private_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder 0700, or accept one that is closed to others; refuse any other."""
    folder = Path(path)
    try:
        found: os.stat_result | None = os.lstat(folder)
    except FileNotFoundError:
        found = None
    except (OSError, ValueError):  # NUL, half a character
        raise UnsafeFile("the path of the folder cannot be used; choose another") from None
    name = os.path.basename(os.path.abspath(folder))  # "." has one too
    if found is None:
        folder.mkdir(mode=0o700)
        os.chmod(folder, 0o700)  # whatever the umask
        found = folder.stat()
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeFile(f"{name!r} is a link; name the folder itself")
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeFile(f"{name!r} is no folder; choose another name")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise UnsafeFile(f"the folder {name!r} is open to others; close it with chmod 700, or choose another")
    return folder


def refuse_wider(path: str | os.PathLike[str]) -> None:
    """Refuse to read a confidential file that others could have read or written."""
    found = os.lstat(path)
    name = Path(path).name
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeFile(f"{name!r} is a link; name the file itself")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise UnsafeFile(f"{name!r} is open to others; close it with chmod 600 and ask who has read it")
    if hasattr(os, "getuid") and found.st_uid not in (os.getuid(), 0):
        raise UnsafeFile(f"{name!r} belongs to somebody else; copy it to a file of your own")


def refuse_unsafe_target(target: Path) -> None:
    """Refuse to write through a link, over a device or over a folder, or into a folder that is not there."""
    try:
        found = os.lstat(target)
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise UnsafeFile(f"there is no folder for {target.name!r}; make it first") from None
        return
    except (OSError, ValueError):
        raise UnsafeFile("the path of the file to write cannot be used; choose another") from None
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeFile(f"{target.name!r} is a link; confidential files are not written through links")
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeFile(f"{target.name!r} is no regular file; choose another name")


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
        self._stack = contextlib.ExitStack()
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
