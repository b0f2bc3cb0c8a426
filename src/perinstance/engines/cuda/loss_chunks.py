"""Losses on the device, chunks of them, and how those of a posterior sample come back to where everybody's are.

Columns that are copied, looked through and standardised one after the other go through the processor's memory three
times, by all threads at once. Here some people's numbers are taken from a pinned buffer, and everything that follows
from them is written, before the next, in one
compiled call: each number is read once and written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.transfers.compiled_slices import TO_HOST, call_address, transfer_addresses
from perinstance.engines.cuda.transfers.device_to_host import Downloads, to_host
from perinstance.engines.cuda.transfers.host_to_device import DeviceBlock
from perinstance.engines.cuda.transfers.pinned_buffers import check, cuda_runtime
from perinstance.numerics.numba_compile import kernel
from perinstance.releases.base.block_losses import AnswerRoom
from perinstance.releases.posterior_sample import Standardising, standardise

#: bytes of a person on the device: leverage, residual, epsilon and a code
PERSON = 25
#: people of a run are a multiple of this: lines of memory, of the codes too
LEAST_ROWS = 64
#: people whose numbers stay in the first-level cache while they are finished
TOGETHER = 1024
#: people who are looked at together for one without an epsilon
LOOKED_AT = 256


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

    def picked(self, at: Any) -> list[Any]:
        """Return X and y of some of the rows."""
        where = torch_module().as_tensor(at + self.rows.start, device=self.block.X.device)
        return to_host(self.block.X[where], self.block.y[where])


class Received(NamedTuple):
    """What was seen in passing."""

    error: int  #: CUDA's
    worst: int  #: the largest code of the device
    unsettled: int  #: people without an epsilon
    finished: bool  #: everybody is standardised, and all leverages are numbers >= 0


def receive_in_place(
    chunk: LossChunk, downloads: Downloads, room: AnswerRoom, setting: Standardising, places: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], Received]:
    """Fill a room; returns the device's codes and what was seen. ``places``: of the first people without an epsilon."""
    found, codes = chunk.found.columns, np.empty(len(chunk), dtype=np.uint8)
    there = tuple(
        int(found[name].data_ptr() + size * chunk.rows.start)
        for name, size in (("leverage", 8), ("residual", 8), ("epsilon", 8), ("code", 1))
    )
    into = room.leverage, room.residual, room.parameter, room.epsilon, room.code
    with downloads.taken(chunk.ready) as buffer:
        words, events = buffer.numbers(PERSON * max(len(chunk), LEAST_ROWS))
        link = buffer.stream.cuda_stream, transfer_addresses(cuda_runtime())
        seen = Received(*receive_people(there, words, events, link, into, codes, setting, places))
    check(seen.error)
    return codes, seen


@kernel
def receive_people(there, words, events, link, into, codes, setting, places):  # pragma: no cover - compiled
    """Take columns back, a run of people at a time through pieces of a pinned buffer, and finish these people."""
    stream, calls = link
    n, piece = len(codes), len(words) // len(events)
    rows = 8 * piece // PERSON // LEAST_ROWS * LEAST_ROWS  # columns begin at whole lines of memory
    count = (n + rows - 1) // rows
    begun, worst, unsettled, sound = 0, np.uint8(0), 0, True
    for run in range(count):
        while begun < count and begun < run + len(events):
            k, first = begun % len(events), begun * rows
            m = min(rows, n - first)
            base = words.ctypes.data + 8 * piece * k
            error = 0
            for c in range(4):
                size = 8 if c < 3 else 1
                if error == 0:
                    source = there[c] + size * first
                    error = call_address(calls.send, (base + 8 * rows * c, source, size * m, TO_HOST, stream))
            if error == 0:
                error = call_address(calls.record, (events[k], stream))
            if error != 0:
                return error, worst, unsettled, sound
            begun += 1
        k, first = run % len(events), run * rows
        m = min(rows, n - first)
        error = call_address(calls.wait, (events[k],))
        if error != 0:
            return error, worst, unsettled, sound
        numbers = words[piece * k : piece * (k + 1)]
        kinds = numbers[3 * rows :].view(np.uint8)
        for a in range(0, m, TOGETHER):
            b = min(a + TOGETHER, m)
            mu, r, epsilon = (
                into[0][first + a : first + b],
                into[1][first + a : first + b],
                into[3][first + a : first + b],
            )
            code = codes[first + a : first + b]
            mu[:] = numbers[a:b]
            r[:] = numbers[rows + a : rows + b]
            epsilon[:] = numbers[2 * rows + a : 2 * rows + b]
            code[:] = kinds[a:b]
            most, missing = left_open(code, epsilon, places[min(unsettled, len(places)) :])
            for i in range(min(unsettled, len(places)), min(unsettled + missing, len(places))):
                places[i] += first + a
            worst, unsettled = max(worst, most), unsettled + missing
            sound &= standardise(
                mu,
                r,
                setting.root,
                setting.limits,
                code,
                into[2][first + a : first + b],
                into[4][first + a : first + b],
            )
    return 0, worst, unsettled, sound


@kernel
def left_open(codes, epsilon, places):  # pragma: no cover - compiled
    """Return the largest code, and count the people without an epsilon, whose places are noted."""
    worst, unsettled = np.uint8(0), 0
    for i in range(len(codes)):
        worst = max(worst, codes[i])
    for start in range(0, len(epsilon), LOOKED_AT):
        some, missing = epsilon[start : start + LOOKED_AT], np.int64(0)
        for i in range(len(some)):  # without a branch: several people at a time
            missing += np.int64(some[i] != some[i])
        if missing:
            for i in range(len(some)):
                if some[i] != some[i]:
                    if unsettled < len(places):
                        places[unsettled] = start + i
                    unsettled += 1
    return worst, unsettled
