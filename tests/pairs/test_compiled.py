"""Where no cache can be written the kernels still compile; where one can, it notices every changed file."""

from __future__ import annotations

from numba import njit

from perinstance.numerics import numba_compile


def double(x):
    return 2.0 * x


def test_without_a_place_for_the_cache(monkeypatch):
    def no_cache(*arguments, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*arguments, **options)

    monkeypatch.setattr(numba_compile, "njit", no_cache)
    assert numba_compile.kernel(double)(1.5) == 3.0


def test_the_cache_is_stamped_with_the_whole_package():
    names = [name for name, _, _ in numba_compile._SOURCES]
    assert {
        "numerics/normal_tails.py",
        "pairs/closed_form/profile.py",
        "pairs/loss_sums/profile.py",
        "errors.py",
    } <= set(names)
    stamp = numba_compile.kernel(double)._cache._cache_file._source_stamp
    assert stamp[1] == numba_compile._SOURCES
