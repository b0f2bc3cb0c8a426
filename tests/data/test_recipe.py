"""Recipes: numbers by a slow road, one row at a time; TOML and plain types; drafts that hold nothing of the data."""

from __future__ import annotations

import datetime as dt
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import perinstance as pi
from perinstance.data.files.load_whole import draft_of_file
from perinstance.errors import InvalidInput, InvalidTable

COLUMNS = {
    "age": {"range": [0, 110], "missing": 50},
    "ward": {"categories": ["ICU", "heart"], "missing": "other"},
    "smoker": {"yes": ["yes", "ja"], "no": ["no", "nein"], "missing": "no"},
    "admitted": {"dates": ["2015-01-01", "2024-12-31"], "format": "%d.%m.%Y", "missing": "2020-01-01"},
    "dose": {"as_is": True, "missing": 0},
}
TARGET = {"column": "cost", "range": [0, 20_000], "missing": 0}
RECIPE = pi.Recipe(COLUMNS, target=TARGET, intercept=True, decimal=",", delimiter=";")


def dumb_row(row) -> list[float]:
    """The numbers of one row, from texts as a CSV file has them, by plain Python."""
    gap = ("", "NA", None)
    number = lambda text: float(text.replace(",", "."))  # noqa: E731
    age = 50.0 if row["age"] in gap else min(max(number(row["age"]), 0.0), 110.0)
    ward = "other" if row["ward"] in gap or row["ward"] not in ("ICU", "heart") else row["ward"]
    smoker = row["smoker"] not in gap and row["smoker"].lower() in ("yes", "ja")
    day = dt.date(2020, 1, 1)
    if row["admitted"] not in gap:
        day = dt.datetime.strptime(row["admitted"], "%d.%m.%Y").date()
    first, last = dt.date(2015, 1, 1), dt.date(2024, 12, 31)
    day = min(max(day, first), last)
    return [
        2 * age / 110 - 1,
        *(float(ward == word) for word in ("ICU", "heart", "other")),
        float(smoker),
        2 * (day - first).days / (last - first).days - 1,
        0.0 if row["dose"] in gap else number(row["dose"]),
        1.0,
    ]


GAPS = st.sampled_from(["", "NA", None])
NUMBERS = st.floats(-500, 500).map(lambda x: f"{x:.3f}".replace(".", ","))
ROWS = st.fixed_dictionaries(
    {
        "age": NUMBERS | GAPS,
        "ward": st.sampled_from(["ICU", "heart", "icu", "surgery", "ötology"]) | GAPS,
        "smoker": st.sampled_from(["yes", "NO", "Ja", "nein"]) | GAPS,
        "admitted": st.dates(dt.date(1950, 1, 1), dt.date(2090, 1, 1)).map(lambda day: day.strftime("%d.%m.%Y")) | GAPS,
        "dose": NUMBERS | GAPS,
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=12))
def test_numbers_are_those_of_the_slow_road(rows):
    table = pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in COLUMNS]))
    numbers = RECIPE.transform(table)
    np.testing.assert_allclose(numbers, [dumb_row(row) for row in rows], rtol=0, atol=1e-14)
    alone = np.concatenate([RECIPE.transform(table.slice(k, 1)) for k in range(len(rows))])
    np.testing.assert_array_equal(numbers, alone)  # to the last bit: nothing depends on other rows
    as_words = pa.table({name: table[name].combine_chunks().dictionary_encode() for name in COLUMNS})
    np.testing.assert_array_equal(numbers, RECIPE.transform(as_words))


TYPED = pd.DataFrame(
    {
        "age": [12.5, np.nan, 200.0],
        "ward": pd.Categorical(["ICU", None, "surgery"]),
        "smoker": [True, False, True],
        "admitted": pd.to_datetime(["2016-02-01", None, "2031-01-01"]),
        "dose": [1, 2, 3],
        "cost": [10_000.0, 0.0, 90_000.0],
    }
)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "objects", "matrix"])
def test_typed_columns(kind):
    table = {
        "pandas": lambda: TYPED,
        "polars": lambda: pl.from_pandas(TYPED),
        "pyarrow": lambda: pa.Table.from_pandas(TYPED),
        "objects": lambda: TYPED.astype(object),
        "matrix": lambda: TYPED[list(COLUMNS)].to_numpy(dtype=object),
    }[kind]()
    days = (dt.date(2024, 12, 31) - dt.date(2015, 1, 1)).days
    expected = [
        [2 * 12.5 / 110 - 1, 1, 0, 0, 1, 2 * 396 / days - 1, 1, 1],
        [2 * 50 / 110 - 1, 0, 0, 1, 0, 2 * 1826 / days - 1, 2, 1],
        [1, 0, 0, 1, 1, 1, 3, 1],
    ]
    np.testing.assert_allclose(RECIPE.transform(table), expected, atol=1e-14)
    if kind != "matrix":
        np.testing.assert_allclose(RECIPE.transform_target(table), [0, -1, 1])
        np.testing.assert_allclose(RECIPE.inverse_transform_target([0, -1, 1]), [10_000, 0, 20_000])


def test_whole_numbers_are_categories_however_they_are_kept():
    recipe = pi.Recipe({"code": {"categories": [1, 2], "other": False, "missing": 2}})
    for column in (
        [1, 2, 3, 2],
        [1.0, np.nan, 3.0, 2.0],
        ["1", None, "x", "2"],
        pd.array([1, None, 3, 2], dtype="Int64"),
    ):
        numbers = recipe.transform(pd.DataFrame({"code": column}))
        np.testing.assert_array_equal(numbers, [[1, 0], [0, 1], [0, 0], [0, 1]])


def test_a_row_is_never_longer_than_the_declared_bound():
    recipe = pi.Recipe({name: COLUMNS[name] for name in ("age", "ward", "smoker", "admitted")}, TARGET, intercept=True)
    wild = TYPED.assign(age=[1e300, -1e300, 3], admitted=pd.to_datetime(["1700-01-01", "2200-01-01", "2020-01-01"]))
    assert np.linalg.norm(recipe.transform(wild), axis=1).max() <= recipe.x_bound <= np.sqrt(5) + 1e-12
    assert np.abs(recipe.transform_target(wild)).max() <= recipe.y_bound == 1.0
    assert RECIPE.x_bound == np.inf


def test_names():
    names = ["age", "ward_ICU", "ward_heart", "ward_other", "smoker", "admitted", "dose", "intercept"]
    assert RECIPE.get_feature_names_out().tolist() == names
    frame = clone(RECIPE).set_output(transform="pandas").fit_transform(TYPED)
    assert list(frame.columns) == names
    with pytest.raises(InvalidInput, match="same name"):
        pi.Recipe({"a": {"categories": ["b"]}, "a_b": {"as_is": True}}).get_feature_names_out()


@parametrize_with_checks([pi.Recipe(), pi.Recipe(intercept=True)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_plain_types_and_toml(tmp_path):
    record = json.loads(json.dumps(RECIPE.to_dict()))
    assert pi.Recipe.from_dict(record).to_dict() == RECIPE.to_dict()
    odd = pi.Recipe({'blood "pressure"\\\t': {"range": [-0.5, 1e30]}, "a.b": {"categories": ["ü\x7f", "#"]}})
    for number, recipe in enumerate((RECIPE, odd, pi.Recipe(intercept=True))):
        path = tmp_path / f"{number}.toml"
        path.write_text(recipe.to_toml(), encoding="utf-8")
        assert pi.Recipe.from_toml(path).to_dict() == recipe.to_dict()
    assert pickle.loads(pickle.dumps(RECIPE)).to_dict() == RECIPE.to_dict()


#: declarations of the column "a" that mean nothing
COLUMN = [
    *({}, 3, {"range": [0, 1], "categories": ["x"]}, {"range": [0, 1], "colour": "red"}, {"range": [1]}),
    *(
        {"range": [1, 0]},
        {"range": [0, float("inf")]},
        {"range": [-1.7e308, 1.7e308]},
        {"range": [0, 1], "missing": "y"},
    ),
    *({"categories": []}, {"categories": ["x", "x"]}, {"categories": ["x"], "missing": "y"}),
    *({"yes": ["y"]}, {"yes": ["x"], "no": ["X"]}, {"dates": ["yesterday", "2020-01-01"]}),
]
BAD = [
    *({"columns": {"a": declared}} for declared in COLUMN),
    *({"columns": {}}, {"rows": 3}, {"decimal": "'"}),
    *({"target": {"range": [0, 1]}}, {"target": {"column": "y", "categories": ["x"]}}),
    {"columns": {"y": {"as_is": True}}, "target": {"column": "y", "as_is": True}},
]


@pytest.mark.parametrize("record", BAD, ids=str)
def test_what_cannot_be_is_refused(record):
    with pytest.raises(InvalidInput):
        pi.Recipe.from_dict(record)


def test_files_that_are_no_recipe(tmp_path):
    path = tmp_path / "r.toml"
    with pytest.raises(InvalidInput, match="cannot be opened"):
        pi.Recipe.from_toml(path)
    path.write_text("columns = [")
    with pytest.raises(InvalidInput, match="not TOML"):
        pi.Recipe.from_toml(path)
    path.write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="UTF-8"):
        pi.Recipe.from_toml(path)


def test_all_columns_are_refused_at_once_and_no_cell_is_quoted():
    strict = pi.Recipe(
        {
            "age": {"range": [0, 110]},
            "smoker": {"yes": ["yes"], "no": ["no"]},
            "admitted": {"dates": ["2015-01-01", "2024-12-31"]},
            "ward": {"categories": ["ICU"]},
        }
    )
    table = pl.DataFrame(
        {
            "age": ["5", "secret"],
            "smoker": ["secret", "yes"],
            "admitted": ["2016-01-01", "secret"],
            "ward": ["secret", None],
        }
    )
    with pytest.raises(InvalidTable) as caught:
        strict.transform(table)
    text = str(caught.value)
    assert "secret" not in text
    for place in ("'age', row 1", "'smoker', row 0", "'admitted', row 1", "'ward', row 1: missing"):
        assert place in text
    with pytest.raises(InvalidTable, match="lacks ward, smoker"):
        pi.Recipe({"ward": {"categories": ["ICU"]}, "smoker": {"as_is": True}}).transform(table.select("age"))


def test_a_draft_holds_nothing_of_the_data(tmp_path):
    """Two tables of the same names and types have the same draft, byte for byte, and it cannot be used as it is."""
    drafts = set()
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(
            {
                "age": rng.integers(0, 90, 50 * seed),
                "ward": rng.choice([f"canary{seed}", f"other{seed}"], 50 * seed),
                "smoker": rng.random(50 * seed) < 0.5,
                "admitted": pd.Timestamp(f"201{seed}-01-01"),
                "cost": rng.normal(size=50 * seed),
            }
        )
        for form in ("csv", "parquet"):
            path = tmp_path / f"{seed}.{form}"
            frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path, index=False)
            text = draft_of_file(path, target="cost")
            assert "canary" not in text
            drafts.add((form, text))
            (tmp_path / "draft.toml").write_text(text)
            with pytest.raises(InvalidInput, match="fill in age, ward, .*cost"):
                pi.Recipe.from_toml(tmp_path / "draft.toml")
    assert len(drafts) == 2


def test_a_draft_that_is_filled_in_can_be_used(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"age": [1.5], "smoker": [True], "cost": [3]}), path)
    text = draft_of_file(path, target="cost")
    for one in ('"FILL IN the lowest possible number"', '"FILL IN the highest"'):
        text = text.replace(one, "0" if "lowest" in one else "100")
    (tmp_path / "r.toml").write_text(text)
    recipe = pi.Recipe.from_toml(tmp_path / "r.toml")
    assert recipe.transform(pq.read_table(path)).tolist() == [[2 * 1.5 / 100 - 1, 1, 1]]


def test_one_persons_cell_does_not_tip_a_type(tmp_path):
    path = tmp_path / "t.csv"
    rows = "".join(f"{k};{k},5;{k % 28 + 1:02d}.03.2020\n" for k in range(100))
    path.write_text("a;b;c\n" + rows)
    clean = draft_of_file(path, decimal=",")
    path.write_text("a;b;c\n" + rows + "unknown;unknown;unknown\n")
    assert draft_of_file(path, decimal=",") == clean
    assert clean.count("range") == 3 and clean.count("dates = ") == 1 and 'delimiter = ";"' in clean
