"""The first draft of a recipe for a file: names from its header, types from its schema."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from perinstance.data.files.csv_text import DelimitedReader
from perinstance.data.files.open_files import scan
from perinstance.data.files.text_bytes import guessed_delimiter
from perinstance.data.memory.column_choice import Chosen
from perinstance.data.recipes.recipe_file import DraftColumn, draft_text, word_of_texts, word_of_type
from perinstance.errors import InvalidInput

_ROWS = 10_000  # of a CSV file, to tell numbers, dates and words apart


def draft_of_file(
    path: str | os.PathLike[str],
    target: str | None = None,
    leave_out: tuple[str, ...] = (),
    decimal: str = ".",
    delimiter: str | None = None,
) -> str:
    """Return the TOML of a first draft; a CSV file has no types, so what most cells of a column are stands for one."""
    if decimal not in (".", ","):
        raise InvalidInput("decimal must be '.' or ','")
    mark = delimiter or guessed_delimiter(path)
    scanned = scan(path, delimiter=mark)
    reader: Any = scanned.reader
    if scanned.unnamed:
        raise InvalidInput("a .npy file holds numbers without names; a recipe needs a table with names")
    if any(name not in reader.labels for name in leave_out):
        raise InvalidInput("a column to leave out is not among the columns of the table; check its name")
    used = [at for at, name in enumerate(reader.labels) if name not in leave_out]
    text = isinstance(reader, DelimitedReader)
    if text:
        first = next(reader.batches(Chosen(tuple(used), None, None), _ROWS, 1, raw=True), None)
        texts = [pa.array([], pa.string()) for _ in used] if first is None else first.columns
        words = [word_of_texts(one, decimal) for one in texts]
    else:
        words = [word_of_type(reader.types[at]) for at in used]
    columns = [DraftColumn(reader.labels[at], word) for at, word in zip(used, words, strict=True)]
    return draft_text(columns, target, decimal, mark if text else None)
