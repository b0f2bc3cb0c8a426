"""Reading the file of one release: group by group, or one person.

A file of the log is opened under the digest that the log has of it: one with other bytes is refused before anything
is read from it. Files never change: digests and footers are kept in memory, by a file's name, number, size and times.
"""

from __future__ import annotations

import bisect
import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from perinstance.data.confidential.private_files import refuse_wider
from perinstance.errors import LedgerDamaged
from perinstance.ledger.files.kind_columns import plain
from perinstance.ledger.files.sorted_pairs import META, SortedPairs, StoredCharge
from perinstance.pairs import Pairs, from_columns

#: files whose footers are kept in memory
FOOTERS = 128
#: files whose digests are kept in memory
DIGESTS = 1 << 14


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself."""

    parquet: pq.FileMetaData
    schema: str  #: of the pairs
    starts: tuple[str, ...]  #: the first id of each row group
    groups: tuple[str, ...]  #: a hash of the ids of each row group; none where nobody needs them
    salt: str  #: under which the log has a hash of the content; none in older files


#: number, size and times of a file: it has other ones once it was written to
Identity = tuple[int, int, int, int]


def identity_of(path: Path) -> Identity:
    """Return what tells a file that was changed from the one that was read."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(maxsize=FOOTERS)
def _footer(path: Path, _identity: Identity) -> Footer:
    """Read a footer."""
    parquet = pq.read_metadata(path)
    told = json.loads(parquet.metadata[META])
    return Footer(parquet, str(told["pairs"]), tuple(told["starts"]), tuple(told["groups"]), str(told.get("salt", "")))


class ChargeFile:
    """One file, opened for reading."""

    __slots__ = ("_file", "footer", "path")

    def __init__(self, folder: Path, name: str, digest: str | None = None) -> None:
        """Open a file; one whose bytes have another digest is refused."""
        self.path = folder / name
        try:
            refuse_wider(self.path)
            identity = identity_of(self.path)
            if digest is not None and not _known_as_logged(self.path, identity, digest):
                raise self._damage()
            self.footer = _footer(self.path, identity)
            self._file = pq.ParquetFile(self.path, metadata=self.footer.parquet, memory_map=False)
        except FileNotFoundError:
            raise LedgerDamaged(f"the file {name} of a charge is missing; restore it from a backup") from None
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):
            raise self._damage() from None

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    @property
    def schema(self) -> str:
        """That of the pairs."""
        return self.footer.schema

    @property
    def names(self) -> list[str]:
        """The columns besides the ids."""
        return [name for name in self._file.schema_arrow.names if name != "id"]

    def __len__(self) -> int:
        """Return how many row groups there are."""
        return int(self._file.num_row_groups) if self._file.metadata.num_rows else 0

    def nobody(self) -> pa.Table:
        """Return the columns without rows, and without ids."""
        return self._file.schema_arrow.empty_table().select(self.names)

    def tables(self) -> Iterator[pa.Table]:
        """Read the row groups in order."""
        for i in range(len(self)):
            yield self._group(i, None)

    def ids(self, group: int) -> pa.Array:
        """Read the ids of a row group."""
        column = self._group(group, ["id"]).column(0)
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

    def columns(self, group: int) -> pa.Table:
        """Read a row group without its ids."""
        return self._group(group, self.names)

    def row(self, identity: str, known: dict[str, int]) -> dict[str, np.ndarray] | None:
        """Return the columns of one person; None if they were not in the release.

        ``known`` are places in row groups of other files, by the hash of their ids; what is found here is added.
        """
        at = bisect.bisect_right(self.footer.starts, identity) - 1
        if at < 0:
            return None
        group = self.footer.groups[at]
        if group not in known:
            known[group] = pc.index(self.ids(at), pa.scalar(identity, pa.large_string())).as_py()
        place = known[group]
        return None if place < 0 else plain_columns(self.columns(at).slice(place, 1))

    def _group(self, i: int, names: list[str] | None) -> pa.Table:
        try:
            # a group is small: handing it to threads takes longer than reading it
            return self._file.read_row_group(i, columns=names, use_threads=False)
        except (pa.ArrowException, OSError):
            raise self._damage() from None

    def _damage(self) -> LedgerDamaged:
        return LedgerDamaged(f"the file {self.path.name} of a charge is damaged; restore it from a backup")


def plain_columns(table: pa.Table) -> dict[str, np.ndarray]:
    """Return all columns but the ids, kinds as codes."""
    return {name: plain(table.column(name)) for name in table.column_names if name != "id"}


def pairs_of(table: pa.Table, schema: str) -> Pairs:
    """Read the pairs of some rows back."""
    return from_columns(plain_columns(table), schema)


def holds_the_same(folder: Path, stored: StoredCharge, people: SortedPairs) -> bool:
    """Tell whether these people with these pairs are what a file holds."""
    file = ChargeFile(folder, stored.file, stored.digest)
    file.close()
    return hmac.compare_digest(people.content(file.footer.salt), stored.content)


def is_as_logged(path: Path, digest: str) -> bool:
    """Read a file whole and tell whether its bytes are those that the log knows; earlier versions logged SHA-256."""
    return hmac.compare_digest(file_digest(path, "blake2b" if digest.startswith("blake2b:") else "sha256"), digest)


@lru_cache(maxsize=DIGESTS)
def _known_as_logged(path: Path, _identity: Identity, digest: str) -> bool:
    """Remember the answer while the file is what it was."""
    return is_as_logged(path, digest)


def file_digest(path: Path, algorithm: str) -> str:
    """Hash the bytes of a file."""
    told = hashlib.new(algorithm)
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            told.update(part)
    return told.hexdigest() if algorithm == "sha256" else f"{algorithm}:{told.hexdigest()}"
