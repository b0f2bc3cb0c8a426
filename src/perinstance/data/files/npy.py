"""A numpy matrix in a ``.npy`` file, mapped block by block: never more than a few blocks of it are resident."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.data.answer_tables import Flavour
from perinstance.data.checks.cells import as_floats, check_dtype, column_label
from perinstance.data.memory.column_choice import Chosen, choose_columns
from perinstance.data.source import BLOCK_BYTES, Piece, rows_per_block
from perinstance.errors import InvalidTable
from perinstance.folds.block import Block


@dataclass(frozen=True, slots=True)
class NpyScan:
    """What ``scan`` returns for a ``.npy`` file; its columns are called by number."""

    path: Path
    shape: tuple[int, int]
    dtype: np.dtype
    offset: int  #: of the first number in the file
    fortran: bool

    @property
    def columns(self) -> tuple[int, ...]:
        """Numbers of the columns."""
        return tuple(range(self.shape[1]))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.shape[0]

    def select_columns(
        self, target: Any, ids: Any = None, features: Sequence[int] | None = None, preparation: Any = None
    ) -> NpySource:
        """Say which column is the target; without one (None: a mean is asked for) y is zero."""
        if preparation is not None:
            raise InvalidTable("a .npy file has no names for a recipe; load it and pass the matrix, or use Parquet")
        if ids is not None:
            raise InvalidTable("a matrix of numbers has no ids; leave ids= away, rows are numbered from 0")
        chosen = choose_columns(self.columns, target, None, features)
        if not chosen.features or not self.n_rows:
            raise InvalidTable("the matrix needs at least one row, and one column besides the target")
        return NpySource(self, chosen)

    def window(self, start: int, stop: int) -> NDArray:
        """Map some rows; the mapping ends with the array."""
        n, d = self.shape
        if not self.fortran:
            skip = self.offset + start * d * self.dtype.itemsize
            return np.memmap(self.path, self.dtype, "r", skip, (stop - start, d))
        columns = [
            np.memmap(self.path, self.dtype, "r", self.offset + (at * n + start) * self.dtype.itemsize, (stop - start,))
            for at in range(d)
        ]
        return np.stack(columns, axis=1)


@dataclass(frozen=True, slots=True)
class NpySource:
    """A mapped matrix with its target chosen; see ``Source``."""

    scan: NpyScan
    chosen: Chosen
    flavour: Flavour = field(default_factory=lambda: Flavour("numpy"))
    rereadable: bool = True
    names: None = None
    ids: None = None
    has_ids: bool = False
    first_row: int = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the features in the file."""
        return self.chosen.features

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.chosen.features)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.scan.n_rows

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """See ``Source``."""
        step = rows_per_block(self.n_features, block_bytes or BLOCK_BYTES)
        for start in range(0, self.n_rows, step):
            yield partial(self._block, start, min(start + step, self.n_rows))

    def _block(self, start: int, stop: int) -> Block:
        window = self.scan.window(start, stop)
        X = np.asarray(window[:, list(self.chosen.features)])
        if self.chosen.target is None:
            return Block(as_floats(X, start), np.zeros(len(X)), start)
        y = np.array(window[:, self.chosen.target])
        floats = as_floats(y, start, column_label(self.chosen.target)).astype(np.float64, copy=False)
        return Block(as_floats(X, start), floats, start)


def open_npy(path: Path) -> NpyScan:
    """Read the header; pickled objects are never loaded."""
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, SyntaxError):
        raise InvalidTable(f"{path.name!r} cannot be mapped as a numpy matrix; save floats with numpy.save") from None
    if mapped.ndim != 2:
        raise InvalidTable(f"the matrix must have two dimensions, one row per person, got {mapped.ndim}")
    check_dtype(mapped.dtype, "the matrix")
    n, d = mapped.shape
    fortran = mapped.flags.f_contiguous and not mapped.flags.c_contiguous
    return NpyScan(path, (n, d), mapped.dtype, int(mapped.offset), bool(fortran))
