"""Where no cache can be written the kernels still compile; where one can, it notices every changed file."""

from __future__ import annotations

from numba import njit

from perinstance.pairs import compiled


def double(x):
    return 2.0 * x


def test_without_a_place_for_the_cache(monkeypatch):
    def no_cache(*arguments, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*arguments, **options)

    monkeypatch.setattr(compiled, "njit", no_cache)
    assert compiled.kernel(double)(1.5) == 3.0


def test_the_cache_is_stamped_with_the_whole_room():
    names = [name for name, _, _ in compiled._SOURCES]
    assert {"special.py", "profile.py", "solver.py", "batch.py"} <= set(names)
    stamp = compiled.kernel(double)._cache._cache_file._source_stamp
    assert stamp[1] == compiled._SOURCES
