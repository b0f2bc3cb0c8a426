"""What can be audited: blocks of rows, which columns they come from, and how answers are given back.

A source hands out *pieces*: calls that each return one block. Making a piece is cheap and in row order; calling it is
the work (slicing, converting, decoding) and may happen in another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.errors import InvalidTable
from perinstance.folds.block import Block

#: of a block that is a view of the caller's array, which costs no memory, only turns: at least, and at most
FEW_BYTES, VIEW_BYTES = 6 << 20, 24 << 20
#: such blocks are equal, and a multiple of this many as soon as there are enough: threads share them out evenly
SHARED_BLOCKS = 32
BLOCK_BYTES = 8 << 20  #: of X and y in one block; a sweep holds a few blocks per thread, near 64 MB in total

Piece = Callable[[], Block]


@dataclass(frozen=True, slots=True)
class Flavour:
    """What kind of table came in, and its index when it has one: answers are given back as it came."""

    kind: str  #: ``"numpy"``, ``"pandas"``, ``"polars"`` or ``"pyarrow"``
    index: Any = None  #: a pandas index, or None

    def series(self, values: NDArray, name: str) -> Any:
        """One value per person: a Series, a ChunkedArray, or the array itself."""
        if self.kind == "pandas":
            import pandas as pd

            return pd.Series(np.asarray(values), index=self.index, name=name)
        if self.kind == "polars":
            import polars as pl

            return pl.Series(name, np.asarray(values))
        return pa.chunked_array([pa.array(values)]) if self.kind == "pyarrow" else values

    def frame(self, columns: Mapping[str, Any]) -> Any:
        """Several values per person: a table. Numpy has none, so it gets pandas where that is installed."""
        arrow = (pa.Array, pa.ChunkedArray)
        if self.kind in ("numpy", "pandas"):
            try:
                import pandas as pd

                plain = {n: v.to_numpy(zero_copy_only=False) if isinstance(v, arrow) else v for n, v in columns.items()}
                return pd.DataFrame({n: np.asarray(v) for n, v in plain.items()}, index=self.index)
            except ImportError:
                pass
        arrays = {n: v if isinstance(v, arrow) else pa.array(np.asarray(v)) for n, v in columns.items()}
        if self.kind == "polars":
            import polars as pl

            return pl.DataFrame(arrays)
        return pa.table(arrays)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which columns are what, by number."""

    features: tuple[int, ...]
    target: int | None
    ids: int | None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The features, then the target: what is read as numbers."""
        return self.features if self.target is None else (*self.features, self.target)

    @property
    def wanted(self) -> tuple[int, ...]:
        """All chosen columns, as a batch of a file has them: the ids are last."""
        return self.numbers if self.ids is None else (*self.numbers, self.ids)


def choose_columns(labels: Sequence[Any], target: Any, ids: Any, features: Any = None) -> Chosen:
    """Find target, ids and features among the columns of a table.

    >>> choose_columns(["person", "age", "bmi"], target="bmi", ids="person")
    Chosen(features=(1,), target=2, ids=0)
    """
    where = {label: number for number, label in enumerate(labels)}

    def find(label: Any, what: str) -> int:
        if isinstance(label, (list, tuple, set)):
            got = f"a {type(label).__name__} of {len(label)}"
            raise InvalidTable(f"{what} must be one name, got {got}; pass the name itself")
        try:
            return where[label]
        except (KeyError, TypeError):
            raise InvalidTable(f"{what} is not among the {len(labels)} columns of the table; check its name") from None

    at_target = None if target is None else find(target, "the target column")
    at_ids = None if ids is None else find(ids, "the column of ids")
    if at_target is not None and at_target == at_ids:
        raise InvalidTable("the target and the ids are the same column; name two different ones")
    if features is None:
        return Chosen(tuple(k for k in range(len(labels)) if k not in (at_target, at_ids)), at_target, at_ids)
    if isinstance(features, str):
        raise InvalidTable("features= is a list of names, got one name; put it in brackets")
    used = tuple(find(label, f"feature {k} of features=") for k, label in enumerate(features))
    if len(set(used)) < len(used) or at_target in used or at_ids in used:
        raise InvalidTable("features= names a column twice, or the target, or the ids; name each feature once")
    return Chosen(used, at_target, at_ids)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """A table of numbers with a target, read block by block."""

    n_features: int  #: without target and ids
    n_rows: int | None  #: None when only reading to the end tells (CSV)
    names: tuple[str, ...] | None = None  #: of the features; None when they have none (numpy)
    numbers: tuple[int, ...] | None = None  #: of the features in the caller's table; None when they are all its columns
    first_row: int = 0  #: what refusals call the row of the first person: 0, or 2 where the file counts a header line
    rereadable: bool = True  #: whether a second reading costs next to nothing (memory): blocks need not be kept
    ids: pa.ChunkedArray | None = None  #: all of them, when they are known without reading the table
    has_ids: bool = False  #: whether people have ids, here or in the blocks
    flavour: Flavour = field(default_factory=lambda: Flavour("numpy"))  #: how answers are given back
    classes: tuple[str, ...] = ()  #: words that the target's codes stand for; none when it is numbers

    def pieces(self, block_bytes: int | None = None, threads: int = 1) -> Iterator[Piece]:
        """Yield the pieces in row order; the cut never depends on ``threads``. None is what suits the source."""
        raise NotImplementedError


def rows_per_view(n_rows: int, n_features: int) -> int:
    """Rows of each block of a table that lies in memory as it is wanted: equal blocks, so that no thread waits long."""
    size = 8 * n_rows * (n_features + 1)
    count = -(-size // FEW_BYTES)
    if count > SHARED_BLOCKS:
        count = SHARED_BLOCKS * -(-size // (SHARED_BLOCKS * VIEW_BYTES))
    return max(1, -(-n_rows // count))


def rows_per_block(n_features: int, block_bytes: int) -> int:
    """Rows whose features and target fill ``block_bytes``, or a little less.

    Columns of such a length do not fall on each other in a cache of some pages: it is 0.618 pages of 16 kB and some
    whole ones, and the multiples of that number are spread as evenly as can be.
    """
    rows = max(1, block_bytes // (8 * (n_features + 1)))
    return rows if rows < 8192 else rows - (rows - 1264) % 2048
