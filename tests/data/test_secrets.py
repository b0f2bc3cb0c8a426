"""Planted secrets: many ways to fail, and not one text that carries a cell; of files also in ``test_scan.py``."""

from __future__ import annotations

import gzip
import io
import traceback

import numpy as np
import pandas as pd
import pytest

from perinstance.data import LossWriter, read_table, scan
from perinstance.engines import LocalSweep
from perinstance.errors import PerinstanceError

SECRET = "HIV-positive"
NUMBER = 8675309.25  # a number nobody would print by chance
WHOLE = 9223372036854770001

RAW = {
    "ragged short": b"id,x,y\nHIV-positive,8675309.25\n",
    "ragged long": b"id,x,y\nHIV-positive,8675309.25,1,2\n",
    "header is a person": b"HIV-positive,8675309.25,1\na,2,3\n",
    "duplicate header cells": b"HIV-positive,HIV-positive,y\na,2,3\n",
    "open quote": b'id,x,y\n"HIV-positive,8675309.25,1\n',
    "quote in the middle": b'id,x,y\nHIV"positive,HIV-positive,1\n',
    "not utf-8": b"id,x,y\nHIV-positive\xff,8675309.25,1\n",
    "not utf-8 header": b"HIV-positive\xff,x,y\n",
    "decimal comma": b"id;x;y\nHIV-positive;8675309,25;1\n",
    "thousands": b'id,x,y\nHIV-positive,"8,675,309.25",1\n',
    "utf-16": "id,x,y\nHIV-positive,8675309.25,1\n".encode("utf-16"),
    "huge line": b"id,x,y\n" + b"HIV-positive" * 500_000 + b"\n",
    "late text": b"id,x,y\n" + b"p,8675309.25,1\n" * 200_000 + b"q,HIV-positive,1\n",
    "nul": b"id,x,y\na,HIV-positive\0,1\n",
}
CALLS = {
    "objects": lambda: read_table(np.array([[SECRET], [1]], dtype=object), [0, 1]),
    "text target": lambda: read_table([[1.0], [2.0]], [SECRET, "b"]),
    "mixed target": lambda: read_table([[1.0], [2.0]], pd.Series([SECRET, 1], dtype=object)),
    "ids for a matrix": lambda: read_table(np.ones((2, 1)), [0, 1], ids=[SECRET, SECRET]),
    "mixed ids": lambda: read_table(np.ones((2, 1)), [0, 1], ids=[SECRET, 1]),
    "ids of bytes": lambda: read_table(np.ones((2, 1)), [0, 1], ids=[SECRET.encode(), b"b"]),
    "float ids": lambda: read_table(np.ones((2, 1)), [0, 1], ids=[NUMBER, 1.0]),
    "surrogate ids": lambda: read_table(np.ones((2, 1)), [0, 1], ids=[SECRET + "\ud800", "b"]),
    "masked": lambda: read_table(np.ma.masked_equal([[NUMBER], [1.0]], 1.0), [0, 1]),
    "duplicate names": lambda: read_table(pd.DataFrame([[1, 2]], columns=[SECRET, SECRET]), [0]),
    "array protocol": lambda: read_table(Spiteful(), [0, 1]),
    "a failing step": lambda: LocalSweep(read_table([[NUMBER], [np.nan]], [0, 1])).fold(_spiteful_step),
    "a dictionary": lambda: read_table({"a": SECRET}, [0, 1]),
    "not a path": lambda: scan(io.StringIO(SECRET)),
    "a writer of another kind": lambda: LossWriter("x.exe"),
}


class Spiteful:
    def __array__(self, *_, **__):
        raise ValueError(SECRET)


def _spiteful_step(block):
    raise ValueError(SECRET)


def sweep_all(table, **options):
    LocalSweep(read_table(table, **options), threads=2).fold(lambda block: block.X.sum())


def check(call) -> None:
    """It fails with an error of ours, whose whole traceback, causes included, carries no cell."""
    with pytest.raises(PerinstanceError) as caught:
        call()
    shown = "".join(traceback.format_exception_only(caught.value)) + repr(caught.value)
    seen = caught.value
    while seen is not None:  # what Python prints: causes, and contexts that are not suppressed
        shown += str(seen)
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    for secret in (SECRET, "positive", "8675309", str(WHOLE), "92233720368547", "1986", "inf;", "b'"):
        assert secret not in shown


@pytest.mark.parametrize("case", RAW)
def test_raw_text(tmp_path, case):
    for name, data in (("t.csv", RAW[case]), ("t.csv.gz", gzip.compress(RAW[case], 1))):
        (tmp_path / name).write_bytes(data)
        check(lambda name=name: sweep_all(scan(tmp_path / name), target="y", ids="id"))


@pytest.mark.parametrize("case", CALLS)
def test_calls(case):
    check(CALLS[case])
