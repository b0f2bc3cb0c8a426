"""Tables in memory: every flavour gives the same numbers, and every awkward one is refused by row and column."""

from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from perinstance.data import read_table
from perinstance.engines import LocalSweep
from perinstance.errors import InvalidTable, PerinstanceError

N, D = 257, 3
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, D))
Y = RNG.normal(size=N)
NAMES = ["age", "bmi", "dose"]


def _arrow(values: np.ndarray) -> pa.Table:
    return pa.table({name: values[:, k] for k, name in enumerate(NAMES)})


FLAVOURS = {
    "C": lambda v: np.ascontiguousarray(v),
    "F": lambda v: np.asfortranarray(v),
    "strided": lambda v: np.repeat(v, 2, axis=0)[::2],
    "big endian": lambda v: v.astype(">f8"),
    "list": lambda v: v.tolist(),
    "pandas": lambda v: pd.DataFrame(v, columns=NAMES, index=np.arange(len(v))[::-1]),
    "pandas columns": lambda v: pd.DataFrame({n: pd.Series(v[:, k].copy()) for k, n in enumerate(NAMES)}),
    "pandas nullable": lambda v: pd.DataFrame(v, columns=NAMES).astype("Float64"),
    "pandas arrow": lambda v: pd.DataFrame(v, columns=NAMES).astype("float64[pyarrow]"),
    "polars": lambda v: pl.DataFrame(v, schema=NAMES),
    "polars chunks": lambda v: pl.concat([pl.DataFrame(v[:100], schema=NAMES), pl.DataFrame(v[100:], schema=NAMES)]),
    "pyarrow": _arrow,
    "pyarrow chunks": lambda v: pa.concat_tables([_arrow(v[:11]), _arrow(v[11:])]),
}


def rows_of(source, **options) -> tuple[np.ndarray, np.ndarray]:
    """All that a sweep sees."""
    blocks = list(LocalSweep(source, threads=1, **options).map(lambda block: (block.X.copy(), block.y.copy())))
    return np.concatenate([one[0] for one in blocks]), np.concatenate([one[1] for one in blocks])


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_flavour_gives_the_same_rows(flavour):
    table = read_table(FLAVOURS[flavour](X), Y)
    seen, target = rows_of(table, block_bytes=1000)
    np.testing.assert_array_equal(seen, X)
    np.testing.assert_array_equal(target, Y)
    assert table.n_rows == N and table.n_features == D


@pytest.mark.parametrize("flavour", ["C", "pandas", "pandas columns", "polars", "pyarrow"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint64, np.int8, bool])
def test_number_types(dtype, flavour):
    values = (X > 0).astype(dtype) if dtype is bool else (np.abs(X) * 10).astype(dtype)
    seen, _ = rows_of(read_table(FLAVOURS[flavour](values), Y), block_bytes=1000)
    assert seen.dtype == (np.float32 if dtype is np.float32 else np.float64)
    np.testing.assert_array_equal(seen, values.astype(seen.dtype))


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_floats_are_not_copied(order, dtype):
    values = np.asarray(X, dtype=dtype, order=order)
    for table in (read_table(values, Y), read_table(pd.DataFrame(values, copy=False), Y)):
        for shared in LocalSweep(table, block_bytes=1000).map(lambda block: np.shares_memory(block.X, values)):
            assert shared


@pytest.mark.parametrize("flavour", ["pandas", "pandas columns", "polars", "pyarrow"])
def test_target_and_ids_are_columns(flavour):
    table = FLAVOURS[flavour](X)
    ids = [f"{k:03d}" for k in range(N)]
    if flavour == "polars":
        table = table.with_columns(pl.Series("who", ids))
    elif flavour == "pyarrow":
        table = table.append_column("who", pa.array(ids))
    else:
        table["who"] = ids
    source = read_table(table, target="bmi", ids="who")
    seen, target = rows_of(source, block_bytes=1000)
    np.testing.assert_array_equal(seen, X[:, [0, 2]])
    np.testing.assert_array_equal(target, X[:, 1])
    assert source.ids.to_pylist() == ids
    assert source.names == ("age", "dose")
    only = read_table(table, target="bmi", ids="who", features=["dose"])
    np.testing.assert_array_equal(rows_of(only)[0], X[:, [2]])


def test_target_of_a_matrix_is_a_number():
    seen, target = rows_of(read_table(X, target=1), block_bytes=1000)
    np.testing.assert_array_equal(seen, X[:, [0, 2]])
    np.testing.assert_array_equal(target, X[:, 1])
    np.testing.assert_array_equal(rows_of(read_table(X, target=-1, features=[1]))[0], X[:, [1]])


@pytest.mark.parametrize("make", [list, np.array, pd.Series, pl.Series, pa.array, lambda v: pd.DataFrame({"y": v})])
def test_every_flavour_of_target(make):
    values = [k % 2 for k in range(N)]
    np.testing.assert_array_equal(rows_of(read_table(X, make(values)))[1], values)


def test_answers_come_back_in_the_callers_flavour():
    frame = FLAVOURS["pandas"](X)
    values = np.arange(N, dtype=float)
    back = read_table(frame, Y).flavour.frame({"epsilon": values})
    assert back.index.equals(frame.index) and back["epsilon"].tolist() == values.tolist()
    series = read_table(frame, Y).flavour.series(values, "epsilon")
    assert series.index.equals(frame.index) and series.name == "epsilon"
    assert isinstance(read_table(FLAVOURS["polars"](X), Y).flavour.frame({"e": values}), pl.DataFrame)
    assert isinstance(read_table(FLAVOURS["polars"](X), Y).flavour.series(values, "e"), pl.Series)
    assert isinstance(read_table(_arrow(X), Y).flavour.frame({"e": values}), pa.Table)
    assert isinstance(read_table(X, Y).flavour.frame({"e": values, "i": pa.array(["x"] * N)}), pd.DataFrame)
    assert read_table(X, Y).flavour.series(values, "e") is values


def _with(row: int, column: int, value: float) -> np.ndarray:
    bad = X.copy()
    bad[row, column] = value
    return bad


class Statistic:
    """What a fold adds up, and which shows by itself that a cell was no number."""

    def __init__(self, X):
        self.finite = bool(np.isfinite(np.trace(X.T @ X)))

    def __add__(self, other):
        return self


@pytest.mark.parametrize("value, word", [(np.nan, "NaN"), (-np.inf, "infinity")])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_missing_cells_are_named_by_number(flavour, value, word):
    if "nullable" in flavour or "pandas arrow" in flavour:
        word = "missing" if np.isnan(value) else word  # pandas turns NaN into NA here
    for step in (lambda block: Statistic(block.X), lambda block: block.X.sum(axis=0)):
        with pytest.raises(InvalidTable, match=rf"column 2.*row 199: .*{word}"):
            LocalSweep(read_table(FLAVOURS[flavour](_with(199, 2, value)), Y), block_bytes=2000).fold(step)


def test_missing_target_is_named():
    bad = Y.copy()
    bad[7] = np.nan
    with pytest.raises(InvalidTable, match="the target, row 7"):
        rows_of(read_table(X, bad))


def test_huge_numbers_are_no_missing_values():
    seen, _ = rows_of(read_table(np.full((4, 2), 1.7e308), np.ones(4)))
    assert np.isfinite(seen).all()


def test_numbers_of_columns_count_the_callers_columns():
    frame = pd.DataFrame({"y": Y, "age": X[:, 0], "bmi": _with(5, 1, np.nan)[:, 1]})
    with pytest.raises(InvalidTable, match=r"column 2 \('bmi'\), row 5"):
        rows_of(read_table(frame, target="y"))


TWO = np.ones(2)
AWKWARD = {
    "text": (pd.DataFrame({"a": ["x", "y"]}), TWO, "column 0.*text"),
    "objects": (np.array([[1], [None]], dtype=object), TWO, "objects"),
    "ragged list": ([[1, 2], [3]], TWO, "rectangular"),
    "complex": (np.ones((2, 1), dtype=complex), TWO, "complex"),
    "datetime": (pd.DataFrame({"a": pd.to_datetime(["2020-01-01", "2021-01-01"])}), TWO, "dates"),
    "decimal": (pa.table({"a": [decimal.Decimal("1.1")] * 2}), TWO, "decimals"),
    "categories": (pd.DataFrame({"a": pd.Categorical(["x", "y"])}), TWO, "categories"),
    "longdouble": (np.ones((2, 1), dtype=np.longdouble), TWO, "extended"),
    "lists": (pl.DataFrame({"a": [[1.0], [2.0]]}), TWO, "not a number"),
    "polars null": (pl.DataFrame({"a": [1, None]}), TWO, "column 0.*row 1.*null"),
    "arrow null": (pa.table({"a": [None, 1.5]}), TWO, "column 0.*row 0.*null"),
    "nullable null": (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), TWO, "column 0.*row 1"),
    "masked": (np.ma.masked_equal(np.array([[1.0], [2.0]]), 2), TWO, "row 1"),
    "big integer": (np.array([[1], [2**53 + 1]]), TWO, "column 0, row 1.*2\\^53"),
    "big unsigned": (np.array([[1, 2**63]], dtype=np.uint64), TWO[:1], "column 1, row 0"),
    "beyond integers": ([[2**70], [1]], TWO, "objects"),
    "no rows": (np.empty((0, 3)), np.empty(0), "no rows"),
    "no columns": (np.empty((2, 0)), TWO, "no features"),
    "one dimension": (np.ones(2), TWO, "two dimensions"),
    "series": (pd.Series([1.0, 2.0]), TWO, "two dimensions"),
    "short target": (np.ones((3, 1)), TWO, "3 rows and y has 2"),
    "wide target": (np.ones((2, 1)), np.ones((2, 2)), "2 columns, and a release has one"),
    "text target": (np.ones((2, 1)), ["a", "b"], "the target.*text"),
    "null target": (np.ones((2, 1)), pl.Series([1, None]), "the target, row 1"),
    "no target": (np.ones((2, 1)), None, "either y or target"),
    "sparse": (scipy.sparse.eye(2).tocsr(), TWO, "sparse"),
    "lazy": (pl.LazyFrame({"a": [1.0, 2.0]}), TWO, "lazy"),
    "duplicate names": (pd.DataFrame(np.ones((2, 2)), columns=["a", "a"]), TWO, "columns 0 and 1 have the same name"),
    "nothing": (None, TWO, "X"),
}


@pytest.mark.parametrize("case", AWKWARD)
def test_awkward_tables_are_refused(case):
    table, target, pattern = AWKWARD[case]
    with pytest.raises(InvalidTable, match=pattern):
        rows_of(read_table(table, target))


@pytest.mark.parametrize(
    "options, pattern",
    [
        ({"target": "nobody"}, "target column is not among"),
        ({"target": "bmi", "ids": "nobody"}, "column of ids is not among"),
        ({"target": "bmi", "ids": "bmi"}, "same column"),
        ({"target": "bmi", "features": ["bmi"]}, "features= names"),
        ({"target": "bmi", "features": ["age", "age"]}, "features= names"),
        ({"target": "bmi", "features": ["x"]}, "feature 0"),
        ({"target": "bmi", "features": []}, "no features"),
        ({"target": "bmi", "y": [1]}, "not both"),
        ({"target": ["bmi"]}, "the target column must be one name, got a list of 1; pass the name itself"),
        ({"target": "bmi", "features": "age"}, "features= is a list of names, got one name"),
    ],
)
def test_columns_that_cannot_be_chosen(options, pattern):
    with pytest.raises(InvalidTable, match=pattern):
        read_table(FLAVOURS["pandas"](X), **options)


def test_columns_of_a_matrix():
    for number in (3, -4, "age", 1.0, True, None):
        with pytest.raises(InvalidTable):
            read_table(X, target=number)


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 400), st.sampled_from("CF"), st.integers(1, 4))
def test_blocks_cover_every_row_once(n, d, block_bytes, order, threads):
    values = np.arange(n * d, dtype=float).reshape(n, d)
    for table in (np.asarray(values, order=order), pd.DataFrame(values), pa.table(list(values.T), list("abcde"[:d]))):
        sweep = LocalSweep(read_table(table, np.arange(n)), threads=threads, block_bytes=block_bytes)
        blocks = list(sweep.map(lambda block: np.column_stack([block.X, block.y])))
        np.testing.assert_array_equal(np.concatenate(blocks), np.column_stack([values, np.arange(n)]))


@settings(max_examples=40)
@given(st.lists(st.lists(st.one_of(st.none(), st.floats(), st.text(), st.integers(), st.booleans()), max_size=3)))
def test_any_list_is_read_or_refused(rows):
    try:
        seen, _ = rows_of(read_table(rows, np.zeros(len(rows))))
    except PerinstanceError:
        return
    assert np.isfinite(seen).all()
