"""Per-person tables: nothing a spreadsheet would execute, nothing lost, nobody else may read them."""

from __future__ import annotations

import csv
import io
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perinstance import PosteriorSample, audit
from perinstance.data import LossWriter, write_losses
from perinstance.data.private_files import spreadsheet_safe
from perinstance.errors import DiskFull, InvalidInput, PerinstanceError, UnsafeFile

LEADS = [
    "=", "+", "-", "@", "\t", "\r", "\n=", " =", "\xa0@", "\ufeff=", "\u200e=", "\x00=", "\uff1d", "\uff0b", "\x0b-",
    "%=", "",
]  # fmt: skip
BODIES = [
    "cmd|' /C calc'!A0", "SUM(1+1)", 'HYPERLINK("http://x","y")', "<script>alert(1)</script>", '"', "'", ",", ";=1",
    "\r\n=1", "\u202eevil", "a\x00b", "\x1b[31m", "{{7*7}}", "7", "", "x" * 3000, "null", "007", "\\", "e\u0301",
    "&amp;", "</td>", "`id`", "%00", "../../etc", "=" * 9, "\u2028", "\U0001f9e8", "DDE(1)", "-2+3",
]  # fmt: skip
HOSTILE = [lead + body for lead in LEADS for body in BODIES if lead + body]


def text_of(path) -> str:
    return path.read_bytes().decode("utf-8")


def test_five_hundred_hostile_names_and_ids(tmp_path):
    assert len(HOSTILE) >= 500
    path = tmp_path / "losses.csv"
    names = {f"{name}": np.array([0.5]) for name in dict.fromkeys(HOSTILE)}
    write_losses(path, [{"id": pa.array(HOSTILE), "epsilon": np.arange(len(HOSTILE)) / 7}])
    write_losses(tmp_path / "names.csv", [names])
    for file, column in ((path, True), (tmp_path / "names.csv", False)):
        rows = list(csv.reader(io.StringIO(text_of(file), newline="")))
        cells = [row[0] for row in rows[1:]] if column else rows[0]
        wanted = HOSTILE if column else list(names)
        assert len(cells) == len(wanted)
        for cell, hostile in zip(cells, wanted, strict=True):
            assert cell in (hostile, "'" + hostile)
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
            if cell.lstrip(" \n\v\u00a0\ufeff\u200e\0")[:1] in ("=", "+", "-", "@", "\uff1d", "\uff0b"):
                pytest.fail("a spreadsheet would execute this cell")
    # every text stands in quotes, so that another separator does not cut a cell in two
    assert all(line.startswith('"') for line in text_of(path).split("\n")[:2])


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=8), st.floats()), max_size=10), st.integers(1, 4)
)
def test_round_trip(tmp_path_factory, people, chunk):
    folder = tmp_path_factory.mktemp("losses")
    blocks = [
        {"id": pa.array([p[0] for p in part], pa.string()), "epsilon": np.array([p[1] for p in part], dtype=float)}
        for part in (people[k : k + chunk] for k in range(0, len(people), chunk))
    ]
    for suffix in ("csv", "parquet"):
        path = folder / f"losses.{suffix}"
        assert write_losses(path, blocks) == len(people)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    if not people:
        return
    table = pq.read_table(folder / "losses.parquet")
    assert table["id"].to_pylist() == [p[0] for p in people]
    np.testing.assert_array_equal(table["epsilon"].to_numpy(), [p[1] for p in people])
    rows = list(csv.reader(io.StringIO(text_of(folder / "losses.csv"), newline="")))[1:]
    assert [row[0] for row in rows] == [spreadsheet_safe(p[0]) for p in people]
    np.testing.assert_array_equal([float(row[1]) for row in rows], [p[1] for p in people])


def test_kinds_and_numbers(tmp_path):
    path = tmp_path / "losses.csv"
    with LossWriter(path) as writer:
        writer.write({"row": np.arange(2), "epsilon": np.array([0.1, np.inf]), "kind": np.array(["exact", "upper"])})
        writer.write({"row": np.arange(2, 3), "epsilon": np.array([1 / 3]), "kind": np.array(["exact"])})
        assert not path.exists()
    assert path.read_text() == '"row","epsilon","kind"\n0,0.1,"exact"\n1,inf,"upper"\n2,0.3333333333333333,"exact"\n'
    assert writer.n_rows == 3


def test_a_failure_leaves_nothing(tmp_path):
    for suffix in ("csv", "parquet"):
        with pytest.raises(RuntimeError), LossWriter(tmp_path / f"losses.{suffix}") as writer:
            writer.write({"epsilon": np.ones(3)})
            raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_file_whose_end_cannot_be_written_does_not_appear(tmp_path, monkeypatch):
    class Full:
        def close(self):
            raise OSError(28, "no space left")

        def write_table(self, batch):
            pass

    monkeypatch.setattr(pq, "ParquetWriter", lambda *_, **__: Full())
    with pytest.raises(DiskFull, match="nothing was left half-written"), LossWriter(tmp_path / "l.parquet") as writer:
        writer.write({"epsilon": np.ones(3)})
    assert not list(tmp_path.iterdir())


def test_what_a_writer_refuses(tmp_path):
    for name in ("losses.xlsx", "losses", "losses.csv.gz"):
        with pytest.raises(InvalidInput, match=r"\.csv or \.parquet"):
            LossWriter(tmp_path / name)
    with pytest.raises(InvalidInput, match="with statement"):
        LossWriter(tmp_path / "x.csv").write({"a": np.ones(1)})
    (tmp_path / "link.csv").symlink_to(tmp_path / "x.csv")
    with pytest.raises(UnsafeFile), LossWriter(tmp_path / "link.csv"):
        pass


def test_a_path_is_refused_before_the_work(tmp_path):
    for bad in (tmp_path / "losses.xlsx", tmp_path / "nowhere" / "losses.csv"):
        with pytest.raises(PerinstanceError):
            audit(PosteriorSample(alpha=1.0, gamma=1.0), np.ones((2, 1)), [1.0, 2.0], out=bad)
    assert not list(tmp_path.iterdir())
