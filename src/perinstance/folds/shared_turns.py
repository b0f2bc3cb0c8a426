"""Passes that all threads share: each makes one compiled call, which takes turns over the rows until none is left.

A step over a block comes back to the interpreter several times, and with sixteen threads each return waits for the
others. Where a table lies in memory as compiled code reads it, a pass needs no steps: the rows are cut into turns, and
whoever is free takes the next. The cut never depends on the number of threads, and each turn writes to places of its
own, so an answer has the same bits whoever took which turn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import brief_kernel

#: bytes of the rows that one thread is given before the caller looks up: for progress, and for Ctrl-C
LAP_BYTES = 512 << 20

A = TypeVar("A")
T = TypeVar("T")
Cuts = NDArray[np.int64]


class Turns(NamedTuple):
    """What compiled code takes turns from: turn k is rows ``cuts[k]`` to ``cuts[k + 1]``."""

    counter: NDArray[np.int64]  #: the number of the next turn, alone
    cuts: Cuts

    @classmethod
    def of(cls, cuts: Cuts) -> Turns:
        """Begin with the first."""
        return cls(np.zeros(1, dtype=np.int64), cuts)


@dataclass(frozen=True, slots=True)
class SharedCall:
    """Compiled code that takes turns until none is left, for a thread of the interpreter's, or led by one for all."""

    alone: Callable[..., object]  #: ``alone(turns, *given)``
    led: Callable[[NDArray[np.int64], Any], int]  #: ``led(mailbox, (turns, *given))``: how many threads failed
    given: tuple[Any, ...]

    def __call__(self, turns: Turns, /) -> None:
        """Take turns."""
        self.alone(turns, *self.given)

    def lead(self, mailbox: NDArray[np.int64], turns: Turns) -> None:
        """Take turns together with the threads that serve a mailbox (``numerics.compilation.outlined_calls``)."""
        if self.led(mailbox, (turns, *self.given)):
            raise MemoryError("a thread found no memory for its part of a pass over the rows")


@dataclass(frozen=True, slots=True)
class WholeTable:
    """A table in memory: ``X`` and ``y`` are float64, C-contiguous and aligned."""

    X: Floats
    y: Floats
    blocks: Cuts  #: the first row of each block, and the number of rows

    def graded_turns(self, count: int, last: int) -> Cuts:
        """Cut each block into ``count`` equal turns, and the last quarter of the blocks into ``last``.

        Few large turns come first, for each has sums of its own; small ones at the end, so that nobody waits long.
        """
        return _graded(self.blocks, count, last)

    def turns_of(self, rows: int) -> Cuts:
        """Cut each block into turns of so many rows; its last turn takes what is left, and so does the table's."""
        return _of_rows(self.blocks, rows)

    def laps(self, cuts: Cuts, threads: int, most: int | None = None, together: int = 1) -> Iterator[slice]:
        """Return the turns that are taken without the caller: a slice of ``cuts`` each.

        It has ``most`` turns at most, and a multiple of ``together`` unless it is the last.
        """
        row = 8 * (self.X.shape[1] + 1)
        per_lap = max(1, threads * LAP_BYTES // (row * int(np.diff(cuts).max())))
        step = max(1, (per_lap if most is None else min(per_lap, most)) // together) * together
        for first in range(0, len(cuts) - 1, step):
            yield slice(first, min(first + step, len(cuts) - 1) + 1)


# Compiled because one thread works for all before a pass: as steps of numpy's each takes a tenth of a millisecond.


@brief_kernel
def _graded(blocks, count, last):  # pragma: no cover - compiled
    """Do what ``WholeTable.graded_turns`` says."""
    whole = len(blocks) - 1
    few = -(-3 * whole // 4)  # blocks that are cut into ``count``
    cuts, at = np.empty(few * count + (whole - few) * last + 1, dtype=np.int64), 0
    for k in range(whole):
        parts = count if k < few else last
        for j in range(parts):
            cuts[at] = blocks[k] + (blocks[k + 1] - blocks[k]) * j // parts
            at += 1
    cuts[at] = blocks[whole]
    return cuts


@brief_kernel
def _of_rows(blocks, rows):  # pragma: no cover - compiled
    """Do what ``WholeTable.turns_of`` says."""
    whole, total = len(blocks) - 1, 0
    for k in range(whole):
        total += max(1, (blocks[k + 1] - blocks[k]) // rows)
    cuts, at = np.empty(total + 1, dtype=np.int64), 0
    for k in range(whole):
        for j in range(max(1, (blocks[k + 1] - blocks[k]) // rows)):
            cuts[at] = blocks[k] + rows * j
            at += 1
    if total > 1 and blocks[whole] - cuts[total - 1] < rows:
        total -= 1
    cuts[total] = blocks[whole]
    return cuts[: total + 1]


def as_compiled_code_reads(array: NDArray) -> bool:
    """Whether the numbers are float64, one after the other."""
    return array.dtype == np.float64 and array.flags.c_contiguous and array.flags.aligned


class SharingSweep(Protocol):
    """A sweep whose threads can share a pass."""

    @property
    def threads(self) -> int:
        """How many there are."""

    @property
    def whole_table(self) -> WholeTable | None:
        """The table, where it lies in memory as compiled code reads it and has several blocks."""

    @property
    def looked_at(self) -> bool:
        """Whether a pass has found that all cells are finite."""

    def share(self, enter: Callable[[Turns], object], cuts: Cuts, stage: str, last: bool = False) -> None:
        """Let every thread call ``enter`` once; ``last``: nothing is expected to follow, the threads may go."""

    def spread(self, work: Callable[[A], T], pieces: Sequence[A]) -> Generator[T, None, None]:
        """Yield ``work(piece)`` of some pieces, in their order."""

    def all_finite(self) -> None:
        """Take note that a shared pass over all rows saw finite cells only."""


def sharing(sweep: object) -> SharingSweep | None:
    """Return the sweep itself where its threads can share a pass over this table."""
    found = isinstance(getattr(sweep, "whole_table", None), WholeTable)
    return cast(SharingSweep, sweep) if found else None
