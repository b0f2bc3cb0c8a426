"""Several id-sorted files, side by side: the same people of all of them at a time, in order of their ids.

Each step takes from every file what lies up to the smallest of the last ids that have been read, so that a step holds
about one row group per file, whoever is in which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.ledger.charge_files import ChargeFile, pairs_of, plain_columns
from perinstance.pairs import Pairs, from_columns
from perinstance.pairs.stored_pairs import without_loss


@dataclass(frozen=True, slots=True)
class AlignedRows:
    """Some people, and where each of them is in the part of each file; somebody who is not in one has -1 there."""

    ids: pa.Array
    parts: tuple[pa.Table, ...]
    rows: tuple[NDArray[np.int64] | None, ...]  #: None: the people themselves, in their order


@dataclass(frozen=True, slots=True)
class IdBlock:
    """Some people, and their pairs in each release; somebody who was not in one has a pair that costs nothing."""

    ids: pa.Array
    pairs: tuple[Pairs, ...]
    present: NDArray[np.bool_]  #: (releases, people)


class _Cursor:
    """Where one file has been read up to."""

    def __init__(self, groups: Iterable[pa.Table], nobody: pa.Table) -> None:
        self._groups = iter(groups)
        self._table = nobody
        self._fill()

    @property
    def done(self) -> bool:
        return not self._table.num_rows

    @property
    def last(self) -> str:
        return str(self._table.column("id")[-1].as_py())

    def take(self, last: str) -> pa.Table:
        """Return the rows with ids up to ``last``."""
        rows = self._table.num_rows
        if rows and self.last > last:
            rows = pc.sum(pc.less_equal(self._table.column("id"), last)).as_py()
        taken, self._table = self._table.slice(0, rows), self._table.slice(rows)
        self._fill()
        return taken

    def _fill(self) -> None:
        """Read on if nothing is left of the group."""
        if not self._table.num_rows:
            self._table = next(self._groups, self._table)


def aligned_rows(files: Sequence[ChargeFile]) -> Iterator[AlignedRows]:
    """Walk over everybody who is in any of the files."""
    cursors = [_Cursor(file.groups(), file.nobody()) for file in files]
    while True:
        lasts = [cursor.last for cursor in cursors if not cursor.done]
        if not lasts:
            return
        last = min(lasts)
        yield _aligned(tuple(cursor.take(last) for cursor in cursors))


def _aligned(parts: tuple[pa.Table, ...]) -> AlignedRows:
    names = [part.column("id") for part in parts if part.num_rows]
    same = all(name.equals(names[0]) for name in names[1:])
    ids = pa.concat_arrays(names[0].chunks if same else [chunk for name in names for chunk in name.chunks])
    if not same:
        ids = pc.unique(ids)
        ids = ids.take(pc.sort_indices(ids))
    rows: list[NDArray[np.int64] | None] = []
    for part in parts:
        if part.num_rows == len(ids):
            rows.append(None)
        else:
            at = pc.index_in(ids, value_set=part.column("id").combine_chunks())
            rows.append(at.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64))
    return AlignedRows(ids, parts, tuple(rows))


def id_blocks(files: Sequence[ChargeFile]) -> Iterator[IdBlock]:
    """Walk over everybody who is in any of the releases, with their pairs."""
    schemas = [file.schema for file in files]
    for found in aligned_rows(files):
        present = np.ones((len(files), len(found.ids)), dtype=bool)
        pairs = []
        for k, (part, at, schema) in enumerate(zip(found.parts, found.rows, schemas, strict=True)):
            pairs.append(pairs_at(part, schema, at))
            if at is not None:
                present[k] = at >= 0
        yield IdBlock(found.ids, tuple(pairs), present)


def pairs_at(part: pa.Table, schema: str, at: NDArray[np.int64] | None) -> Pairs:
    """Return the pairs of these people; whoever was not in the release gets a pair that costs nothing."""
    if at is None:
        return pairs_of(part, schema)
    columns = {}
    for name, values in plain_columns(part).items():
        nothing = 0 if values.dtype == np.uint8 else without_loss(schema, name)  # a byte is a kind, and 0 is exact
        columns[name] = filled(values, at, nothing)
    return from_columns(columns, schema)


def filled(values: NDArray, at: NDArray[np.int64], nothing: float) -> NDArray:
    """Return the values of these people, and ``nothing`` for those who have none."""
    if not len(values):
        return np.full(len(at), nothing, dtype=values.dtype)
    return np.where(at >= 0, values[at], np.asarray(nothing, dtype=values.dtype))
