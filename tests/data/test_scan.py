"""Files: the same numbers as from memory, whatever the format and the blocks; damage is a typed refusal."""

from __future__ import annotations

import os
import re
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from perinstance import PosteriorSample, audit
from perinstance.data import Limits, read_table, scan
from perinstance.engines import Local, LocalSweep
from perinstance.errors import InvalidTable

N = 5000
RNG = np.random.default_rng(11)
FRAME = pd.DataFrame(
    {
        "person": [f"{k:05d}" for k in range(N)],
        "age": RNG.integers(0, 100, N),
        "bmi": RNG.normal(27, 4, N),
        "smokes": RNG.random(N) < 0.3,
        "cost": RNG.lognormal(size=N),
    }
)
MATRIX = FRAME[["age", "bmi", "smokes"]].to_numpy(dtype=float)


def _folder(place):
    (place / "more").mkdir(parents=True)
    (place / "_SUCCESS").touch()
    (place / ".hidden.parquet").write_bytes(b"nothing")
    for number, rows in enumerate((slice(10), slice(10, 10), slice(10, 4000), slice(4000, N))):
        FRAME[rows].to_parquet(place / f"part-{number}.parquet")


def _feather(path, compression):
    pa.feather.write_feather(pa.Table.from_pandas(FRAME), path, chunksize=999, compression=compression)


TEXT = FRAME.astype({"smokes": int})
FORMATS = {
    "p.parquet": lambda path: FRAME.to_parquet(path, row_group_size=700),
    "pages.parquet": lambda path: FRAME.to_parquet(path, compression="zstd", data_page_size=1000),
    "many": _folder,
    "c.csv": lambda path: TEXT.to_csv(path, index=False),
    "c.csv.gz": lambda path: TEXT.to_csv(path, index=False),
    "c.tsv": lambda path: TEXT.to_csv(path, index=False, sep="\t", lineterminator="\r\n"),
    "a.arrow": lambda path: _feather(path, "uncompressed"),
    "a.feather": lambda path: _feather(path, "zstd"),
}


def written(folder, form):
    FORMATS[form](folder / form)
    return folder / form


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_every_format_gives_the_same_rows_twice(tmp_path, form, memory):
    found = scan(written(tmp_path, form))
    assert found.columns == tuple(FRAME.columns)
    found = scan(pa.dataset.dataset(written(tmp_path, form))) if form == "p.parquet" and memory else found
    source = read_table(found, target="cost", ids="person")
    with LocalSweep(source, threads=2, block_bytes=10_000, memory_bytes=memory) as sweep:
        for _ in range(2):
            blocks = list(sweep.map(lambda block: np.column_stack([block.X, block.y])))
            np.testing.assert_array_equal(np.concatenate(blocks)[:, :3], MATRIX)
            np.testing.assert_array_equal(np.concatenate(blocks)[:, 3], FRAME["cost"])
            assert max(len(block) for block in blocks) <= 10_000 // 32
        assert sweep.n_rows == N and sweep.ids.to_pylist() == FRAME["person"].tolist()


@pytest.mark.parametrize("form", ["p.parquet", "c.csv", "a.arrow"])
def test_threads_do_not_change_a_bit(tmp_path, form):
    path = written(tmp_path, form)
    sums = {
        LocalSweep(read_table(scan(path), target="cost", ids="person"), threads, 5_000, 20_000)
        .fold(lambda block: (block.X.T @ block.X) / 3)
        .tobytes()
        for threads in (1, 3)
    }
    assert len(sums) == 1


@pytest.mark.parametrize("form", ["many", "c.csv.gz", "a.feather"])
def test_an_audit_of_a_file_is_the_audit_of_the_table(tmp_path, form):
    release = PosteriorSample(alpha=1.0, gamma=1.0)
    table = FRAME.drop(columns=["person", "cost"])
    here = audit(release, table, FRAME["cost"], ids=FRAME["person"])
    engine = Local(threads=2, block_bytes=20_000, memory_bytes=50_000)
    there = audit(release, scan(written(tmp_path, form)), target="cost", ids="person", engine=engine)
    for name in ("epsilon", "leverage", "residual"):
        np.testing.assert_allclose(np.asarray(getattr(there, name)), np.asarray(getattr(here, name)), rtol=1e-10)
    assert there.ids.to_pylist() == FRAME["person"].tolist()


@pytest.mark.parametrize(("order", "dtype"), [("C", np.float64), ("F", np.float32), ("C", np.int32)])
def test_npy(tmp_path, order, dtype):
    values = np.asarray(np.column_stack([MATRIX, FRAME["cost"]]) * 4, dtype=dtype, order=order)
    np.save(tmp_path / "m.npy", values)
    source = read_table(scan(tmp_path / "m.npy"), target=1)
    assert source.n_features == 3 and source.n_rows == N
    blocks = list(LocalSweep(source, block_bytes=10_000).map(lambda block: np.column_stack([block.X, block.y])))
    np.testing.assert_array_equal(np.concatenate(blocks), values[:, [0, 2, 3, 1]])


def test_float32_stays_float32(tmp_path):
    pq.write_table(pa.table({"a": np.ones(5, np.float32), "y": np.ones(5)}), tmp_path / "s.parquet")
    sweep = LocalSweep(read_table(scan(tmp_path / "s.parquet"), target="y"), memory_bytes=0)
    for _ in range(2):
        assert [X.dtype for X in sweep.map(lambda block: block.X)] == [np.float32]


def test_names_with_dots(tmp_path):
    pq.write_table(pa.table({"a.b": [1.0, 2.0], "a": [5.0, 6.0], "y": [3.0, 4.0]}), tmp_path / "d.parquet")
    sweep = LocalSweep(read_table(scan(tmp_path / "d.parquet"), target="y"))
    np.testing.assert_array_equal(next(sweep.map(lambda block: block.X)), [[1, 5], [2, 6]])


def test_a_chosen_few_columns_may_leave_text_behind(tmp_path):
    source = read_table(scan(written(tmp_path, "p.parquet")), target="cost", features=["bmi"])
    np.testing.assert_array_equal(np.concatenate(list(LocalSweep(source).map(lambda block: block.X))), MATRIX[:, [1]])


def _spoil(frame, column, row, value):
    spoilt = frame.astype({column: object})
    spoilt.loc[row, column] = value
    return spoilt


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize(
    "column, row, value, pattern",
    [
        ("bmi", 4321, None, r"column 2.*row 4321: a missing value"),
        ("bmi", 4321, np.inf, r"column 2.*row 4321: an infinity"),
        ("cost", 99, -np.inf, r"the target.*row 99: an infinity"),
        ("cost", 99, None, r"column 4.*row 99: a missing value"),
        ("age", 4999, 2**53 + 1, r"column 1.*row 4999: an integer beyond 2\^53"),
        ("bmi", 4321, "HIV-positive", "column 2.*(row 4321)? holds (text|objects)"),
        ("cost", 99, "HIV-positive", "column 4.*(row 99)? holds (text|objects)"),
        ("person", 4000, "", "ids, row 4000: an id is empty"),
        ("person", 4000, None, "ids, row 4000: an id is (empty|missing)"),
        ("person", 4000, "00007", "ids repeat: 1 person has several rows"),
    ],
)
def test_bad_cells_are_named_by_number(tmp_path, suffix, column, row, value, pattern):
    frame = _spoil(FRAME, column, row, value).astype({"smokes": int})
    if value == "HIV-positive":
        frame = frame.astype({column: str})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    path = tmp_path / f"bad.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path, row_group_size=1000)
    elif suffix == "arrow":
        pa.feather.write_feather(table, path, chunksize=1000)
    else:
        table.to_pandas().to_csv(path, index=False)
        # a CSV file counts its header too
        pattern = re.sub(r"(?<=row )\d+", lambda found: str(int(found[0]) + 2), pattern)
    with pytest.raises(InvalidTable, match=pattern) as caught:
        source = read_table(scan(path), target="cost", ids="person")
        LocalSweep(source, 2, block_bytes=10_000).fold(lambda block: block.X.sum())
    shown = "".join(traceback.format_exception(caught.value))  # causes too: no cell of that row, nor the bad one
    planted = [str(cell) for cell in FRAME.loc[row, ["person", "bmi", "cost"]]]
    assert not any(cell in shown for cell in (*planted, "HIV-positive", str(2**53 + 1), "00007"))


@pytest.mark.parametrize(
    "table, pattern",
    [
        ({"a": ["x", "y"], "y": [1, 2]}, "column 0.*text"),
        ({"a": pa.array(["x", "y"]).dictionary_encode(), "y": [1, 2]}, "categories"),
        ({"a": pa.array([1, 2], pa.timestamp("s")), "y": [1, 2]}, "dates"),
        ({"a": pa.array([1, 2], pa.decimal128(10, 2)), "y": [1, 2]}, "decimals"),
        ({"a": [[1.0], [2.0]], "y": [1, 2]}, "not a number"),
        ({"a": [b"x", b"y"], "y": [1, 2]}, "text"),
        ({"a": [1, 2], "y": ["1", "2"]}, "column 1.*text"),
        ({"a": pa.array([], pa.float64()), "y": pa.array([], pa.float64())}, "no rows"),
        ({"y": [1, 2]}, "no features"),
    ],
)
def test_types_are_refused_before_reading(tmp_path, table, pattern):
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    with pytest.raises(InvalidTable, match=pattern):
        read_table(scan(tmp_path / "t.parquet"), target="y")


def test_what_is_no_table(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    (tmp_path / "y.parquet").write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
    (tmp_path / "z.arrow").write_bytes(b"ARROW1\0\0" + b"\xff" * 100)
    (tmp_path / "w.npy").write_bytes(b"\x93NUMPY\x01\0\x10\0garbage")
    np.save(tmp_path / "o.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "one.npy", np.ones(3))
    os.mkfifo(tmp_path / "pipe.csv")
    for name in ("nobody.csv", *(one.name for one in tmp_path.iterdir())):
        with pytest.raises(InvalidTable):
            read_table(scan(tmp_path / name), target="y")
    for thing in (3, None, FRAME, "a\0b"):
        with pytest.raises(InvalidTable):
            scan(thing)


@pytest.mark.parametrize("form", ["p.parquet", "c.csv.gz", "a.arrow", "a.feather"])
def test_truncated_files(tmp_path, form):
    path = written(tmp_path, form)
    data = path.read_bytes()
    for share in (0.0, 0.01, 0.5, 0.99):
        path.write_bytes(data[: int(len(data) * share)])
        with pytest.raises(InvalidTable):
            LocalSweep(read_table(scan(path), target="cost", ids="person")).fold(lambda block: block.y.sum())


@pytest.mark.parametrize("form", ["p.parquet", "pages.parquet", "c.csv.gz", "a.feather"])
def test_flipped_bytes_are_refused_or_read(tmp_path, form):
    path = written(tmp_path, form)
    data = path.read_bytes()
    rng = np.random.default_rng(5)
    for _ in range(10):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            broken[at] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(broken))
        try:
            LocalSweep(read_table(scan(path), target="cost", ids="person")).fold(lambda block: block.y.sum())
        except InvalidTable:
            continue


def test_folders_must_agree(tmp_path):
    FRAME[:10].to_parquet(tmp_path / "1.parquet")
    FRAME[["person", "bmi"]][:10].to_parquet(tmp_path / "2.parquet")
    with pytest.raises(InvalidTable, match=r"differ in their columns, at '2\.parquet'"):
        scan(tmp_path)


def test_ids_of_a_file_are_a_column(tmp_path):
    with pytest.raises(InvalidTable, match="name of that column"):
        read_table(scan(written(tmp_path, "p.parquet")), target="cost", ids=FRAME["person"])
    with pytest.raises(InvalidTable, match="y cannot stand beside"):
        read_table(scan(written(tmp_path, "p.parquet")), FRAME["cost"])


def test_limits_are_the_callers(tmp_path):
    path = written(tmp_path, "p.parquet")
    for limits in (Limits(cells=24_999), Limits(columns=4), Limits(header_bytes=100)):
        with pytest.raises(InvalidTable, match="Limits"):
            scan(path, limits=limits)
    assert scan(path, limits=Limits(cells=25_000, columns=5)).n_rows == N
