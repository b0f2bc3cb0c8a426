"""How the numerical kernels are compiled: once, kept on disk, without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from perinstance.numerics.compilation.compile_watch import listen_to_numba
from perinstance.numerics.compilation.kernel_cache import KernelCache

# ``fastmath`` is always said: who says nothing gets it from whatever function is compiled first that calls it.
_EXACT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": False}
_OPTIONS: dict[str, Any] = {**_EXACT, "fastmath": {"contract"}}
_REORDERED: dict[str, Any] = {**_EXACT, "fastmath": {"reassoc", "contract", "nsz"}}

listen_to_numba()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function for floats and arrays of floats.

    Division by zero gives infinity, as in numpy. Products and sums may be fused (which only makes them more
    accurate), nothing else is rearranged. Where no folder can be written the compiled code lives in memory only.
    """
    return _compiled(function, _OPTIONS)


def exact_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that recovers its own rounding errors: there a fused product is a wrong one."""
    return _compiled(function, _EXACT)


def sum_kernel(function: Callable[..., Any]) -> Any:
    """Compile long sums, which may be added in any order; NaN and infinity keep their meaning."""
    return _compiled(function, _REORDERED)


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    compiled = njit(**options)(function)
    if hasattr(compiled, "_cache"):  # a plain function under NUMBA_DISABLE_JIT
        compiled._cache = KernelCache(function)
    return compiled


def brief_kernel(function: Callable[..., Any]) -> Any:
    """Compile what takes microseconds: it keeps the interpreter's lock, which many threads would have to wait for."""
    return _compiled(function, {**_OPTIONS, "nogil": False})


def piece(function: Callable[..., Any]) -> Any:
    """Compile a function that is always copied into the loop that calls it, which a SIMD loop needs."""
    return njit(forceinline=True, **_OPTIONS)(function)


def exact_piece(function: Callable[..., Any]) -> Any:
    """The same of a function that recovers its own rounding errors."""
    return njit(forceinline=True, **_EXACT)(function)
