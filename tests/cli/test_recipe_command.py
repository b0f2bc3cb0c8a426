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
    assert pi.Recipe.from_dict(model["recipe"]).to_dict() == RECIPE.to_dict()
    assert model["features"] == RECIPE.get_feature_names_out().tolist()
    assert model["declared"]["x_bound"] == model["bounds"]["x_bound"] == [list(one) for one in RECIPE.ranges]
    assert model["declared"]["y_bound"] == [-1.0, 1.0]


def test_cells_that_the_recipe_does_not_know(run, raw, tmp_path):
    frame = hospital().assign(smoker="secret")
    frame.loc[5, "admitted"] = "secret"
    frame.to_csv(raw, index=False, sep=";", decimal=",")
    outcome = run("audit", raw, "--recipe", "recipe.toml")
    assert outcome.code == 2 and "secret" not in outcome.err
    assert "'smoker', row 2 (and 299 more up to row 301)" in outcome.err and "'admitted', row 7:" in outcome.err


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("--recipe", "recipe.toml", "--feature", "age"), "leave --feature away"),
        (("--recipe", "recipe.toml", "--target", "age"), "leave it away"),
        (("--recipe", "nowhere.toml",), "cannot be opened"),
        ((), "name the column that is predicted"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(run, raw, words, sentence):
    outcome = run("audit", raw, *words)
    assert outcome.code == 2 and sentence in outcome.err
