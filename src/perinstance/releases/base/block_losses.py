"""The losses of the people of one block: what an audit maps over a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.folds.first_touch import Touches
from perinstance.folds.shared_turns import Cuts, SharedCall, Turns
from perinstance.folds.sweep import People
from perinstance.models.linear.loops.finished_rows import HARD
from perinstance.models.linear.row_kernels import contiguous
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import UPPER
from perinstance.numerics.numba_compile import kernel
from perinstance.pairs.interface.column_pairs import ColumnPairs
from perinstance.releases.base.release import Release

#: arrays of numbers in an ``AnswerRoom``
ROOMS = 4


@dataclass(frozen=True, slots=True)
class AnswerRoom:
    """Where the answers of one block may be written at once: pairs of one parameter besides the leverage."""

    leverage: Floats
    residual: Floats
    parameter: Floats
    epsilon: Floats
    code: NDArray[np.uint8]

    @classmethod
    def empty(cls, n: int) -> AnswerRoom:
        """Make room for n people."""
        return cls(np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n, dtype=np.uint8))

    def part(self, rows: slice) -> AnswerRoom:
        """Return the places of some of the people."""
        numbers = (self.leverage[rows], self.residual[rows], self.parameter[rows], self.epsilon[rows])
        return AnswerRoom(*numbers, self.code[rows])


class TurnResults(NamedTuple):
    """What compiled code says of each turn."""

    hard: NDArray[np.int64]  #: how many want ``settle``, and their codes are then written; -1: numbers are not sound
    sums: Floats  #: (turns, 2, k) sums over its people in pairs of floats; k is 0 where none are asked for

    @classmethod
    def empty(cls, turns: int, columns: int = 0) -> TurnResults:
        """Make room for so many turns."""
        return cls(np.zeros(turns, dtype=np.int64), np.zeros((turns, 2, columns)))

    def part(self, turns: slice) -> TurnResults:
        """Return the places of some of them."""
        return TurnResults(self.hard[turns], self.sums[turns])


@dataclass(frozen=True, slots=True)
class LossLoop:
    """Compiled code that answers for people inside, turn by turn; several threads may be in it at the same time."""

    #: ``call((x, y, d), room, codes, results, touches)``
    call: Callable[[tuple[Floats, Floats, int], AnswerRoom, NDArray[np.uint8], TurnResults, Touches], SharedCall]
    #: ``settle(block, room, codes, hard)``: the people of a turn and their epsilon; None: they need another way
    settle: Callable[[Block, AnswerRoom, NDArray[np.uint8], int], tuple[People, Floats] | None]
    pairs: type[ColumnPairs]
    parameter: str  #: of the pairs: what ``AnswerRoom.parameter`` holds; another can only be the leverage
    rows: int  #: of a turn: a multiple of this many, and what is left
    more: bool = False  #: whether a further pass is to be expected, for people whom this one leaves open
    columns: int = 0  #: sums that are wanted of each turn of a whole table, for whom it leaves open
    keep: Callable[[Floats, Cuts], None] | None = None  #: is given them and where turns begin

    def of_block(self, block: Block, room: AnswerRoom) -> tuple[People, Floats] | None:
        """Answer for one block."""
        X, y = block.X, contiguous(block.y)
        codes, results = np.empty(len(y), dtype=np.uint8), TurnResults.empty(1)
        take = self.call((X.reshape(-1), y, X.shape[1]), room, codes, results, Touches.nothing(ROOMS))
        take(Turns.of(np.array([0, len(y)])))
        return self.settle(block, room, codes, int(results.hard[0]))


@dataclass(frozen=True, slots=True)
class BlockLosses:
    """One entry per person of a block, and the rows of those who want ``Release.refine``."""

    people: People
    epsilon: Floats
    open: Block | None


class AnswerPlaces(Protocol):
    """Whoever gathers the answers of all blocks; called by several threads."""

    def place(self, part: BlockLosses, start: int) -> None:
        """Write the numbers of some people, from row ``start`` on, where they belong."""

    def room(self, start: int, n: int) -> AnswerRoom | None:
        """Return the places of some people, once a part has told what their pairs are made of; None: not such pairs."""


def losses_of_block(
    block: Block, release: Release, fit: Any, inside: bool, delta: float, room: AnswerRoom | None = None
) -> BlockLosses:
    """Map: each person's pair and its epsilon at delta; an engine may have its own way (``folds.named_operations``).

    Whoever knows everybody's place gives ``room``; a release that has compiled code for a whole block uses it.
    """
    loop = loss_loop(release, fit, block.X, inside, delta)
    found = None if loop is None else loop.of_block(block, room or AnswerRoom.empty(len(block)))
    return found_or_asked(release, fit, block, inside, delta, found)


def found_or_asked(
    release: Release, fit: Any, block: Block, inside: bool, delta: float, found: tuple[People, Floats] | None
) -> BlockLosses:
    """Put together what compiled code found, or find it where it did not."""
    if found is None:
        people = release.people(fit, block, inside)
        pairs = people.pairs  # a reading need not have the digits of what people may be told
        epsilon = pairs.near_epsilon(delta, crowds_only=pairs.kind != "estimate")
    else:
        people, epsilon = found
    return BlockLosses(people, epsilon, None if people.open is None else block.picked(people.open))


def loss_loop(release: Release, fit: Any, X: NDArray, inside: bool, delta: float) -> LossLoop | None:
    """Return the release's compiled code for such rows, where it has some."""
    found = getattr(release, "loss_loop", None) if inside and 0.0 < delta <= 0.5 else None
    return None if found is None else found(fit, X, delta)


@kernel
def finish_turn(code, kind, codes, counts, only_worst, hard):  # pragma: no cover - compiled
    """Write labels, and what ``LossLoop.settle`` is to look at: whoever is not known well enough, or only the worst."""
    count, sound = counts
    for i in range(len(kind)):
        kind[i] = min(kind[i], UPPER)
    if count > 0 and only_worst:
        count = 0
        for i in range(len(kind)):
            count += code[i] == HARD
    hard[0] = count if sound else -1
    if hard[0] != 0:
        codes[:] = code[: len(codes)]
