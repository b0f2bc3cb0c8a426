"""Rows of a table: blocks, which a fold and a map are given, pieces that stay in the cache, and all rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput, InvalidTable
from perinstance.numerics.array_types import Floats

if TYPE_CHECKING:
    import pyarrow as pa


#: a target together with the weight of its row, where rows have weights
WEIGHTED = np.dtype([("target", np.float64), ("weight", np.float64)])


def with_weights(y: NDArray, weights: NDArray) -> NDArray:
    """Put targets and weights together."""
    both = np.empty(len(y), dtype=WEIGHTED)
    both["target"], both["weight"] = y, weights
    return both


def plain_targets(y: NDArray) -> Floats:
    """Return targets without their weights, as float64."""
    return np.asarray(y["target"] if y.dtype == WEIGHTED else y, dtype=np.float64)


def weights_of(y: NDArray) -> Floats | None:
    """Return the weights of rows; None where they have none."""
    return y["weight"] if y.dtype == WEIGHTED else None


def loss_targets(y: NDArray) -> NDArray:
    """Return targets as a loss takes them: float64, or together with their weights."""
    return y if y.dtype == WEIGHTED else np.asarray(y, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive rows: ``X`` is float64 or float32, ``y`` is float64, or ``WEIGHTED``."""

    X: NDArray
    y: NDArray
    start: int = 0  #: number of the first row, counting from 0
    ids: pa.Array | None = None  #: strings as written; None when the table has no ids or knows them all in advance
    #: where each person's rows begin, and the end of the last one's; None: every row is a person
    starts: NDArray[np.int64] | None = None

    @property
    def n_people(self) -> int:
        """The number of people whose rows these are."""
        return len(self.y) if self.starts is None else len(self.starts) - 1

    def picked(self, rows: NDArray) -> Block:
        """Return some of the rows, by a mask or by positions."""
        return Block(self.X[rows], self.y[rows], self.start)

    def people_picked(self, people: NDArray) -> Block:
        """Return all rows of some of the people, by a mask or by positions."""
        if self.starts is None:
            return self.picked(people)
        chosen = np.flatnonzero(people) if people.dtype == bool else people
        sizes = np.diff(self.starts)[chosen]
        ends = np.cumsum(sizes)
        rows = np.arange(ends[-1] if len(ends) else 0) + np.repeat(self.starts[chosen] - (ends - sizes), sizes)
        return Block(self.X[rows], self.y[rows], self.start, starts=np.concatenate([[0], ends]))

    def with_target(self, y: NDArray) -> Block:
        """Return the same rows with another target."""
        return Block(self.X, y, self.start, starts=self.starts)

    def __len__(self) -> int:
        return len(self.y)


#: bytes of one piece of a block: its rows and their image together stay in the second-level cache
PIECE_BYTES = 1 << 19


def pieces(X: NDArray, width: int, rows: int | None = None) -> Iterator[slice]:
    """Cut the rows of a block into runs of so many; None: that stay in the cache together with ``width`` numbers."""
    rows = rows or max(64, PIECE_BYTES // (8 * max(width, 1)))
    for start in range(0, len(X), rows):
        yield slice(start, min(start + rows, len(X)))


#: the Gram matrix of so many people takes 3.2 GB
MAX_PEOPLE = 20_000


@dataclass(frozen=True, slots=True)
class GatheredRows:
    """Rows that were gathered; adding two puts them behind each other."""

    parts: tuple[tuple[Floats, Floats], ...]
    why: str  #: what needs everybody at once, and what to do instead: ``"a kernel model holds ...; use ..."``

    def __post_init__(self) -> None:
        if sum(len(y) for _, y in self.parts) > MAX_PEOPLE:
            reason, _, instead = self.why.partition("; ")
            raise InvalidInput(f"{reason}: more than {MAX_PEOPLE:,} people are refused; {instead}")

    def __add__(self, other: GatheredRows) -> GatheredRows:
        return GatheredRows(self.parts + other.parts, self.why)

    def table(self) -> tuple[Floats, Floats]:
        """Return all rows and their targets."""
        return np.concatenate([x for x, _ in self.parts]), np.concatenate([t for _, t in self.parts])


def gather(block: Block, why: str) -> GatheredRows:
    """Keep the rows of a block."""
    X, y = block.X, block.y
    return GatheredRows(((np.array(X, dtype=np.float64), np.array(y, dtype=np.float64)),), why)


def in_order_of(X: Any, y: Any, what: str = "y") -> Any:
    """Return ``y`` in the order of the rows of ``X``.

    Only where both have a pandas index and the two differ there is something to do: the same labels in another order
    are matched, anything else is refused.
    """
    ours: Any = getattr(X, "index", None)
    theirs: Any = getattr(y, "index", None)
    if not (hasattr(ours, "equals") and hasattr(theirs, "equals")) or ours.equals(theirs):
        return y
    if len(ours) == len(theirs) and ours.is_unique and theirs.is_unique and ours.isin(theirs).all():
        return y.reindex(ours)
    raise InvalidTable(
        f"X and {what} have different pandas indexes, so it is not clear which rows belong together; "
        f"align them (X.join, {what}.reindex(X.index)), or pass {what}.to_numpy() to take them by position"
    )
