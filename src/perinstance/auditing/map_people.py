"""The map of an audit: block by block into arrays that are made once; then the few people that a block left open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.auditing.streamed_output import LossStream
from perinstance.engines.protocol import TableSweep
from perinstance.folds.block import Block
from perinstance.numerics.array_types import Floats
from perinstance.pairs import Pairs
from perinstance.pairs.columns import ColumnPairs
from perinstance.releases.base.block_losses import BlockLosses, losses_of_block
from perinstance.releases.base.release import Release


@dataclass(frozen=True, slots=True)
class Answer:
    """One entry per person."""

    leverage: Floats
    residual: Floats
    epsilon: Floats
    pairs: Pairs
    refined: int  #: people who were answered one by one


def walk_people(
    release: Release,
    fit: Any,
    sweep: TableSweep,
    who: TableSweep,
    inside: bool,
    delta: float,
    stream: LossStream | None = None,
) -> Answer:
    """Map over the people of ``who``; ``sweep`` is the table of the fit. Each block is shown to ``stream``."""
    gather = _Gather(who.n_rows)
    step: Callable[[Block], BlockLosses] = partial(
        losses_of_block, release=release, fit=fit, inside=inside, delta=delta
    )
    # threads write their own rows: one that wrote everybody's would be what the others wait for
    placed = getattr(who, "in_this_process", False)
    own = getattr(who, "map_placed", None)  # an engine whose own threads make the parts
    if placed:
        step = partial(_placed, step=step, gather=gather)
    with closing(who.map(step) if own is None else own(step, gather)) as parts:  # no thread works on after an error
        for part in parts:
            gather.add(part, placed or own is not None)
            if stream is not None:
                stream.add(part.people, part.epsilon)
    answer = gather.answer()
    if not gather.open:
        return answer
    at = np.concatenate(gather.open)
    rows = Block(np.concatenate([b.X for b in gather.rows]), np.concatenate([b.y for b in gather.rows]))
    better = release.refine(fit, sweep, rows, inside)
    answer.leverage[at], answer.residual[at] = better.leverage, better.residual
    answer.epsilon[at] = better.pairs.epsilon(delta)
    return replace(answer, pairs=with_better(answer.pairs, better.pairs, at), refined=len(at))


def _placed(block: Block, step: Callable[[Block], BlockLosses], gather: _Gather) -> BlockLosses:
    """Answer for one block, and write its rows where everybody's are."""
    part = step(block)
    gather.place(part, block.start)
    return part


def with_better(pairs: Pairs, better: Pairs, at: NDArray) -> Pairs:
    """Put other pairs in some places."""
    if isinstance(pairs, ColumnPairs) and type(pairs) is type(better) and pairs.one_number_each:
        return pairs.with_others(at, better)
    order = np.arange(len(pairs))
    order[at] = len(order) + np.arange(len(at))
    return type(better).concatenate([pairs, better])[order]


class _Gather:
    """Collects the parts. With the number of people known, each array is written once and the parts are let go."""

    def __init__(self, n: int | None) -> None:
        self.n = n
        self.done = 0
        self.columns: dict[str, NDArray] = {}  #: by the names of ``_columns_of``
        self.kind: type[ColumnPairs] | None = None
        self.parts: list[BlockLosses] = []
        self.open: list[NDArray] = []
        self.rows: list[Block] = []
        self._lock = threading.Lock()

    def add(self, part: BlockLosses, placed: bool) -> None:
        """Take the next part, in row order."""
        people = part.people
        if people.open is not None and part.open is not None:
            self.open.append(self.done + np.flatnonzero(people.open))
            self.rows.append(part.open)
        if self.n is None or not _columns_of(part):
            self.parts.append(part)
        elif not placed:
            self.place(part, self.done)
        self.done += len(part.epsilon)

    def place(self, part: BlockLosses, start: int) -> None:
        """Write the numbers of a part where they belong; parts may come in any order, from several threads."""
        values = _columns_of(part)
        if self.n is None or not values:
            return
        with self._lock:
            if not self.columns:
                self.kind = type(part.people.pairs)  # type: ignore[assignment]
                self.columns = {name: np.empty(self.n, column.dtype) for name, column in values.items()}
        for name, column in self.columns.items():
            column[start : start + len(part.epsilon)] = values[name]

    def answer(self) -> Answer:
        """Put together what was gathered."""
        if self.parts:
            pairs = type(self.parts[0].people.pairs).concatenate([part.people.pairs for part in self.parts])
            leverage = np.concatenate([part.people.leverage for part in self.parts])
            residual = np.concatenate([part.people.residual for part in self.parts])
            return Answer(leverage, residual, np.concatenate([part.epsilon for part in self.parts]), pairs, 0)
        assert self.kind is not None  # a table without rows was refused before
        own = {slot[1:]: self.columns[slot] for slot in self.kind.__slots__}
        leverage, residual, epsilon = (self.columns[name] for name in ("leverage", "residual", "epsilon"))
        return Answer(leverage, residual, epsilon, self.kind.of_checked(self.columns["_codes"], own), 0)


def _columns_of(part: BlockLosses) -> dict[str, NDArray]:
    """Return the arrays of a part by name, those of its pairs by their slots; none where pairs are no such columns."""
    people, pairs = part.people, part.people.pairs
    if not (isinstance(pairs, ColumnPairs) and pairs.one_number_each):
        return {}
    columns = {"leverage": people.leverage, "residual": people.residual, "epsilon": part.epsilon}
    return columns | {slot: getattr(pairs, slot) for slot in ("_codes", *pairs.__slots__)}
