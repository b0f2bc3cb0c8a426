"""How the numerical kernels of the pairs are compiled: once, kept on disk, without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function for floats and arrays of floats.

    Division by zero gives infinity, as in numpy. Products and sums may be fused (which only makes them more
    accurate), nothing else is rearranged. Where no folder can be written the compiled code lives in memory only.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no place for its cache
        return njit(**options)(function)
