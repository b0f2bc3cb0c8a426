"""CUDA kernels that read X once: the Gram matrix, and the losses of a posterior sample.

Products of a library write an image of X that is read once and thrown away, and an inversion in array operations reads
its columns a hundred times; at 50 columns that is several times the two readings of X that an audit needs. The source
is ``sources``; CuPy compiles it for a number of columns when it is first needed. ``wide_kernels`` has the kernels of 64
to 208 columns. Without CuPy, on other devices, for other types and for more columns the torch code beside is used.

Rounding is what ``gram_products`` and ``row_sums`` say: sums of fused multiply-adds of float64, in another order. In
``gram_sums`` each of W warps adds n/W rows one after the other, and the W sums are added last: with W from 1024 to 2040
that is at most ``n/1024 + 2048`` additions, the chain that ``Gram`` charges.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.engines.cuda import wide_kernels
from perinstance.engines.cuda.compiled_kernels import (
    LOOKED_AT,
    agrees,
    compiled,
    launch,
    processors,
    usable,
)
from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.epsilons import StartOnDevice, posterior_epsilons_there
from perinstance.engines.cuda.row_sums import FEW_COLUMNS, DeviceFactor, row_answers
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import KERNEL_AGREES

#: columns of [X 1 y], and of W, whose tiles stay in registers
WIDEST = FEW_COLUMNS
#: warps that sum up rows: see above
FEWEST_WARPS, MOST_WARPS = 1024, 2040
#: threads of a block
GRAM, ROWS, FUSED_ROWS = 256, 256, 384
#: columns up to which two blocks find room on a multiprocessor, in ``gram_sums`` and in ``answer_rows``
NARROW_GRAM, NARROW_ROWS = 16, 8
#: columns up to which a warp finishes the rows that it multiplied; with more it has no registers left for that
ALL_AT_ONCE = 32
#: bytes that a warp has under way at least, and stages of sixteen rows at most
UNDER_WAY, MOST_STAGES = 1 << 13, 9
#: a kernel that does something else than torch is off by far more than these, in nearly all rows
GROSS, SAME_EPSILON, NEARLY_ALL = KERNEL_AGREES, 1e-6, 0.98
#: bytes of the rows whose image a library writes at a time: it is read from the cache
IMAGE_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class PosteriorSetting:
    """What the rows of a posterior sample are asked."""

    factor: DeviceFactor
    start: StartOnDevice
    inside: bool
    floor: float
    root: float  #: of gamma

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The kernels' arguments after the rows and the factor."""
        limits, start = self.factor.rows_map.rounding, self.start
        away, residual = limits.leverage + limits.leverage_row, limits.residual + limits.residual_row
        return (
            start.thresholds.data_ptr(),
            np.int64(start.first_row),
            np.int64(start.thresholds.shape[0] - 1),
            *(np.float64(v) for v in (start.delta, start.log_goal, away, residual, self.floor, self.root)),
            np.int32(self.inside),
        )


def gram_sums(X: Any, y: Any, intercept: bool) -> Floats | None:
    """Return ``[X 1 y]'[X 1 y]``; None where another way is taken."""
    width = X.shape[1] + int(intercept) + 1
    if width > wide_kernels.WIDEST or not usable(X, y):
        return None
    way = _gram if width <= WIDEST else wide_kernels.gram_wide

    def looked() -> bool | None:
        torch = torch_module()
        few, aim = X[:LOOKED_AT], y[:LOOKED_AT]
        ones = [torch.ones((len(few), 1), dtype=torch.float64, device=X.device)] if intercept else []
        Z = torch.cat([few, *ones, aim[:, None]], dim=1)
        length = Z.norm(dim=0).cpu().numpy()
        if not np.isfinite(length).all():  # a target is not: what was seen of it says nothing of the kernel
            return None
        off = np.abs(np.triu(way(few, aim, intercept) - (Z.T @ Z).cpu().numpy()))
        return bool((off <= GROSS * np.outer(length, length)).all())

    return way(X, y, intercept) if agrees("gram_sums", X, (X.shape[1], intercept), looked) else None


def _gram(X: Any, y: Any, intercept: bool) -> Floats:
    torch = torch_module()
    d, width = X.shape[1], X.shape[1] + int(intercept) + 1
    resident, tiles, each = 2 if d <= NARROW_GRAM else 1, -(-width // 8), GRAM // 32
    stages = min(MOST_STAGES, max(3, 1 + UNDER_WAY // (128 * d)))
    shared = each * stages * 8 * (16 * d + 16)
    shape = _shape(GRAM, resident, D=d, ONES=int(intercept), TILES=tiles, STAGES=stages)
    kernel = compiled("gram_sums", X.device.index or 0, _FILES, shape, shared)
    blocks = max(-(-FEWEST_WARPS // each), min(MOST_WARPS // each, processors(X.device) * resident))
    out = torch.empty((blocks * each, 8 * tiles, 8 * tiles), dtype=torch.float64, device=X.device)
    launch(kernel, X, blocks, GRAM, (X.data_ptr(), y.data_ptr(), np.int64(len(X)), out.data_ptr()), shared)
    sums, at = out.sum(dim=0).cpu().numpy(), _places(d, width)
    # tiles below the diagonal are not written: take each entry from the half that is
    return np.asarray(sums[np.minimum(at[:, None], at), np.maximum(at[:, None], at)])


_FILES = ("finish_kernels", "fused_kernels")


def _shape(threads: int, blocks: int, **given: int) -> tuple[tuple[str, int], ...]:
    """Return the macros of a kernel, with others for those that it does not use."""
    others = {"D": 1, "ONES": 0, "TILES": 1, "OUT_TILES": 1, "TRIANGULAR": 0, "STAGES": 2, "FUSED": 1}
    return tuple({**others, "THREADS": threads, "BLOCKS": blocks, **given}.items())


@functools.cache
def _places(d: int, width: int) -> Any:
    """Return where each column of [X 1 y] stands in the kernel's sums."""
    column = np.arange(width)
    paired = d // 16 * 16 if d % 2 == 0 else 0
    inside = column % 16
    return np.where(column < paired, column - inside + 8 * (inside % 2) + inside // 2, column)


def posterior_losses(setting: PosteriorSetting, X: Any, y: Any) -> tuple[Any, Any, Any, Any] | None:
    """Return mu, r, epsilon (NaN for whom the processor is asked) and the code of each row; None: another way."""
    factor = setting.factor
    if not factor.plain or not usable(X, y):
        return None
    shape = (*factor.inner_shape, factor.rows_map.triangular, setting.inside)
    return _losses(setting, X, y) if agrees("posterior", X, shape, lambda: _looked(setting, X, y)) else None


def _looked(setting: PosteriorSetting, X: Any, y: Any) -> bool:
    """Compare the losses of some rows with those of torch: nearly all of them agree to many digits."""
    torch = torch_module()
    few, aim = X[:LOOKED_AT], y[:LOOKED_AT]
    mu, r, epsilon, code = _losses(setting, few, aim)
    seen = row_answers(setting.factor, few, aim, setting.inside, setting.floor)
    other = posterior_epsilons_there(seen.leverage, setting.root * seen.residual.abs(), setting.start)
    same = (mu - seen.leverage).abs() <= GROSS * seen.leverage
    same &= (r - seen.residual).abs() <= GROSS * (seen.residual.abs() + aim.abs().max())
    same &= ((epsilon - other).abs() <= SAME_EPSILON * other + GROSS) | epsilon.isnan() | other.isnan()
    same &= code == seen.code
    return bool(same.to(torch.float64).mean() > NEARLY_ALL)


def _losses(setting: PosteriorSetting, X: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    torch = torch_module()
    n, factor = len(X), setting.factor
    mu, r, epsilon = (torch.empty(n, dtype=torch.float64, device=X.device) for _ in range(3))
    code = torch.empty(n, dtype=torch.uint8, device=X.device)
    found = mu, r, epsilon, code
    if max(factor.inner_shape) <= ALL_AT_ONCE:
        _rows(setting, X, y, found, fused=True)
        return found
    if max(factor.inner_shape) <= WIDEST:
        _rows(setting, X, y, found, fused=False)
    else:
        (wide_kernels.sum_wide if wide_kernels.fits(factor) else _sum_products)(factor, X, mu, r)
    kernel = compiled("finish_rows", X.device.index or 0, ("finish_kernels",), (), 0)
    launch(kernel, X, -(-n // 128), 128, _arguments(setting, y, found))
    return found


def _arguments(setting: PosteriorSetting, y: Any, found: tuple[Any, ...]) -> tuple[Any, ...]:
    return (y.data_ptr(), np.int64(len(y)), *setting.numbers, *(one.data_ptr() for one in found))


def _rows(setting: PosteriorSetting, X: Any, y: Any, found: tuple[Any, ...], fused: bool) -> None:
    """One reading of X, the factor in shared memory; for all answers, or for leverage and prediction."""
    factor = setting.factor
    d, rank = factor.inner_shape
    tiles, depth = -(-rank // 8), -(-d // 8)
    threads, resident = FUSED_ROWS if fused else ROWS, 2 if d <= NARROW_ROWS else 1
    shape = _shape(
        threads, resident, D=d, OUT_TILES=tiles, TRIANGULAR=int(factor.rows_map.triangular), FUSED=int(fused)
    )
    shared = 16 * (tiles * depth * 32 + 8 * tiles) + threads // 32 * 8 * 32 * d
    kernel = compiled("answer_rows", X.device.index or 0, _FILES, shape, shared)
    blocks = min(processors(X.device) * resident, -(-len(X) // 32))
    pointers = (X.data_ptr(), factor.fragments.data_ptr(), *_arguments(setting, y, found))
    launch(kernel, X, blocks, threads, pointers, shared)


def _sum_products(factor: DeviceFactor, X: Any, m: Any, predicted: Any) -> None:
    """Many columns: a library's products of some rows, then one reading of their image."""
    torch = torch_module()
    d, rank = factor.inner_shape
    kernel = compiled("sum_image", X.device.index or 0, ("finish_kernels",), (), 0)
    step = max(1024, IMAGE_BYTES // (8 * rank))
    room = torch.empty((min(step, len(X)), rank), dtype=torch.float64, device=X.device)
    # the columns of a triangular W in two panels: the first reaches down half the way
    cuts = (0, rank // 16 * 8, rank) if factor.rows_map.triangular and factor.offset is None else (0, rank)
    for start in range(0, len(X), step):
        n = min(step, len(X) - start)
        q, rows = room[:n], X[start : start + n]
        for a, b in zip(cuts, cuts[1:], strict=False):
            down = min(b, d) if len(cuts) > 2 else d
            torch.mm(rows[:, :down], factor.inner[:down, a:b], out=q[:, a:b])
        if factor.offset is not None:
            q += factor.offset
        there = (m[start:].data_ptr(), predicted[start:].data_ptr())
        pointers = (q.data_ptr(), np.int64(n), np.int32(rank), factor.image.data_ptr(), *there)
        launch(kernel, X, -(-n // 16), 128, pointers)
