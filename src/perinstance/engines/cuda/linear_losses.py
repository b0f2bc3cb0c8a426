"""The operation ``losses_of_block`` on a device, for releases of linear models.

The device gives every row its statistics and, for a posterior sample, its epsilon. Rows of which it does not know
enough (``code``), and people whose epsilon its inversion does not settle, are few: they are answered by the processor's
own code, so that their numbers and labels are its.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, wait
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.engines.cuda import fused_kernels
from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.epsilons import (
    posterior_epsilons_there,
    shift_epsilons_there,
    shifts_on_device,
    start_on_device,
)
from perinstance.engines.cuda.loss_chunks import UNSOUND, WORST, DeviceLosses, LossChunk, LossTurns
from perinstance.engines.cuda.row_sums import DeviceFactor, row_answers
from perinstance.engines.cuda.transfers.device_to_host import Downloads, event_now, to_host
from perinstance.engines.cuda.transfers.host_to_device import DeviceBlock
from perinstance.engines.ordered_results import Crew, Job, ordered, waited_for
from perinstance.folds.block import Block
from perinstance.folds.sweep import People
from perinstance.models.linear.ridge import LinearFit, row_map, without
from perinstance.models.linear.row_statistics import HARD, Without
from perinstance.numerics.array_types import Floats
from perinstance.pairs import Pairs, Shift
from perinstance.pairs.interface.arguments import spread
from perinstance.releases.base.block_losses import AnswerPlaces, AnswerRoom, BlockLosses
from perinstance.releases.posterior_sample import PosteriorSample

#: rows that the device is asked about at a time, at most and by their bytes
ASKED_ROWS, ASKED_BYTES = 1 << 22, 1 << 30
#: of these, rows that a thread takes back at a time while others are computed
CHUNK_ROWS = 1 << 20
#: rows, at most, that come back by turns together; as many times more are begun ahead
LAP_ROWS, LAPS_AHEAD = 1 << 25, 1
#: turns that are made once more without other threads
FEW_TURNS = 2
#: threads that copy answers and make records of them
MOST_THREADS = 16
#: bytes of the rows that libraries' products are made of at a time
PRODUCT_BYTES = 1 << 26


def has_device_losses(release: Any, fit: Any, inside: bool) -> bool:
    """Tell whether the people of a release are answered on the device."""
    return (
        isinstance(fit, LinearFit)
        and bool(fit.basis.size)
        and hasattr(release, "from_row_statistics")
        and (inside or fit.span is None)
    )


class LinearWalk:
    """One release, its fit and a delta, on a device."""

    def __init__(self, release: Any, fit: LinearFit, inside: bool, delta: float, device: Any) -> None:
        self.release, self.fit, self.inside, self.delta = release, fit, inside, delta
        self.device = device
        self.floor = float(getattr(release, "residual_floor", 0.0))
        self.factor = DeviceFactor(row_map(fit), fit.n_features, device)
        self.gamma = float(release.gamma) if fit.norm is None and hasattr(release, "gamma") else None
        if not 0.0 < delta <= 0.5:
            self.gamma = None
        self.start = None if self.gamma is None else start_on_device(delta, device)

    def losses(self, X: Any, y: Any) -> DeviceLosses:
        """Answer for some rows; everything stays on the device."""
        torch = torch_module()
        large = self.factor.rows_map.large
        root = None if self.gamma is None else float(np.sqrt(self.gamma))
        if self.start is not None and root is not None:
            setting = fused_kernels.PosteriorSetting(self.factor, self.start, self.inside, self.floor, root)
            found = fused_kernels.posterior_losses(setting, X, y)
            if found is not None:
                mu, r, epsilon, code = found
                return DeviceLosses(mu, r, None, None, epsilon, code, large)
        n, d = X.shape
        step = max(1024, PRODUCT_BYTES // (8 * d))
        parts = []
        for start in range(0, n, step):
            rows, aim = X[start : start + step].to(torch.float64), y[start : start + step].to(torch.float64)
            seen = row_answers(self.factor, rows, aim, self.inside, self.floor)
            epsilon = None
            if self.start is not None and root is not None:
                rho = torch.nan_to_num(root * seen.residual.abs(), nan=torch.inf, posinf=torch.inf)
                epsilon = posterior_epsilons_there(seen.leverage, rho, self.start)
            parts.append((seen.leverage, seen.residual, seen.length, seen.share, epsilon, seen.code))
        mu, r, length, share, epsilon, code = (
            None if column[0] is None else torch.cat(column) for column in zip(*parts, strict=True)
        )
        return DeviceLosses(mu, r, length, share, epsilon, code, large)

    def on_host(self, chunk: LossChunk, downloads: Downloads, room: AnswerRoom | None = None) -> BlockLosses:
        """Take answers back, to their places where they are given."""
        there = chunk.found.columns
        host = {name: _array(room, name, len(chunk)) for name in there}
        downloads(list(there.values()), chunk.rows, list(host.values()), chunk.ready)
        return self._completed(chunk, host, room)

    def _completed(self, chunk: LossChunk, host: dict[str, Any], room: AnswerRoom | None) -> BlockLosses:
        """Make the people of columns that came back; the processor answers whom the device left."""
        codes, epsilon, nothing = host["code"], host.get("epsilon"), np.empty(0)
        hard = codes.max(initial=0) >= chunk.found.left_from
        open_rows = self._answer_left(chunk, host) if hard else None
        length, share = host.get("length", nothing), host.get("share", nothing)
        seen = Without(host["leverage"], host["residual"], length, share, codes, open_rows)
        made_there = {} if room is None else {"room": room}
        people: People = self.release.from_row_statistics(self.fit, seen, **made_there)
        if epsilon is None:
            epsilon = self._epsilon(people.pairs)
        else:
            epsilon = _settled(people.pairs, epsilon, self.delta, np.flatnonzero(np.isnan(epsilon)))
        if open_rows is None:
            return BlockLosses(people, epsilon, None)
        X, y = chunk.picked(np.flatnonzero(open_rows))
        return BlockLosses(people, epsilon, Block(X, y, chunk.start))

    def _answer_left(self, chunk: LossChunk, host: dict[str, Any]) -> Any:
        """Let the processor answer for rows that the device left; returns who is still open, or None."""
        codes = host["code"]
        at = np.flatnonzero(codes == HARD if chunk.found.hard else codes)
        X, y = (one.astype(np.float64) for one in chunk.picked(at))
        better = without(self.fit, X, y, self.inside, self.floor)
        for name in ("leverage", "residual", "length", "share"):
            if name in host:
                host[name][at] = getattr(better, name)
        codes[at] = better.kind_code
        if "epsilon" in host:
            host["epsilon"][at] = np.nan
        if better.open is None:
            return None
        open_rows = np.zeros(len(codes), dtype=bool)
        open_rows[at] = better.open
        return open_rows

    def _epsilon(self, pairs: Pairs) -> Floats:
        """Invert pairs that were made here: shifts on the device, others by the processor."""
        if not isinstance(pairs, Shift) or not 0.0 < self.delta <= 0.5:
            return pairs.epsilon(self.delta)
        torch = torch_module()
        D = torch.tensor(spread(pairs.distance, len(pairs)), device=self.device)
        (epsilon,) = to_host(shift_epsilons_there(D, shifts_on_device(self.delta, self.device)))
        return _settled(pairs, epsilon, self.delta, np.flatnonzero(np.isnan(epsilon)))

    def walk(
        self,
        blocks: Iterator[DeviceBlock],
        threads: int,
        places: AnswerPlaces | None = None,
        crew: Crew | None = None,
        downloads: Downloads | None = None,
    ) -> Iterator[BlockLosses]:
        """Answer block by block; threads make the host's records, in their places, while the device goes on."""
        threads = min(threads, MOST_THREADS)
        downloads = Downloads(self.device, threads) if downloads is None else downloads
        in_place = places is not None and self._makes_in_place()
        if places is not None and in_place:
            places.place(self._nobody(), 0)  # which tells what the pairs are made of
            if downloads.pinned and places.room(0, 0) is not None:
                return self._in_turns(blocks, threads, places, downloads, crew)

        def answered(chunk: LossChunk) -> BlockLosses:
            room = places.room(chunk.start, len(chunk)) if places is not None and in_place else None
            part = self.on_host(chunk, downloads, room)
            if places is not None:
                places.place(part, chunk.start)
            return part

        return ordered(answered, self._chunks(blocks), threads, crew=crew)

    def _chunks(self, blocks: Iterator[DeviceBlock]) -> Iterator[LossChunk]:
        """Ask the device about many rows, and hand out fewer at a time: to ask costs more than to take back."""
        for block in blocks:
            for asked in self._asked(block):
                yield from asked.cut(CHUNK_ROWS)

    def _asked(self, block: DeviceBlock) -> Iterator[LossChunk]:
        """Ask the device about the rows of a block."""
        block.wait()
        start = 0
        for end in _asked_ends(len(block), block.X.shape[1]):
            run = slice(start, end)
            asked = DeviceBlock(block.X[run], block.y[run], block.start + start, None)
            found = self.losses(asked.X, asked.y)
            yield LossChunk(asked, found, slice(0, len(asked)), event_now(self.device))
            start = end

    def _in_turns(
        self, blocks: Iterator[DeviceBlock], threads: int, places: AnswerPlaces, downloads: Downloads, crew: Crew | None
    ) -> Iterator[BlockLosses]:
        """Answer with people who come back by turns; the crew is dismissed when it has the last."""
        mine = Crew(threads) if crew is None else crew
        waiting: deque[tuple[LossTurns, list[Job]]] = deque()
        setting = self.release.standardising
        try:
            for lap in chain.from_iterable(_laps(block) for block in blocks):
                room = places.room(lap.start, len(lap))
                assert room is not None  # as it was for nobody
                people = LossTurns.of(_asked_ends(len(lap), lap.X.shape[1]), room)
                receive = partial(people.receive, setting=setting)
                jobs: list[Job] = [(receive, downloads, Future()) for _ in range(threads)]
                waiting.append((people, jobs))
                for asked in self._asked(lap):
                    people.add(asked)
                    if len(people.chunks) == 1:  # the device has work: threads may have the interpreter
                        for job in jobs:
                            mine.put(job)
                if len(waiting) > LAPS_AHEAD:
                    yield from self._received(*waiting.popleft(), threads)
            mine.dismiss()
            while waiting:
                yield from self._received(*waiting.popleft(), threads)
        finally:
            for people, _ in waiting:
                people.shut()
            wait([future for _, jobs in waiting for *_, future in jobs if not future.cancel()])
            if crew is None:
                mine.end()

    def _received(self, people: LossTurns, jobs: list[Job], threads: int) -> Iterator[BlockLosses]:
        """Wait for some people; those in turns with somebody whom the device left are made once more."""
        waited_for(jobs)
        room, noted = people.room, people.noted
        left = (noted[:, WORST] >= people.chunks[0].found.left_from) | (noted[:, UNSOUND] > 0)

        def again(turn: int) -> BlockLosses:
            rows, names = people.rows(turn), ("leverage", "residual", "epsilon")
            own = room.part(rows)
            host = {name: getattr(own, name) for name in names} | {"code": people.codes[rows]}
            return self._completed(people.part(turn), host, own)

        turns = np.flatnonzero(left).tolist()
        better = list(ordered(again, turns, 1 if len(turns) <= FEW_TURNS else threads))
        _settled(self.release.people_in(room).pairs, room.epsilon, self.delta, people.without_epsilon(~left))
        start = 0
        for turn, part in zip(turns, better, strict=True):
            rows = people.rows(turn)
            if start < rows.start:
                yield self._as_written(room.part(slice(start, rows.start)))
            yield part
            start = rows.stop
        if start < len(room.epsilon):
            yield self._as_written(room.part(slice(start, None)))

    def _as_written(self, room: AnswerRoom) -> BlockLosses:
        return BlockLosses(self.release.people_in(room), room.epsilon, None)

    def _makes_in_place(self) -> bool:
        """Tell whether the pairs of this release, inverted on the device, can be made where everybody's are."""
        own = getattr(type(self.release), "from_row_statistics", None)
        return self.start is not None and own is PosteriorSample.from_row_statistics

    def _nobody(self) -> BlockLosses:
        """Return the answers of no rows."""
        none, codes = np.empty(0), np.empty(0, dtype=np.uint8)
        people = self.release.from_row_statistics(self.fit, Without(none, none, none, none, codes))
        return BlockLosses(people, none, None)


def _asked_ends(n: int, columns: int) -> list[int]:
    """Return where the rows end that the device is asked about at a time."""
    rows = min(ASKED_ROWS, 1 << (ASKED_BYTES // (8 * columns)).bit_length() - 1)
    return [*range(rows, n, rows), n]


def _laps(block: DeviceBlock) -> Iterator[DeviceBlock]:
    """Cut a block into people who come back together."""
    block.wait()
    for start in range(0, len(block), LAP_ROWS):
        rows = slice(start, start + LAP_ROWS)
        yield DeviceBlock(block.X[rows], block.y[rows], block.start + start, None)


def _array(room: AnswerRoom | None, name: str, n: int) -> Any:
    """Return where a column of a chunk goes; the device's codes are not labels yet."""
    if name == "code":
        return np.empty(n, dtype=np.uint8)
    return np.empty(n) if room is None else getattr(room, name)


def _settled(pairs: Pairs, epsilon: Floats, delta: float, at: NDArray[np.int64]) -> Floats:
    """Let the processor answer for those without an epsilon."""
    if len(at):
        epsilon[at] = pairs[at].epsilon(delta)
    return epsilon
