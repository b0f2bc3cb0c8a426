"""Planted secrets: over a hundred ways to fail, and not one text that carries a cell."""

from __future__ import annotations

import gzip
import io
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from perinstance.data import LossWriter, read_table, scan
from perinstance.engines import LocalSweep
from perinstance.errors import PerinstanceError

SECRET = "HIV-positive"
NUMBER = 8675309.25  # a number nobody would print by chance
WHOLE = 9223372036854770001

# what stands in a cell, and where
CELLS = {
    "text in a feature": ("x", SECRET),
    "text in the target": ("y", SECRET),
    "a missing feature": ("x", None),
    "infinity": ("x", np.inf),
    "an infinite target": ("y", -np.inf),
    "a number that is too whole": ("x", WHOLE),
    "a missing id": ("id", None),
    "an empty id": ("id", ""),
    "a repeated id": ("id", "p1"),
}


def spoilt(column, value, row=1) -> pd.DataFrame:
    """A table whose other cells are secrets too: they must not come along as context."""
    frame = pd.DataFrame({"id": [SECRET + "0", SECRET + "1", SECRET + "2"], "x": [NUMBER] * 3, "y": [NUMBER + 1] * 3})
    frame = frame.astype(object)
    if value == "p1":
        value = SECRET + "0"
    frame.loc[row, column] = value
    for name in ("x", "y"):
        if not isinstance(value, str) or name != column:
            whole = name == column and isinstance(value, int)
            frame[name] = pd.Series([1, value, 2]) if whole else pd.to_numeric(frame[name])
        else:
            frame[name] = frame[name].astype(str)
    return frame


def as_csv(frame, folder):
    frame.to_csv(folder / "t.csv", index=False)
    return scan(folder / "t.csv")


def as_file(frame, folder, form):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    path = folder / f"t.{form}"
    if form == "parquet":
        pq.write_table(table, path)
    else:
        pa.feather.write_feather(table, path)
    return scan(path)


WAYS = {
    "pandas": lambda frame, folder: frame,
    "pyarrow": lambda frame, folder: pa.Table.from_pandas(frame, preserve_index=False),
    "csv": as_csv,
    "parquet": lambda frame, folder: as_file(frame, folder, "parquet"),
    "arrow": lambda frame, folder: as_file(frame, folder, "arrow"),
}
CASES = [(cell, way) for cell in CELLS for way in WAYS]

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


@pytest.mark.parametrize("cell, way", CASES)
def test_spoilt_cells(tmp_path, cell, way):
    column, value = CELLS[cell]
    frame = spoilt(column, value)
    check(lambda: sweep_all(WAYS[way](frame, tmp_path), target="y", ids="id"))


@pytest.mark.parametrize("case", RAW)
def test_raw_text(tmp_path, case):
    for name, data in (("t.csv", RAW[case]), ("t.csv.gz", gzip.compress(RAW[case], 1))):
        (tmp_path / name).write_bytes(data)
        check(lambda name=name: sweep_all(scan(tmp_path / name), target="y", ids="id"))


@pytest.mark.parametrize("case", CALLS)
def test_calls(case):
    check(CALLS[case])
