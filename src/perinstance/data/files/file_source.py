"""``scan``: a file too large for memory, read in blocks, whatever its format; raw columns go through a recipe."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.data.checks.cells import NULL, as_floats, column_label, refuse_cells, refuse_types, stacked, type_word
from perinstance.data.files.csv_text import open_delimited
from perinstance.data.files.parquet import open_arrow, open_dataset, open_parquet, parquet_below, remote_parquet
from perinstance.data.files.reader import Limits, Reader, open_npy
from perinstance.data.recipes.preparation import EXAMPLE_ROWS, Preparation, PreparedRows
from perinstance.data.recipes.recipe import Recipe
from perinstance.data.source import BLOCK_BYTES, Chosen, Flavour, Piece, Source, choose_columns, rows_per_block
from perinstance.errors import InvalidTable
from perinstance.folds.block import Block
from perinstance.folds.ids import read_ids, refuse_duplicates
from perinstance.numerics.array_types import Floats

_TEXT = (".csv", ".tsv", ".txt")


def scan(
    path: Any,
    *,
    delimiter: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    limits: Limits | None = None,
) -> Scan:
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
    return Scan(_reader(path, delimiter, decimal, encoding, limits or Limits()))


def _reader(path: Any, delimiter: str | None, decimal: str, encoding: str, limits: Limits) -> Reader:
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


@dataclass(frozen=True, slots=True)
class Scan:
    """What ``scan`` returns: a file whose header has been read and found harmless. Nothing else has been read."""

    reader: Reader

    @property
    def columns(self) -> tuple[Any, ...]:
        """Names of the columns; their numbers in a ``.npy`` file."""
        return self.reader.labels

    @property
    def unnamed(self) -> bool:
        """Whether columns are called by number."""
        return any(isinstance(label, int) for label in self.columns)

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None when only reading to the end tells."""
        return self.reader.n_rows

    def read_ids(self, column: str, repeats: bool = False) -> list[str]:
        """Read one column as ids of people: exactly as written, and refused where one is missing or (else) repeats."""
        self._refuse_numbered(column)
        chosen = choose_columns(self.columns, None, column, ())
        row, found = self.reader.first_row, []  # type: int, list[pa.Array]
        for batch in self.reader.counted(chosen, rows_per_block(1, BLOCK_BYTES)):
            found.append(read_ids(batch.column(0), row).cast(pa.large_string()))
            row += batch.num_rows
        ids = pa.chunked_array(found, pa.large_string())
        if not repeats:
            refuse_duplicates(ids)
        return ids.to_pylist()

    def select_columns(
        self,
        target: Any,
        ids: Any = None,
        features: Sequence[Any] | None = None,
        preparation: Preparation | None = None,
    ) -> Source:
        """Say which column is what; the types are checked here, the cells while they are read.

        Without a target (None: a mean is asked for) y is zero. A preparation reads columns of any type.
        """
        self._refuse_numbered(ids, preparation)
        if ids is not None and not isinstance(ids, str):
            raise InvalidTable("the ids of a file are one of its columns; pass ids= the name of that column")
        chosen = choose_columns(self.columns, target, ids, features)
        if not chosen.features:
            raise InvalidTable("the file has no features; at least one column besides target and ids is needed")
        if self.n_rows == 0:
            raise InvalidTable("the file has no rows; there is nobody to audit")
        if preparation is not None:
            return self._prepared(chosen, preparation)
        check_types(self.reader, chosen.numbers)
        named = self.reader.types is not None or target is not None or ids is not None or features is not None
        return FileSource.of(self, chosen, named)

    def _prepared(self, chosen: Chosen, preparation: Preparation) -> FileSource:
        """Make the steps ready for this file, by its first rows."""
        target = preparation.target
        if target is None:  # a number as it is
            name = "" if chosen.target is None else self.columns[chosen.target]
            decimal = next((step.decimal for step in preparation.steps if isinstance(step, Recipe)), ".")
            target = Recipe(target={"column": name, "as_is": True}, decimal=decimal)
        first = next(self.reader.batches(chosen, EXAMPLE_ROWS, 1, raw=True), None)
        if first is None:
            raise InvalidTable("the file has no rows; there is nobody to audit")
        example = _raw_rows(self.reader, chosen, first.slice(0, EXAMPLE_ROWS), preparation.steps[0])
        return FileSource.of(self, chosen, prepared=preparation.on(example), target=target)

    def _refuse_numbered(self, ids: Any, preparation: Any = None) -> None:
        if self.unnamed and ids is not None:
            raise InvalidTable("a matrix of numbers has no ids; leave ids= away, rows are numbered from 0")
        if self.unnamed and preparation is not None:
            raise InvalidTable("a .npy file has no names for a recipe; load it and pass the matrix, or use Parquet")


@dataclass(frozen=True, slots=True, eq=False)
class FileSource(Source):
    """A file with its target and ids chosen; see ``Source``."""

    reader: Reader
    chosen: Chosen
    named: bool = True  #: whether the labels are names for certain: the first line of a CSV file may be a person
    prepared: PreparedRows | None = None  #: what turns raw columns into numbers
    target: Recipe | None = None  #: declares the target of prepared rows

    @classmethod
    def of(cls, scan: Scan, chosen: Chosen, named: bool = True, **steps: Any) -> FileSource:
        """Return the columns chosen of a file, which steps turn into numbers where there are any."""
        reader, prepared = scan.reader, steps.get("prepared")
        names = tuple(reader.labels[at] for at in chosen.features) if prepared is None else prepared.names
        return cls(
            *(reader, chosen, named),
            **steps,
            names=None if scan.unnamed else names,
            numbers=chosen.features if prepared is None else None,
            n_features=len(names),
            n_rows=reader.n_rows,
            first_row=reader.first_row,
            rereadable=reader.rereadable,
            has_ids=chosen.ids is not None,
            flavour=Flavour("numpy" if scan.unnamed else "pyarrow"),
        )

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """See ``Source``."""
        start = 0
        rows = rows_per_block(self.n_features, block_bytes or BLOCK_BYTES)
        for batch in self.reader.counted(self.chosen, rows, threads, raw=self.prepared is not None):
            count, only = batch.num_rows, [batch]
            del batch
            if count:
                yield partial(self._block, start, only)
                start += count
        pa.default_memory_pool().release_unused()  # the decoder's memory is wanted by the passes that follow

    def _block(self, start: int, only: list[pa.RecordBatch]) -> Block:
        batch = only.pop()  # nobody else has it: it goes when it is a matrix, not when the matrix goes
        row = start + self.first_row
        X, y = self._floats(batch, row) if self.prepared is None else self._prepared_floats(batch, row)
        ids = None if self.chosen.ids is None else read_ids(batch.column(batch.num_columns - 1), row)
        return Block(X, y, start, ids)

    def _floats(self, batch: pa.RecordBatch, row: int) -> tuple[NDArray, Floats]:
        labels = [column_label(at, self.reader.labels[at] if self.named else None) for at in self.chosen.numbers]
        columns = dict(zip(labels, batch.columns, strict=False))
        gaps = {label: pc.index(pc.is_null(one), True).as_py() for label, one in columns.items() if one.null_count}
        refuse_cells({label: (row + gap, NULL) for label, gap in gaps.items()})
        arrays = [as_floats(one.to_numpy(zero_copy_only=False), row, label) for label, one in columns.items()]
        X = stacked(arrays[: self.n_features], batch.num_rows)
        return X, np.zeros(len(X)) if self.chosen.target is None else np.array(arrays[-1], dtype=np.float64)

    def _prepared_floats(self, batch: pa.RecordBatch, row: int) -> tuple[NDArray, Floats]:
        assert self.prepared is not None and self.target is not None
        X = self.prepared.numbers(_raw_rows(self.reader, self.chosen, batch, self.prepared.steps[0]), row)
        if self.chosen.target is None:
            return X, np.zeros(len(X))
        return X, self.target.target_numbers(batch.column(len(self.chosen.features)), row)


def _raw_rows(reader: Reader, chosen: Chosen, batch: pa.RecordBatch, step: Any) -> Any:
    """Return the raw features of a batch under their own names, as what the first step takes."""
    names = [reader.labels[at] for at in chosen.features]
    table = pa.RecordBatch.from_arrays(batch.columns[: len(names)], names=names)
    return table if isinstance(step, Recipe) else table.to_pandas()


def check_types(reader: Reader, columns: Sequence[int]) -> None:
    """Refuse columns whose declared types are not plain numbers, all of them at once."""
    if reader.types is not None:
        refuse_types({column_label(at, reader.labels[at]): type_word(reader.types[at]) for at in columns})
