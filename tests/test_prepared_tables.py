"""Raw tables: audited by a recipe or as a Pipeline, in memory and out of core; rows matched, targets of words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)

import perinstance as pi
from perinstance.errors import InvalidInput, InvalidTable, RefusedModel

RNG = np.random.default_rng(3)
N = 400
PEOPLE = pd.DataFrame(
    {
        "person": [f"p{k:04d}" for k in range(N)],
        "age": RNG.integers(18, 95, N).astype(float),
        "ward": RNG.choice(["ICU", "heart", "ear"], N),
        "smoker": RNG.choice(["yes", "no"], N),
        "admitted": pd.Timestamp("2018-01-01") + pd.to_timedelta(RNG.integers(0, 2000, N), unit="D"),
        "cost": RNG.normal(9000, 2000, N).round(2),
    }
)
PEOPLE.loc[7, "age"] = np.nan
PEOPLE.loc[8, "ward"] = None
COLUMNS = {
    "age": {"range": [0, 110], "missing": 50},
    "ward": {"categories": ["ICU", "heart"], "missing": "other"},
    "smoker": {"yes": ["yes"], "no": ["no"]},
    "admitted": {"dates": ["2015-01-01", "2024-12-31"]},
}
RECIPE = pi.Recipe(COLUMNS, target={"column": "cost", "range": [0, 20_000]}, intercept=True)
FEATURES = pi.Recipe(COLUMNS, intercept=True)
RELEASE = pi.PosteriorSample(alpha=1.0, gamma=10.0)
PLAIN = pi.audit(RELEASE, RECIPE.transform(PEOPLE), RECIPE.transform_target(PEOPLE))


def put(folder, form):
    path = folder / f"t.{form}"
    PEOPLE.to_csv(path, index=False) if form == "csv" else PEOPLE.to_parquet(path, index=False, row_group_size=100)
    return path


@pytest.mark.parametrize("form", ["pandas", "polars", "parquet", "csv"])
def test_a_recipe_gives_the_losses_of_its_numbers(tmp_path, form):
    table = {"pandas": lambda: PEOPLE, "polars": lambda: pl.from_pandas(PEOPLE)}
    table = table.get(form, lambda: pi.scan(put(tmp_path, form)))()
    engine = pi.engines.Local(threads=2, block_bytes=4000) if form == "parquet" else None  # many blocks
    audit = pi.audit(RELEASE, table, recipe=RECIPE, ids="person", engine=engine)
    np.testing.assert_allclose(
        audit.losses, PLAIN.losses, rtol=1e-9 if form == "parquet" else 1e-12
    )  # another order of sums
    assert audit.ids.to_pylist() == PEOPLE["person"].tolist()
    checks = audit.recheck(pi.scan(put(tmp_path, "parquet")), ids="person")
    assert len(checks) == 3 and max(check.difference for check in checks) < 1e-9


def test_a_recipe_without_a_target(tmp_path):
    y = PEOPLE["cost"] / 1e4
    expected = pi.audit(RELEASE, FEATURES.transform(PEOPLE), y.to_numpy()).losses
    np.testing.assert_array_equal(pi.audit(RELEASE, PEOPLE, y, recipe=FEATURES).losses, expected)
    frame = PEOPLE.assign(cost=y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    from_file = pi.audit(RELEASE, pi.scan(tmp_path / "t.csv"), target="cost", recipe=FEATURES)
    np.testing.assert_allclose(from_file.losses, expected, rtol=1e-9)
    with pytest.raises(InvalidTable, match="leave y and target"):
        pi.audit(RELEASE, PEOPLE, y, recipe=RECIPE)
    with pytest.raises(InvalidTable, match="leave features"):
        pi.audit(RELEASE, PEOPLE, y, recipe=FEATURES, features=["age"])
    with pytest.raises(InvalidInput, match=r"must be a perinstance\.Recipe"):
        pi.audit(RELEASE, PEOPLE, y, recipe="recipe.toml")


def test_outsiders_and_means():
    new = PEOPLE.iloc[:3].assign(age=[20, 30, 40])
    audit = pi.audit(RELEASE, PEOPLE, recipe=RECIPE, outsiders=(new,))
    y = RECIPE.transform_target(new)
    plain = pi.audit(
        RELEASE, RECIPE.transform(PEOPLE), RECIPE.transform_target(PEOPLE), outsiders=(RECIPE.transform(new), y)
    )
    np.testing.assert_array_equal(audit.losses, plain.losses)
    mean = pi.NoisyMean(scale=1.0)
    np.testing.assert_array_equal(
        pi.audit(mean, PEOPLE, recipe=RECIPE).losses, pi.audit(mean, RECIPE.transform(PEOPLE)).losses
    )


STATELESS = {
    "recipe": lambda: make_pipeline(FEATURES, RELEASE),
    "recipe and polynomials": lambda: make_pipeline(FEATURES, PolynomialFeatures(2), RELEASE),
    "nested": lambda: make_pipeline(make_pipeline(FEATURES, "passthrough"), FunctionTransformer(np.tanh), RELEASE),
    "columns": lambda: make_pipeline(
        ColumnTransformer(
            [
                ("words", OneHotEncoder(categories=[["ICU", "heart", "ear"]], handle_unknown="ignore"), ["ward"]),
                ("order", OrdinalEncoder(categories=[["no", "yes"]]), ["smoker"]),
                ("age", FunctionTransformer(lambda x: np.nan_to_num(np.asarray(x) / 100, nan=0.5)), ["age"]),
            ]
        ),
        RELEASE,
    ),
    "union": lambda: make_pipeline(FeatureUnion([("a", FEATURES), ("b", pi.Recipe({"age": COLUMNS["age"]}))]), RELEASE),
}


@pytest.mark.parametrize("case", STATELESS)
def test_pipelines_that_learn_nothing_are_audited_as_one(tmp_path, case):
    pipeline, y = STATELESS[case](), PEOPLE["cost"] / 1e4
    numbers = make_pipeline(*[step for _, step in pipeline.steps[:-1]]).fit_transform(PEOPLE)
    expected = pi.audit(RELEASE, np.asarray(numbers), y.to_numpy()).losses
    np.testing.assert_allclose(pi.audit(pipeline, PEOPLE, y).losses, expected, rtol=1e-9)
    PEOPLE.assign(cost=y).to_parquet(tmp_path / "t.parquet", index=False)
    scanned = pi.scan(tmp_path / "t.parquet")
    np.testing.assert_allclose(pi.audit(pipeline, scanned, target="cost").losses, expected, rtol=1e-9)
    pipeline.fit(PEOPLE, y)  # and published as one
    assert pipeline.predict(PEOPLE).shape == (N,)


LEARNING = {
    "StandardScaler": (StandardScaler(), "scale is computed from everybody.*Recipe"),
    "SimpleImputer": (SimpleImputer(), "fills in.*Recipe"),
    "OneHotEncoder": (OneHotEncoder(), "learns them from the data; pass categories"),
    "OrdinalEncoder": (OrdinalEncoder(), "learns them from the data; pass categories"),
    "rare ones": (OneHotEncoder(categories=[["a"]], min_frequency=3), "counts everybody"),
    "KBinsDiscretizer": (KBinsDiscretizer(), "edges"),
    "PCA": (PCA(), "directions"),
    "inside a pipeline": (make_pipeline(FEATURES, StandardScaler()), "scale is computed"),
    "inside columns": (ColumnTransformer([("a", StandardScaler(), ["age"])]), "'a'.*scale is computed"),
    "the remainder": (ColumnTransformer([], remainder=StandardScaler()), "'remainder'.*scale is computed"),
    "chosen by a function": (ColumnTransformer([("a", "passthrough", lambda X: ["age"])]), "name the columns"),
    "unknown": (type("Mine", (FunctionTransformer,), {})(), "nothing is known"),
    "means by hand": (
        FunctionTransformer(lambda X: np.nan_to_num(X[["age"]] - X[["age"]].mean())),
        "depend on the other rows",
    ),
}


@pytest.mark.parametrize("case", LEARNING)
def test_what_learns_from_the_data_is_refused(case):
    step, pattern = LEARNING[case]
    with pytest.raises(RefusedModel, match=pattern):
        pi.audit(make_pipeline(step, RELEASE), PEOPLE, PEOPLE["cost"])


def test_pipelines_that_cannot_be():
    y = PEOPLE["cost"]
    with pytest.raises(InvalidInput, match="a release is audited"):
        pi.audit(make_pipeline(FEATURES, Ridge()), PEOPLE, y)
    with pytest.raises(InvalidInput, match="recipe inside"):
        pi.audit(make_pipeline(FEATURES, RELEASE), PEOPLE, y, recipe=FEATURES)
    with pytest.raises(InvalidInput, match="hands y on as it is"):
        pi.audit(make_pipeline(RECIPE, RELEASE), PEOPLE, target="cost")
    with pytest.raises(RefusedModel, match="at the end of the Pipeline"):
        pi.audit(pi.OutputPerturbation(make_pipeline(FEATURES, Ridge())), PEOPLE, y)
    secret = OneHotEncoder(categories=[["ICU"]], handle_unknown="error")
    with pytest.raises(InvalidTable) as caught:
        pi.audit(make_pipeline(ColumnTransformer([("w", secret, ["ward"])]), RELEASE), PEOPLE, y)
    assert "heart" not in str(caught.value)


X2 = pd.DataFrame({"a": RNG.normal(size=50), "b": RNG.normal(size=50)}, index=RNG.permutation(50))
Y2 = pd.Series(RNG.normal(size=50), index=X2.index)


def test_rows_are_matched_by_their_index():
    expected = pi.audit(RELEASE, X2, Y2).losses
    np.testing.assert_array_equal(pi.audit(RELEASE, X2, Y2.sort_index()).losses, expected)
    np.testing.assert_array_equal(pi.audit(RELEASE, X2, Y2.to_numpy()).losses, expected)
    ids = pd.Series([f"p{k}" for k in X2.index], index=X2.index)
    assert pi.audit(RELEASE, X2, Y2, ids=ids.sort_index()).ids.to_pylist() == ids.tolist()


def test_rows_that_cannot_be_matched_are_refused():
    for index in (pd.RangeIndex(1, 51), [7] * 50, [f"p{k}" for k in range(50)]):
        y = Y2.set_axis(index)
        with pytest.raises(InvalidTable, match="different pandas indexes"):
            pi.audit(RELEASE, X2, y)
    logistic = pi.OutputPerturbation(LogisticRegression())
    for release in (RELEASE, pi.OutputPerturbation(), logistic, pi.AdaSSP(x_bound=1.0, y_bound=1.0)):
        with pytest.raises(InvalidTable, match="different pandas indexes"):
            release.fit(X2, y)
    with pytest.raises(InvalidTable, match="different pandas indexes"):
        make_pipeline(pi.Recipe(), RELEASE).fit(X2, y)


def test_fit_matches_rows_too():
    """At a tiny scale a fit is the estimate: the shuffled target must give the same one."""
    tiny = pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=1e-6)
    y = X2["a"] * 3 - X2["b"]
    np.testing.assert_allclose(tiny.fit(X2, y.sort_index()).coef_, tiny.fit(X2, y).coef_, atol=1e-4)
    X, z = X2.to_numpy(), y.sort_index().to_numpy()
    assert np.abs(tiny.fit(X, z).coef_ - tiny.fit(X2, y).coef_).max() > 0.1  # by position it would be another one


WORDS = np.where(RNG.random(50) < 0.4, "yes", "no")


@pytest.mark.parametrize("kind", ["list", "numpy", "pandas", "categories", "polars", "truth", "column"])
def test_targets_of_words(kind):
    release = pi.OutputPerturbation(LogisticRegression(), scale=1.0)
    expected = pi.audit(release, X2, (WORDS == "yes").astype(float)).losses
    index = X2.index
    y = {
        "list": WORDS.tolist(),
        "numpy": WORDS,
        "pandas": pd.Series(WORDS, index=index),
        "categories": pd.Series(pd.Categorical(WORDS, categories=["yes", "no"]), index=index),
        "polars": pl.Series(WORDS.tolist()),
        "truth": WORDS == "yes",
        "column": None,
    }[kind]
    if kind == "column":
        found = pi.audit(release, X2.assign(died=WORDS), target="died")
    else:
        found = pi.audit(release, X2, y)
        assert set(release.fit(X2, y).classes_) == set(y)
    np.testing.assert_array_equal(found.losses, expected)
    if kind != "truth":
        one = pi.audit(release, X2, WORDS, outsiders=(X2.iloc[:2], ["yes", "yes"])).losses
        np.testing.assert_array_equal(
            one, pi.audit(release, X2, (WORDS == "yes") * 1.0, outsiders=(X2.iloc[:2], [1.0, 1.0])).losses
        )


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_targets_of_two_words_in_files(tmp_path, form):
    release = pi.OutputPerturbation(LogisticRegression(), scale=1.0)
    frame = X2.assign(died=WORDS)
    path = tmp_path / f"t.{form}"
    frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path, index=False)
    found = pi.audit(release, pi.scan(path), target="died")
    np.testing.assert_allclose(found.losses, pi.audit(release, X2, WORDS).losses, rtol=1e-12)
    assert len(found.recheck(pi.scan(path), target="died")) == 3
    coded = X2.assign(died=(WORDS == "yes").astype(int))
    coded.to_csv(tmp_path / "coded.csv", index=False)
    numbers = pi.audit(release, pi.scan(tmp_path / "coded.csv"), target="died")
    np.testing.assert_allclose(found.losses, numbers.losses, rtol=1e-12)
    X2.assign(died=np.where(np.arange(50) == 3, "", WORDS)).to_csv(tmp_path / "gap.csv", index=False)
    with pytest.raises(InvalidTable, match=r"\('died'\)"):
        pi.audit(release, pi.scan(tmp_path / "gap.csv"), target="died")


def test_targets_that_cannot_be():
    logistic = pi.OutputPerturbation(LogisticRegression(), scale=1.0)
    with pytest.raises(InvalidTable, match="row 3"):
        pi.audit(logistic, X2, [None if k == 3 else word for k, word in enumerate(WORDS)])
    with pytest.raises(InvalidTable, match="mixes"):
        pi.audit(logistic, X2, np.array([1, *WORDS[1:]], dtype=object))
    with pytest.raises(InvalidTable, match="class that the table does not have"):
        pi.audit(logistic, X2, WORDS, outsiders=(X2.iloc[:1], ["maybe"]))
    with pytest.raises(InvalidTable, match="text"):
        pi.audit(RELEASE, X2, WORDS)  # ridge regression has no classes
    for several in (np.ones((50, 2)), pd.DataFrame(np.ones((50, 2)), index=X2.index)):
        with pytest.raises(InvalidTable, match="2 columns, and a release has one"):
            pi.audit(RELEASE, X2, several)
        with pytest.raises(InvalidTable, match="2 columns, and a release has one"):
            RELEASE.fit(X2, several)


def test_all_bad_columns_are_named_at_once(tmp_path):
    for table in (PEOPLE, pl.from_pandas(PEOPLE), pi.scan(put(tmp_path, "parquet"))):
        with pytest.raises(InvalidTable) as caught:
            pi.audit(RELEASE, table, target="cost", ids="person")
        for name in ("ward", "smoker", "admitted"):
            assert f"'{name}'" in str(caught.value)
    with pytest.raises(InvalidTable) as caught:
        pi.audit(RELEASE, pi.scan(put(tmp_path, "csv")), target="cost", ids="person")
    assert "('ward'), row 2" in str(caught.value) and "('admitted'), row 2" in str(caught.value)
    holes = PEOPLE[["age", "cost"]].assign(bmi=[np.nan if k == 3 else 1.0 for k in range(N)])
    holes.to_csv(tmp_path / "holes.csv", index=False)
    with pytest.raises(InvalidTable, match=r"\('age'\), row 9.*\('bmi'\), row 5"):
        pi.audit(RELEASE, pi.scan(tmp_path / "holes.csv"), target="cost")
    for table in (holes, pl.from_pandas(holes)):
        with pytest.raises(InvalidTable, match=r"\('age'\), row 7.*\('bmi'\), row 3"):
            pi.audit(RELEASE, table, target="cost")


def test_missing_groups_are_a_group():
    audit = pi.audit(RELEASE, X2, Y2)
    for groups in (
        pd.Series([None, np.nan, *["a"] * 48], index=X2.index),
        [None, float("nan"), *["a"] * 48],
        pl.Series([None, None, *["a"] * 48]),
        pd.Categorical([None, None, *["a"] * 48]),
    ):
        table = audit.by(groups)
        assert dict(zip(table["group"], table["people"], strict=True)) == {"a": 48, "missing": 2}
    numbers = audit.by(pd.Series([np.nan, *[2.0] * 49], index=X2.index))
    assert dict(zip(numbers["group"], numbers["people"], strict=True)) == {"2": 49, "missing": 1}
    shuffled = pd.Series(["x", *["y"] * 49], index=X2.index).sort_index()
    assert float(audit.by(shuffled)["maximum"].iloc[0]) == audit.losses[0]
