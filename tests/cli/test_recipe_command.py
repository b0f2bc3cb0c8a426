"""``perinstance recipe`` and ``--recipe``: from a hospital's semicolons and decimal commas to a report and a model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import perinstance as pi

RECIPE = pi.Recipe(
    {
        "age": {"range": [0, 110], "missing": 50},
        "ward": {"categories": ["ICU", "heart"], "missing": "other"},
        "smoker": {"yes": ["yes"], "no": ["no"]},
        "admitted": {"dates": ["2015-01-01", "2024-12-31"], "format": "%d.%m.%Y"},
    },
    target={"column": "cost", "range": [0, 20_000]},
    intercept=True,
    decimal=",",
    delimiter=";",
)


def hospital(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    days = pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 2000, n), unit="D")
    frame = pd.DataFrame(
        {
            "person": [f"{k:04d}" for k in range(n)],
            "age": rng.integers(18, 95, n) + 0.5,
            "ward": rng.choice(["ICU", "heart", "ear"], n),
            "smoker": rng.choice(["yes", "no"], n),
            "admitted": days.strftime("%d.%m.%Y"),
            "cost": rng.normal(9000, 2000, n).round(2),
        }
    )
    frame.loc[3, "age"], frame.loc[4, "ward"] = np.nan, None
    return frame


@pytest.fixture
def raw(tmp_path):
    path = tmp_path / "people.csv"
    hospital().to_csv(path, index=False, sep=";", decimal=",")
    (tmp_path / "recipe.toml").write_text(RECIPE.to_toml(), encoding="utf-8")
    return path


def test_a_draft_is_written_once_and_asks_to_be_filled_in(run, raw, tmp_path):
    words = ("recipe", raw, "--target", "cost", "--id", "person", "--decimal", ",", "--out", "draft.toml")
    outcome = run(*words)
    text = (tmp_path / "draft.toml").read_text(encoding="utf-8")
    assert outcome.code == 0 and "draft.toml" in outcome.out
    assert 'delimiter = ";"' in text and "[columns.person]" not in text and "ICU" not in text
    again = run(*words)
    assert again.code == 2 and "exists already" in again.err
    refused = run("audit", raw, "--recipe", "draft.toml")
    assert refused.code == 2 and "fill in age, ward, smoker, admitted, cost" in refused.err
    unknown = run("recipe", raw, "--target", "price", "--out", "other.toml")
    assert unknown.code == 2 and "not among the columns" in unknown.err


def test_an_audit_by_a_recipe(run, raw, tmp_path):
    words = ("audit", raw, "--recipe", "recipe.toml", "--id", "person", "--group", "ward", "--gamma", "10")
    outcome = run(*words, "--per-person", "losses.csv", "--json")
    assert outcome.code == 0, outcome.err
    record = json.loads(outcome.out)
    assert record["people"] == 300 and record["features"] == 7
    frame = hospital()
    release = pi.PosteriorSample(alpha=1.0, gamma=10.0)
    expected = pi.audit(release, RECIPE.transform(frame), RECIPE.transform_target(frame)).losses
    losses = pd.read_csv(tmp_path / "losses.csv", dtype={"id": str})
    assert losses["id"].tolist() == frame["person"].tolist()
    np.testing.assert_allclose(losses["epsilon"], expected, rtol=1e-9)
    assert "missing" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_release_by_a_recipe_needs_no_other_bounds(run, raw, tmp_path):
    outcome = run("release", raw, "--recipe", "recipe.toml", "--epsilon", "1", "--out", "model.json")
    assert outcome.code == 0, outcome.err
    model = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    assert model["recipe"] == {**RECIPE.to_dict(), "intercept": False}  # the model's own, not a column with a zero
    assert model["features"] == RECIPE.get_feature_names_out().tolist()[:-1] and model["model"]["intercept"]
    assert model["declared"]["x_bound"] == model["bounds"]["x_bound"] == [list(one) for one in RECIPE.ranges[:-1]]
    assert model["declared"]["y_bound"] == [-1.0, 1.0]


def test_cells_that_the_recipe_does_not_know(run, raw, tmp_path):
    frame = hospital().assign(smoker="secret")
    frame.loc[5, "admitted"] = "secret"
    frame.to_csv(raw, index=False, sep=";", decimal=",")
    outcome = run("audit", raw, "--recipe", "recipe.toml")
    assert outcome.code == 2 and "secret" not in outcome.err
    assert "'smoker', row 2 (and 299 more up to row 301)" in outcome.err and "'admitted', row 7:" in outcome.err


def test_options_that_do_not_go_together(run, raw):
    for words, sentence in (
        (("--recipe", "recipe.toml", "--feature", "age"), "leave --feature away"),
        (("--recipe", "recipe.toml", "--target", "age"), "leave it away"),
        (("--recipe", "nowhere.toml"), "cannot be opened"),
        ((), "name the column that is predicted"),
    ):
        outcome = run("audit", raw, *words)
        assert outcome.code == 2 and sentence in outcome.err


MESSY = """
intercept = true
decimal = ","
delimiter = ";"
encoding = "cp1252"
na = ["k.A."]

[target]
column = "Kosten"
range = [0, 20000]
unit = "EUR"
thousands = "."
currency = ["€"]
missing = 5000

[columns.Aufnahme]
dates = ["2020-01-01", "2025-01-01"]
format = ["%d.%m.%Y", "%Y-%m-%d"]

[columns."Größe"]
range = [100, 220]

[columns.CRP]
range = [0, 10]
censored = "limit"

[columns.Raucher]
yes = ["ja"]
no = ["nein"]
"""


@pytest.fixture
def messy(tmp_path):
    """A file as a hospital's system writes it: cp1252, semicolons, 1.234,50 €, <0,6, k.A."""
    lines = ["Nr;Aufnahme;Größe;Kosten;CRP;Raucher"]
    for k in range(200):
        day = f"{k % 28 + 1:02d}.03.2024" if k % 2 else f"2024-03-{k % 28 + 1:02d}"
        cost = "k.A." if k % 50 == 8 else f"{1 + k % 9}.{k:03d},50 €"
        crp = "<0,6" if k % 5 == 0 else f"{k % 7},{k % 10}"
        lines.append(f"P{k};{day};{150 + k % 40},5;{cost};{crp};{'ja' if k % 3 else 'nein'}")
    (tmp_path / "messy.csv").write_bytes("\n".join(lines).encode("cp1252"))
    (tmp_path / "messy.toml").write_text(MESSY, encoding="utf-8")
    return tmp_path


def test_a_messy_file_is_read_as_declared(run, messy):
    recipe = pi.Recipe.from_toml(messy / "messy.toml")
    (messy / "again.toml").write_text(recipe.to_toml(), encoding="utf-8")
    assert pi.Recipe.from_toml(messy / "again.toml").to_dict() == recipe.to_dict()
    assert run("recipe", "messy.csv", "--check", "messy.toml").out.startswith("Every cell")
    done = run("audit", "messy.csv", "--recipe", "messy.toml", "--id", "Nr", "--per-person", "l.csv", "-q")
    assert done.code == 0, done.err
    k = np.arange(200)
    cost = np.where(k % 50 == 8, 5000.0, (1 + k % 9) * 1000 + k + 0.5)
    crp = np.where(k % 5 == 0, 0.6, k % 7 + (k % 10) / 10)
    for wrong in ("nonsense", "utf-16", 3):
        with pytest.raises(pi.errors.InvalidTable, match="encoding"):
            pi.scan("messy.csv", delimiter=";", encoding=wrong)
    rows = pi.data.load(pi.scan("messy.csv", delimiter=";", decimal=",", encoding="cp1252"), "Kosten", recipe=recipe)
    np.testing.assert_allclose(recipe.inverse_transform_target(rows.y), cost)
    np.testing.assert_allclose((rows.X[:, 2] + 1) * 5, crp)
    release = ("release", "messy.csv", "--recipe", "messy.toml", "--id", "Nr", "--epsilon", "1", "-q")
    assert not np.isnan(rows.X).any() and run(*release).code == 0
    assert pi.load_model(messy / "model.json").recipe.to_dict() == {**recipe.to_dict(), "intercept": False}


def test_all_problems_of_a_file_come_at_once_with_exact_counts(run, messy):
    text = MESSY
    for line in ('thousands = "."', 'currency = ["€"]', 'censored = "limit"', 'na = ["k.A."]', "missing = 5000"):
        text = text.replace(line, "")
    text = text.replace('format = ["%d.%m.%Y", "%Y-%m-%d"]', "").replace('yes = ["ja"]', 'yes = ["yes"]')
    (messy / "plain.toml").write_text(text, encoding="utf-8")
    done = run("recipe", "messy.csv", "--check", "plain.toml")
    assert done.code == 2 and "cannot read 4 columns" in done.err
    assert "'Aufnahme': 100 cells cannot be read, row 3 first; format = \"%d.%m.%Y\" reads 100 of them" in done.out
    assert "'CRP': 40 cells cannot be read, row 2 first; censored = \"limit\" reads 40 of them" in done.out
    assert "'Kosten': 200 cells cannot be read" in done.out and "reads 196 of them; list words that mean" in done.out
    assert "'Raucher': 133 cells cannot be read" in done.out and not {"k.A", "<0", "ja,"} & set(done.out.split())


def test_a_draft_proposes_how_most_cells_are_written(run, messy):
    assert run("recipe", "messy.csv", "--target", "Kosten", "--id", "Nr", "--out", "draft.toml").code == 0
    text = (messy / "draft.toml").read_text(encoding="utf-8")
    assert 'encoding = "cp1252"' in text and 'decimal = ","' in text and 'delimiter = ";"' in text
    assert 'thousands = "."  # as most' in text and 'currency = ["€"]  # as most' in text
    assert "k.A." not in text.replace('na = ["k.A."], thousands', "") and 'censored = "limit"  # as' not in text


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"range": [0, 1], "thousands": ";"}, "thousands must be one of"),
        ({"range": [0, 1], "thousands": "."}, "the same mark"),
        ({"range": [0, 1], "currency": 3}, "currency must be a list of texts"),
        ({"range": [0, 1], "na": [""]}, "na must be a list of texts"),
        ({"range": [0, 1], "censored": True}, "censored must be 'limit'"),
        ({"range": [0, 1], "unit": 3}, "unit must be a text"),
        ({"categories": ["a"], "censored": "limit"}, "is of numbers"),
        ({"dates": ["2020-01-01", "2021-01-01"], "format": ["%d/%m/%Y", "%m/%d/%Y"]}, "two days"),
        ({"dates": ["2020-01-01", "2021-01-01"], "format": [3]}, "format is written"),
    ],
)
def test_declarations_that_mean_nothing_are_refused(declared, said):
    with pytest.raises(pi.errors.InvalidInput, match=said):
        pi.Recipe({"age": declared}).get_feature_names_out()


def test_a_thousands_mark_is_no_decimal():
    recipe = pi.Recipe({"cost": {"range": [0, 10_000], "scale": False, "thousands": ","}})
    assert recipe.transform(pd.DataFrame({"cost": ["1,234.5", "999", "12"]})).ravel().tolist() == [1234.5, 999, 12]
    with pytest.raises(pi.errors.InvalidTable):  # it is no group of three
        recipe.transform(pd.DataFrame({"cost": ["1,5", "1", "2"]}))
