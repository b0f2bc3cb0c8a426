"""Functions that recover their own rounding errors are compiled as they are written, whoever calls them first."""

from __future__ import annotations

import re

import pytest
from numba.core.caching import NullCache

from perinstance.numerics.compilation import exact_kernel, kernel, piece, sum_kernel

FLAGS = re.compile(r"= f(?:add|sub|mul|div|neg) (fast|reassoc|contract|nsz)")


@pytest.mark.parametrize("caller", [kernel, sum_kernel, piece])
def test_nothing_is_inherited(caller):
    """Numba hands the caller's licence to fuse and to reorder on to functions that say nothing of it."""

    @exact_kernel
    def rounding(a, b):
        product = a * b
        total = product + a
        return (total - product) - a

    @caller
    def first(a, b):
        return rounding(a, b) + a * b

    first._cache = rounding._cache = NullCache()  # compiled here and now, in this order
    assert first(0.1, 0.3) == pytest.approx(0.03)
    (code,) = rounding.inspect_llvm().values()
    assert "fmul double" in code
    assert not FLAGS.search(code)
    (code,) = first.inspect_llvm().values()
    assert FLAGS.search(code)  # the caller's own
