"""What every file format offers, and what is asked of each: no column twice, no more text than there is memory for.

A numpy matrix in a ``.npy`` file is mapped block by block: never more than a few blocks of it are resident.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.data.checks.cells import NULL, as_floats, column_label, refuse_cells, refuse_types, stacked, type_word
from perinstance.data.recipes.preparation import EXAMPLE_ROWS, Preparation, PreparedRows
from perinstance.data.recipes.recipe import Recipe
from perinstance.data.source import BLOCK_BYTES, Chosen, Flavour, Piece, Source, choose_columns, rows_per_block
from perinstance.errors import InvalidTable, TooLarge
from perinstance.folds.block import Block
from perinstance.folds.ids import read_ids, refuse_duplicates, text_size
from perinstance.numerics.array_types import Floats


@dataclass(frozen=True, slots=True)
class Limits:
    """Generous for honest files, finite for others.

    >>> Limits(cells=1e9).cells
    1000000000.0
    """

    cells: float = 2.0**36  #: rows times columns
    columns: int = 10_000  #: a Gram matrix of this many is 800 MB
    expansion: float = 500.0  #: bytes unpacked per byte of the file, for files that unpack to much (see below)
    header_bytes: int = 16 << 20  #: of a header line or a schema
    text_bytes: int = 1 << 30  #: of texts of one block, and of what is unpacked in one piece to much more than it is

    def check_columns(self, columns: int) -> None:
        """Refuse too wide a table."""
        if columns > self.columns:
            _refuse(f"the file has {columns} columns, more than the limit of {self.columns}", "columns")

    def check_cells(self, rows: int, columns: int, file_bytes: int) -> None:
        """Refuse a table whose header promises too many cells, in all or per byte of the file."""
        self.check_columns(columns)
        if rows * columns > self.cells:
            _refuse(f"the file claims {rows} rows and {columns} columns, more than {self.cells:.3g} cells", "cells")
        self.check_expansion(8 * rows * columns, file_bytes, grace=4 << 30)  # indicator columns pack 1000:1, honestly

    def check_expansion(self, unpacked: int, packed: int, grace: int) -> None:
        """Refuse what unpacks to more than ``grace`` bytes, out of almost nothing."""
        if unpacked > grace and unpacked > self.expansion * packed:
            found = f"{packed} bytes of file unpack to {unpacked} bytes or more, over {self.expansion:g} to one"
            _refuse(found, "expansion")

    def check_text(self, size: int) -> None:
        """Refuse a block of rows whose ids, or other texts, take too much."""
        if size > self.text_bytes:
            found = f"the texts of one block of rows take {size} bytes, more than the limit of {self.text_bytes}"
            _refuse(f"{found} (an id is a short text: is another column meant?)", "text_bytes")

    def check_header(self, size: int) -> None:
        """Refuse a header or schema that is itself too large to read."""
        if size > self.header_bytes:
            found = f"the header of the file takes {size} bytes, more than the limit of {self.header_bytes}"
            _refuse(found, "header_bytes")


def _refuse(found: str, limit: str) -> NoReturn:
    raise TooLarge(f"{found}; if that is meant, pass limits=Limits({limit}=...)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A file whose header has been read and found harmless, which ``scan`` returns; nothing else has been read.

    Each format has its own batches of chosen columns.
    """

    labels: tuple[Any, ...]  #: names of all columns; their numbers where they have none (numpy)
    types: tuple[pa.DataType, ...] | None = None  #: of all columns; None where the format has none (CSV)
    n_rows: int | None = None  #: when the file says so
    limits: Limits = Limits()  #: on what the file may unpack to
    stored: int  #: bytes of the file, or of all its files, as they are stored
    first_row: int = 0  #: what the file calls the row of its first person: 0, or 2 where a header line is counted
    starts_quickly: bool = True  #: whether the first rows come without the rest being decoded
    rereadable: bool = False  #: whether a second reading costs next to nothing

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the features, then the target, then the ids (if chosen), at most ``rows`` rows at a time.

        With ``raw`` features and target may be anything: a recipe will read them.
        """
        raise NotImplementedError

    def counted(self, chosen: Chosen, rows: int, threads: int = 1, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield batches, and refuse a file whose ids unpack to much more than it is, or than memory can hold."""
        text = 0
        try:
            for batch in self.batches(chosen, rows, threads, raw):
                if chosen.ids is not None:
                    size = text_size(batch.column(batch.num_columns - 1))
                    self.limits.check_text(size)
                    text += size
                    self.limits.check_expansion(text, self.stored, self.limits.text_bytes)
                only = [batch]
                del batch  # whoever asks for it is to have the only one
                yield only.pop()
        except pa.ArrowException as error:  # codes of words that are not there
            raise damaged("the file", error) from None
        except MemoryError:
            raise TooLarge("the file unpacks to more than there is memory for; is it what it claims to be?") from None

    @property
    def columns(self) -> tuple[Any, ...]:
        """Names of the columns; their numbers in a ``.npy`` file."""
        return self.labels

    @property
    def unnamed(self) -> bool:
        """Whether columns are called by number."""
        return any(isinstance(label, int) for label in self.labels)

    def read_ids(self, column: str, repeats: bool = False) -> list[str]:
        """Read one column as ids of people: exactly as written, and refused where one is missing or (else) repeats."""
        self._refuse_numbered(column)
        chosen = choose_columns(self.labels, None, column, ())
        row, found = self.first_row, []  # type: int, list[pa.Array]
        for batch in self.counted(chosen, rows_per_block(1, BLOCK_BYTES)):
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
        chosen = choose_columns(self.labels, target, ids, features)
        if not chosen.features:
            raise InvalidTable("the file has no features; at least one column besides target and ids is needed")
        if self.n_rows == 0:
            raise InvalidTable("the file has no rows; there is nobody to audit")
        if preparation is not None:
            return self._prepared(chosen, preparation)
        check_types(self, chosen.numbers)
        named = self.types is not None or target is not None or ids is not None or features is not None
        return FileSource.of(self, chosen, named)

    def _prepared(self, chosen: Chosen, preparation: Preparation) -> FileSource:
        """Make the steps ready for this file, by its first rows."""
        target = preparation.target
        if target is None:  # a number as it is
            name = "" if chosen.target is None else self.labels[chosen.target]
            decimal = next((step.decimal for step in preparation.steps if isinstance(step, Recipe)), ".")
            target = Recipe(target={"column": name, "as_is": True}, decimal=decimal)
        first = next(self.batches(chosen, EXAMPLE_ROWS, 1, raw=True), None)
        if first is None:
            raise InvalidTable("the file has no rows; there is nobody to audit")
        example = _raw_rows(self, chosen, first.slice(0, EXAMPLE_ROWS), preparation.steps[0])
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
    def of(cls, reader: Reader, chosen: Chosen, named: bool = True, **steps: Any) -> FileSource:
        """Return the columns chosen of a file, which steps turn into numbers where there are any."""
        prepared = steps.get("prepared")
        names = tuple(reader.labels[at] for at in chosen.features) if prepared is None else prepared.names
        return cls(
            *(reader, chosen, named),
            **steps,
            names=None if reader.unnamed else names,
            numbers=chosen.features if prepared is None else None,
            n_features=len(names),
            n_rows=reader.n_rows,
            first_row=reader.first_row,
            rereadable=reader.rereadable,
            has_ids=chosen.ids is not None,
            flavour=Flavour("numpy" if reader.unnamed else "pyarrow"),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NpyReader(Reader):
    """A matrix whose columns are called by number."""

    path: Path
    rereadable: bool = True

    def batches(self, chosen: Chosen, rows: int, threads: int, raw: bool = False) -> Iterator[pa.RecordBatch]:
        """See ``Reader``."""
        names = [str(at) for at in chosen.wanted]
        for start in range(0, self.n_rows or 0, rows):
            window = _mapped(self.path)[start : start + rows]  # the mapping ends with it
            columns = [np.ascontiguousarray(window[:, at]) for at in chosen.wanted]
            native = [one.astype(one.dtype.newbyteorder("="), copy=False) for one in columns]
            yield pa.RecordBatch.from_arrays([pa.array(one) for one in native], names=names)


def open_npy(path: Path) -> NpyReader:
    """Read the header; pickled objects are never loaded."""
    mapped = _mapped(path)
    if mapped.ndim != 2:
        raise InvalidTable(f"the matrix must have two dimensions, one row per person, got {mapped.ndim}")
    refuse_types({"the matrix": type_word(mapped.dtype)})
    kind = pa.from_numpy_dtype(mapped.dtype.newbyteorder("="))
    n, d = mapped.shape
    return NpyReader(labels=tuple(range(d)), types=(kind,) * d, n_rows=n, stored=path.stat().st_size, path=path)


def _mapped(path: Path) -> NDArray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError):
        raise InvalidTable(f"{path.name!r} cannot be mapped as a numpy matrix; save floats with numpy.save") from None


def damaged(name: str, error: Exception) -> InvalidTable:
    """Return the refusal of a file that a decoder gave up; its words may quote a cell, so only their kind is told."""
    return InvalidTable(f"{name!r} cannot be read ({type(error).__name__}); is it complete?")
