"""What a release costs one person, from their own row and from what is public alone: it may be told to them.

The protocol takes one row and public declarations. Nothing else of the data is an argument, so nothing else can enter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from flint import arb

from perinstance.checked_numbers import positive, whole_number
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.pairs import PosteriorSamplePair
from perinstance.pairs.base import Pairs
from perinstance.pairs.kinds import Kind
from perinstance.releases.base.log_ratios import Output
from perinstance.sampling.ball_arithmetic import Ball


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


MOST_PEOPLE = 10**15  # a bound beyond is a typing error


def posterior_own_row(
    ridge: tuple[float, float], row: Floats, y: float, published: Output | None, delta: float, facts: PublicFacts
) -> OwnRowLoss:
    """Return the loss of a person under ``ridge = (alpha, gamma)``; without a draw its log odds are left out."""
    if facts.y_bound is None or facts.people is None:
        raise InvalidInput("a posterior sample needs public facts: declare y_bound and people, an upper bound of each")
    B, n = positive("y_bound", facts.y_bound), whole_number("people", facts.people, 1, MOST_PEOPLE, 1000)
    with working_precision(256):
        x, (alpha, gamma) = [arb(v) for v in one_row(row)[0].tolist()], (arb(v) for v in ridge)
        square = sum((v * v for v in x), arb(0))
        M = square / alpha
        R = abs(arb(float(y))) + square.sqrt() * arb(B) * arb(n).sqrt() / (2 * alpha.sqrt())
        pairs = PosteriorSamplePair([_above(M)], [_above((gamma * (1 + M)).sqrt() * R)], "upper")
        found = one_pair(pairs, delta, ("targets_bounded", "people_bounded"))
        if published is None:
            return found
        miss = arb(float(y)) - sum((v * o for v, o in zip(x, published.balls(), strict=True)), arb(0))
        evidence = gamma * miss * miss / 2
        most = (1 + M).log() / 2 + gamma * R * R / 2 - evidence
        return replace(found, log_odds=(-_above(evidence), _above(most)))


def _above(ball: Ball) -> float:
    """Return a float that is no less: the conversion may round by one unit in the last place."""
    value = float(ball.upper())
    return value + abs(value) * 2.0**-50
