from __future__ import annotations

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


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Drive the command line as a person would, in an empty folder; gives exit code and both streams."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["perinstance", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


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
