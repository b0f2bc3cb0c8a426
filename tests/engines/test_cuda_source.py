"""The CUDA source, compiled as C++: a context of the processor for each lane of a warp, and the package's own launches.

What is left for ``test_cuda.py`` on a GPU are the four lines of assembly and the order of copies that are under way.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from perinstance import PosteriorSample, audit
from perinstance.engines import Cuda, Local
from perinstance.engines.cuda import kernels
from perinstance.engines.cuda.row_sums import DeviceFactor, row_answers
from perinstance.models.linear.row_statistics import RowMap, RowRounding
from perinstance.pairs import PosteriorSamplePair

torch = pytest.importorskip("torch", reason="the optional extra 'cuda' is not installed")
COMPILER = shutil.which("g++") or shutil.which("c++")
if COMPILER is None:
    pytest.skip("there is no C++ compiler here", allow_module_level=True)

DELTA = 1e-6
C_TYPES = {int: ctypes.c_void_p, np.int64: ctypes.c_longlong, np.int32: ctypes.c_int, np.float64: ctypes.c_double}
WRAPPED = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\([A-Z0-9, ]+\)\s+)?(\w+)\(([^)]*)\)')


def c_program(shape):
    """The source behind ``lanes.hpp``, with one function per kernel that launches it."""
    source = kernels.source(shape)
    calls = []
    for name, parameters in WRAPPED.findall(source):
        names = ", ".join(one.split()[-1].lstrip("*") for one in parameters.split(","))
        calls.append(
            f'extern "C" void launch_{name}(int blocks, int threads, {parameters})'
            f" {{ launch(blocks, threads, [=] {{ {name}({names}); }}); }}"
        )
    assert len(calls) == 3
    lanes = Path(__file__).with_name("lanes.hpp").read_text()
    return "\n".join([lanes, source, *calls])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder, known = tmp_path_factory.mktemp("source"), {}

    def build(name, device, shape=None, shared=0):
        shape = shape or kernels._shape(128, 1)
        if shape not in known:
            text, built = folder / f"{len(known)}.cpp", folder / f"{len(known)}.so"
            text.write_text(c_program(shape))
            flags = ["-std=c++17", "-O1", "-shared", "-fPIC", "-Wno-unknown-pragmas", "-o", str(built), str(text)]
            done = subprocess.run([COMPILER, *flags], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            known[shape] = ctypes.CDLL(str(built))
        assert shared <= 227 << 10
        return getattr(known[shape], f"launch_{name}")

    return build


@pytest.fixture
def lanes(compiled, monkeypatch):
    """Tensors of the processor go to the kernels; says how often each was launched."""
    launched = []

    def launch(kernel, X, blocks, threads, arguments, shared=0):
        launched.append(kernel.__name__.removeprefix("launch_"))
        kernel(blocks, threads, *(C_TYPES[type(one)](one) for one in arguments))

    monkeypatch.setattr(kernels, "compiled", compiled)
    monkeypatch.setattr(kernels, "launch", launch)
    monkeypatch.setattr(kernels, "usable", lambda X, y: True)
    monkeypatch.setattr(kernels, "processors", lambda device: 2)
    monkeypatch.setattr(kernels, "_agreed", {})
    return launched


@pytest.mark.parametrize(
    ("d", "intercept", "triangular"),
    [(1, False, True), (3, True, False), (8, False, True), (20, True, True), (37, False, False), (62, True, True)]
    + [(70, False, True), (66, True, False)],
)
@pytest.mark.parametrize("inside", [True, False])
def test_rows_are_those_of_torch(lanes, d, intercept, triangular, inside):
    rng = np.random.default_rng(d)
    p, n = d + intercept, 205
    W = rng.normal(size=(p, p)) / (4 * p)
    W = np.triu(W) if triangular else W
    rounding = RowRounding(1e-13, 2e-13, 3e-13, 4e-13, 0.0, 0.0, 0.0, None)
    rows_map = RowMap(W, rng.normal(size=p), None, intercept, rounding)
    factor = DeviceFactor(rows_map, d, torch.device("cpu"))
    X, y = torch.tensor(rng.normal(size=(n, d))), torch.tensor(rng.normal(size=n))
    X[7] *= 100.0  # a leverage near one, or above
    setting = kernels.PosteriorSetting.of(factor, DELTA, inside, 0.5, 2.0)
    mu, r, epsilon, code = (one.numpy() for one in setting.losses(X, y))
    assert set(lanes) == {"finish_rows", "row_products" if p <= 64 else "image_products"}
    want = row_answers(factor, X, y, inside, 0.5)
    np.testing.assert_allclose(mu, want.leverage, rtol=1e-12)
    np.testing.assert_allclose(r, want.residual, rtol=1e-9)
    np.testing.assert_array_equal(code, want.code)
    known = ~np.isnan(epsilon)
    assert known.mean() > 0.9
    np.testing.assert_allclose(
        epsilon[known], PosteriorSamplePair(mu, 2.0 * np.abs(r)).epsilon(DELTA)[known], rtol=1e-9
    )


@pytest.mark.parametrize("delta", [1e-10, 1e-6, 0.01, 0.5])
def test_inversions_are_never_below(lanes, delta):
    """One column and W = 1: leverage x^2 and residual y, as they are."""
    rng = np.random.default_rng(3)
    mu, rho = 10.0 ** rng.uniform(-12, 3, size=4000), 10.0 ** rng.uniform(-8, 4, size=4000)
    mu[:2], rho[:2] = (0.0, 1e-300), (1.0, 0.0)
    nothing = RowRounding(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, None)
    factor = DeviceFactor(RowMap(np.eye(1), np.zeros(1), None, False, nothing), 1, torch.device("cpu"))
    setting = kernels.PosteriorSetting.of(factor, delta, False, 0.0, 1.0)
    found = setting._launched(torch.tensor(np.sqrt(mu)[:, None]), torch.tensor(rho))
    mu, rho, got, _ = (one.numpy() for one in found)
    known = ~np.isnan(got)
    assert known.mean() > 0.8 and known[1]
    pairs = PosteriorSamplePair(mu[known], np.abs(rho[known]))
    np.testing.assert_allclose(got[known], pairs.epsilon(delta), rtol=1e-9, atol=1e-13)
    assert (pairs.delta(got[known]) <= delta * (1 + 1e-12)).all()


def test_whole_audits_by_kernels(lanes):
    """Some are left to the processor: a leverage near one, a residual that rounding hides, another type."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 6)) * rng.gamma(0.5, size=(3000, 1))
    y = X @ rng.normal(size=6) + rng.normal(size=3000)
    X[[3, 1700]] *= 30.0
    for release in (PosteriorSample(alpha=1.0, gamma=2.0), PosteriorSample(alpha=0.1, fit_intercept=True)):
        ours, here = (audit(release, X, y, delta=DELTA, engine=one) for one in (Cuda("cpu"), Local()))
        np.testing.assert_allclose(ours.leverages, here.leverages, rtol=1e-9)
        np.testing.assert_allclose(ours.losses, here.losses, rtol=1e-8, atol=1e-12)
        assert (ours.pairs._codes >= here.pairs._codes).all()
    assert {"row_products", "finish_rows"} == set(lanes)


def test_a_kernel_that_disagrees_is_not_used(lanes, caplog):
    """Looked at once for each shape; then torch answers."""
    X, calls = torch.ones((50, 3)), []
    assert not any(kernels.agrees("posterior", X, (3,), lambda: calls.append(1) or False) for _ in range(2))
    assert caplog.text.count("does not give what torch gives") == 1 and len(calls) == 1
    X[3, 1] = torch.nan
    assert not kernels.agrees("posterior", X, (4,), lambda: True)
    assert len(kernels._agreed) == 1  # nothing is learned from such rows
