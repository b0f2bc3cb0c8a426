"""The losses of the people of one block: what an audit maps over a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.folds.sweep import People
from perinstance.numerics.array_types import Floats
from perinstance.releases.base.release import Release


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
    at_once = getattr(release, "people_with_epsilon", None)
    found = None if at_once is None else at_once(fit, block, inside, delta, room or AnswerRoom.empty(len(block)))
    if found is None:
        people = release.people(fit, block, inside)
        epsilon = people.pairs.epsilon(delta)
    else:
        people, epsilon = found
    return BlockLosses(people, epsilon, None if people.open is None else block.picked(people.open))
