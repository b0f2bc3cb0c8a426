"""Losses on the device, chunks of them, and how those of a posterior sample come back to where everybody's are.

Columns that are copied, looked through and standardised one after the other go through the processor's memory three
times, by all threads at once. Here a thread takes some people's numbers from a pinned buffer and writes everything
that follows from them before it takes the next, in one compiled call for as many people as others leave to it. A thread
that returns to the interpreter waits for all others who do: so the call begins before the device is asked, and waits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.transfers.compiled_slices import TO_HOST, call_address, transfer_addresses
from perinstance.engines.cuda.transfers.device_to_host import Downloads, to_host
from perinstance.engines.cuda.transfers.host_to_device import DeviceBlock
from perinstance.engines.cuda.transfers.past_cache import copy_past_cache
from perinstance.engines.cuda.transfers.pinned_buffers import PIECES, check, cuda_runtime
from perinstance.models.linear.loops.finished_rows import HARD, ROUGH_RESIDUAL
from perinstance.numerics.compilation.turn_counters import add_turns, next_turn
from perinstance.numerics.numba_compile import brief_kernel, kernel
from perinstance.releases.base.block_losses import AnswerRoom
from perinstance.releases.posterior_sample import Standardising, standardise

#: people of a turn: a multiple of 64, so that columns in a buffer begin at whole lines of memory
TURN_ROWS = 1 << 17
#: bytes of a person on the device: leverage, residual, epsilon and a code
PERSON = 25
#: people whose numbers stay in a cache while they are finished
TOGETHER = 8192
#: people who are looked at together for one without an epsilon
LOOKED_AT = 256
#: microseconds for which a thread rests whose people the device has not been asked about yet
REST = 20
#: where the number of the next turn, and of those that the device was asked about, are counted: not in one cache line
NEXT, ASKED, COUNTED = 0, 16, 32
#: what is added to the latter when the device is not asked any more
NO_MORE = -(1 << 40)
#: what is noted of a turn: the largest code, how many people have no epsilon, whether (> 0) a leverage is not a number
#: >= 0, and where the first people without an epsilon are
WORST, UNSETTLED, UNSOUND, FIRST_PLACE, NOTED = 0, 1, 2, 3, 35


@dataclass(frozen=True, slots=True)
class DeviceLosses:
    """One entry per person, on the device."""

    leverage: Any
    residual: Any
    length: Any | None
    share: Any | None
    epsilon: Any | None  #: None where the pairs are inverted after they are made; NaN for whom the processor is asked
    code: Any
    hard: bool  #: whether only ``HARD`` rows are answered by the processor, not those with a rough residual

    @property
    def left_from(self) -> int:
        """The least code of rows that are answered by the processor."""
        return HARD if self.hard else ROUGH_RESIDUAL

    @property
    def columns(self) -> dict[str, Any]:
        """What there is, by name."""
        there = {name: getattr(self, name) for name in ("leverage", "residual", "length", "share", "epsilon", "code")}
        return {name: one for name, one in there.items() if one is not None}


@dataclass(frozen=True, slots=True)
class LossChunk:
    """Some of the rows that the device was asked about together."""

    block: DeviceBlock
    found: DeviceLosses
    rows: slice
    ready: Any  #: the event after which the answers are there

    @property
    def start(self) -> int:
        """The first of the rows, in the table."""
        return int(self.block.start + self.rows.start)

    def __len__(self) -> int:
        return int(self.rows.stop - self.rows.start)

    def cut(self, rows: int) -> Iterator[LossChunk]:
        """Hand out so many rows at a time."""
        for start in range(0, len(self), rows):
            yield self.part(slice(start, min(start + rows, len(self))))

    def part(self, rows: slice) -> LossChunk:
        """Return some of them."""
        first = self.rows.start
        return LossChunk(self.block, self.found, slice(first + rows.start, first + rows.stop), self.ready)

    def picked(self, at: Any) -> list[Any]:
        """Return X and y of some of the rows."""
        where = torch_module().as_tensor(at + self.rows.start, device=self.block.X.device)
        return to_host(self.block.X[where], self.block.y[where])


class AskedTurns(NamedTuple):
    """What compiled code takes turns from; entries of those that the device was not asked about are not written yet."""

    counter: NDArray[np.int64]  #: at ``NEXT`` and ``ASKED``
    cuts: NDArray[np.int64]  #: turn k is people ``cuts[k]`` to ``cuts[k + 1]``
    sources: NDArray[np.int64]  #: of each turn, where its leverages, residuals, epsilons and codes lie on the device
    ready: NDArray[np.int64]  #: the event after which they do


@dataclass(frozen=True, slots=True)
class LossTurns:
    """Consecutive people who come back to their places; threads take turns of them, as the device is asked."""

    turns: AskedTurns
    room: AnswerRoom
    codes: NDArray[np.uint8]  #: the device's, written in turns with somebody whom it left
    noted: NDArray[np.int64]
    firsts: list[int]  #: the first turn of each chunk
    chunks: list[LossChunk] = field(default_factory=list)  #: which the device was asked about so far

    @classmethod
    def of(cls, ends: Sequence[int], room: AnswerRoom) -> LossTurns:
        """Cut what the device will be asked about into turns; ``ends``: of the chunks."""
        runs = [np.arange(start, end, TURN_ROWS) for start, end in zip((0, *ends), ends, strict=False)]
        cuts = np.append(np.concatenate(runs), ends[-1])
        firsts = np.cumsum([0, *map(len, runs)])[:-1].tolist()
        count = len(cuts) - 1
        turns = AskedTurns(
            np.zeros(COUNTED, dtype=np.int64), cuts, np.zeros((count, 4), dtype=np.int64), np.zeros(count, np.int64)
        )
        codes, noted = np.empty(ends[-1], dtype=np.uint8), np.zeros((count, NOTED), dtype=np.int64)
        return cls(turns, room, codes, noted, firsts)

    def add(self, chunk: LossChunk) -> None:
        """Let the people of the next chunk be taken: the device has been asked about them."""
        k, turns = len(self.chunks), self.turns
        self.chunks.append(chunk)
        first, last = self.firsts[k], (*self.firsts, len(turns.ready))[k + 1]
        found, offset = chunk.found.columns, turns.cuts[first:last] - turns.cuts[first] + chunk.rows.start
        for c, (name, size) in enumerate((("leverage", 8), ("residual", 8), ("epsilon", 8), ("code", 1))):
            turns.sources[first:last, c] = found[name].data_ptr() + size * offset
        turns.ready[first:last] = chunk.ready.cuda_event
        count_asked(turns.counter, last - first)

    def shut(self) -> None:
        """Let nobody wait for people whom the device will not be asked about."""
        count_asked(self.turns.counter, NO_MORE)

    def receive(self, downloads: Downloads, setting: Standardising) -> None:
        """Take turns until none is left; several threads do."""
        room, runtime = self.room, cuda_runtime()
        into = room.leverage, room.residual, room.parameter, room.epsilon, room.code, self.codes
        with downloads.lent() as buffer:
            pinned = buffer.numbers(numbers_of_turns(len(self.codes)))
            link = buffer.stream.cuda_stream, transfer_addresses(runtime)
            check(receive_people(self.turns, pinned, link, into, setting, self.noted))

    def part(self, turn: int) -> LossChunk:
        """Return the people of a turn, on the device."""
        k, rows = bisect_right(self.firsts, turn) - 1, self.rows(turn)
        before = int(self.turns.cuts[self.firsts[k]])
        return self.chunks[k].part(slice(rows.start - before, rows.stop - before))

    def rows(self, turn: int) -> slice:
        """Return the rows of a turn."""
        return slice(int(self.turns.cuts[turn]), int(self.turns.cuts[turn + 1]))

    def without_epsilon(self, turns: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return who has no epsilon among the people of some turns."""
        count, most = self.noted[:, UNSETTLED], NOTED - FIRST_PLACE
        few, many = np.flatnonzero(turns & (count > 0) & (count <= most)), np.flatnonzero(turns & (count > most))
        places = self.noted[few, FIRST_PLACE:] + self.turns.cuts[few, None]
        found = [places[np.arange(most) < count[few, None]]]
        for turn in many.tolist():
            rows = self.rows(turn)
            found.append(rows.start + np.flatnonzero(np.isnan(self.room.epsilon[rows])))
        return np.concatenate(found)


def numbers_of_turns(people: int) -> int:
    """Return how many numbers a pinned buffer holds for the turns of so many people that a thread has under way."""
    rows = min(TURN_ROWS, -(-people // 64) * 64)
    return PIECES * PERSON * rows // 8


@brief_kernel
def count_asked(counter, turns):  # pragma: no cover - compiled
    """Tell that the device was asked about more turns."""
    add_turns(counter, ASKED, turns)


@kernel
def receive_people(turns, pinned, link, into, setting, noted):  # pragma: no cover - compiled
    """Take turns: fetch the columns of some people into a part of a pinned buffer, and finish those who have come.

    As many turns are under way as there are events; one more is held until the device is asked about it. Returns CUDA's
    error, else zero.
    """
    counter, cuts, (words, events), calls = turns.counter, turns.cuts, pinned, link[1]
    slots, piece = len(events), len(words) // len(events)
    taken_turns = np.empty(slots, dtype=np.int64)
    taken, done, held, more, error = 0, 0, -1, True, 0
    while (more or done < taken) and error == 0:
        if more and held < 0 and taken - done < slots:
            held = next_turn(counter, NEXT)
            if held >= len(cuts) - 1:
                held, more = -1, False
        asked = add_turns(counter, ASKED, 0) if held >= 0 else 0
        if 0 <= held < asked:
            k = taken % slots
            target = words.ctypes.data + 8 * piece * k
            error = fetch_turn(turns, held, target, piece, events[k], link)
            taken_turns[k], taken, held = held, taken + 1, -1
        elif done < taken:
            k = done % slots
            turn, done = taken_turns[k], done + 1
            error = call_address(calls.wait, (events[k],))
            if error == 0:
                numbers = words[piece * k : piece * (k + 1)]
                finish_people(numbers, cuts[turn], cuts[turn + 1], into, setting, calls.copy, noted[turn])
        elif asked < 0:  # and will not be
            held, more = -1, False
        elif held >= 0:
            call_address(calls.rest, (REST,))
    return error


@kernel
def fetch_turn(turns, turn, target, piece, event, link):  # pragma: no cover - compiled
    """Begin to fetch the columns of some people; returns CUDA's error, else zero."""
    (stream, calls), rows, people = link, 8 * piece // PERSON, turns.cuts[turn + 1] - turns.cuts[turn]
    error = call_address(calls.follow, (stream, turns.ready[turn], 0))
    for c in range(4):
        size = 8 if c < 3 else 1
        if error == 0:
            there, source = target + 8 * c * rows, turns.sources[turn, c]
            error = call_address(calls.send, (there, source, size * people, TO_HOST, stream))
    return call_address(calls.record, (event, stream)) if error == 0 else error


@kernel
def finish_people(numbers, first, last, into, setting, copy, noted):  # pragma: no cover - compiled
    """Copy the numbers of some people to their places, standardise them, and note who is left to the processor."""
    rows, worst, unsettled, unsound = 8 * len(numbers) // PERSON, np.uint8(0), np.int64(0), np.int64(0)
    codes = numbers[3 * rows :].view(np.uint8)
    rhos, kinds = np.empty(TOGETHER), np.empty(TOGETHER, dtype=np.uint8)
    for start in range(first, last, TOGETHER):
        stop, a = min(start + TOGETHER, last), start - first
        b = stop - first
        for c in range(3):
            column = into[0] if c == 0 else into[1] if c == 1 else into[3]
            source = numbers.ctypes.data + 8 * (c * rows + a)
            copy_past_cache(column.ctypes.data + 8 * start, source, 8 * (stop - start), copy)
        mu, r, epsilon = numbers[a:b], numbers[rows + a : rows + b], numbers[2 * rows + a : 2 * rows + b]
        rho, kind = rhos[: stop - start], kinds[: stop - start]
        unsound += not standardise(mu, r, setting.root, setting.limits, codes[a:b], rho, kind)
        copy_past_cache(into[2].ctypes.data + 8 * start, rho.ctypes.data, 8 * (stop - start), copy)
        copy_past_cache(into[4].ctypes.data + start, kind.ctypes.data, stop - start, copy)
        for i in range(a, b):
            worst = max(worst, codes[i])
        unsettled = note_unsettled(epsilon, a, unsettled, noted[FIRST_PLACE:])
    if worst > 0 or unsound > 0:
        into[5][first:last] = codes[: last - first]
    noted[WORST], noted[UNSETTLED], noted[UNSOUND] = worst, unsettled, unsound


@kernel
def note_unsettled(epsilon, offset, unsettled, places):  # pragma: no cover - compiled
    """Count people without an epsilon, and note the places of the first."""
    for start in range(0, len(epsilon), LOOKED_AT):
        some, missing = epsilon[start : start + LOOKED_AT], np.int64(0)
        for i in range(len(some)):  # without a branch: several people at a time
            missing += np.int64(some[i] != some[i])
        if missing:
            for i in range(len(some)):
                if some[i] != some[i]:
                    if unsettled < len(places):
                        places[unsettled] = offset + start + i
                    unsettled += 1
    return unsettled
