"""The map of an audit: answers block by block, to a file as they come; then the few people that a block left open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.data import LossWriter
from perinstance.engines.protocol import TableSweep
from perinstance.folds.block import Block
from perinstance.folds.sweep import People
from perinstance.numerics.array_types import Floats
from perinstance.pairs import Pairs
from perinstance.releases.base.release import BlockLosses, Release, losses_of_block

#: rows written at once; the file does not depend on how the table was cut into blocks
ROWS = 1 << 17


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

    def with_open(self, better: People, delta: float) -> PeopleAnswers:
        """Put what was found of the open people in their places."""
        order = np.arange(len(self.leverage))
        order[self.open] = len(order) + np.arange(len(self.open))
        self.leverage[self.open], self.residual[self.open] = better.leverage, better.residual
        self.epsilon[self.open] = better.pairs.epsilon(delta)
        return replace(self, pairs=type(better.pairs).concatenate([self.pairs, better.pairs])[order])


def together(blocks: Sequence[Block]) -> Block:
    """Put the rows of blocks behind each other."""
    return Block(np.concatenate([block.X for block in blocks]), np.concatenate([block.y for block in blocks]))


def walk_people(
    release: Release,
    fit: Any,
    sweep: TableSweep,
    who: TableSweep,
    inside: bool,
    delta: float,
    stream: LossStream | None = None,
) -> PeopleAnswers:
    """Map over the people of ``who``; ``sweep`` is the table of the fit. Each block is shown to ``stream``."""
    step: Callable[[Block], BlockLosses] = partial(
        losses_of_block, release=release, fit=fit, inside=inside, delta=delta
    )
    parts = []
    with closing(who.map(step)) as found:  # no thread works on after an error
        for part in found:
            parts.append(part)
            if stream is not None:
                stream.add(part.people, part.epsilon)
    answers = PeopleAnswers.of(parts)
    if answers.rows is None:
        return answers
    return answers.with_open(release.refine(fit, sweep, answers.rows, inside), delta)


class LossStream:
    """Losses on their way to a file: rows leave as soon as they are final, in order, in runs of one length.

    A block whose people are all answered is final. People left open are answered after the walk, so from the first
    block with such a person on nothing leaves until then. ``who`` is the sweep that knows the ids.
    """

    def __init__(self, writer: LossWriter, who: TableSweep, has_ids: bool) -> None:
        self._writer, self._who = writer, who
        # ids that only reading tells are known, and known to be different, after the first pass
        self._flows = who.ids is not None or not has_ids
        self._waiting: list[dict[str, NDArray]] = []

    def add(self, people: People, epsilon: NDArray) -> None:
        """Take the next block; write what fills a run."""
        if people.open is not None and people.open.any():
            self._flows = False
            self._waiting.clear()  # ``finish`` gets these rows again
        if not self._flows:
            return
        numbers = {"epsilon": epsilon, "leverage": people.leverage, "residual": people.residual}
        self._waiting.append({**numbers, "kind": people.pairs.kinds})
        if sum(len(block["kind"]) for block in self._waiting) < ROWS:
            return
        columns = {name: np.concatenate([block[name] for block in self._waiting]) for name in self._waiting[0]}
        whole = len(columns["kind"]) // ROWS * ROWS
        self._write({name: values[:whole] for name, values in columns.items()})
        self._waiting = [{name: values[whole:].copy() for name, values in columns.items()}]

    def finish(self, columns: dict[str, NDArray]) -> None:
        """Write the rows that have not left yet, given everybody's columns."""
        self._waiting.clear()
        self._write({name: values[self._writer.n_rows :] for name, values in columns.items()})

    def _write(self, columns: dict[str, NDArray]) -> None:
        for start in range(0, len(columns["kind"]), ROWS):
            run = {name: values[start : start + ROWS] for name, values in columns.items()}
            first = self._writer.n_rows
            rows, ids = slice(first, first + len(run["kind"])), self._who.ids
            names = {"row": np.arange(rows.start, rows.stop)} if ids is None else {"id": ids[rows]}
            self._writer.write({**names, **run})
