"""The losses of the people of one block: what an audit maps over a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perinstance.folds.block import Block
from perinstance.folds.sweep import People
from perinstance.numerics.array_types import Floats
from perinstance.releases.base.release import Release


@dataclass(frozen=True, slots=True)
class BlockLosses:
    """One entry per person of a block, and the rows of those who want ``Release.refine``."""

    people: People
    epsilon: Floats
    open: Block | None


def losses_of_block(block: Block, release: Release, fit: Any, inside: bool, delta: float) -> BlockLosses:
    """Map: each person's pair and its epsilon at delta; an engine may have its own way (``engines.cuda.catalogue``)."""
    people = release.people(fit, block, inside)
    epsilon = people.pairs.epsilon(delta)
    return BlockLosses(people, epsilon, None if people.open is None else block.picked(people.open))
