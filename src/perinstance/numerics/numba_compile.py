"""How the numerical kernels of the pairs are compiled: once, kept on disk, without the interpreter lock."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

from numba import njit

_EXACT: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_OPTIONS: dict[str, Any] = {**_EXACT, "fastmath": {"contract"}}


def _sources() -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of every file of the package that has kernels: they call each other across rooms."""
    root = pathlib.Path(__file__).parents[1]
    try:
        files = [file for file in sorted(root.rglob("*.py")) if b"numba_compile" in file.read_bytes()]
        return tuple((file.relative_to(root).as_posix(), *_size_and_time(file)) for file in files)
    except OSError:
        return ()


def _size_and_time(file: pathlib.Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


_SOURCES = _sources()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function for floats and arrays of floats.

    Division by zero gives infinity, as in numpy. Products and sums may be fused (which only makes them more
    accurate), nothing else is rearranged. Where no folder can be written the compiled code lives in memory only.
    """
    return _compiled(function, _OPTIONS)


def exact_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that recovers its own rounding errors: there a fused product is a wrong one."""
    return _compiled(function, _EXACT)


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no place for its cache
        return njit(**options)(function)
    # Numba looks only at the file of the function itself: a kernel would outlive a change in what it calls.
    index: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(index, "_source_stamp"):
        index._source_stamp = (index._source_stamp, _SOURCES)
    return compiled


def piece(function: Callable[..., Any]) -> Any:
    """Compile a function that is always copied into the loop that calls it, which a SIMD loop needs."""
    return njit(forceinline=True, **_OPTIONS)(function)
