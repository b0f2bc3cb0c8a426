"""What a release costs one person, from their own row and from what is public alone: it may be told to them.

The protocol takes one row and public declarations. Nothing else of the data is an argument, so nothing else can enter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.pairs.interface.base import Pairs
from perinstance.pairs.interface.kinds import Kind


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """What is public besides the release: a bound of everybody's target, and of how many people there are."""

    y_bound: float | None = None
    people: int | None = None


@dataclass(frozen=True, slots=True)
class OwnRowLoss:
    """A loss that holds for one person, and what it assumes."""

    epsilon: float
    delta: float
    kind: Kind
    assumptions: tuple[str, ...]  #: names of sentences of the wording
    log_odds: tuple[float, float] | None = None  #: between which the published draw moved the log odds of presence


@runtime_checkable
class KnowsOwnRow(Protocol):
    """A release whose loss, or a bound of it, follows from the person's own row and from what is public."""

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return what holds at delta for a person with this row, whatever the other rows are."""


def one_pair(pairs: Pairs, delta: float, assumptions: tuple[str, ...]) -> OwnRowLoss:
    """Return the loss of the one person that these pairs are about."""
    return OwnRowLoss(float(pairs.epsilon(delta)[0]), delta, pairs.kind, assumptions)


def one_row(x: Any) -> Floats:
    """Return a row as a table of one person."""
    return np.asarray(x, dtype=np.float64).reshape(1, -1)
