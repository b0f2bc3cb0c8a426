"""CUDA kernels that read X once: the Gram matrix of few columns, and the losses of a posterior sample.

Products of a library write an image of X that is read once and thrown away, and an inversion in array operations reads
its columns a hundred times; at 50 columns that is several times the two readings of X that an audit needs. The source
is ``fused_kernels.cu``; CuPy compiles it for a number of columns when it is first needed. Without CuPy, on other
devices, for other types and for many columns the torch code beside is used.

Rounding is what ``gram_products`` and ``row_sums`` say: sums of fused multiply-adds of float64, in another order. In
``gram_sums`` each of W warps adds n/W rows one after the other, and the W sums are added last: with W from 1024 to 2040
that is at most ``n/1024 + 2048`` additions, the chain that ``Gram`` charges.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.epsilons import STEPS, StartOnDevice, posterior_epsilons_there
from perinstance.engines.cuda.row_sums import DeviceFactor, row_answers
from perinstance.event_log import LOG
from perinstance.models.linear.row_statistics import HARD_LEVERAGE
from perinstance.numerics.array_types import Floats
from perinstance.numerics.normal_tails import MILLS
from perinstance.numerics.rounding import (
    EXACT_PARAMETER,
    KERNEL_AGREES,
    LARGEST_SQUARE,
    SOLVER_ABSOLUTE,
    SOLVER_RELATIVE,
    THIRD_TERM,
    UNDERFLOWN,
    UNIT,
)
from perinstance.pairs.closed_form.many_posteriors import COLUMNS, ROW_BITS

#: columns of [X 1 y], and of W, whose tiles stay in registers; for more a library's products are as good
WIDEST = 64
#: the first kind of device with the instruction for tiles of 16 x 8 float64
CAPABILITY = (9, 0)
#: warps that sum up rows: see above
FEWEST_WARPS, MOST_WARPS = 1024, 2040
#: threads of a block, and blocks on a multiprocessor
GRAM = (256, 1)
ROWS = (384, 1)
#: sets of sixteen rows that a warp multiplies at a time
SETS = 2
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

    def numbers(self) -> tuple[Any, ...]:
        """Return the kernels' arguments after the rows and the factor."""
        limits, start = self.factor.rows_map.rounding, self.start
        away, residual = limits.leverage + limits.leverage_row, limits.residual + limits.residual_row
        return (
            start.thresholds.data_ptr(),
            np.int64(start.first_row),
            np.int64(start.thresholds.shape[0] - 1),
            *(np.float64(v) for v in (start.delta, start.log_goal, away, residual, self.floor, self.root)),
            np.int32(self.inside),
        )


def macros() -> dict[str, str]:
    """Return the numbers that the source shares with the package, as C writes them."""
    values = {
        "UNIT": UNIT,
        "HARD_LEVERAGE": HARD_LEVERAGE,
        "EXACT_PARAMETER": EXACT_PARAMETER,
        "UNDERFLOWN": UNDERFLOWN,
        "LARGEST_SQUARE": LARGEST_SQUARE,
        "SOLVER_RELATIVE": SOLVER_RELATIVE,
        "SOLVER_ABSOLUTE": SOLVER_ABSOLUTE,
        "THIRD_TERM": THIRD_TERM,
    }
    return {
        **{name: float(value).hex() for name, value in values.items()},
        "MILLS_LIST": ",".join(float(one).hex() for one in MILLS),
        "ROW_BITS": str(ROW_BITS),
        "COLUMNS": str(COLUMNS),
        "STEPS": str(STEPS),
        "HUGE_STEP": "HUGE_VAL",
        "INFINITE": "HUGE_VAL",
        "NOT_A_NUMBER": "(HUGE_VAL - HUGE_VAL)",
    }


def source(**shape: int) -> str:
    """Return the source with its macros written before it."""
    body = resources.files("perinstance.engines.cuda").joinpath("fused_kernels.cu").read_text("utf-8")
    lines = [f"#define {name} {value}" for name, value in {**macros(), **shape}.items()]
    on_device = (
        "#ifdef __CUDACC__\n#undef HUGE_VAL\n#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)\n#endif"
    )
    return "\n".join([on_device, *lines, body])


@functools.lru_cache(maxsize=64)
def _kernel(name: str, device: int, shape: tuple[tuple[str, int], ...]) -> Any:
    """Compile a kernel for a number of columns."""
    import cupy

    with cupy.cuda.Device(device):
        text = source(**dict(shape))
        return cupy.RawModule(code=text, options=("--std=c++17",), name_expressions=None).get_function(name)


def usable(X: Any, y: Any) -> bool:
    """Tell whether the kernels can read these rows."""
    torch = torch_module()
    return bool(
        X.device.type == "cuda"
        and X.dtype == y.dtype == torch.float64
        and X.is_contiguous()
        and y.is_contiguous()
        and X.data_ptr() % 16 == 0
        and torch.cuda.get_device_capability(X.device) >= CAPABILITY
        and _has_cupy()
    )


@functools.cache
def _has_cupy() -> bool:
    try:
        import cupy  # noqa: F401 - it may be there and not load, without a driver for one
    except ImportError:
        return False
    return True


def _launch(kernel: Any, X: Any, blocks: int, threads: int, arguments: tuple[Any, ...], shared: int = 0) -> None:
    """Launch on torch's current stream of the device."""
    import cupy

    stream = torch_module().cuda.current_stream(X.device)
    with cupy.cuda.Device(X.device.index or 0), cupy.cuda.ExternalStream(stream.cuda_stream):
        if shared > 48 << 10:
            kernel.max_dynamic_shared_size_bytes = shared
        kernel((blocks,), (threads,), arguments, shared_mem=shared)


#: rows on which a kernel is compared with torch before it is used
LOOKED_AT = 1000
_agreed: dict[tuple[Any, ...], bool] = {}


def _agrees(name: str, X: Any, shape: tuple[Any, ...], looked: Callable[[], bool]) -> bool:
    """Tell whether a kernel gave what torch gives on some rows, once for each shape and device.

    What a driver or a compiler that nobody has tried makes of the source is not taken on trust.
    """
    key = (name, str(X.device), shape)
    if key not in _agreed:
        _agreed[key] = looked()
        if not _agreed[key]:
            LOG.warning("the CUDA kernel %s does not give what torch gives on this device; torch is used instead", name)
    return _agreed[key]


def gram_sums(X: Any, y: Any, intercept: bool) -> Floats | None:
    """Return ``[X 1 y]'[X 1 y]``, its upper triangle; None where another way is taken."""
    width = X.shape[1] + int(intercept) + 1
    if width > WIDEST or not usable(X, y) or not bool(X[:LOOKED_AT].isfinite().all()):
        return None

    def looked() -> bool:
        torch = torch_module()
        few, aim = X[:LOOKED_AT], y[:LOOKED_AT]
        ones = [torch.ones((len(few), 1), dtype=torch.float64, device=X.device)] if intercept else []
        Z = torch.cat([few, *ones, aim[:, None]], dim=1)
        length = Z.norm(dim=0).cpu().numpy()
        off = np.abs(np.triu(_gram(few, aim, intercept) - (Z.T @ Z).cpu().numpy()))
        return bool((off <= GROSS * np.outer(length, length)).all())

    return _gram(X, y, intercept) if _agrees("gram_sums", X, (X.shape[1], intercept), looked) else None


def _gram(X: Any, y: Any, intercept: bool) -> Floats:
    torch = torch_module()
    d, width = X.shape[1], X.shape[1] + int(intercept) + 1
    (threads, resident), tiles = GRAM, -(-width // 8)
    kernel = _kernel("gram_sums", X.device.index or 0, _shape(GRAM, D=d, ONES=int(intercept), TILES=tiles))
    each = threads // 32
    blocks = max(-(-FEWEST_WARPS // each), min(MOST_WARPS // each, _processors(X) * resident))
    out = torch.empty((blocks * each, 8 * tiles, 8 * tiles), dtype=torch.float64, device=X.device)
    _launch(kernel, X, blocks, threads, (X.data_ptr(), y.data_ptr(), np.int64(len(X)), out.data_ptr()))
    sums, order = out.sum(dim=0).cpu().numpy(), _places(d, width)
    # tiles below the diagonal are not written: take each entry from the half that is
    upper = np.triu(sums)
    return np.asarray((upper + np.triu(upper, 1).T)[np.ix_(order, order)])


def _shape(size: tuple[int, int] = (128, 1), **given: int) -> tuple[tuple[str, int], ...]:
    """Return the macros of a kernel; those that it does not use are one."""
    threads, blocks = size
    others = {"D": 1, "ONES": 0, "TILES": 1, "OUT_TILES": 1, "TRIANGULAR": 0, "SETS": SETS}
    return tuple({**others, "THREADS": threads, "BLOCKS": blocks, **given}.items())


def _processors(X: Any) -> int:
    return int(torch_module().cuda.get_device_properties(X.device).multi_processor_count)


def _places(d: int, width: int) -> Any:
    """Return where each column of [X 1 y] stands in the kernel's sums."""
    column = np.arange(width)
    paired = d // 16 * 16 if d % 2 == 0 else 0
    inside = column % 16
    return np.where(column < paired, column - inside + 8 * (inside % 2) + inside // 2, column)


def posterior_losses(setting: PosteriorSetting, X: Any, y: Any) -> tuple[Any, Any, Any, Any] | None:
    """Return mu, r, epsilon (NaN for whom the processor is asked) and the code of each row; None: another way."""
    factor = setting.factor
    plain = factor.column_cost is None and factor.weights is None and factor.lift is None
    if not plain or not usable(X, y):
        return None
    shape = (*factor.inner.shape, factor.rows_map.triangular, setting.inside)
    return _losses(setting, X, y) if _agrees("posterior", X, shape, lambda: _looked(setting, X, y)) else None


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
    n = len(X)
    mu, r, epsilon = (torch.empty(n, dtype=torch.float64, device=X.device) for _ in range(3))
    code = torch.empty(n, dtype=torch.uint8, device=X.device)
    factor = setting.factor
    (_sum_rows if max(factor.inner.shape) <= WIDEST else _sum_products)(factor, X, mu, r)
    kernel = _kernel("finish_rows", X.device.index or 0, _shape())
    pointers = (y.data_ptr(), np.int64(n), *setting.numbers(), *(one.data_ptr() for one in (mu, r, epsilon, code)))
    _launch(kernel, X, -(-n // 128), 128, pointers)
    return mu, r, epsilon, code


def _sum_rows(factor: DeviceFactor, X: Any, m: Any, predicted: Any) -> None:
    """One reading of X, the factor in shared memory."""
    d, rank = factor.inner.shape
    tiles, depth = -(-rank // 8), -(-d // 8)
    shape = _shape(ROWS, D=d, OUT_TILES=tiles, TRIANGULAR=int(factor.rows_map.triangular))
    kernel = _kernel("sum_rows", X.device.index or 0, shape)
    threads, resident = ROWS
    blocks = min(_processors(X) * resident, -(-len(X) // 16))
    pointers = (X.data_ptr(), np.int64(len(X)), _fragments(factor, tiles, depth).data_ptr(), m.data_ptr())
    _launch(kernel, X, blocks, threads, (*pointers, predicted.data_ptr()), 16 * (tiles * depth * 32 + 8 * tiles))


def _fragments(factor: DeviceFactor, tiles: int, depth: int) -> Any:
    """Return W in the order in which lanes read it, and behind it offset and image."""
    torch = torch_module()
    d, rank = factor.inner.shape
    W = torch.zeros((8 * depth, 8 * tiles), dtype=torch.float64, device=factor.inner.device)
    W[:d, :rank] = factor.inner
    # rows 8 s + 2 k + i, columns 8 j + g  ->  [j, s, g, k, i]
    cut = W.reshape(depth, 4, 2, tiles, 8).permute(3, 0, 4, 1, 2).reshape(-1)
    ends = torch.zeros((2, 8 * tiles), dtype=torch.float64, device=W.device)
    if factor.offset is not None:
        ends[0, :rank] = factor.offset
    ends[1, :rank] = factor.image
    return torch.cat([cut, ends.reshape(-1)])


def _sum_products(factor: DeviceFactor, X: Any, m: Any, predicted: Any) -> None:
    """Many columns: a library's products of some rows, then one reading of their image."""
    torch = torch_module()
    d, rank = factor.inner.shape
    kernel = _kernel("sum_image", X.device.index or 0, _shape())
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
        _launch(kernel, X, -(-n // 16), 128, pointers)
