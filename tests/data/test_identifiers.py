"""A column that is plainly an identifier is not a feature without a word; ordinary features raise no alarm."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from sklearn import datasets

import perinstance as pi
from perinstance.data.checks.identifiers import why_identifier
from perinstance.errors import IdentifierAsFeature

N = 150
RNG = np.random.default_rng(5)
RELEASE = pi.PosteriorSample(alpha=1.0, gamma=1.0)


def people(n: int = N) -> pd.DataFrame:
    """A table whose first column is ``patient_id``, and whose others are ordinary."""
    age = RNG.integers(18, 100, n)
    frame = pd.DataFrame({"patient_id": RNG.permutation(n) + 1, "age": age, "weight": RNG.normal(size=n)})
    return frame.assign(bmi=RNG.normal(size=n))


def csv_of(folder, frame):
    frame.to_csv(folder / "people.csv", index=False)
    return pi.scan(folder / "people.csv")


def feather_of(folder, frame):
    pa.feather.write_feather(frame, folder / "people.feather")
    return pi.scan(folder / "people.feather")


FORMS = {
    "pandas": lambda folder, frame: frame,
    "pyarrow": lambda folder, frame: pa.Table.from_pandas(frame),
    "csv": csv_of,
    "feather": feather_of,
}


def dask_of(folder, frame):
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)  # goes by names


@pytest.mark.parametrize("form", [*FORMS, "dask"])
def test_an_identifier_without_a_word_is_warned_of_and_changes_no_number(tmp_path, form):
    frame = people()
    table = {**FORMS, "dask": dask_of}[form](tmp_path, frame)
    with pytest.warns(IdentifierAsFeature, match=r"column 0 \('patient_id'\) .* pass ids='patient_id'") as caught:
        told = pi.audit(RELEASE, table, target="bmi")
    assert len(caught) == 1 and caught[0].filename == __file__
    named = pi.audit(RELEASE, table, target="bmi", features=["patient_id", "age", "weight"])  # meant: nothing is said
    np.testing.assert_array_equal(np.asarray(told.losses), np.asarray(named.losses))
    assert pi.audit(RELEASE, table, target="bmi", ids="patient_id").n_features == 2


@pytest.mark.parametrize("form", ["pandas", "csv"])
def test_numbers_that_count_the_rows_or_stand_on_cards(tmp_path, form):
    cards = 10_000_000 + RNG.choice(80_000_000, N, replace=False)
    frame = people().drop(columns="patient_id").assign(nr=np.arange(N) + 1001, card=cards)
    with pytest.warns(IdentifierAsFeature) as caught:
        pi.audit(RELEASE, FORMS[form](tmp_path, frame), target="bmi")
    texts = [str(one.message) for one in caught]
    assert "'nr'" in texts[0] and "counts the rows" in texts[0]
    assert "'card'" in texts[1] and "8 digits" in texts[1] and len(texts) == 2
    assert not any(str(card) in text for text in texts for card in cards)


def test_ids_beside_a_table_that_still_holds_them():
    frame = people()
    with pytest.warns(IdentifierAsFeature, match="to leave it out") as caught:
        pi.audit(RELEASE, frame, target="bmi", ids=frame["patient_id"].to_numpy())
    assert "ids=" not in str(caught[0].message)


def test_a_first_line_that_may_be_a_person_is_not_shown(tmp_path):
    """Nobody named a column of this file, so its header may be somebody's row."""
    path = tmp_path / "people.csv"
    path.write_text("Meier,7\n" + "".join(f"{k},{k % 7}\n" for k in range(200)))
    mean = pi.NoisyMean(scale=1.0, noise="laplace")
    with pytest.warns(IdentifierAsFeature) as caught:
        pi.audit(mean, pi.scan(path))
    assert "column 0 is a feature" in str(caught[0].message) and "Meier" not in str(caught[0].message)


def test_matrices_recipes_and_small_tables_are_left_alone():
    frame = people()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pi.audit(RELEASE, frame[["patient_id", "age"]].to_numpy(), frame["bmi"].to_numpy())
        recipe = pi.Recipe({"patient_id": {"range": [0, 200]}})
        pi.audit(RELEASE, frame, target="bmi", recipe=recipe)
        years = pd.DataFrame({"year": np.arange(10), "dose": np.arange(10), "y": RNG.normal(size=10)})
        pi.audit(RELEASE, years, target="y")


NAMES = [
    "id",
    "ID",
    "Id",
    "patient_id",
    "PatientID",
    "Patient ID",
    "person-id",
    "idPerson",
    "uuid",
    "Unnamed: 0",
]
ORDINARY = ["idle", "paid", "ward_id", "age", "identity", "patients", "member", "no", "number", "x0", "id_verified"]


def test_names():
    assert [name for name in NAMES if why_identifier(name) is None] == []
    assert [name for name in ORDINARY if why_identifier(name) is not None] == []


def test_values_can_clear_a_name_and_convict_one():
    assert why_identifier("id", RNG.normal(size=N)) is None  # an inner diameter, a drain current
    assert why_identifier("user_id", np.arange(N) % 8.0) is None  # a category
    assert why_identifier("patient_id", np.arange(N) // 3.0) is not None  # three rows each
    assert why_identifier("ward_id", np.arange(N) % 30.0) is None
    assert why_identifier("sampleId", 7.0 * np.arange(N)) is not None
    assert why_identifier("patient_no", 7.0 * np.arange(N)) is not None
    assert why_identifier("employee_number", np.arange(N) % 90.0) is None  # how many there are


@pytest.mark.parametrize(
    "values",
    [
        np.arange(10.0),
        np.full(N, 3.0),
        RNG.integers(0, 120, N).astype(float),
        RNG.choice(90_000, N, replace=False) + 10_000.0,  # wages
        RNG.choice(900_000, N, replace=False) * 1000.0 + 1e8,  # rounded
        RNG.choice(2**40, N, replace=False).astype(float),  # of any length
        RNG.normal(size=N),
        RNG.normal(size=N) * 1e20,
        np.r_[np.inf, np.arange(N)] + 1e9,
        np.full(N, np.nan),
    ],
)
def test_ordinary_values(values):
    assert why_identifier("x", values) is None


def test_time_may_count_the_rows():
    assert why_identifier("days since admission", np.arange(365.0)) is None
    assert why_identifier("x", np.arange(365.0)) is not None


@pytest.mark.parametrize("name", ["diabetes", "iris", "wine", "breast_cancer", "linnerud", "hospital"])
def test_no_feature_of_a_well_known_table_raises_an_alarm(name):
    options = {"scaled": False} if name == "diabetes" else {}
    if name == "hospital":
        table = pi.data.hospital_patients(1000).to_pandas().select_dtypes("number").dropna()
    else:
        table = getattr(datasets, f"load_{name}")(as_frame=True, **options).data
    assert {column: why_identifier(column, table[column].to_numpy(float)) for column in table} == dict.fromkeys(table)
