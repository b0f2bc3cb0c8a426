"""Losses on the device, chunks of them, and how those of a posterior sample come back to where everybody's are.

Columns that are copied, looked through and standardised one after the other go through the processor's memory three
times, by all threads at once. Here a thread takes some people's numbers from a pinned buffer and writes everything
that follows from them before it takes the next, in one compiled call for as many people as others leave to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.transfers.compiled_slices import TO_HOST, call_address, transfer_addresses
from perinstance.engines.cuda.transfers.device_to_host import Downloads, to_host
from perinstance.engines.cuda.transfers.host_to_device import DeviceBlock
from perinstance.engines.cuda.transfers.pinned_buffers import PIECES, check, cuda_runtime
from perinstance.folds.shared_turns import Turns
from perinstance.models.linear.loops.finished_rows import HARD, ROUGH_RESIDUAL
from perinstance.numerics.compilation.turn_counters import next_turn
from perinstance.numerics.numba_compile import kernel
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


@dataclass(frozen=True, slots=True)
class LossTurns:
    """Consecutive people who come back together, to their places; threads take turns of them."""

    chunk: LossChunk
    turns: Turns
    room: AnswerRoom
    codes: NDArray[np.uint8]  #: the device's, zero in turns where it had no other
    noted: NDArray[np.int64]

    @classmethod
    def of(cls, chunk: LossChunk, room: AnswerRoom) -> LossTurns:
        """Cut what the device was asked about into turns."""
        cuts = np.append(np.arange(0, len(chunk), TURN_ROWS), len(chunk))
        noted = np.zeros((len(cuts) - 1, NOTED), dtype=np.int64)
        return cls(chunk, Turns.of(cuts), room, np.zeros(len(chunk), dtype=np.uint8), noted)

    def receive(self, downloads: Downloads, setting: Standardising) -> None:
        """Take turns until none is left; several threads do."""
        found, start, room = self.chunk.found.columns, self.chunk.rows.start, self.room
        sources = tuple(
            found[name].data_ptr() + size * start
            for name, size in (("leverage", 8), ("residual", 8), ("epsilon", 8), ("code", 1))
        )
        into = room.leverage, room.residual, room.parameter, room.epsilon, room.code, self.codes
        rows = min(TURN_ROWS, -(-len(self.chunk) // 64) * 64)
        with downloads.lent() as buffer:
            runtime, stream = cuda_runtime(), buffer.stream.cuda_stream
            pinned, link = buffer.numbers(PIECES * PERSON * rows // 8), (stream, transfer_addresses(runtime))
            check(runtime.cudaStreamWaitEvent(stream, self.chunk.ready.cuda_event, 0))
            check(receive_people(self.turns, sources, pinned, link, into, setting, self.noted))

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


@kernel
def receive_people(turns, sources, pinned, link, into, setting, noted):  # pragma: no cover - compiled
    """Take turns: fetch the columns of some people into a part of a pinned buffer, and finish those who have come.

    As many turns are under way as there are events. Returns CUDA's error, else zero.
    """
    (counter, cuts), (words, events) = turns, pinned
    slots, piece = len(events), len(words) // len(events)
    taken_turns = np.empty(slots, dtype=np.int64)
    taken, done, more = 0, 0, True
    while more or done < taken:
        if more and taken - done < slots:
            turn, k = next_turn(counter, 0), taken % slots
            more = turn < len(cuts) - 1
            if more:
                taken_turns[k], taken = turn, taken + 1
                target = words.ctypes.data + 8 * piece * k
                error = fetch_turn(cuts[turn], cuts[turn + 1], sources, target, piece, events[k], link)
                if error != 0:
                    return error
        else:
            k = done % slots
            turn, done = taken_turns[k], done + 1
            error = call_address(link[1].wait, (events[k],))
            if error != 0:
                return error
            numbers = words[piece * k : piece * (k + 1)]
            finish_people(numbers, cuts[turn], cuts[turn + 1], into, setting, link[1].copy, noted[turn])
    return 0


@kernel
def fetch_turn(first, last, sources, target, piece, event, link):  # pragma: no cover - compiled
    """Begin to fetch the columns of some people; returns CUDA's error, else zero."""
    (stream, calls), rows, error = link, 8 * piece // PERSON, 0
    for c in range(4):
        size = 8 if c < 3 else 1
        if error == 0:
            there, source = target + 8 * c * rows, sources[c] + size * first
            error = call_address(calls.send, (there, source, size * (last - first), TO_HOST, stream))
    return call_address(calls.record, (event, stream)) if error == 0 else error


@kernel
def finish_people(numbers, first, last, into, setting, copy, noted):  # pragma: no cover - compiled
    """Copy the numbers of some people to their places, standardise them, and note who is left to the processor."""
    rows, worst, unsettled, unsound = 8 * len(numbers) // PERSON, np.uint8(0), np.int64(0), np.int64(0)
    codes = numbers[3 * rows :].view(np.uint8)
    for start in range(first, last, TOGETHER):
        stop, a = min(start + TOGETHER, last), start - first
        b = stop - first
        for c in range(3):  # by the library's copy: it need not read what it writes over
            column = into[0] if c == 0 else into[1] if c == 1 else into[3]
            source = numbers.ctypes.data + 8 * (c * rows + a)
            call_address(copy, (column.ctypes.data + 8 * start, source, 8 * (stop - start)))
        mu, r, epsilon = numbers[a:b], numbers[rows + a : rows + b], numbers[2 * rows + a : 2 * rows + b]
        rho, kind = into[2][start:stop], into[4][start:stop]
        unsound += not standardise(mu, r, setting.root, setting.limits, codes[a:b], rho, kind)
        for i in range(a, b):
            worst = max(worst, codes[i])
        unsettled = note_unsettled(epsilon, a, unsettled, noted[FIRST_PLACE:])
    if worst > 0:
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
