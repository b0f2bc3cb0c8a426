"""The operation ``losses_of_block`` on a device, for releases of linear models.

The device gives every row its statistics and, where it has kernels, the rows of a posterior sample their epsilon.
Threads of the processor make people of these columns, and invert other pairs by the code that they use for their own
blocks. The processor answers for rows of which the device does not know enough (``code``), and for those whose
epsilon does not settle there, so that their numbers and labels are its; they are few.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.kernels import PosteriorSetting
from perinstance.engines.cuda.row_sums import DeviceFactor, row_answers
from perinstance.engines.cuda.transfers import DeviceBlock, event_now, to_host
from perinstance.engines.local import ordered
from perinstance.folds.block import Block
from perinstance.folds.sweep import People
from perinstance.models.linear.ridge import LinearFit, row_map, without
from perinstance.models.linear.row_statistics import HARD, Without
from perinstance.releases.base.release import BlockLosses
from perinstance.releases.posterior_sample import PosteriorSample

CHUNK_ROWS = 1 << 19  #: that the device is asked about, and a thread takes back, at a time; changes only speed
MOST_THREADS = 16  #: that copy answers and make people of them; changes only speed
PRODUCT_BYTES = 1 << 26  #: of the rows that libraries' products are made of at a time; changes only speed


class DeviceLosses(NamedTuple):
    """One entry per row, on the device."""

    leverage: Any
    residual: Any
    length: Any | None
    share: Any | None
    epsilon: Any | None  #: None where the pairs are inverted after they are made; NaN for whom the processor is asked
    code: Any


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some rows that the device was asked about."""

    block: DeviceBlock
    found: DeviceLosses
    ready: Any  #: the event after which the answers are there

    def picked(self, at: Any) -> Block:
        """Return some of the rows, on the host."""
        where = torch_module().as_tensor(at, device=self.block.X.device)
        X, y = to_host(self.block.X[where], self.block.y[where])
        return Block(X.astype(np.float64), y.astype(np.float64), self.block.start)


class LinearWalk:
    """One release, its fit and a delta, on a device."""

    def __init__(self, release: Any, fit: LinearFit, inside: bool, delta: float, device: Any) -> None:
        self.release, self.fit, self.inside, self.delta = release, fit, inside, delta
        self.device = device
        self.floor = float(getattr(release, "residual_floor", 0.0))
        self.factor = DeviceFactor(row_map(fit), fit.n_features, device)
        self.posterior: PosteriorSetting | None = None
        if type(release) is PosteriorSample and 0.0 < delta <= 0.5:
            root = float(np.sqrt(release.gamma))
            self.posterior = PosteriorSetting.of(self.factor, delta, inside, self.floor, root)

    def losses(self, X: Any, y: Any) -> DeviceLosses:
        """Answer for some rows; everything stays on the device."""
        torch = torch_module()
        found = None if self.posterior is None else self.posterior.losses(X, y)
        if found is not None:
            mu, r, epsilon, code = found
            return DeviceLosses(mu, r, None, None, epsilon, code)
        step, parts = max(1024, PRODUCT_BYTES // (8 * X.shape[1])), []
        for x, t in zip(X.split(step), y.split(step), strict=True):
            seen = row_answers(self.factor, x.to(torch.float64), t.to(torch.float64), self.inside, self.floor)
            parts.append((seen.leverage, seen.residual, seen.length, seen.share, None, seen.code))
        return DeviceLosses(*(None if one[0] is None else torch.cat(one) for one in zip(*parts, strict=True)))

    def walk(
        self, blocks: Iterator[DeviceBlock], threads: int, pool: ThreadPoolExecutor | None
    ) -> Iterator[BlockLosses]:
        """Answer chunk by chunk; threads make people of them, while the device goes on."""

        def chunks() -> Iterator[_Chunk]:
            for block in blocks:
                for start in range(0, len(block), CHUNK_ROWS):
                    rows = slice(start, start + CHUNK_ROWS)
                    asked = DeviceBlock(block.X[rows], block.y[rows], block.start + start)
                    yield _Chunk(asked, self.losses(asked.X, asked.y), event_now(self.device))

        return ordered(self.on_host, chunks(), min(threads, MOST_THREADS), pool=pool)

    def on_host(self, chunk: _Chunk) -> BlockLosses:
        """Take answers back and make people of them; the processor answers whom the device left."""
        there = {name: one for name, one in chunk.found._asdict().items() if one is not None}
        host = dict(zip(there, to_host(*there.values(), ready=chunk.ready), strict=True))
        codes, epsilon = host["code"], host.get("epsilon")
        at = np.flatnonzero(codes == HARD if self.factor.rows_map.large else codes)
        open_rows = None
        if len(at):
            rows = chunk.picked(at)
            better = without(self.fit, rows.X, rows.y, self.inside, self.floor)
            for name in {"leverage", "residual", "length", "share"} & set(host):
                host[name][at] = getattr(better, name)
            codes[at] = better.kind_code
            if epsilon is not None:
                epsilon[at] = np.nan
            if better.open is not None:
                open_rows = np.zeros(len(codes), dtype=bool)
                open_rows[at] = better.open
        nothing, codes = np.empty(0), np.minimum(codes, 1)
        length, share = host.get("length", nothing), host.get("share", nothing)
        seen = Without(host["leverage"], host["residual"], length, share, codes, open_rows)
        people: People = self.release.from_row_statistics(self.fit, seen)
        if epsilon is None:
            epsilon = people.pairs.epsilon(self.delta)
        elif len(left := np.flatnonzero(np.isnan(epsilon))):
            epsilon[left] = people.pairs[left].epsilon(self.delta)
        return BlockLosses(people, epsilon, None if open_rows is None else chunk.picked(np.flatnonzero(open_rows)))
