"""Reading the file of one release: group by group, or one person.

A file of the log is opened under the digest that the log has of it: one with other bytes is refused before anything
is read from it. Files never change: what they say of themselves is kept in memory, by a file's name, number, size and
times.
"""

from __future__ import annotations

import bisect
import hmac
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from perinstance.data.private_files import refuse_wider
from perinstance.errors import LedgerDamaged
from perinstance.ledger.files.sorted_pairs import META, SortedPairs, StoredCharge, file_digest, one_array, plain_columns


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself."""

    parquet: pq.FileMetaData
    schema: str  #: of the pairs
    starts: tuple[str, ...]  #: the first id of each row group
    groups: tuple[str, ...]  #: a hash of the ids of each row group
    salt: str  #: under which the log has a hash of the content


@lru_cache(maxsize=4096)  # in files; changes only speed
def _footer(path: Path, digest: str | None, _identity: tuple[int, ...]) -> Footer:
    """Read a footer, once the bytes of the file are those that the log knows."""
    if digest is not None and not is_as_logged(path, digest):
        raise ValueError("other bytes")
    parquet = pq.read_metadata(path)
    told = json.loads(parquet.metadata[META])
    return Footer(parquet, str(told["pairs"]), tuple(told["starts"]), tuple(told["groups"]), str(told["salt"]))


class ChargeFile:
    """One file, opened for reading."""

    __slots__ = ("_file", "footer", "names", "path")

    def __init__(self, folder: Path, name: str, digest: str | None = None) -> None:
        """Open a file; one whose bytes have another digest is refused."""
        self.path = folder / name
        try:
            refuse_wider(self.path)
            found = self.path.stat()  # other numbers once the file was written to
            identity = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            self.footer = _footer(self.path, digest, identity)
            self._file = pq.ParquetFile(self.path, metadata=self.footer.parquet, memory_map=False)
        except FileNotFoundError:
            raise LedgerDamaged(f"the file {name} of a charge is missing; restore it from a backup") from None
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):
            raise self._damage() from None
        self.names = [name for name in self._file.schema_arrow.names if name != "id"]

    def __enter__(self) -> ChargeFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __len__(self) -> int:
        """Return how many row groups there are."""
        return len(self.footer.groups)

    def tables(self) -> Iterator[pa.Table]:
        """Read the row groups in order."""
        for i in range(len(self)):
            yield self._group(i, None)

    def ids(self, group: int) -> pa.Array:
        """Read the ids of a row group."""
        return one_array(self._group(group, ["id"]).column(0))

    def columns(self, group: int) -> pa.Table:
        """Read a row group without its ids; one beyond the last has no rows."""
        if group >= len(self):
            return self._file.schema_arrow.empty_table().select(self.names)
        return self._group(group, self.names)

    def row(self, identity: str, known: dict[str, int]) -> dict[str, NDArray[Any]] | None:
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


@contextmanager
def opened(folder: Path, charges: Sequence[StoredCharge]) -> Iterator[list[ChargeFile]]:
    """Open the files of some charges, and close them."""
    with ExitStack() as stack:
        yield [stack.enter_context(ChargeFile(folder, stored.file, stored.digest)) for stored in charges]


def holds_the_same(folder: Path, stored: StoredCharge, people: SortedPairs) -> bool:
    """Tell whether these people with these pairs are what a file holds."""
    with ChargeFile(folder, stored.file, stored.digest) as file:
        return hmac.compare_digest(people.content(file.footer.salt), stored.content)


def is_as_logged(path: Path, digest: str) -> bool:
    """Read a file whole and tell whether its bytes are those that the log knows."""
    return hmac.compare_digest(file_digest(path), digest)
