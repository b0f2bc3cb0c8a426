"""The map of an audit: answers block by block, then the few people that a block left open."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perinstance.engines.protocol import TableSweep
from perinstance.errors import NumericalTrouble
from perinstance.folds.block import Block
from perinstance.folds.sweep import People, SteppedSweep
from perinstance.models.linear.open_people import distinct_rows
from perinstance.models.linear.ridge import DualFit, LinearFit
from perinstance.models.smooth.problem import MinimumAudit
from perinstance.numerics.array_types import Floats
from perinstance.pairs import GeneralGaussian, Pairs
from perinstance.releases.base.release import BlockLosses, Release, by_number_of_rows, losses_of_block, single_rows


@dataclass(frozen=True, slots=True)
class PeopleAnswers:
    """One entry per person."""

    leverage: Floats
    residual: Floats
    epsilon: Floats
    pairs: Pairs
    open: NDArray[np.intp]  #: positions of the people whom a block left open
    rows: Block | None  #: their rows; None when there is nobody

    @classmethod
    def of(cls, parts: Sequence[BlockLosses]) -> PeopleAnswers:
        """Put the answers of consecutive blocks behind each other."""
        people = [part.people for part in parts]
        masks = [np.zeros(len(p.leverage), dtype=bool) if p.open is None else p.open for p in people]
        blocks = [part.open for part in parts if part.open is not None and len(part.open)]
        return cls(
            leverage=np.concatenate([p.leverage for p in people]),
            residual=np.concatenate([p.residual for p in people]),
            epsilon=np.concatenate([part.epsilon for part in parts]),
            pairs=type(people[0].pairs).concatenate([p.pairs for p in people]),
            open=np.flatnonzero(np.concatenate(masks)),
            rows=together(blocks) if blocks else None,
        )

    def with_open(self, better: People, epsilon: Floats) -> PeopleAnswers:
        """Put what was found of the open people, and their losses, in their places."""
        order = np.arange(len(self.leverage))
        order[self.open] = len(order) + np.arange(len(self.open))
        self.leverage[self.open], self.residual[self.open] = better.leverage, better.residual
        self.epsilon[self.open] = epsilon
        return replace(self, pairs=type(better.pairs).concatenate([self.pairs, better.pairs])[order])


def together(blocks: Sequence[Block]) -> Block:
    """Put the people of blocks behind each other."""
    starts = None
    if any(block.starts is not None for block in blocks):
        sizes = [np.ones(len(b), dtype=np.int64) if b.starts is None else np.diff(b.starts) for b in blocks]
        starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    X, y = np.concatenate([block.X for block in blocks]), np.concatenate([block.y for block in blocks])
    return Block(X, y, starts=starts)


class WithoutPeople(SteppedSweep):
    """A sweep that leaves some people out.

    Where blocks have no ids, which those of a cluster have, it is for one thread: they come in order, and are counted.
    """

    def __init__(self, sweep: Any, positions: Iterable[int]) -> None:
        self.sweep, self._positions = sweep, np.unique(np.fromiter(positions, dtype=np.int64))
        self._starts = getattr(getattr(sweep, "source", None), "starts", None)
        self._names = None if sweep.ids is None else sweep.ids.take(pa.array(self._positions)).cast(pa.large_string())
        gone = len(self._positions) if self._starts is None else int(np.diff(self._starts)[self._positions].sum())
        self.n_rows = None if sweep.n_rows is None else sweep.n_rows - gone

    def stepped(self, step: Callable[[Block], Any]) -> Callable[[Block], Any]:
        """Return the step over what is left of a block."""
        counted = 0

        def skip(block: Block) -> Any:
            nonlocal counted
            if block.ids is not None and self._names is not None:
                gone = pc.is_in(block.ids.cast(pa.large_string()), value_set=self._names)
                return step(block.people_picked(~gone.to_numpy(zero_copy_only=False)))
            first = counted if self._starts is None else int(np.searchsorted(self._starts, block.start))
            counted += block.n_people
            here = self._positions - first
            here = here[(here >= 0) & (here < block.n_people)]
            if not len(here):
                return step(block)
            return step(block.people_picked(np.delete(np.arange(block.n_people), here)))

        return skip


def answer_open(
    release: Any, fit: Any, sweep: Any, rows: Block, inside: bool, at: NDArray[np.intp] | None = None
) -> People:
    """Answer for the people whom a map left open; those with several rows one by one.

    A linear model is answered by exact sums of the table, a smooth one by refits, for which ``at`` says where in the
    table the people stand.
    """
    if rows.starts is None:
        found: People = release.refine(fit, sweep, rows, inside)
        return found
    single = single_rows(fit, rows)
    from perinstance.analysis.enclosed_groups import table_sums
    from perinstance.analysis.group_privacy import group_pairs

    def several(block: Block) -> People:
        first: People = release.persons(fit, block, block.starts, inside)
        if isinstance(fit, MinimumAudit) and at is not None and rows.starts is not None:
            places = at[~single]
            refits = []
            for i, place in enumerate(places):
                rest = WithoutPeople(sweep, [place])
                refits.append(release.refit_person(fit, rest, block.people_picked(np.array([i]))))
                sweep.tell("refit", i + 1, len(places))
            found = type(first.pairs).concatenate([one.pairs for one in refits])
            return People(first.leverage, first.residual, found)
        if not isinstance(fit, LinearFit | DualFit) or release.mechanism().noise != "gaussian":
            return replace(first, open=None)
        sums, pairs, known = None, [], dict[bytes, Any]()
        for i in range(len(first.leverage)):
            person = block.people_picked(np.array([i]))
            pair: Any = known.get(key := person.X.tobytes() + person.y.tobytes())  # many are often equal
            with contextlib.suppress(NumericalTrouble):
                pair = group_pairs(release, fit, person.X, person.y, inside=inside) if pair is None else pair
            if key not in known and (pair is None or pair.kind != "exact"):
                sums = table_sums(fit, sweep) if sums is None else sums
                pair = group_pairs(release, fit, person.X, person.y, inside=inside, sweep=sums)
            known[key] = pair
            if not isinstance(pair, type(first.pairs)):  # another type stands for an infinite loss
                pair = GeneralGaussian([[np.inf]], [[np.inf]], pair.codes)
            pairs.append(pair)
            sweep.tell("refit", i + 1, len(first.leverage))
        return People(first.leverage, first.residual, type(first.pairs).concatenate(pairs))

    return by_number_of_rows(single, rows, lambda singles: release.refine(fit, sweep, singles, inside), several)


def walk_people(
    release: Release, fit: Any, sweep: TableSweep, who: TableSweep, inside: bool, delta: float
) -> PeopleAnswers:
    """Map over the people of ``who``; ``sweep`` is the table of the fit."""
    step: Callable[[Block], BlockLosses] = partial(
        losses_of_block, release=release, fit=fit, inside=inside, delta=delta
    )
    with closing(who.map(step)) as found:  # no thread works on after an error
        answers = PeopleAnswers.of(list(found))
    if answers.rows is None:
        return answers
    at = answers.open if who is sweep else None
    if answers.rows.starts is not None:
        better = answer_open(release, fit, sweep, answers.rows, inside, at)
        return answers.with_open(better, better.pairs.epsilon(delta))
    # where many are left open they are often equal: a column of ones that is fitted exactly
    first, member = distinct_rows(answers.rows.X, answers.rows.y)
    once = answer_open(release, fit, sweep, answers.rows.picked(first), inside)
    better = People(once.leverage[member], once.residual[member], once.pairs[member])
    return answers.with_open(better, once.pairs.epsilon(delta)[member])
