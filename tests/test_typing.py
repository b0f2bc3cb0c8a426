"""Type checkers see the package: a user's program is checked, its mistakes are found, and nothing else is reported."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
LAZY = ("perinstance", "perinstance.pairs", "perinstance.models", "perinstance.releases", "perinstance.analysis")

#: What users write; the lines that end with "# wrong" must be errors, and no others.
PROGRAM = """
from typing import Any

import numpy as np
import numpy.typing as npt

import perinstance as pi

X: npt.NDArray[np.float64] = np.ones((10, 2))
y: npt.NDArray[np.float64] = np.ones(10)

release = pi.PosteriorSample(alpha=1.0, gamma=1 / 60**2)
audit = pi.audit(release, X, y, delta=1e-6, method="upper")
summary: pi.auditing.Summary = audit.summary()
median: float = summary.median
again: pi.Audit = pi.audit(release, pi.scan("people.parquet"), target="bmi")
found: pi.analysis.Everyone = pi.analysis.everyone(release, audit.fit, x_bound=0.5, y_bound=200.0)
promised = pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=0.5, y_bound=200.0).fit(X, y)
losses: npt.NDArray[np.float64] = pi.pairs.GaussianShift(np.array([0.1, 0.2])).epsilon(1e-6)
composed: pi.pairs.Pairs = pi.pairs.compose([pi.pairs.GaussianShift(1.0), pi.pairs.LaplaceShift(1.0)])
logistic = pi.models.Logistic()
noisy: pi.releases.Release = pi.OutputPerturbation(scale=1.0)
version: str = pi.__version__


def show(errors: type[pi.errors.InvalidInput]) -> Any:
    return errors.__doc__


pi.PosteriorSample(alpha=1.0, gama=1.0)  # wrong
pi.audit(release, X, y, detla=1e-6)  # wrong
pi.audit(release, X, y, method="certified")  # wrong
pi.nothing  # wrong
pi.pairs.GaussianShift(1.0).epsilom(1e-6)  # wrong
pi.models.Logstic()  # wrong
pi.analysis.everybody(audit)  # wrong
audit.sumary()  # wrong
audit.fit.nothing  # wrong
loss: str = audit.delta  # wrong
pi.scan("people.parquet", delimeter=";")  # wrong
"""
WRONG = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}


def test_mypy_sees_the_package(tmp_path, pytestconfig):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    # as after an installation: what stands in the package itself is not the user's, and not reported
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "program.py"]
    command += [f"--cache-dir={pytestconfig.cache.mkdir('mypy')}"]
    environment = {**os.environ, "MYPYPATH": str(SOURCE)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert {int(line) for line in re.findall(r"program\.py:(\d+): error", done.stdout)} == WRONG, done.stdout
    assert "Error importing" not in done.stderr, done.stderr


def test_pyright_sees_the_package(tmp_path):
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(SOURCE)]}), encoding="utf-8")
    command = [pyright, "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    said = [entry for entry in json.loads(done.stdout)["generalDiagnostics"] if entry["severity"] == "error"]
    assert {entry["range"]["start"]["line"] + 1 for entry in said} == WRONG, said


@pytest.mark.parametrize("name", LAZY)
def test_stubs_list_one_name_a_line_and_hide_no_module(name):
    """The form that is read at run time. Importing a module sets its name on the package: a function would be lost."""
    folder = SOURCE.joinpath(*name.split("."))
    stub = (folder / "__init__.pyi").read_text(encoding="utf-8")
    names = [line for line in stub.splitlines() if line and not line.startswith('"""')]
    assert [line for line in names if not re.fullmatch(r"from \.[\w.]* import ((\w+) as \2|\*)", line)] == []
    modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert modules.isdisjoint(re.findall(r"^from \.\S+ import (\w+) as", stub, re.MULTILINE))
