"""The map of an audit: block by block into arrays that are made once; then the few people that a block left open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from perinstance.auditing.streamed_output import LossStream
from perinstance.engines.protocol import TableSweep
from perinstance.folds.block import Block
from perinstance.folds.first_touch import Touches
from perinstance.folds.shared_turns import sharing
from perinstance.folds.sweep import People
from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.pairs import Pairs
from perinstance.pairs.interface.arguments import frozen
from perinstance.pairs.interface.column_pairs import ColumnPairs
from perinstance.releases.base.block_losses import (
    ROOMS,
    AnswerRoom,
    BlockLosses,
    LossLoop,
    TurnResults,
    found_or_asked,
    loss_loop,
    losses_of_block,
)
from perinstance.releases.base.release import Release

#: of the rows of a turn of a shared pass, of small tables and of large ones, and turns that make a table large: a turn
#: has people enough for loops over the few whom no polynomial answers for, and nobody waits long for the last
TURN_BYTES, LARGE_TURN_BYTES, MANY_TURNS = 1 << 19, 1 << 20, 1024


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
    gather = _Gather(who.n_rows, getattr(who, "answer_array", np.empty))
    step: Callable[[Block], BlockLosses] = partial(
        losses_of_block, release=release, fit=fit, inside=inside, delta=delta
    )
    # threads write their own rows: one that wrote everybody's would be what the others wait for
    placed = getattr(who, "in_this_process", False)
    step = partial(_placed, step=step, gather=gather) if placed else step
    own = getattr(who, "map_placed", None)  # an engine whose own threads make the parts
    keep_freed_memory()

    def refine(block: Block) -> People:
        return release.refine(fit, sweep, block, inside)

    if stream is None and who is sweep and _shared(release, fit, who, inside, delta, gather):
        return _refined(gather, refine, delta, own=True)
    with closing(
        who.map(step) if own is None else own(step, gather)
    ) as parts:  # no thread works on when a block cannot be written
        for part in parts:
            gather.add(part, placed or own is not None)
            if stream is not None:
                stream.add(part.people, part.epsilon)
    return _refined(gather, refine, delta)


def _refined(gather: _Gather, refine: Callable[[Block], People], delta: float, own: bool = False) -> Answer:
    """Answer for those who were left open, one by one; ``own``: nobody else holds an array of the gathered."""
    answer = gather.answer()
    if not gather.open:
        return answer
    at = np.concatenate(gather.open)
    better = refine(gather.left_open())
    answer.epsilon[at], answer.residual[at] = better.pairs.epsilon(delta), better.residual
    if own and not gather.one_leverage and type(answer.pairs) is type(better.pairs):
        # a copy of everybody's numbers would take as long as a pass
        answer.leverage[at] = better.leverage
        cast(ColumnPairs, answer.pairs).put_others(at, cast(ColumnPairs, better.pairs))
        return replace(answer, refined=len(at))
    leverage = answer.leverage.copy()  # the pairs may hold the same array
    leverage[at] = better.leverage
    return Answer(leverage, answer.residual, answer.epsilon, with_better(answer.pairs, better.pairs, at), len(at))


def _shared(release: Release, fit: Any, who: TableSweep, inside: bool, delta: float, gather: _Gather) -> bool:
    """Answer for everybody by threads that share the pass; False where they cannot, and nothing was done."""
    together = sharing(who)
    table = None if together is None or not together.looked_at else together.whole_table
    loop = None if table is None else loss_loop(release, fit, table.X[: table.blocks[1]], inside, delta)
    if together is None or table is None or loop is None:
        return False
    X, y = table.X, table.y
    room = gather.whole_room(loop)
    size = LARGE_TURN_BYTES if X.nbytes >= MANY_TURNS * LARGE_TURN_BYTES else TURN_BYTES
    cuts = table.turns_of(loop.rows * max(1, size // (8 * X.shape[1] * loop.rows)))
    codes, results = np.empty(len(y), dtype=np.uint8), TurnResults.empty(len(cuts) - 1, loop.columns)
    rows = X.reshape(-1), y, X.shape[1]
    places = room.leverage, room.residual, room.parameter, room.epsilon
    touches = Touches.of(*places) if together.threads > 1 else Touches.nothing(ROOMS)
    for lap in table.laps(cuts, together.threads):
        call = loop.call(rows, room, codes, results.part(slice(lap.start, lap.stop - 1)), touches)
        together.share(call, cuts[lap], "map", last=lap.stop == len(cuts) and not loop.more)
    hard = results.hard
    if loop.keep is not None and loop.columns:
        loop.keep(results.sums, cuts)

    def settled(k: int) -> tuple[int, BlockLosses]:
        run = slice(int(cuts[k]), int(cuts[k + 1]))
        if hard[k] > 0:  # mostly one of some thousands: those before and behind need not be looked at
            rows_of_them = np.flatnonzero(codes[run])
            run = slice(run.start + int(rows_of_them[0]), run.start + int(rows_of_them[-1]) + 1)
        block = Block(X[run], y[run], run.start)
        part = found_or_asked(
            release, fit, block, inside, delta, loop.settle(block, room.part(run), codes[run], hard[k])
        )
        gather.place(part, run.start)
        return run.start, part

    left = np.flatnonzero(hard).tolist()
    with closing(together.spread(settled, left)) as parts:
        for start, part in parts:
            gather.done = start
            gather.add(part, placed=True)
    return True


def _placed(block: Block, step: Callable[..., BlockLosses], gather: _Gather) -> BlockLosses:
    """Answer for one block, and write its rows where everybody's are."""
    part = step(block, room=gather.room(block.start, len(block)))
    gather.place(part, block.start)
    return part


def with_better(pairs: Pairs, better: Pairs, at: NDArray) -> Pairs:
    """Put other pairs in some places."""
    if isinstance(pairs, ColumnPairs) and type(pairs) is type(better) and pairs.one_number_each:
        return pairs.with_others(at, better)
    order = np.arange(len(pairs))
    order[at] = len(order) + np.arange(len(at))
    return type(better).concatenate([pairs, better])[order]


def keep_freed_memory() -> None:
    """Make glibc reuse the arrays of a block for the next one instead of returning them to the system each time.

    Its allocator learns from what is freed: after one array of just under 32 MB it keeps up to 64 MB. Nothing is
    touched here, so nothing is really allocated; page faults were 5% of an audit.
    """
    np.empty(31 << 20, dtype=np.uint8)


@kernel
def copy_columns(parts, columns, codes, all_codes, start):  # pragma: no cover - compiled
    """Write arrays of some people into those of everybody, by one call: each would wait for the interpreter."""
    for k in range(len(parts)):
        columns[k][start : start + len(codes)] = parts[k]
    all_codes[start : start + len(codes)] = codes


class _Gather:
    """Collects the parts. With the number of people known, each array is written once and the parts are let go."""

    def __init__(self, n: int | None, new_array: Callable[..., NDArray] = np.empty) -> None:
        self.n = n
        self._new_array = new_array
        self.done = 0
        self.columns: dict[str, NDArray] = {}
        self.kind: type[ColumnPairs] | None = None
        self.one_leverage = False  #: the pairs of the first part hold the very array of the leverages
        self.other_leverages: list[tuple[slice, Floats]] = []
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
        if not self._has_place(part):
            self.parts.append(part)
        elif not placed:
            self.place(part, self.done)
        self.done += len(part.epsilon)

    def _has_place(self, part: BlockLosses) -> bool:
        pairs = part.people.pairs
        return self.n is not None and isinstance(pairs, ColumnPairs) and pairs.one_number_each

    def whole_room(self, loop: LossLoop) -> AnswerRoom:
        """Make the places of everybody, whose pairs are made of what a loop writes."""
        assert self.n is not None
        room = AnswerRoom.empty(self.n)
        self.kind, self.one_leverage = loop.pairs, "_leverage" in loop.pairs.__slots__
        names = "0", "1", loop.parameter, "2", "3"
        places = room.leverage, room.residual, room.parameter, room.epsilon, room.code
        self.columns = dict(zip(names, places, strict=True))
        return room

    def room(self, start: int, n: int) -> AnswerRoom | None:
        """Return the places of some people, once it is known what their pairs are made of."""
        if not self.columns:
            return None
        others = [name for name in self.columns if name not in ("0", "1", "2", "3")]
        if len(others) != 1:
            return None
        run = slice(start, start + n)
        return AnswerRoom(*(self.columns[name][run] for name in ("0", "1", others[0], "2", "3")))

    def place(self, part: BlockLosses, start: int) -> None:
        """Write the numbers of a part where they belong; parts may come in any order, from several threads."""
        people = part.people
        pairs = people.pairs
        if not self._has_place(part) or not isinstance(pairs, ColumnPairs):
            return
        if self.columns and part.epsilon.base is self.columns["2"]:  # written there at once
            return
        run = slice(start, start + len(part.epsilon))
        values: dict[str, NDArray] = {
            "0": people.leverage,
            "1": people.residual,
            "2": part.epsilon,
            "3": pairs._codes,
        }
        values |= {slot[1:]: getattr(pairs, slot) for slot in pairs.__slots__}
        same = people.leverage is getattr(pairs, "_leverage", None)
        with self._lock:
            if not self.columns:
                self.kind, self.one_leverage = type(pairs), same
                names = [name for name in values if not (same and name == "leverage")]
                assert self.n is not None
                self.columns = {name: self._new_array(self.n, values[name].dtype) for name in names}
            if self.one_leverage and not same:
                self.other_leverages.append((run, values["leverage"]))
        columns = {name: (values[name], column) for name, column in self.columns.items() if name != "3"}
        plain = [value.dtype == np.float64 and value.flags.carray for value, _ in columns.values()]
        if all(plain) and values["3"].flags.carray:
            copy_columns(*zip(*columns.values(), strict=True), values["3"], self.columns["3"], start)
            return
        for name, column in self.columns.items():
            column[run] = values[name]

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
        if self.one_leverage and not self.other_leverages:
            self.columns["leverage"] = leverage
            leverage = frozen(leverage)
        elif self.one_leverage:
            self.columns["leverage"] = leverage.copy()
            for run, values in self.other_leverages:
                self.columns["leverage"][run] = values
        return Answer(leverage, residual, epsilon, self.kind.of_checked(code, self.columns), 0)
