"""The logger ``perinstance`` tells steps and nothing of anybody."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest

import perinstance as pi
from perinstance.report import figures
from tests.releases.catalogue import CATALOGUE

SECRET = "canary-4711"
NUMBER = 2.71828182845


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.DEBUG, logger="perinstance")
    return caplog


@pytest.mark.parametrize("name", CATALOGUE)
def test_steps_are_told_without_values(name, told, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FACTORS", figures.FACTORS[::12])
    example = CATALOGUE[name]
    X = example.X.copy()
    X[3, 1] = NUMBER
    n = len(X)
    ids = [f"{SECRET}-{i}" for i in range(n)]
    arguments = (X,) if example.y is None else (X, example.y)
    audit = pi.audit(example.release, *arguments, ids=ids, delta=1e-5)
    if name in ("posterior", "adaops", "mean"):  # a report tells its steps whatever was released
        audit.to_html(tmp_path / "r.html")
    example.release.fit(*arguments)
    messages = [record.getMessage() for record in told.records if record.name == "perinstance"]
    assert any("begins" in one for one in messages) and any("published one draw" in one for one in messages)
    for message in messages:
        assert SECRET not in message and "2.718" not in message and str(n) not in message
    for record in told.records:
        if record.name == "perinstance":
            assert all(isinstance(one, str | int) for one in record.args or ())


def test_nothing_is_printed_unless_asked(capsys):
    frame = pd.DataFrame(np.eye(3), columns=["a", "b", "c"])
    pi.audit(pi.PosteriorSample(), frame, [1.0, 2.0, 3.0], delta=1e-5)
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == ""
