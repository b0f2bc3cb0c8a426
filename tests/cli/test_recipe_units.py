"""Numbers that a recipe scaled are shown, predicted and compared in the unit of the raw table."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perinstance as pi
from perinstance.errors import InvalidTable

RECIPE = pi.Recipe(
    {"age": {"range": [0, 100]}, "ward": {"categories": ["A", "B"]}}, target={"column": "cost", "range": [0, 40_000]}
)
RNG = np.random.default_rng(3)
AGE = RNG.integers(20, 90, 400)
RAW = pd.DataFrame({"age": AGE, "ward": RNG.choice(["A", "B"], 400), "cost": 300.0 * AGE + 5000})


def fitted(**bounds):
    release = pi.AdaSSP(epsilon=50.0, delta=1e-6, x_bound=RECIPE, **bounds)
    return release.fit(RECIPE.transform(RAW), RECIPE.transform_target(RAW))


def loaded(tmp_path, release):
    path = tmp_path / "model.json"
    path.write_text(release.to_json(), encoding="utf-8")
    return pi.load_model(path)


def test_a_recipe_that_bounds_rows_is_kept_in_the_model_file(tmp_path):
    model = loaded(tmp_path, fitted(y_bound=RECIPE.target_range))
    assert model.recipe is not None
    predicted = model.predict(RAW[["ward", "age"]])
    np.testing.assert_allclose(predicted, RAW["cost"], rtol=0.2)
    for wrong in (RAW[["age"]], RECIPE.transform(RAW), RAW[["age"]].to_numpy()):  # never through the recipe, or twice
        with pytest.raises(InvalidTable):
            model.predict(wrong)


def test_a_target_that_was_bounded_otherwise_stays_in_its_own_unit(tmp_path):
    release = pi.AdaSSP(epsilon=50.0, delta=1e-6, x_bound=RECIPE, y_bound=(0, 40_000))
    model = loaded(tmp_path, release.fit(RECIPE.transform(RAW), RAW["cost"]))
    np.testing.assert_allclose(model.predict(RAW), RAW["cost"], rtol=0.2)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_comparison_without_privacy_has_the_release_s_intercept(intercept):
    X = RNG.uniform(-1, 1, (300, 1))
    release = pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=20.0, fit_intercept=intercept)
    found = pi.analysis.compare_accuracy(release, X, X[:, 0] + 10.0)
    assert (found.not_private < 1e-9) == intercept


def test_a_report_shows_errors_in_the_unit_of_the_table(run, tmp_path):
    RAW.assign(cost=RAW["cost"].where(RAW.index != 7, 33_333.0)).to_csv(tmp_path / "raw.csv", index=False)
    Path("recipe.toml").write_text(RECIPE.to_toml(), encoding="utf-8")
    words = ("audit", "raw.csv", "--recipe", "recipe.toml", "--unit", "Euro", "--out", "report.html", "--gamma", 25)
    assert run(*words).code == 0
    shown = Path("report.html").read_text(encoding="utf-8").replace("\u2212", "-")
    errors = [float(one.replace(",", "")) for one in re.findall(r"<td[^>]*>(-?\d[\d.,]*) Euro</td>", shown)]
    release = pi.PosteriorSample(alpha=1.0, gamma=25.0)
    table = pi.scan(tmp_path / "raw.csv")
    known = pi.audit(release, table, recipe=RECIPE).residuals * 20_000
    assert errors and max(map(abs, errors)) == pytest.approx(np.abs(known).max(), rel=1e-2)
