"""Ids are strings exactly as written, everybody has one, and nobody shares one."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perinstance.data import read_table, scan
from perinstance.engines import LocalSweep
from perinstance.errors import InvalidTable
from perinstance.folds.ids import read_ids, refuse_duplicates

TRICKY = ["007", "7", "NA", "null", "NaN", "None", "nan", "N/A", "#N/A", "-", "1e5", "100000", "TRUE", " 7", "7 "]
TRICKY += ["\u00e9", "e\u0301", "a\0", "a", "\u202e7"]  # composed and decomposed are two ids

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


MAKERS = [
    list,
    pd.Series,
    pl.Series,
    pa.array,
    lambda v: np.array(v, object),
    lambda v: pa.chunked_array([v[:3], v[3:]]),
]


@pytest.mark.parametrize("make", MAKERS)
def test_tricky_ids_stay_as_written(make):
    assert read_ids(make(TRICKY)).to_pylist() == TRICKY
    refuse_duplicates(pa.chunked_array([read_ids(make(TRICKY))]))


@pytest.mark.parametrize("make", [list, np.array, pd.Series, pl.Series, pa.array, pd.Index])
def test_whole_numbers_are_written_out(make):
    assert read_ids(make([7, -3, 2**60 + 1])).to_pylist() == ["7", "-3", str(2**60 + 1)]


@pytest.mark.parametrize(
    "ids, pattern",
    [
        ([1.0, 2.0], "got double"),
        (pd.Series([1, None]), "got double"),
        ([1, "1"], "mixture"),
        (np.array([1, "1"], dtype=object), "mixture"),
        ([b"a", b"b"], "got binary"),
        ([True, False], "got bool"),
        (["a", None], "row 1: an id is missing"),
        (np.array(["a", np.nan], dtype=object), "row 1: an id is missing"),
        (pl.Series(["a", None]), "row 1: an id is missing"),
        (["a", ""], "row 1: an id is empty"),
        ([None, None], "got null"),
        ([["a"], ["b"]], "one dimension"),
        ([2**70, 1], "whole numbers"),
        (["a", "b", "c"], "2 rows and ids has 3"),
        (["a", "a"], "1 person has several rows"),
        ([7, 7], "1 person has several rows"),
        ("who", "matrix without names"),
    ],
)
def test_ids_that_cannot_be_used(ids, pattern):
    with pytest.raises(InvalidTable, match=pattern):
        read_table(np.ones((2, 1)), [0, 1], ids=ids)


@given(st.lists(texts, min_size=1, max_size=30), st.integers(1, 5), st.booleans())
def test_duplicates_are_found_wherever_the_chunks_end(ids, chunk, large):
    kind = pa.large_string() if large else pa.string()
    chunks = pa.chunked_array([pa.array(ids[k : k + chunk], kind) for k in range(0, len(ids), chunk)])
    if len(set(ids)) == len(ids):
        refuse_duplicates(chunks)
        refuse_duplicates(chunks.slice(len(ids) // 2))
        return
    people = sum(ids.count(name) > 1 for name in set(ids))
    with pytest.raises(InvalidTable) as caught:
        refuse_duplicates(chunks)
    assert f"ids repeat: {people} p" in str(caught.value)


@settings(max_examples=30)
@given(st.lists(texts, min_size=1, max_size=20, unique=True), st.sampled_from(["csv", "csv.gz", "parquet", "arrow"]))
def test_ids_survive_every_format(tmp_path_factory, ids, suffix):
    path = tmp_path_factory.mktemp("ids") / f"people.{suffix}"
    values = list(range(len(ids)))
    table = pa.table({"who": ids, "x": values, "y": values})
    if suffix == "parquet":
        pq.write_table(table, path)
    elif suffix == "arrow":
        with pa.ipc.new_file(path, table.schema) as sink:
            sink.write_table(table)
    else:
        with (gzip.open if suffix.endswith("gz") else open)(path, "wt", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerows([["who", "x", "y"], *zip(ids, values, values, strict=True)])
    sweep = LocalSweep(read_table(scan(path), target="y", ids="who"))
    sweep.fold(lambda block: block.y.sum())
    assert sweep.ids.to_pylist() == ids
