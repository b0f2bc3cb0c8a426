"""The CUDA source's arithmetic of one person, compiled as C++ here, against the processor's own kernels.

What only a GPU can run (tiles, warps) is compared in ``test_cuda.py``, where there is one.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from perinstance.engines.cuda import compiled_kernels
from perinstance.models.linear.loops.finished_rows import finish
from perinstance.pairs import Posterior
from perinstance.pairs.closed_form.many_epsilons import start_table

torch = pytest.importorskip("torch", reason="the optional extra 'cuda' is not installed")
COMPILER = shutil.which("g++") or shutil.which("c++")
if COMPILER is None:
    pytest.skip("there is no C++ compiler here", allow_module_level=True)

DELTA = 1e-6
AWAY, RESIDUAL, FLOOR, ROOT = 3e-14, 2e-13, 0.5, 2.0


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("source")
    (folder / "one.cpp").write_text(compiled_kernels.source("one_person"))
    built = folder / "one.so"
    command = [
        COMPILER,
        "-std=c++17",
        "-O2",
        "-shared",
        "-fPIC",
        "-Wno-unknown-pragmas",
        "-o",
        built,
        folder / "one.cpp",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(built))


def one_by_one(library, m, predicted, y, inside):
    n, table = len(m), start_table(DELTA)
    mu, r, epsilon, code = np.empty(n), np.empty(n), np.empty(n), np.empty(n, dtype=np.uint8)
    limits = np.array([AWAY, RESIDUAL, FLOOR, ROOT])
    place = np.array([table.first_row, len(table.thresholds) - 1, int(inside)], dtype=np.int64)
    delta = np.array([DELTA, table.log_goal])
    thresholds = np.ascontiguousarray(table.thresholds)
    arrays = (m, predicted, y, n, limits, thresholds, place, delta, mu, r, epsilon, code)
    library.one_by_one(
        *(ctypes.c_longlong(one) if isinstance(one, int) else one.ctypes.data_as(ctypes.c_void_p) for one in arrays)
    )
    return mu, r, epsilon, code


@pytest.mark.parametrize("inside", [True, False])
def test_one_person_is_the_processors(library, inside):
    rng = np.random.default_rng(3)
    n = 20_000
    m = rng.uniform(size=n) ** rng.integers(1, 60, size=n)
    m[:6] = 0.0, 1.0, 0.95, np.nextafter(0.95, 1), 1e-300, 1e-12
    y = rng.normal(size=n) * 10.0 ** rng.integers(-9, 4, size=n)
    predicted = rng.normal(size=n)
    near = rng.uniform(size=n) < 0.3
    predicted[near] = y[near] * (1 + 1e-13 * rng.normal(size=near.sum()))
    got_mu, got_r, got, code = one_by_one(library, m, predicted, y, inside)
    mu, r, kinds = m.copy(), predicted.copy(), np.empty(n, dtype=np.uint8)
    limits = ((AWAY, 0.0), (RESIDUAL, 0.0), (0.0, 0.0), (0.0, FLOOR))
    finish(y, np.ones(n), limits, inside, mu, r, (np.empty(0), np.empty(0)), kinds)
    np.testing.assert_allclose(got_mu, mu, rtol=1e-12)
    np.testing.assert_allclose(got_r, r, rtol=1e-12)
    assert (code == kinds).mean() > 0.9999  # a last bit may decide at a limit
    truth = Posterior(mu, ROOT * np.abs(r)).epsilon(DELTA)
    known = ~np.isnan(got)
    assert known.mean() > 0.5
    np.testing.assert_allclose(got[known], truth[known], rtol=5e-10, atol=1e-13)
