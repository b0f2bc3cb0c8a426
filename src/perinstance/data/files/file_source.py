"""``scan``: a file too large for memory, read in blocks, whatever its format; raw columns go through a recipe."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from perinstance.data.files.csv_text import open_delimited
from perinstance.data.files.parquet import open_arrow, open_dataset, open_parquet, parquet_below, remote_parquet
from perinstance.data.files.reader import Limits, Reader, open_npy
from perinstance.errors import InvalidTable

_TEXT = (".csv", ".tsv", ".txt")


def scan(
    path: Any,
    *,
    delimiter: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    limits: Limits | None = None,
) -> Reader:
    """Open a Parquet file, a folder of them, a CSV or CSV.gz, an Arrow (Feather) file, an Arrow dataset or a ``.npy``.

    Only the header is read here; ``audit`` reads the rest, once, in blocks. What a file is, is told by its first
    bytes; text must be called ``.csv``, ``.tsv`` or ``.txt`` (``.gz`` may follow).

    Parameters
    ----------
    path : path, URL or ``pyarrow.dataset.Dataset``
        A URL (``s3://bucket/folder``) names Parquet in whatever storage fsspec knows.
    delimiter : one character, optional
        Between the fields of a text file; a comma unless the file is called ``.tsv``, a semicolon where ``decimal`` is
        a comma.
    decimal : ``"."`` or ``","``
        In the numbers of a text file. A thousands separator is refused: it cannot be told from a decimal, but a
        recipe can declare it.
    encoding : text
        Of a text file, if it is not UTF-8, for example ``"cp1252"``.
    limits : Limits, optional
        How much a file may unpack to.
    """
    limits = limits or Limits()
    if not isinstance(path, (str, os.PathLike)):
        if hasattr(path, "to_batches") and hasattr(path, "schema") and hasattr(path, "count_rows"):
            return open_dataset(path, limits)
        raise InvalidTable("scan takes a path or an Arrow dataset; tables in memory are passed to audit directly")
    if "://" in os.fspath(path):
        return open_parquet(remote_parquet(os.fspath(path)), limits)
    place = Path(path)
    try:
        mode = place.stat().st_mode
    except (OSError, ValueError):
        raise InvalidTable(f"there is no readable file at {os.fspath(path)!r}; check the path") from None
    if stat.S_ISDIR(mode):
        found = [str(one) for one in place.rglob("*.parquet") if one.is_file()]
        paths = sorted(map(Path, parquet_below(str(place), found)))
        if not paths:
            raise InvalidTable(f"the folder {place.name!r} holds no .parquet files; name a file")
        return open_parquet(paths, limits)
    if not stat.S_ISREG(mode):
        raise InvalidTable(f"{place.name!r} is no regular file; copy it to one, the audit reads its end first")
    try:
        with place.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise InvalidTable(f"{place.name!r} cannot be opened ({error.strerror}); check its permissions") from None
    if head[:4] in (b"PAR1", b"PARE"):
        return open_parquet((place,), limits)
    if head[:6] == b"ARROW1":
        return open_arrow(place, limits)
    if head[:6] == b"\x93NUMPY":
        return open_npy(place)
    suffixes = [one.lower() for one in place.suffixes if one.lower() != ".gz"]
    if suffixes and suffixes[-1] in _TEXT:
        return open_delimited(place, delimiter, limits, decimal, encoding)
    raise InvalidTable(
        f"{place.name!r} is neither Parquet, nor Arrow, nor .npy, nor called {', '.join(_TEXT)} (.gz may follow); "
        "convert or rename it"
    )
