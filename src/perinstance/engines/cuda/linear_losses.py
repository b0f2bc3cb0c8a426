"""The operation ``losses_of_block`` on a device, for releases of linear models.

The device gives every row its statistics and, for a posterior sample, its epsilon. Rows of which it does not know
enough (``code``), and people whose epsilon its inversion does not settle, are few: they are answered by the processor's
own code, so that their numbers and labels are its.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.engines.cuda import fused_kernels
from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.epsilons import (
    posterior_epsilons_there,
    shift_epsilons_there,
    shifts_on_device,
    start_on_device,
)
from perinstance.engines.cuda.host_to_device import DeviceBlock
from perinstance.engines.cuda.row_sums import DeviceFactor, row_answers
from perinstance.engines.ordered_results import ordered
from perinstance.folds.block import Block
from perinstance.folds.sweep import People
from perinstance.models.linear.ridge import LinearFit, row_map, without
from perinstance.models.linear.row_statistics import HARD, Without
from perinstance.numerics.array_types import Floats
from perinstance.pairs import Pairs, Shift
from perinstance.pairs.interface.arguments import spread
from perinstance.releases.base.block_losses import BlockLosses

#: rows that are answered at a time: their numbers travel back while the next ones are computed
CHUNK_ROWS = 1 << 20
#: threads that copy answers and make records of them
MOST_THREADS = 16
#: bytes of the rows that libraries' products are made of at a time
PRODUCT_BYTES = 1 << 26


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

    def on_host(self, block: DeviceBlock, found: DeviceLosses, ready: Any = None) -> BlockLosses:
        """Copy the answers, and let the processor answer whom the device left."""
        torch = torch_module()
        there = {name: getattr(found, name) for name in ("leverage", "residual", "length", "share", "epsilon", "code")}
        known = {name: one for name, one in there.items() if one is not None}
        host = dict(zip(known, to_host(*known.values(), ready=ready), strict=True))
        codes, epsilon, nothing = host["code"], host.get("epsilon"), np.empty(0)
        at = np.flatnonzero(codes == HARD if found.hard else codes)
        open_rows = None
        if len(at):
            left = torch.as_tensor(at, device=block.X.device)
            X, y = (one.astype(np.float64) for one in to_host(block.X[left], block.y[left]))
            better = without(self.fit, X, y, self.inside, self.floor)
            for name in ("leverage", "residual", "length", "share"):
                if name in host:
                    host[name][at] = getattr(better, name)
            codes[at] = better.kind_code
            if better.open is not None:
                open_rows = np.zeros(len(codes), dtype=bool)
                open_rows[at] = better.open
            if epsilon is not None:
                epsilon[at] = np.nan
        length, share = host.get("length", nothing), host.get("share", nothing)
        seen = Without(host["leverage"], host["residual"], length, share, codes, open_rows)
        people: People = self.release.from_row_statistics(self.fit, seen)
        epsilon = self._epsilon(people.pairs) if epsilon is None else _settled(people.pairs, epsilon, self.delta)
        if open_rows is None:
            return BlockLosses(people, epsilon, None)
        picked = torch.as_tensor(np.flatnonzero(open_rows), device=block.X.device)
        X, y = to_host(block.X[picked], block.y[picked])
        return BlockLosses(people, epsilon, Block(X, y, block.start))

    def _epsilon(self, pairs: Pairs) -> Floats:
        """Invert pairs that were made here: shifts on the device, others by the processor."""
        if not isinstance(pairs, Shift) or not 0.0 < self.delta <= 0.5:
            return pairs.epsilon(self.delta)
        torch = torch_module()
        D = torch.tensor(spread(pairs.distance, len(pairs)), device=self.device)
        (epsilon,) = to_host(shift_epsilons_there(D, shifts_on_device(self.delta, self.device)))
        return _settled(pairs, epsilon, self.delta)

    def walk(
        self, blocks: Iterator[DeviceBlock], threads: int, place: Callable[[BlockLosses, int], None] | None = None
    ) -> Iterator[BlockLosses]:
        """Answer block by block; threads make the host's records, and place them, while the device goes on."""

        def chunks() -> Iterator[tuple[DeviceBlock, DeviceLosses, Any]]:
            for block in blocks:
                block.wait()
                for start in range(0, len(block), CHUNK_ROWS):
                    part = slice(start, start + CHUNK_ROWS)
                    chunk = DeviceBlock(block.X[part], block.y[part], block.start + start, None)
                    yield chunk, self.losses(chunk.X, chunk.y), _event(self.device)

        def answered(found: tuple[DeviceBlock, DeviceLosses, Any]) -> BlockLosses:
            part = self.on_host(*found)
            if place is not None:
                place(part, found[0].start)
            return part

        return ordered(answered, chunks(), min(threads, MOST_THREADS))


def _settled(pairs: Pairs, epsilon: Floats, delta: float) -> Floats:
    """Let the processor answer for those without an epsilon."""
    left = np.isnan(epsilon)
    if left.any():
        epsilon[left] = pairs[left].epsilon(delta)
    return epsilon


def _event(device: Any) -> Any:
    """Return the event after which what was asked of a GPU so far is done; None on a processor."""
    return torch_module().cuda.current_stream(device).record_event() if device.type == "cuda" else None


@functools.cache
def _downwards(device: Any) -> Any:
    """Return the stream on which answers come back, so that none waits for the rows behind it."""
    return torch_module().cuda.Stream(device)


def to_host(*tensors: Any, ready: Any = None) -> list[Any]:
    """Return tensors as numpy arrays of their own; from a GPU through pinned memory, after the event ``ready``."""
    torch = torch_module()
    if tensors[0].device.type != "cuda":
        return [one.numpy().copy() for one in tensors]
    device = tensors[0].device
    stream, ready = _downwards(device), _event(device) if ready is None else ready
    there = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in tensors]
    with torch.cuda.stream(stream):
        stream.wait_event(ready)
        for one, other in zip(there, tensors, strict=True):
            one.copy_(other, non_blocking=True)
        done = stream.record_event()
    done.synchronize()
    return [one.numpy() for one in there]
