"""First use: compiled code is found again, long compiling is announced, nothing to write to is no obstacle."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import llvmlite
import numba
import numpy as np
import pytest

import perinstance as pi
from perinstance import warm_up
from perinstance.numerics import numba_compile
from perinstance.numerics.compilation import blas_calls, code_folders, compile_watch, kernel_cache
from perinstance.numerics.simd_vectors import eight_in_a_register


def triple(x):
    return 3.0 * x


def half(x):
    return 0.5 * x


@pytest.fixture
def folder(monkeypatch, tmp_path) -> Path:
    """Only an empty folder is read and written."""
    folders = code_folders.Folders()
    folders.use_only(tmp_path)
    monkeypatch.setattr(kernel_cache, "FOLDERS", folders)
    return tmp_path


def hits(compiled) -> int:
    assert compiled(1.0) == 3.0
    return sum(compiled.stats.cache_hits.values())


def test_compiled_code_is_found_again(folder):
    assert hits(numba_compile.kernel(triple)) == 0
    assert hits(numba_compile.kernel(triple)) == 1
    assert [file.suffix for file in folder.iterdir()] == [".nbc"]


def test_a_damaged_file_is_compiled_again(folder):
    assert hits(numba_compile.kernel(triple)) == 0
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    assert hits(numba_compile.kernel(triple)) == 0
    assert hits(numba_compile.kernel(triple)) == 1


def test_changed_sources_find_no_old_code(folder, monkeypatch):
    assert hits(numba_compile.kernel(triple)) == 0
    monkeypatch.setattr(kernel_cache, "source_hash", lambda: "0" * 16)
    assert hits(numba_compile.kernel(triple)) == 0


def test_old_versions_are_dropped(tmp_path):
    for age in range(12):
        (tmp_path / f"{age:016x}").mkdir()
        os.utime(tmp_path / f"{age:016x}", (age, age))
    (tmp_path / "somebody else's").mkdir()
    assert code_folders.writable(tmp_path) is not None
    left = {entry.name for entry in tmp_path.iterdir()}
    expected = {f"{age:016x}" for age in range(12 - code_folders.OLD_VERSIONS, 12)}
    assert left == {"somebody else's", str(code_folders.source_hash()), *expected}


def test_long_compiling_is_told_once(folder, monkeypatch):
    monkeypatch.setattr(compile_watch, "PATIENCE", 0.0)
    told = []
    with compile_watch.telling_of_compilation(lambda: told.append("now")):
        numba_compile.kernel(triple)(1.0)
        numba_compile.kernel(half)(1.0)
    assert told == ["now"]


def test_short_compiling_is_not_told(folder, monkeypatch):
    monkeypatch.setattr(compile_watch, "PATIENCE", 1000.0)
    told = []
    with compile_watch.telling_of_compilation(lambda: told.append("now")):
        numba_compile.kernel(triple)(1.0)
    assert told == []


def test_an_audit_makes_it_a_stage(monkeypatch):
    monkeypatch.setattr(compile_watch, "PATIENCE", 0.0)
    stages = []

    def progress(stage, done, total):
        if not stages:  # something compiles while the audit runs, whatever was prepared before
            stages.append("begun")
            numba.njit(half)(1.0)
        stages.append((stage, done, total))

    X = np.random.default_rng(0).normal(size=(30, 3))
    pi.audit(pi.PosteriorSample(), X, X[:, 0], progress=progress)
    assert stages.count(("compile", 0, None)) == 1


@pytest.mark.parametrize("part", warm_up.PARTS)
def test_the_work_of_a_warm_up_can_be_done(part):
    warm_up.PARTS[part]()


def kernels() -> set[str]:
    """Return every kernel of the package by the name of its file of compiled code; those of a GPU need one."""
    found = set()
    for file in code_folders.source_files():
        module = ".".join(file.relative_to(code_folders.PACKAGE).with_suffix("").parts)
        if module.startswith("engines.cuda."):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(mark, ast.Name) and mark.id in ("kernel", "exact_kernel", "sum_kernel", "brief_kernel")
                for mark in node.decorator_list
            ):
                found.add(f"{module}.{node.name}")
    return found


def of_other_registers() -> set[str]:
    """Return the kernels that this machine may do without: of two loops over rows it uses that of its registers."""
    if eight_in_a_register():
        names = ("_eight_columns", "_four_columns", "add_cross_of_rows", "row_sums")
        return {f"models.linear.row_kernels.{name}" for name in names}
    return {name for name in kernels() if name.startswith("models.linear.loops.eight_lanes.")}


NOWHERE = {"HOME": "/dev/null/nobody", "USERPROFILE": "/dev/null/nobody"}
FRESH = """
from perinstance.numerics.numba_compile import kernel
def one(x): return x + 1.0
def two(x): return x + 2.0
print(kernel(one)(1.0), kernel(two)(1.0))
"""


def fresh(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    hidden = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return subprocess.run([sys.executable, "-c", code], env={**kept, **environment}, capture_output=True, text=True)


def test_nowhere_to_write_is_one_warning():
    done = fresh(FRESH, **NOWHERE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2.0", "3.0"]
    assert done.stderr.count("CodeNotKept") == 1 and "NUMBA_CACHE_DIR" in done.stderr


def test_nowhere_to_write_is_one_line_of_a_command():
    inside = "\n".join(f"    {line}" for line in FRESH.strip().splitlines())
    done = fresh(f"from perinstance.cli.notices import announcing\nwith announcing():\n{inside}", **NOWHERE)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("perinstance: no folder for compiled code") and "NUMBA_CACHE_DIR" in line


def test_nothing_is_written_into_the_package(tmp_path):
    """What pip does not know of would stay behind when the package is uninstalled, and could be imported."""
    before = set(code_folders.PACKAGE.rglob("*.nb[ic]"))
    done = fresh(FRESH, NUMBA_CACHE_DIR=str(tmp_path), HOME=str(tmp_path))
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert len(list(tmp_path.rglob("*.nbc"))) == 2
    assert set(code_folders.PACKAGE.rglob("*.nb[ic]")) == before


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_a_users_folder_is_private(tmp_path):
    done = fresh(FRESH, XDG_CACHE_HOME=str(tmp_path), HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    made = [path for path in tmp_path.rglob("perinstance") if path.is_dir()]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700]


@pytest.mark.slow
def test_a_wheel_carries_compiled_code_and_leaves_nothing_behind(tmp_path):
    """Build and install as a stranger does, audit with empty caches, uninstall."""
    root = Path(__file__).resolve().parents[1]
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "_compiled")
    shutil.copytree(root, source, ignore=ignored)
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    numbas = f"numba=={numba.__version__}\nllvmlite=={llvmlite.__version__}\nnumpy=={np.__version__}\n"
    (tmp_path / "same.txt").write_text(numbas)
    hidden = {"PYTHONPATH": "", "PIP_CONSTRAINT": str(tmp_path / "same.txt"), "PIP_BUILD_CONSTRAINT": ""}
    environment = {**os.environ, **hidden, "NUMBA_CACHE_DIR": str(tmp_path / "caches")}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(python), *words], env=environment, cwd=source, capture_output=True, text=True)

    built = run("-m", "pip", "install", "--no-deps", str(source))
    if "No matching distribution" in built.stderr:
        pytest.skip("no package index can be reached from here")
    assert built.returncode == 0, built.stderr
    # the packages of this environment, but not this package
    libraries = Path(numba.__file__).parents[1]
    package = Path(run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()) / "perinstance"
    (package.parent / "others.pth").write_text(f"{libraries}\n")
    shipped = {file.name.rsplit("-", 1)[0] for file in (package / "_compiled").glob("*.nbc")}
    assert len(shipped) > 100 and shipped <= kernels() and not kernels() - shipped - of_other_registers()
    assert of_other_registers() < kernels()
    ask = "from benchmarks.first_use import WORK, answer; [answer(what) for what in WORK]"
    first = run("-c", f"import perinstance; print(perinstance.__file__); {ask}")
    assert first.returncode == 0 and Path(first.stdout.strip()).parent == package, first.stderr
    assert not list(tmp_path.joinpath("caches").rglob("*.nbc"))  # nothing was compiled
    assert run("-m", "pip", "uninstall", "-y", "perinstance").returncode == 0
    assert not package.exists()


def test_code_that_calls_a_library_is_found_again(folder):
    """Its addresses, which are others in every process, are arguments and no part of the code."""

    def doubled(blas, x, out):
        blas_calls.dgemv(blas.dgemv, (blas_calls.PLAIN, 1, 1, 2.0, x, 0, 1, x, 1, 1, 0.0, out, 0, 1))

    for found in (0, 1):
        compiled, out = numba_compile.kernel(doubled), np.empty(1)
        compiled(blas_calls.blas_addresses(), np.array([3.0, 5.0]), out)
        assert out[0] == 30.0 and sum(compiled.stats.cache_hits.values()) == found


def test_a_library_is_given_numbers_of_its_own_size():
    @numba.njit
    def use(blas, x):
        blas_calls.dgemv(blas.dgemv, (blas_calls.PLAIN, 1, 1, 1.0, x, 0, 1, x, 0, 1, 0.0, x, 0, 1))

    with pytest.raises(numba.core.errors.TypingError, match="arrays of float64"):
        use(blas_calls.blas_addresses(), np.zeros(2, dtype=np.float32))
