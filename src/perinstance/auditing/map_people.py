"""The map of an audit: block by block into arrays that are made once; then the few people that a block left open."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.auditing.streamed_output import LossStream
from perinstance.engines.protocol import TableSweep
from perinstance.folds.block import Block
from perinstance.numerics.array_types import Floats
from perinstance.pairs import Pairs
from perinstance.pairs.interface.arguments import frozen
from perinstance.pairs.interface.column_pairs import ColumnPairs
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
    step = partial(losses_of_block, release=release, fit=fit, inside=inside, delta=delta)
    keep_freed_memory()
    gather = _Gather(who.n_rows)
    with closing(who.map(step)) as parts:  # no thread works on when a block cannot be written
        for part in parts:
            gather.add(part)
            if stream is not None:
                stream.add(part.people, part.epsilon)
    answer = gather.answer()
    if not gather.open:
        return answer
    at = np.concatenate(gather.open)
    better = release.refine(fit, sweep, gather.left_open(), inside)
    answer.epsilon[at], answer.residual[at] = better.pairs.epsilon(delta), better.residual
    leverage = answer.leverage.copy()  # the pairs may hold the same array
    leverage[at] = better.leverage
    return Answer(leverage, answer.residual, answer.epsilon, with_better(answer.pairs, better.pairs, at), len(at))


def with_better(pairs: Pairs, better: Pairs, at: NDArray) -> Pairs:
    """Put other pairs in some places."""
    order = np.arange(len(pairs))
    order[at] = len(order) + np.arange(len(at))
    return type(better).concatenate([pairs, better])[order]


def keep_freed_memory() -> None:
    """Make glibc reuse the arrays of a block for the next one instead of returning them to the system each time.

    Its allocator learns from what is freed: after one array of just under 32 MB it keeps up to 64 MB. Nothing is
    touched here, so nothing is really allocated; page faults were 5% of an audit.
    """
    np.empty(31 << 20, dtype=np.uint8)


class _Gather:
    """Collects the parts. With the number of people known, each array is written once and the parts are let go."""

    def __init__(self, n: int | None) -> None:
        self.n = n
        self.done = 0
        self.columns: dict[str, NDArray] = {}
        self.kind: type[ColumnPairs] | None = None
        self.one_leverage = False
        self.parts: list[BlockLosses] = []
        self.open: list[NDArray] = []
        self.rows: list[Block] = []

    def add(self, part: BlockLosses) -> None:
        people = part.people
        if people.open is not None and part.open is not None:
            self.open.append(self.done + np.flatnonzero(people.open))
            self.rows.append(part.open)
        run = slice(self.done, self.done + len(part.epsilon))
        self.done = run.stop
        pairs = people.pairs
        if self.n is None or not (isinstance(pairs, ColumnPairs) and pairs.one_number_each):
            self.parts.append(part)
            return
        self.kind = type(pairs)
        values: dict[str, NDArray] = {
            "0": people.leverage,
            "1": people.residual,
            "2": part.epsilon,
            "3": pairs._codes,
        }
        values |= pairs.parameters()
        same = people.leverage is getattr(pairs, "_leverage", None)
        if not self.columns:
            self.one_leverage = same
        elif self.one_leverage and not same:
            self.columns["leverage"], self.one_leverage = self.columns["0"].copy(), False
        if self.one_leverage:
            del values["leverage"]  # the pairs hold the very same array: it is written once
        for name, value in values.items():
            if name not in self.columns:
                self.columns[name] = np.empty(self.n, dtype=value.dtype)
            self.columns[name][run] = value

    def left_open(self) -> Block:
        return Block(np.concatenate([b.X for b in self.rows]), np.concatenate([b.y for b in self.rows]))

    def answer(self) -> Answer:
        if self.parts:
            pairs = type(self.parts[0].people.pairs).concatenate([part.people.pairs for part in self.parts])
            leverage = np.concatenate([part.people.leverage for part in self.parts])
            residual = np.concatenate([part.people.residual for part in self.parts])
            return Answer(leverage, residual, np.concatenate([part.epsilon for part in self.parts]), pairs, 0)
        assert self.kind is not None  # a table without rows was refused before
        leverage, residual, epsilon, code = (self.columns.pop(name) for name in "0123")
        if self.one_leverage:
            self.columns["leverage"] = leverage
            leverage = frozen(leverage)
        return Answer(leverage, residual, epsilon, self.kind(kind=code, **self.columns), 0)
