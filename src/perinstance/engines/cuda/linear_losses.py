"""The operation ``losses_of_block`` on a device, for releases of linear models.

The device gives every row its statistics and, for a posterior sample, its epsilon. Rows of which it does not know
enough (``code``), and people whose epsilon its inversion does not settle, are few: they are answered by the processor's
own code, so that their numbers and labels are its.
"""

from __future__ import annotations

from collections.abc import Iterator
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
CHUNK_ROWS = 1 << 21
#: threads that copy answers and make records of them
MOST_THREADS = 8
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

    def on_host(self, block: DeviceBlock, found: DeviceLosses) -> BlockLosses:
        """Copy the answers, and let the processor answer whom the device left."""
        torch = torch_module()
        left = torch.nonzero(found.code == HARD if found.hard else found.code > 0)[:, 0]
        columns = {name: getattr(found, name) for name in ("leverage", "residual", "length", "share", "code")}
        host = {name: np.empty(0) if one is None else to_host(one) for name, one in columns.items()}
        epsilon = None if found.epsilon is None else to_host(found.epsilon)
        codes = np.minimum(host["code"], 1).astype(np.uint8)
        open_rows = None
        if len(left):
            at, rows = to_host(left), Block(to_host(block.X[left]), to_host(block.y[left]), block.start)
            better = without(self.fit, rows.X.astype(np.float64), rows.y.astype(np.float64), self.inside, self.floor)
            for name in ("leverage", "residual", "length", "share"):
                if len(host[name]):
                    host[name][at] = getattr(better, name)
            codes[at] = better.kind_code
            if better.open is not None:
                open_rows = np.zeros(len(codes), dtype=bool)
                open_rows[at] = better.open
            if epsilon is not None:
                epsilon[at] = np.nan
        seen = Without(host["leverage"], host["residual"], host["length"], host["share"], codes, open_rows)
        people: People = self.release.from_row_statistics(self.fit, seen)
        epsilon = self._epsilon(people.pairs) if epsilon is None else _settled(people.pairs, epsilon, self.delta)
        if open_rows is None:
            return BlockLosses(people, epsilon, None)
        picked = torch.as_tensor(np.flatnonzero(open_rows), device=block.X.device)
        rows = Block(to_host(block.X[picked]), to_host(block.y[picked]), block.start)
        return BlockLosses(people, epsilon, rows)

    def _epsilon(self, pairs: Pairs) -> Floats:
        """Invert pairs that were made here: shifts on the device, others by the processor."""
        if not isinstance(pairs, Shift) or not 0.0 < self.delta <= 0.5:
            return pairs.epsilon(self.delta)
        torch = torch_module()
        D = torch.tensor(spread(pairs.distance, len(pairs)), device=self.device)
        return _settled(pairs, to_host(shift_epsilons_there(D, shifts_on_device(self.delta, self.device))), self.delta)

    def walk(self, blocks: Iterator[DeviceBlock], threads: int) -> Iterator[BlockLosses]:
        """Answer block by block; threads make the host's records while the device goes on."""

        def chunks() -> Iterator[tuple[DeviceBlock, DeviceLosses]]:
            for block in blocks:
                block.wait()
                for start in range(0, len(block), CHUNK_ROWS):
                    part = slice(start, start + CHUNK_ROWS)
                    chunk = DeviceBlock(block.X[part], block.y[part], block.start + start, None)
                    yield chunk, self.losses(chunk.X, chunk.y)

        return ordered(lambda found: self.on_host(*found), chunks(), min(threads, MOST_THREADS))


def _settled(pairs: Pairs, epsilon: Floats, delta: float) -> Floats:
    """Let the processor answer for those without an epsilon."""
    left = np.isnan(epsilon)
    if left.any():
        epsilon[left] = pairs[left].epsilon(delta)
    return epsilon


def to_host(tensor: Any) -> Any:
    """Return a tensor as a numpy array of its own, through pinned memory where it comes from a GPU."""
    torch = torch_module()
    if tensor.device.type != "cuda":
        return tensor.numpy().copy()
    there = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    there.copy_(tensor, non_blocking=True)
    torch.cuda.current_stream(tensor.device).synchronize()
    return there.numpy()
