"""Where no cache can be written the kernels still compile; where one can, it notices every changed file."""

from __future__ import annotations

import pytest

from perinstance.errors import CodeNotKept
from perinstance.numerics import numba_compile
from perinstance.numerics.compilation import code_folders, kernel_cache


def double(x):
    return 2.0 * x


def test_without_a_place_for_the_cache(monkeypatch):
    for variable in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/dev/null/nobody")
    monkeypatch.setattr(kernel_cache, "FOLDERS", code_folders.Folders())
    compiled = numba_compile.kernel(double)
    with pytest.warns(CodeNotKept, match="NUMBA_CACHE_DIR"):
        assert compiled(1.5) == 3.0


def test_the_cache_is_stamped_with_the_whole_package(monkeypatch, tmp_path):
    names = [file.relative_to(code_folders.PACKAGE).as_posix() for file in code_folders.source_files()]
    assert {
        "numerics/normal_tails.py",
        "pairs/closed_form/profile.py",
        "pairs/loss_sums/profile.py",
        "errors.py",
    } <= set(names)
    assert "numerics/rounding.py" in names  # kernels freeze its numbers
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert numba_compile.kernel(double)(1.5) == 3.0
    kept = [file.parent.name for file in tmp_path.rglob("*.nbc")]
    assert kept == [code_folders.source_hash()]
