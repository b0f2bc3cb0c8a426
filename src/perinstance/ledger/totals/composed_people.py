"""Releases composed on the same people: the total of each, how certain it is, and what it is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perinstance.analysis.composition_bounds import renyi_to_epsilon
from perinstance.ledger.files.aligned_files import IdBlock, id_blocks
from perinstance.ledger.files.charge_files import opened
from perinstance.ledger.log.charged_releases import ChargedRelease
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ADDITION, NORM_UP
from perinstance.pairs import Pairs, compose
from perinstance.pairs.kinds import KINDS

#: Renyi orders of which the best bound is taken
ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0, 128.0)
FIXED = "the parameters of all releases were fixed in advance, so the totals are guarantees"
FILTERED = (
    "what was charged along the way is an odometer reading; what is guaranteed to everybody is the budget of the "
    "filter, whatever is released"
)
READING = "later releases may have been chosen after earlier outputs: odometer readings, not guarantees"
ABSENT = "nobody of this name is in a release that counts; ids are compared exactly as they were written"
ESTIMATED = "some losses are estimates: the totals are no guarantee"


@dataclass(frozen=True, slots=True)
class PersonTotal:
    """The total of some people: epsilon, and codes of how certain each one is."""

    epsilon: Floats
    codes: NDArray[np.uint8]


def total_of(pairs: Sequence[Pairs], delta: float, present: NDArray[np.bool_] | None = None) -> PersonTotal:
    """Compose releases on the same people; those that cannot be composed take a share of delta from their people."""
    alone = [k for k, part in enumerate(pairs) if not _composes(part)]
    if not alone or present is None:
        return _total(list(pairs), alone, delta)
    epsilon, codes = np.empty(present.shape[1]), np.empty(present.shape[1], dtype=np.uint8)
    summable = [k for k in range(len(pairs)) if k not in alone]
    others = present[summable].any(axis=0)
    patterns, member = np.unique(np.vstack([present[alone], others]), axis=1, return_inverse=True)
    for j, (*pattern, composed) in enumerate(patterns.T):
        who = np.flatnonzero(member.ravel() == j)
        theirs = [k for k, there in zip(alone, pattern, strict=True) if there]
        asked = [pairs[k][who] for k in (*theirs, *(summable if composed else ()))]
        found = _total(asked, range(len(theirs)), delta)
        epsilon[who], codes[who] = found.epsilon, found.codes
    return PersonTotal(epsilon, codes)


def _total(pairs: list[Pairs], alone: Sequence[int], delta: float) -> PersonTotal:
    parts = [pairs[k] for k in alone]
    summable = [part for k, part in enumerate(pairs) if k not in alone]
    if summable:
        parts.append(compose(summable) if len(summable) > 1 else summable[0])
    codes = np.maximum.reduce([part.codes for part in parts])
    if len(parts) == 1:
        return PersonTotal(np.asarray(parts[0].epsilon(delta)), codes)
    epsilon = np.sum([part.epsilon(delta / len(parts)) for part in parts], axis=0) * (1 + ADDITION * len(parts))
    return PersonTotal(epsilon, np.maximum(codes, np.uint8(KINDS.index("upper"))))


def _composes(part: Pairs) -> bool:
    """Tell whether a pair has a characteristic function in closed form."""
    return type(part).coordinates is not Pairs.coordinates


def exact_total(block: IdBlock, delta: float) -> PersonTotal:
    """Compose what was charged to these people."""
    return total_of(block.pairs, delta, None if all(map(_composes, block.pairs)) else block.present)


def renyi_total(block: IdBlock, delta: float) -> PersonTotal:
    """Add up Renyi divergences at fixed orders: an upper bound, which nothing is composed for."""
    sums = added_up(block, lambda pairs: np.array([pairs.renyi(order) for order in ORDERS]))
    bounds = [renyi_to_epsilon(d, order, delta) for order, d in zip(ORDERS, sums, strict=True)]
    codes = [np.where(here, pairs.codes, 0) for pairs, here in zip(block.pairs, block.present, strict=True)]
    weakest = np.maximum.reduce(codes).astype(np.uint8)
    epsilon = np.where(sums.any(axis=0), np.min(bounds, axis=0) * NORM_UP, 0.0)
    return PersonTotal(epsilon, np.maximum(weakest, np.uint8(KINDS.index("upper"))))


def added_up(block: IdBlock, cost: Callable[[Pairs], Floats]) -> Floats:
    """Sum what each release costs its people, one or more numbers each, rounded up."""
    people = [np.flatnonzero(here) for here in block.present]
    costs = [np.asarray(cost(pairs[who])) for pairs, who in zip(block.pairs, people, strict=True)]
    total = np.zeros((*costs[0].shape[:-1], len(block.ids)))
    for who, some in zip(people, costs, strict=True):
        total[..., who] = (total[..., who] + some) * (1 + ADDITION)
    return total


def blocks_of(folder: Path, releases: Sequence[ChargedRelease]) -> Iterator[IdBlock]:
    """Walk over everybody who is in any of these releases."""
    with opened(folder, [release.stored for release in releases]) as files:
        yield from id_blocks(files)


def worth(releases: Sequence[ChargedRelease], filtered: bool) -> tuple[bool, str]:
    """Say whether totals over these releases are guarantees, and why.

    A filter guarantees its budget. A total below it is a reading: whoever stops when an output tells much exceeds it.
    """
    if any(release.kind == "estimate" for release in releases):
        return False, ESTIMATED
    if filtered and releases:
        return False, FILTERED
    if all(release.fixed_in_advance for release in releases):
        return True, FIXED
    return False, READING
