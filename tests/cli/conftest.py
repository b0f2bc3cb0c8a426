from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from perinstance.cli import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def commanded(*words: object) -> Outcome:
    """Run one command in this process and folder, as a person would."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    before, code = sys.argv, 0
    sys.argv = ["perinstance", *map(str, words)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1 if stop.code else 0
    finally:
        sys.argv = before
    return Outcome(code, *(one.buffer.getvalue().decode() for one in (out, err)))


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run commands in an empty folder; gives exit code and both streams."""
    monkeypatch.chdir(tmp_path)
    return commanded


def people(n: int = 50) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["age", "weight", "dose"])
    frame["bmi"] = frame.sum(axis=1) + rng.normal(size=n)
    frame["ward"] = ["north", "south"] * (n // 2)
    frame.insert(0, "person", [f"{i:03d}" for i in range(n)])
    return frame


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "people.csv"
    people().to_csv(path, index=False)
    return path
