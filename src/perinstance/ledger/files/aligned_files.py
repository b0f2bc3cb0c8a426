"""Several id-sorted files, side by side: the same people of all of them at a time, in order of their ids.

Each step takes from every file what lies up to the smallest of the last ids that have been read, so that a step holds
about one row group per file, whoever is in which. Row groups of several files with the same hash hold the same ids,
which are then read, and looked for, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.ledger.files.charge_files import ChargeFile, pairs_of, plain_columns
from perinstance.pairs import Pairs, from_columns
from perinstance.pairs.stored_pairs import without_loss


@dataclass(frozen=True, slots=True)
class AlignedRows:
    """Some people, and where each of them is in the part of each file; somebody who is not in one has -1 there."""

    ids: pa.Array
    parts: tuple[pa.Table, ...]  #: without ids
    rows: tuple[NDArray[np.int64] | None, ...]  #: None: the people themselves, in their order

    @property
    def counts(self) -> NDArray[np.int64]:
        """Of each person: in how many of the files they are."""
        some = [at >= 0 for at in self.rows if at is not None]
        everywhere = np.full(len(self.ids), len(self.rows) - len(some))
        return everywhere + np.sum(some, axis=0) if some else everywhere


@dataclass(frozen=True, slots=True)
class IdBlock:
    """Some people, and their pairs in each release; somebody who was not in one has a pair that costs nothing."""

    rows: AlignedRows
    pairs: tuple[Pairs, ...]

    @property
    def ids(self) -> pa.Array:
        """Who they are."""
        return self.rows.ids

    @property
    def present(self) -> NDArray[np.bool_]:
        """Of each release: who was in it."""
        n = len(self.ids)
        return np.array([np.ones(n, dtype=bool) if at is None else at >= 0 for at in self.rows.rows])


class _Cursor:
    """Where one file has been read up to: a row group, and a place in it."""

    def __init__(self, file: ChargeFile) -> None:
        self.file, self.group, self.place = file, 0, 0
        self._table: pa.Table | None = None

    @property
    def done(self) -> bool:
        return self.group >= len(self.file)

    @property
    def key(self) -> Any:
        """The same for cursors before the same people."""
        hashes = self.file.footer.groups
        return (hashes[self.group] if hashes else (id(self), self.group), self.place)

    def ids(self) -> pa.Array:
        return self.file.ids(self.group)

    def take(self, rows: int, length: int) -> pa.Table:
        """Return the next rows of a group that has so many, and go on."""
        if not rows:
            return self.file.nobody()
        if self._table is None:
            self._table = self.file.columns(self.group)
        taken = self._table.slice(self.place, rows)
        self.place += rows
        if self.place == length:
            self.group, self.place, self._table = self.group + 1, 0, None
        return taken


def aligned_rows(files: Sequence[ChargeFile]) -> Iterator[AlignedRows]:
    """Walk over everybody who is in any of the files."""
    cursors = [_Cursor(file) for file in files]
    read: dict[Any, pa.Array] = {}  # ids of the groups in which cursors are, by hash
    while any(not cursor.done for cursor in cursors):
        keys = [None if cursor.done else cursor.key for cursor in cursors]
        wanted = {key[0]: cursor for key, cursor in zip(keys, cursors, strict=True) if key is not None}
        read = {group: read[group] if group in read else cursor.ids() for group, cursor in wanted.items()}
        ahead = {key: read[key[0]].slice(key[1]) for key in keys if key is not None}
        last = min(str(ids[-1].as_py()) for ids in ahead.values())
        near = {key: ids.slice(0, _up_to(ids, last)) for key, ids in ahead.items()}
        parts = tuple(
            cursor.file.nobody() if key is None else cursor.take(len(near[key]), len(read[key[0]]))
            for key, cursor in zip(keys, cursors, strict=True)
        )
        yield _aligned(keys, near, parts)


def _up_to(ids: pa.Array, last: str) -> int:
    """Count the ids up to ``last``, by bisection."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if str(ids[middle].as_py()) <= last else (low, middle)
    return low


def _aligned(keys: list[Any], near: dict[Any, pa.Array], parts: tuple[pa.Table, ...]) -> AlignedRows:
    names = [ids for ids in near.values() if len(ids)]
    ids = names[0]
    if not all(other.equals(ids) for other in names[1:]):
        ids = pc.unique(pa.concat_arrays(names))
        ids = ids.take(pc.sort_indices(ids))
    nowhere = np.full(len(ids), -1, dtype=np.int64)
    places: dict[Any, NDArray[np.int64] | None] = {None: nowhere}
    for key, own in near.items():
        if len(own) == len(ids):
            places[key] = None
        elif len(own):
            at = pc.index_in(ids, value_set=own)
            places[key] = at.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        else:
            places[key] = nowhere
    return AlignedRows(ids, parts, tuple(places[key] for key in keys))


def id_blocks(files: Sequence[ChargeFile]) -> Iterator[IdBlock]:
    """Walk over everybody who is in any of the releases, with their pairs."""
    schemas = [file.schema for file in files]
    for found in aligned_rows(files):
        parts = zip(found.parts, schemas, found.rows, strict=True)
        yield IdBlock(found, tuple(pairs_at(part, schema, at) for part, schema, at in parts))


def pairs_at(part: pa.Table, schema: str, at: NDArray[np.int64] | None) -> Pairs:
    """Return the pairs of these people; whoever was not in the release gets a pair that costs nothing."""
    return pairs_of(part, schema) if at is None else placed_pairs(plain_columns(part), schema, at)


def placed_pairs(columns: dict[str, NDArray], schema: str, at: NDArray[np.int64]) -> Pairs:
    """Return the pairs at these places; -1 is a pair that costs nothing."""
    placed = {}
    for name, values in columns.items():
        nothing = 0 if values.dtype == np.uint8 else without_loss(schema, name)  # a byte is a kind, and 0 is exact
        placed[name] = filled(values, at, nothing)
    return from_columns(placed, schema)


def filled(values: NDArray, at: NDArray[np.int64], nothing: float) -> NDArray:
    """Return the values of these people, and ``nothing`` for those who have none."""
    if not len(values):
        return np.full(len(at), nothing, dtype=values.dtype)
    return np.where(at >= 0, values[at], np.asarray(nothing, dtype=values.dtype))
