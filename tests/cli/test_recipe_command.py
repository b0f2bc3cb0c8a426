"""``perinstance recipe`` and ``--recipe``: from a hospital's semicolons and decimal commas to a report and a model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perinstance as pi

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
    for wrong in ("nonsense", "utf-16", 3):
        with pytest.raises(pi.errors.InvalidTable, match="encoding"):
            pi.scan("messy.csv", delimiter=";", encoding=wrong)
    k = np.arange(200)
    cost = np.where(k % 50 == 8, 5000.0, (1 + k % 9) * 1000 + k + 0.5)
    crp = np.where(k % 5 == 0, 0.6, k % 7 + (k % 10) / 10)
    rows = pi.data.load(pi.scan("messy.csv", delimiter=";", decimal=",", encoding="cp1252"), "Kosten", recipe=recipe)
    np.testing.assert_allclose(recipe.inverse_transform_target(rows.y), cost)
    np.testing.assert_allclose((rows.X[:, 2] + 1) * 5, crp)
    assert not np.isnan(rows.X).any()
    words = ("audit", "messy.csv", "--recipe", "messy.toml", "--id", "Nr", "--group", "Raucher", "--gamma", "10")
    done = run(*words, "--per-person", "losses.csv", "--json")
    assert done.code == 0 and json.loads(done.out)["features"] == 5, done.err
    losses = pd.read_csv("losses.csv")
    assert losses["id"].tolist() == [f"P{one}" for one in k]
    expected = pi.audit(pi.PosteriorSample(alpha=1.0, gamma=10.0), rows.X, rows.y).losses
    np.testing.assert_allclose(losses["epsilon"], expected, rtol=1e-9)


def test_a_release_by_a_recipe_needs_no_other_bounds(run, messy):
    outcome = run("release", "messy.csv", "--recipe", "messy.toml", "--id", "Nr", "--epsilon", "1", "-q")
    assert outcome.code == 0, outcome.err
    recipe, model = pi.Recipe.from_toml("messy.toml"), json.loads(Path("model.json").read_text(encoding="utf-8"))
    assert model["recipe"] == {**recipe.to_dict(), "intercept": False}  # the model's own, not a column with a zero
    assert model["features"] == recipe.get_feature_names_out().tolist()[:-1] and model["model"]["intercept"]
    assert model["declared"]["x_bound"] == model["bounds"]["x_bound"] == [list(one) for one in recipe.ranges[:-1]]
    assert model["declared"]["y_bound"] == [-1.0, 1.0]


def test_cells_that_the_recipe_does_not_know(run, messy):
    text = (messy / "messy.csv").read_bytes().replace(b"nein", b"secret").replace(b"02.03.2024", b"secret")
    (messy / "messy.csv").write_bytes(text)
    outcome = run("audit", "messy.csv", "--recipe", "messy.toml")
    assert outcome.code == 2 and "secret" not in outcome.err
    assert "'Raucher', row 2 (and 66 more up to row 201)" in outcome.err and "'Aufnahme', row 3 (" in outcome.err


def test_options_that_do_not_go_together(run, messy):
    for words, sentence in (
        (("--recipe", "messy.toml", "--feature", "CRP"), "leave --feature away"),
        (("--recipe", "messy.toml", "--target", "CRP"), "leave it away"),
        (("--recipe", "nowhere.toml"), "cannot be opened"),
        ((), "name the column that is predicted"),
    ):
        outcome = run("audit", "messy.csv", *words)
        assert outcome.code == 2 and sentence in outcome.err


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
    words = ("recipe", "messy.csv", "--target", "Kosten", "--id", "Nr", "--out", "draft.toml")
    outcome = run(*words)
    assert outcome.code == 0 and "draft.toml" in outcome.out
    assert "exists already" in run(*words).err
    refused = run("audit", "messy.csv", "--recipe", "draft.toml")
    assert refused.code == 2 and "fill in Aufnahme" in refused.err
    unknown = run("recipe", "messy.csv", "--target", "price", "--out", "other.toml")
    assert unknown.code == 2 and "not among the columns" in unknown.err
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
