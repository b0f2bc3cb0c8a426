"""The two things that are ever done to a table: a fold and a map over its blocks of rows.

A confidential fit asks for as many folds as it needs (one for a well-conditioned ridge regression, one per Newton
step for a logistic one); an audit asks for one map. Where the rows live (memory, Parquet, a cluster, a GPU) and how
many threads walk over them is the business of whoever implements this protocol (``perinstance.engines``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.numerics.array_types import Floats
from perinstance.pairs.base import Pairs


class Mergeable(Protocol):
    """A statistic of some rows: adding two gives the statistic of both sets of rows.

    It may have a property ``finite``: False when a NaN or an infinity went into it (a Gram matrix of X and y shows
    them for free). The sweep then finds the cell and refuses the table. Without it the sweep looks at X itself.
    """

    def __add__(self, other: Any) -> Any: ...


M = TypeVar("M", bound=Mergeable)
T = TypeVar("T")


class Sweep(Protocol):
    """Walks over the rows of one table, block by block. ``X`` is float64 or float32, ``(rows, n_features)``."""

    @property
    def n_features(self) -> int:
        """The number of columns of X."""

    def fold(self, step: Callable[[Block], M]) -> M:
        """Return the sum of ``step(block)`` over all blocks (in row order: a second run gives the same bits)."""

    def map(self, step: Callable[[Block], T]) -> Iterator[T]:
        """Yield ``step(block)`` of every block, in row order."""

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Hear how far a pass ("fold", "map") or the work between two passes ("refit") is; most need not listen."""
        return None


class SteppedSweep(Sweep):
    """A sweep over the rows of another one whose steps see something else of them; a subclass says what."""

    sweep: Sweep

    def stepped(self, step: Callable[[Block], T]) -> Callable[[Block], T]:
        """Return the step over a block of the other sweep."""
        raise NotImplementedError

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self.sweep.n_features

    def fold(self, step: Callable[[Block], Any]) -> Any:
        """Fold by the other step."""
        return self.sweep.fold(self.stepped(step))

    def map(self, step: Callable[[Block], T]) -> Iterator[T]:
        """Map by the other step."""
        return self.sweep.map(self.stepped(step))

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Pass on how far the work between two passes is."""
        self.sweep.tell(stage, done, total)


@dataclass(frozen=True)
class NamelessSweep(SteppedSweep):
    """A sweep whose steps have no names: the processor's own implementations run, whatever else an engine has."""

    sweep: Sweep

    def stepped(self, step: Callable[[Block], T]) -> Callable[[Block], T]:
        """Return the step as a function that no engine knows."""
        return lambda block: step(block)


@dataclass(frozen=True, slots=True)
class People:
    """What an audit knows of the people of one block: one entry each."""

    leverage: Floats  #: x'H^-1x with H taken without the person (mu)
    residual: Floats  #: y - x'theta with theta fitted without the person (r)
    pairs: Pairs
    #: people for whom the asked-for kind was not reached here and who want ``Release.refine``; None = nobody
    open: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class ArraySweep(Sweep):
    """The plainest sweep: arrays in memory, cut into blocks of rows, one after the other in this thread.

    It is what ``fit`` of a release uses; audits go through ``perinstance.engines``.
    """

    X: NDArray
    y: NDArray
    rows: int = 1 << 16

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self.X.shape[1]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.X)

    def fold(self, step: Callable[[Block], M]) -> M:
        """Return the sum of ``step(block)`` over all blocks."""
        parts = self.map(step)
        total = next(parts)
        for part in parts:
            total = total + part
        return total

    def map(self, step: Callable[[Block], T]) -> Iterator[T]:
        """Yield ``step(block)`` of every block."""
        for start in range(0, max(len(self.X), 1), self.rows):
            end = start + self.rows
            yield step(Block(self.X[start:end], self.y[start:end], start))
