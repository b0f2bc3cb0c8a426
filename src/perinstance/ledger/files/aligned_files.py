"""Several id-sorted files, side by side: the same people of all of them at a time, in order of their ids.

Each step takes from every file what lies up to the smallest of the last ids that have been read, so that a step holds
about one row group per file, whoever is in which. Row groups of several files with the same hash hold the same ids,
which are then read, and looked for, once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.ledger.files.charge_files import ChargeFile
from perinstance.ledger.files.sorted_pairs import plain_columns
from perinstance.pairs import Pairs, from_columns
from perinstance.pairs.stored import without_loss

Place = tuple[str, int]  #: the hash of a row group's ids, and a place in it


@dataclass(frozen=True, slots=True)
class IdBlock:
    """Some people, and their pairs in each release; somebody who was not in one has a pair that costs nothing."""

    ids: pa.Array
    pairs: tuple[Pairs, ...]
    present: NDArray[np.bool_]  #: (releases, people): who was in which

    @property
    def counts(self) -> NDArray[np.int64]:
        """Of each person: in how many of the releases they were."""
        return self.present.sum(axis=0)


class _Cursor:
    """Where one file has been read up to: a row group, and a place in it."""

    def __init__(self, file: ChargeFile) -> None:
        self.file, self.group, self.start = file, 0, 0
        self.table = file.columns(0)

    @property
    def done(self) -> bool:
        return self.group >= len(self.file)

    @property
    def place(self) -> Place:
        """Equal for cursors that stand before the same people."""
        return self.file.footer.groups[self.group], self.start

    def take(self, rows: int) -> pa.Table:
        """Return the next rows of the group, and go on."""
        taken = self.table.slice(self.start, rows)
        self.start += rows
        if not self.done and self.start == len(self.table):
            self.group, self.start = self.group + 1, 0
            self.table = self.file.columns(self.group)
        return taken


def id_blocks(files: Sequence[ChargeFile]) -> Iterator[IdBlock]:
    """Walk over everybody who is in any of the releases, with their pairs."""
    cursors = [_Cursor(file) for file in files]
    read: dict[str, pa.Array] = {}  # ids of the row groups in which cursors are, by hash
    while ahead := [cursor for cursor in cursors if not cursor.done]:
        first = {cursor.place[0]: cursor for cursor in ahead}  # one file per hash: the ids of all others are equal
        read = {group: read[group] if group in read else c.file.ids(c.group) for group, c in first.items()}
        last = min(ids[-1].as_py() for ids in read.values())
        near: dict[Place, pa.Array] = {}
        for group, start in {cursor.place for cursor in ahead}:
            ids = read[group]
            places = range(len(ids))
            stop = bisect_right(places, last, start, key=lambda at, ids=ids: ids[at].as_py())  # type: ignore[misc]
            near[group, start] = ids.slice(start, stop - start)
        everybody = _union([ids for ids in near.values() if len(ids)])
        rows = {place: _rows(everybody, own) for place, own in near.items()}
        pairs, present = [], np.ones((len(files), len(everybody)), dtype=bool)
        for k, cursor in enumerate(cursors):
            own = everybody[:0] if cursor.done else near[cursor.place]
            at = _rows(everybody, own) if cursor.done else rows[cursor.place]
            columns = plain_columns(cursor.take(len(own)))
            if at is not None:
                present[k] = at >= 0
            pairs.append(placed_pairs(columns, cursor.file.footer.schema, at))
        yield IdBlock(everybody, tuple(pairs), present)


def _union(parts: list[pa.Array]) -> pa.Array:
    """Return all ids of some sorted parts, sorted."""
    if all(other.equals(parts[0]) for other in parts[1:]):
        return parts[0]
    ids = pc.unique(pa.concat_arrays(parts))
    return ids.take(pc.sort_indices(ids))


def _rows(ids: pa.Array, own: pa.Array) -> NDArray[np.int64] | None:
    """Return where each person is in one file's part, -1 for whoever is not; None where all are, in their order."""
    if len(own) == len(ids):
        return None
    if not len(own):
        return np.full(len(ids), -1)
    return pc.index_in(ids, value_set=own).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def placed_pairs(columns: dict[str, NDArray], schema: str, at: NDArray[np.int64] | None) -> Pairs:
    """Return the pairs at these places; -1 is a pair that costs nothing, None takes all as they are."""
    if at is None:
        return from_columns(columns, schema)
    placed = {}
    for name, values in columns.items():
        nothing = 0 if values.dtype == np.uint8 else without_loss(schema, name)  # a byte is a kind, and 0 is exact
        whole = np.full(len(at), nothing, dtype=values.dtype)
        whole[at >= 0] = values[at[at >= 0]]
        placed[name] = whole
    return from_columns(placed, schema)
