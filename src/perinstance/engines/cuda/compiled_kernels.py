"""Compile and launch the CUDA kernels of ``sources`` through CuPy, where there is one and the device is new enough."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.engines.cuda.epsilons import STEPS
from perinstance.event_log import LOG
from perinstance.models.linear.loops.finished_rows import HARD_LEVERAGE
from perinstance.numerics.normal_tails import MILLS
from perinstance.numerics.rounding import (
    EXACT_PARAMETER,
    LARGEST_SQUARE,
    SOLVER_ABSOLUTE,
    SOLVER_RELATIVE,
    THIRD_TERM,
    UNDERFLOWN,
    UNIT,
)
from perinstance.pairs.closed_form.many_epsilons import COLUMNS, ROW_BITS

#: the first kind of device with the instruction for tiles of 16 x 8 float64
CAPABILITY = (9, 0)
#: bytes of shared memory that a block may have there
SHARED_BYTES = 227 << 10
#: rows on which a kernel is compared with torch before it is used
LOOKED_AT = 1000
_agreed: dict[tuple[Any, ...], bool] = {}


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


def source(*files: str, **shape: int | str) -> str:
    """Return some files of the source, with their macros written before them."""
    folder = resources.files("perinstance.engines.cuda.sources")
    lines = [f"#define {name} {value}" for name, value in {**macros(), **shape}.items()]
    on_device = (
        "#ifdef __CUDACC__\n#undef HUGE_VAL\n#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)\n#endif"
    )
    return "\n".join([on_device, *lines, *(folder.joinpath(f"{name}.cu").read_text("utf-8") for name in files)])


@functools.lru_cache(maxsize=64)
def compiled(
    name: str, device: int, files: tuple[str, ...], shape: tuple[tuple[str, int | str], ...], shared: int
) -> Any:
    """Compile a kernel for a number of columns; ``shared`` are the bytes of shared memory that it is launched with."""
    import cupy

    with cupy.cuda.Device(device):
        text = source("one_person", "tiles", *files, **dict(shape))
        kernel = cupy.RawModule(code=text, options=("--std=c++17",), name_expressions=None).get_function(name)
        if shared > 48 << 10:
            kernel.max_dynamic_shared_size_bytes = shared
        return kernel


@functools.cache
def _has_cupy() -> bool:
    try:
        import cupy  # noqa: F401 - it may be there and not load, without a driver for one
    except ImportError:
        return False
    return True


@functools.cache
def _new_enough(device: Any) -> bool:
    return bool(torch_module().cuda.get_device_capability(device) >= CAPABILITY)


@functools.cache
def processors(device: Any) -> int:
    """Return how many multiprocessors a device has."""
    return int(torch_module().cuda.get_device_properties(device).multi_processor_count)


def usable(X: Any, y: Any) -> bool:
    """Tell whether the kernels can read these rows."""
    torch = torch_module()
    return bool(
        X.device.type == "cuda"
        and X.dtype == y.dtype == torch.float64
        and X.is_contiguous()
        and y.is_contiguous()
        and X.data_ptr() % 16 == 0
        and _new_enough(X.device)
        and _has_cupy()
    )


@dataclass(frozen=True, slots=True)
class _Handle:
    """A stream of torch's, as CuPy asks for it."""

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


@functools.lru_cache(maxsize=64)
def _stream(pointer: int, device: int) -> Any:
    """Return CuPy's object for a stream of torch's."""
    import cupy

    with cupy.cuda.Device(device):
        if hasattr(cupy.cuda.Stream, "from_external"):
            return cupy.cuda.Stream.from_external(_Handle(pointer))
        return cupy.cuda.ExternalStream(pointer)


def launch(kernel: Any, X: Any, blocks: int, threads: int, arguments: tuple[Any, ...], shared: int = 0) -> None:
    """Launch on torch's current stream of the device where X lies."""
    import cupy

    device = X.device.index or 0
    stream = torch_module().cuda.current_stream(X.device).cuda_stream
    with cupy.cuda.Device(device), _stream(stream, device):
        kernel((blocks,), (threads,), arguments, shared_mem=shared)


def agrees(name: str, X: Any, shape: tuple[Any, ...], looked: Callable[[], bool | None]) -> bool:
    """Tell whether a kernel gave what torch gives on some rows, once for each shape and device.

    ``looked`` says None where these rows do not tell: the next ones may.

    What a driver or a compiler that nobody has tried makes of the source is not taken on trust.
    """
    key = (name, str(X.device), shape)
    if key not in _agreed:
        if not bool(X[:LOOKED_AT].isfinite().all()):  # there is nothing to compare: somebody else names the cell
            return False
        found = looked()
        if found is None:
            return False
        _agreed[key] = found
        if not _agreed[key]:
            LOG.warning("the CUDA kernel %s does not give what torch gives on this device; torch is used instead", name)
    return _agreed[key]
