"""First use: compiled code is found again, by its owner alone; compiling is announced; no folder is no obstacle."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import perinstance as pi
from perinstance.errors import CodeNotKept
from perinstance.numerics import compilation, compile_notice


def triple(x):
    return 3.0 * x


def half(x):
    return 0.5 * x


@pytest.fixture
def folder(monkeypatch, tmp_path) -> Path:
    """Only this folder, empty, is read and written."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compilation.folder_of_code.cache_clear()
    yield tmp_path / "perinstance"
    compilation.folder_of_code.cache_clear()


def hits(compiled) -> int:
    assert compiled(1.0) == 3.0
    return sum(compiled.stats.cache_hits.values())


def test_compiled_code_is_found_again_unless_its_file_is_damaged(folder):
    assert hits(compilation.kernel(triple)) == 0
    assert hits(compilation.kernel(triple)) == 1
    (file,) = folder.iterdir()
    assert file.suffix == ".nbc" and file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(file.read_bytes()[:100])
    assert hits(compilation.kernel(triple)) == 0
    assert hits(compilation.kernel(triple)) == 1


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_a_file_that_others_could_have_written_is_not_run(folder):
    """Root ran what another user had left in a folder that NUMBA_CACHE_DIR named."""
    assert hits(compilation.kernel(triple)) == 0
    (file,) = folder.iterdir()
    file.chmod(0o622)
    assert hits(compilation.kernel(triple)) == 0


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["the folder", "the file"])
def test_code_of_somebody_else_is_not_run(folder, what):
    assert hits(compilation.kernel(triple)) == 0
    (file,) = folder.iterdir()
    os.chown(file if what == "the file" else folder, 12345, -1)
    compilation.folder_of_code.cache_clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert hits(compilation.kernel(triple)) == 0
    expected = ["the folder belongs to somebody else"] if what == "the folder" else []
    assert [str(one.message).split(": ")[1].split(";")[0] for one in said] == expected


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_a_folder_that_others_can_write_is_not_used(folder):
    folder.mkdir(mode=0o700)
    folder.chmod(0o777)
    with pytest.warns(CodeNotKept, match=r"others can write the folder.*NUMBA_CACHE_DIR"):
        assert hits(compilation.kernel(triple)) == 0
    assert not list(folder.iterdir())


def test_changed_sources_find_no_old_code(tmp_path, monkeypatch):
    """A change in a file that is imported, also by another imported file, changes the hash of whoever depends on it."""
    for name, text in {
        "a.py": "from perinstance.b import b\n",
        "b.py": "    from perinstance.c import c\n",
        "c.py": "",
        "d.py": "",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(compilation, "PACKAGE", tmp_path)

    def hashed() -> str:
        for cached in (compilation.source_hash, compilation._content, compilation._imported):
            cached.cache_clear()
        return compilation.source_hash(tmp_path / "a.py")

    before = hashed()
    (tmp_path / "d.py").write_text("# nobody imports it\n")
    assert hashed() == before
    (tmp_path / "c.py").write_text("# changed\n")
    assert hashed() != before


def test_rounding_is_part_of_what_compiled_code_depends_on(monkeypatch):
    """Compiled code freezes the numbers of that file."""
    from perinstance.pairs.closed_form import profile

    seen = set()
    monkeypatch.setattr(compilation, "_content", lambda file: seen.add(file.name) or b"")
    compilation.source_hash.cache_clear()
    compilation.source_hash(Path(profile.__file__))
    compilation.source_hash.cache_clear()
    assert {"profile.py", "rounding.py", "compilation.py"} <= seen


def test_compiling_is_told_once_and_what_is_found_is_not(folder):
    for expected in (["now"], []):
        told = []
        with compile_notice.telling_of_compilation(lambda told=told: told.append("now")):
            compilation.kernel(triple)(1.0)
            compilation.kernel(half)(1.0)
        assert told == expected


def test_an_audit_makes_it_a_stage():
    stages = []

    def progress(stage, done, total):
        if not stages:  # something compiles while the audit runs, whatever was prepared before
            stages.append("begun")
            compilation.kernel(lambda x: x + 0.125)(1.0)
        stages.append((stage, done, total))

    X = np.random.default_rng(0).normal(size=(30, 3))
    pi.audit(pi.PosteriorSample(), X, X[:, 0], progress=progress)
    assert stages.count(("compile", 0, None)) <= 1 and len(stages) > 2


NOWHERE = {"HOME": "/dev/null/nobody", "USERPROFILE": "/dev/null/nobody"}
FRESH = """
from perinstance.numerics.compilation import kernel
def one(x): return x + 1.0
def two(x): return x + 2.0
print(kernel(one)(1.0), kernel(two)(1.0))
"""


def fresh(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    hidden = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return subprocess.run([sys.executable, "-c", code], env={**kept, **environment}, capture_output=True, text=True)


def test_nowhere_to_write_is_one_line_of_a_command():
    inside = "\n".join(f"    {line}" for line in FRESH.strip().splitlines())
    done = fresh(f"from perinstance.cli.notices import announcing\nwith announcing():\n{inside}", **NOWHERE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2.0", "3.0"]
    kept, compiling = done.stderr.strip().splitlines()
    assert kept.startswith("perinstance: compiled code is not kept") and "NUMBA_CACHE_DIR" in kept
    assert compiling == f"perinstance: {compile_notice.NOTICE}"


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_compiled_code_goes_to_a_private_folder_of_the_user_alone(tmp_path):
    """What pip does not know of would stay behind in the package, and could be imported."""
    before = set(compilation.PACKAGE.rglob("*.nb[ic]"))
    done = fresh(FRESH, XDG_CACHE_HOME=str(tmp_path), HOME=str(tmp_path))
    assert done.returncode == 0 and done.stderr == "", done.stderr
    made = [path for path in tmp_path.rglob("perinstance") if path.is_dir()]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700] and len(list(tmp_path.rglob("*.nbc"))) == 2
    assert set(compilation.PACKAGE.rglob("*.nb[ic]")) == before
