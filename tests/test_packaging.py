"""What is packaged is what is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_types_and_stubs_are_shipped():
    """The stubs are read at run time too: a wheel without them could not load a single name."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert "*.pyi" in shipped["*"] and "py.typed" in shipped["perinstance"]
    assert (ROOT / "src" / "perinstance" / "py.typed").exists()


def test_every_public_name_exists():
    import perinstance

    for name in perinstance.__all__:
        assert getattr(perinstance, name) is not None
    with pytest.raises(AttributeError):
        perinstance.nothing  # noqa: B018 - asking is the test


def test_every_wheel_that_runs_is_hashed():
    """The hashed file has each dependency at the constraints' own version, with hashes of wheels on every platform."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    hashed = (ROOT / "requirements-hashed.txt").read_text().replace(" \\\n", " ").splitlines()[1:]
    pins = set((ROOT / "constraints-py311.txt").read_text().split())
    assert all(line.split()[0] in pins and re.search(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashed)
    names = {line.split("==")[0].lower() for line in hashed}
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split("[<>=;]", one)[0] for one in needed if "python_version" not in one} <= names
    compiled = next(line for line in hashed if line.startswith("numpy=="))
    assert compiled.count("--hash") == 4  # Linux on two processors, macOS, Windows


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the hashes are of wheels for CPython 3.11")
def test_wheel_and_source_archive_run_in_an_empty_environment(tmp_path):
    """Hashes are required, wheels alone are taken, and no compiler is there."""
    empty = {**os.environ, "CC": "/bin/false", "CXX": "/bin/false", "PYTHONPATH": "", "MPLBACKEND": "agg"}

    def run(*command, **options):
        return subprocess.run(command, env=empty, cwd=tmp_path, capture_output=True, text=True, **options)

    sources = run("git", "-C", str(ROOT), "archive", "--prefix=checkout/", "-o", str(tmp_path / "checkout.tar"), "HEAD")
    if sources.returncode:
        pytest.skip("this is no git checkout")
    run("tar", "-xf", "checkout.tar", check=True)
    run(sys.executable, "-m", "venv", "builder", check=True)
    built = run("builder/bin/python", "-m", "pip", "install", "--quiet", "build")
    built = built if built.returncode else run("builder/bin/python", "-m", "build", "--outdir", "dist", "checkout")
    if built.returncode and "No matching distribution" in built.stderr + built.stdout:
        pytest.skip("no package index can be reached")
    assert built.returncode == 0, built.stderr
    (wheel,), (archive,) = (list((tmp_path / "dist").glob(kind)) for kind in ("*.whl", "*.tar.gz"))
    assert wheel.name.endswith("-py3-none-any.whl")
    run(sys.executable, "-m", "venv", "clean", check=True)
    pip = "clean/bin/python", "-m", "pip", "install", "--quiet"
    run(*pip, "--require-hashes", "-r", str(ROOT / "requirements-hashed.txt"), check=True)
    for distribution in (wheel, archive):
        needs = ("--no-index",) if distribution is wheel else ()  # a source archive asks for setuptools
        run(*pip, "--no-deps", "--force-reinstall", *needs, str(distribution), check=True)
        said = run("clean/bin/perinstance", "demo")
        assert said.returncode == 0 and (tmp_path / "report.html").exists(), said.stderr
        (tmp_path / "report.html").unlink()
