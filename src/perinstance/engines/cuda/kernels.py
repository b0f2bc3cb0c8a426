"""CUDA kernels that read X once for the losses of a posterior sample.

A library's products write an image of X that is read once and thrown away, and an inversion in array operations reads
its columns a hundred times; at 50 columns that is several times the one reading of X that is needed. CuPy
compiles ``one_row.cu`` and ``row_kernels.cu`` for a number of columns when it is first needed. Without CuPy, on devices
without the instruction for tiles of 16 x 8 float64, and for other types, torch sums (``row_sums``)
and the processor inverts.

Rounding is what those files say: sums of fused multiply-adds of float64, in another order. What every epsilon is raised
by is 1e4 times what the library's exponential and logarithm lose (two units in the last place, by CUDA's tables).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.row_sums import DeviceFactor, row_answers
from perinstance.event_log import LOG
from perinstance.models.linear.row_statistics import HARD, HARD_LEVERAGE
from perinstance.numerics import rounding
from perinstance.numerics.normal_tails import MILLS
from perinstance.numerics.rounding import KERNEL_AGREES
from perinstance.pairs import PosteriorSamplePair
from perinstance.pairs.closed_form.epsilon import COLUMNS, ROW_BITS, start_table

#: steps that a person may take on a device before the processor is asked
STEPS = 6

CAPABILITY = (9, 0)  #: the first kind of device with the instruction for tiles of 16 x 8 float64
WIDEST = 64  #: columns of X and of W, whose tiles stay in registers
IMAGE_BYTES = 1 << 27  #: of the rows whose image a library writes at a time: it is read from the cache; only speed
LOOKED_AT = 1000  #: rows on which a kernel is compared before it is used
#: a kernel that does something else is off by far more than this, in nearly all rows
SAME_EPSILON, NEARLY_ALL = 1e-6, 0.98

#: numbers of ``numerics/rounding.py`` that the source has as macros
SLACKS = ("UNIT", "EXACT_PARAMETER", "UNDERFLOWN", "LARGEST_SQUARE", "SOLVER_RELATIVE", "SOLVER_ABSOLUTE", "THIRD_TERM")


@dataclass(frozen=True, slots=True)
class PosteriorSetting:
    """What the rows of a posterior sample are asked; ``thresholds`` is the start table on the device."""

    factor: DeviceFactor
    thresholds: Any
    delta: float
    inside: bool
    floor: float
    root: float  #: of gamma

    @classmethod
    def of(cls, factor: DeviceFactor, delta: float, inside: bool, floor: float, root: float) -> PosteriorSetting:
        """Copy the start table of a delta in (0, 1/2] to where the factor is."""
        thresholds = torch_module().tensor(start_table(delta).thresholds, device=factor.device)
        return cls(factor, thresholds, delta, inside, floor, root)

    def losses(self, X: Any, y: Any) -> tuple[Any, Any, Any, Any] | None:
        """Return mu, r, epsilon (NaN for whom the processor is asked) and the code of each row; None: another way."""
        factor = self.factor
        if not factor.plain or not usable(X, y):
            return None
        shape = (*factor.inner_shape, factor.triangular, self.inside)
        return self._launched(X, y) if agrees("posterior", X, shape, lambda: self._looked(X, y)) else None

    def _looked(self, X: Any, y: Any) -> bool:
        """Compare some rows with torch's statistics and the processor's inversion: nearly all agree."""
        few, aim = X[:LOOKED_AT], y[:LOOKED_AT]
        mu, r, epsilon, code = (one.cpu().numpy() for one in self._launched(few, aim))
        seen = row_answers(self.factor, few, aim, self.inside, self.floor)
        leverage, residual, codes = (one.cpu().numpy() for one in (seen.leverage, seen.residual, seen.code))
        known = codes < HARD
        mu, r, epsilon, leverage, residual = (one[known] for one in (mu, r, epsilon, leverage, residual))
        other = PosteriorSamplePair(leverage, self.root * np.abs(residual)).epsilon(self.delta)
        same = np.abs(mu - leverage) <= KERNEL_AGREES * leverage
        same &= np.abs(r - residual) <= KERNEL_AGREES * (np.abs(residual) + float(aim.abs().max()))
        same &= (np.abs(epsilon - other) <= SAME_EPSILON * other + KERNEL_AGREES) | np.isnan(epsilon)
        return bool((code == codes).mean() > NEARLY_ALL and (same.mean() if len(same) else 1.0) > NEARLY_ALL)

    def _launched(self, X: Any, y: Any) -> tuple[Any, Any, Any, Any]:
        torch, n = torch_module(), len(X)
        mu, r, epsilon = torch.empty((3, n), dtype=torch.float64, device=X.device)
        code = torch.empty(n, dtype=torch.uint8, device=X.device)
        (_row_products if max(self.factor.inner_shape) <= WIDEST else _image_products)(self.factor, X, mu, r)
        limits, start = self.factor.rows_map.rounding, start_table(self.delta)
        away, residual = limits.leverage + limits.leverage_row, limits.residual + limits.residual_row
        floats = (self.delta, start.log_goal, away, residual, self.floor, self.root)
        table = (self.thresholds.data_ptr(), np.int64(start.first_row), np.int64(len(self.thresholds) - 1))
        out = (one.data_ptr() for one in (mu, r, epsilon, code))
        arguments = (y.data_ptr(), np.int64(n), *table, *map(np.float64, floats), np.int32(self.inside), *out)
        launch(compiled("finish_rows", X.device.index or 0), X, -(-n // 128), 128, arguments)
        return mu, r, epsilon, code


def _row_products(factor: DeviceFactor, X: Any, leverage: Any, prediction: Any) -> None:
    """One reading of X, with the factor in shared memory."""
    d, rank = factor.inner_shape
    tiles, depth, threads = -(-rank // 8), -(-d // 8), 384 if max(d, rank) <= WIDEST // 2 else 256
    resident, triangular = 2 if d <= 8 else 1, int(factor.triangular)
    shared = 16 * (tiles * depth * 32 + 8 * tiles) + threads // 32 * 8 * 32 * d
    shape = _shape(threads, resident, D=d, OUT_TILES=tiles, TRIANGULAR=triangular)
    kernel = compiled("row_products", X.device.index or 0, shape, shared)
    blocks = min(processors(X.device) * resident, -(-len(X) // 32))
    arguments = (X.data_ptr(), factor.fragments.data_ptr(), np.int64(len(X)))
    launch(kernel, X, blocks, threads, (*arguments, leverage.data_ptr(), prediction.data_ptr()), shared)


def _image_products(factor: DeviceFactor, X: Any, leverage: Any, prediction: Any) -> None:
    """Many columns: a library's products of some rows, then one reading of their image."""
    torch, (d, rank) = torch_module(), factor.inner_shape
    kernel, step = compiled("image_products", X.device.index or 0), max(1024, IMAGE_BYTES // (8 * rank))
    room = torch.empty((min(step, len(X)), rank), dtype=torch.float64, device=X.device)
    # the columns of a triangular W in two panels: the first ends half the way down
    cuts = (0, rank // 16 * 8, rank) if factor.triangular and factor.offset is None else (0, rank)
    for start in range(0, len(X), step):
        n = min(step, len(X) - start)
        q, rows = room[:n], X[start : start + n]
        for a, b in zip(cuts, cuts[1:], strict=False):
            last = min(b, d) if len(cuts) > 2 else d
            torch.mm(rows[:, :last], factor.inner[:last, a:b], out=q[:, a:b])
        if factor.offset is not None:
            q += factor.offset
        out = leverage[start:].data_ptr(), prediction[start:].data_ptr()
        launch(kernel, X, -(-n // 16), 128, (q.data_ptr(), np.int64(n), np.int32(rank), factor.image.data_ptr(), *out))


def _shape(threads: int, blocks: int, **given: int) -> tuple[tuple[str, int], ...]:
    """Return the macros of a kernel, with others for those that it does not use."""
    others = {"D": 1, "OUT_TILES": 1, "TRIANGULAR": 0}
    return tuple({**others, "THREADS": threads, "BLOCKS": blocks, **given}.items())


def source(shape: tuple[tuple[str, int], ...], *files: str) -> str:
    """Return the source, with the numbers that it shares with the package written before it, as C writes them."""
    numbers = {name: float(getattr(rounding, name)).hex() for name in SLACKS}
    macros = {
        **numbers,
        "HARD_LEVERAGE": HARD_LEVERAGE.hex(),
        "MILLS_LIST": ",".join(float(one).hex() for one in MILLS),
        "ROW_BITS": ROW_BITS,
        "COLUMNS": COLUMNS,
        "STEPS": STEPS,
        **dict(shape),
    }
    folder = resources.files("perinstance.engines.cuda")
    texts = (folder.joinpath(f"{name}.cu").read_text("utf-8") for name in files or ("one_row", "row_kernels"))
    return "\n".join([*(f"#define {name} {value}" for name, value in macros.items()), *texts])


@functools.lru_cache(maxsize=64)
def compiled(name: str, device: int, shape: tuple[tuple[str, int], ...] | None = None, shared: int = 0) -> Any:
    """Compile a kernel for a number of columns; ``shared`` are the bytes of shared memory that it is launched with."""
    import cupy

    with cupy.cuda.Device(device):
        kernel = cupy.RawModule(code=source(shape or _shape(128, 1)), options=("--std=c++17",)).get_function(name)
        if shared > 48 << 10:
            kernel.max_dynamic_shared_size_bytes = shared
        return kernel


@functools.cache
def processors(device: Any) -> int:
    """Return how many multiprocessors a device has."""
    return int(torch_module().cuda.get_device_properties(device).multi_processor_count)


@functools.cache
def _compiles(device: Any) -> bool:
    try:
        import cupy  # noqa: F401 - it may be there and not load, without a driver for one
    except ImportError:
        return False
    return bool(torch_module().cuda.get_device_capability(device) >= CAPABILITY)


def usable(X: Any, y: Any) -> bool:
    """Tell whether the kernels can read these rows."""
    double = X.dtype == y.dtype == torch_module().float64
    together = X.is_contiguous() and y.is_contiguous() and X.data_ptr() % 16 == 0
    return bool(X.device.type == "cuda" and double and together and _compiles(X.device))


@functools.lru_cache(maxsize=64)
def _stream(pointer: int, device: int) -> Any:
    """Return CuPy's object for a stream of torch's."""
    import cupy

    with cupy.cuda.Device(device):
        if hasattr(cupy.cuda.Stream, "from_external"):
            return cupy.cuda.Stream.from_external(_Handle(pointer))
        return cupy.cuda.ExternalStream(pointer)


@dataclass(frozen=True, slots=True)
class _Handle:
    """A stream of torch's, as CuPy asks for it."""

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


def launch(kernel: Any, X: Any, blocks: int, threads: int, arguments: tuple[Any, ...], shared: int = 0) -> None:
    """Launch on torch's current stream of the device where X lies."""
    import cupy

    device = X.device.index or 0
    stream = torch_module().cuda.current_stream(X.device).cuda_stream
    with cupy.cuda.Device(device), _stream(stream, device):
        kernel((blocks,), (threads,), arguments, shared_mem=shared)


_agreed: dict[tuple[Any, ...], bool] = {}


def agrees(name: str, X: Any, shape: tuple[Any, ...], looked: Callable[[], bool]) -> bool:
    """Tell whether a kernel gave what others give on some rows, once for each shape and device.

    What a driver or a compiler that nobody has tried makes of the source is not taken on trust.
    """
    key = (name, str(X.device), shape)
    if key not in _agreed:
        if not bool(X[:LOOKED_AT].isfinite().all()):
            return False  # there is nothing to compare: somebody else names the cell
        _agreed[key] = looked()
        if not _agreed[key]:
            LOG.warning("the CUDA kernel %s does not give what torch gives on this device; torch is used instead", name)
    return _agreed[key]
