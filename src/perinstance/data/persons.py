"""Tables in which people have several rows: the rows of one person are brought next to each other, once.

People stand in the order of their first rows, whatever the order of the others. A table in memory is copied into that
order, a file into a nameless private file, which only this process can read and which goes with it: what is resident is
for the operating system to decide.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.data.checks.cells import is_finite, refuse_missing
from perinstance.data.source import BLOCK_BYTES, Flavour, Piece, Source, rows_per_block
from perinstance.errors import InvalidTable, ScratchFull
from perinstance.folds.block import Block
from perinstance.folds.ids import person_codes
from perinstance.numerics.array_types import Floats

#: bytes up to which the rows are kept in memory; beyond, in the private file. Changes only speed.
IN_MEMORY = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class PersonTable(Source):
    """A ``Source`` whose blocks hold whole people: ``Block.starts`` says where each one's rows begin."""

    X: NDArray
    y: NDArray
    starts: NDArray[np.int64]  #: (people + 1,)
    order: NDArray[np.int64]  #: the caller's number of each row
    row_flavour: Flavour  #: with the caller's index, which is one of rows

    @property
    def first_rows(self) -> NDArray[np.int64]:
        """The caller's number of each person's first row."""
        return self.order[self.starts[:-1]]

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """See ``Source``; nobody's rows are in two blocks."""
        rows, person = rows_per_block(self.n_features, block_bytes or BLOCK_BYTES), 0
        while person < len(self.starts) - 1:
            last = int(np.searchsorted(self.starts, self.starts[person] + rows, side="right")) - 1
            last = max(person + 1, last)
            yield partial(self._block, person, last)
            person = last

    def _block(self, person: int, last: int) -> Block:
        start, stop = int(self.starts[person]), int(self.starts[last])
        return Block(self.X[start:stop], self.y[start:stop], start, starts=self.starts[person : last + 1] - start)


def by_person(source: Source, look: bool = True) -> Source:
    """Return the table with each person's rows next to each other; the table itself where nobody has two.

    ``look``: NaN and infinity are refused here, by the caller's numbers of rows; else whoever sweeps over the rows sees
    them.
    """
    if not source.has_ids or isinstance(source, PersonTable):
        return source
    ids = source.ids
    if ids is None:  # they come with the blocks
        ids = pa.chunked_array([block.ids for block in (piece() for piece in source.pieces())])
    codes = person_codes(ids)
    sizes = np.bincount(codes)
    if len(sizes) == len(codes):
        return source
    order = np.argsort(codes, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    X, y = np.empty((0, 0)), np.empty(0)
    for piece in source.pieces():
        block = piece()
        if not len(y):
            X, y = _room((len(codes), source.n_features), block.X.dtype), np.empty(len(codes))
        if look and not is_finite(block.X, block.y):
            refuse_missing(block.X, block.y, block.start + source.first_row, source.names, source.numbers)
        rows = place[block.start : block.start + len(block)]
        X[rows], y[rows] = block.X, block.y
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return PersonTable(
        X=X,
        y=y,
        starts=starts,
        order=order,
        ids=ids.take(pa.array(order[starts[:-1]])),
        n_rows=len(y),
        n_features=source.n_features,
        has_ids=True,
        names=source.names,
        numbers=source.numbers,
        flavour=Flavour(source.flavour.kind),
        row_flavour=source.flavour,
        classes=source.classes,
    )


def _room(shape: tuple[int, int], dtype: np.dtype) -> NDArray:
    """Return room for the rows: in memory, or in a private file without a name."""
    if shape[0] * shape[1] * dtype.itemsize <= IN_MEMORY:
        return np.empty(shape, dtype)
    try:
        with tempfile.TemporaryFile(prefix="perinstance-") as file:  # the mapping keeps it
            return np.memmap(file, dtype=dtype, shape=shape, mode="w+")
    except OSError as error:
        raise ScratchFull(
            f"the private scratch file could not be made ({error.strerror}); point TMPDIR to a disk with more room"
        ) from None


#: rows, targets and weights -> the rows and targets that a release is given
Weighing = Callable[[NDArray, NDArray, Floats], tuple[NDArray, NDArray]]


def column_of_weights(X: Any, name: Any) -> Any:
    """Read one column of a table or of a scanned file as numbers."""
    from perinstance.data.memory.table import read_table

    columns = getattr(X, "column_names", getattr(X, "columns", None))  # of a pyarrow table, of every other one
    if columns is not None and name not in list(columns):
        raise InvalidTable(f"the weights are not among the {len(columns)} columns of the table; check their name")
    if hasattr(X, "select_columns"):
        source = X.select_columns(target=None, features=[name])
    else:
        source = read_table(X, np.zeros(len(X)), features=[name])
    return np.concatenate([np.asarray(piece().X[:, 0], dtype=np.float64) for piece in source.pieces()])


def weighted_people(source: Source, weights: Floats, weigh: Weighing, look: bool) -> PersonTable:
    """Return the people of a table with their rows weighed; ``weights`` are in the order of the table's rows.

    ``look``: as for ``by_person``.
    """
    people = by_person(source, look)
    several = people if isinstance(people, PersonTable) else None
    order = np.arange(len(weights), dtype=np.int64) if several is None else several.order
    parts, names = [], []
    for block in (piece() for piece in people.pieces()):
        parts.append(weigh(block.X, block.y, weights[order[block.start : block.start + len(block)]]))
        names.append(block.ids)
    X, y = (np.concatenate(one) for one in zip(*parts, strict=True))
    return PersonTable(
        X=X,
        y=y,
        starts=np.arange(len(y) + 1, dtype=np.int64) if several is None else several.starts,
        order=order,
        ids=pa.chunked_array(names) if people.has_ids and people.ids is None else people.ids,
        n_rows=len(y),
        n_features=X.shape[1],
        first_row=source.first_row,
        has_ids=source.has_ids,
        flavour=people.flavour,
        row_flavour=people.flavour if several is None else several.row_flavour,
        classes=source.classes,
    )
