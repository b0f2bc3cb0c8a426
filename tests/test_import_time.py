"""``import perinstance`` stays quick: below 0.5 s of processor time, and nothing heavy on its path."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numba", "scipy", "sklearn", "matplotlib", "pandas", "pyarrow", "flint", "torch", "dask")


def fresh(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("name", ["perinstance", "perinstance.pairs"])
def test_import_is_quick(name):
    code = f"import time; t = time.process_time(); import {name}; print(time.process_time() - t)"
    # the best of three: a cold disk is not what is measured
    assert min(float(fresh(code)) for _ in range(3)) < 0.5


@pytest.mark.parametrize("name", ["perinstance", "perinstance.pairs"])
def test_import_loads_nothing_heavy(name):
    loaded = fresh(f"import sys, {name}; print(*(m for m in {HEAVY!r} if m in sys.modules))")
    assert loaded == ""


def test_an_epsilon_needs_no_scipy_stats():
    code = "import sys, perinstance as pi; pi.pairs.LaplaceShift(1.0).epsilon(0.1); print('scipy.stats' in sys.modules)"
    assert fresh(code) == "False"
