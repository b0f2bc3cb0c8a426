"""``perinstance show``: coefficients in the user's units, which predict as the model does; bad files are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import perinstance as pi
from perinstance.published.readable import readable_model
from tests.cli.conftest import run  # noqa: F401 - a fixture


def table(n=3000):
    rng = np.random.default_rng(5)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="D")
    frame = pd.DataFrame({"age": rng.integers(18, 95, n).astype(float), "ward": rng.choice(["a", "b"], n), "day": days})
    frame["ill"] = np.where(rng.random(n) < frame.age / 100, "yes", "no")
    frame["cost"] = 1000 + 50 * frame.age + 2000 * (frame.ward == "a") + rng.normal(0, 300, n)
    return frame


def declared(**target):
    columns = {
        "age": {"range": [0, 100], "unit": "years"},
        "ward": {"yes": ["a"], "no": ["b"]},
        "day": {"dates": ["2020-01-01", "2022-12-31"]},
    }
    return pi.Recipe(columns, target=target)


@pytest.fixture(scope="module")
def cost(tmp_path_factory):
    frame, recipe = table(), declared(column="cost", range=[0, 10_000], unit="EUR")
    release = pi.AdaSSP(epsilon=4.0, delta=1e-6, x_bound=recipe, y_bound=recipe.target_range)
    release.fit(recipe.transform(frame), recipe.transform_target(frame))
    return release.save(tmp_path_factory.mktemp("model") / "model.json", target="cost", recipe=recipe)


def test_coefficients_in_units_predict_as_the_model_does(cost):
    model = pi.load_model(cost)
    found = {one.name: one for one in readable_model(model).coefficients}
    rows = pd.DataFrame({"age": [50.0, 51.0, 50.0], "ward": ["b", "b", "a"], "day": [pd.Timestamp("2021-01-01")] * 3})
    rows.loc[3] = [50.0, "b", pd.Timestamp("2022-01-01")]
    first, older, other, later = model.predict(rows)
    assert older - first == pytest.approx(found["age"].value)
    assert other - first == pytest.approx(found["ward"].value)
    assert later - first == pytest.approx(found["day"].value * 365 / 365.25)
    assert found["age"].low < 50 < found["age"].high and found["age"].reads == "per 1 years, counted from 0 to 100"
    middle = found["(intercept)"].value
    halfway = pd.DataFrame({"age": [50.0], "ward": ["b"], "day": [pd.Timestamp("2021-07-01")]})
    assert middle == pytest.approx(model.predict(halfway)[0], abs=5)
    assert model.recipe.declared_kinds()["cost"].rules.unit == "EUR"


def test_what_is_shown(run, cost):  # noqa: F811
    done = run("show", cost)
    for said in ("AdaSSP of 'cost' (EUR)", "(ε, δ) = (4, 1e-06)", "95% interval", "add or remove one row", "clipped",
                 "Read so: 1 years more of 'age' goes with", "For the people in the data:"):  # fmt: skip
        assert said in done.out, done.out
    record = json.loads(run("show", cost, "--json").out)
    assert [one["name"] for one in record["coefficients"]][0] == "age" and record["coefficients"][0]["low"] < 50
    table = json.loads(run("intervals", cost, "--json").out)  # in the same units, the intercept too
    for shown, listed in zip(record["coefficients"], table["coefficients"], strict=True):
        ends = [listed["published"], listed["low"], listed["high"]]
        assert ends == pytest.approx([shown["coefficient"], shown["low"], shown["high"]], rel=1e-12)
    assert "own units" in " ".join(table["notes"]) and "as the recipe scales" not in " ".join(table["notes"])


def test_only_what_stands_out_is_read_aloud(cost):
    """A coefficient whose interval holds zero is no example; the table in scaled units says that it is one."""
    model = pi.load_model(cost)
    faint = replace(model.known["population"], solved=spread_out(model.known["population"].solved))
    told = "\n".join(readable_model(replace(model, known={"population": faint})).lines())
    assert "Read so" not in told and "stands out of the noise" in told and "hidden" not in told
    assert any("as the recipe scales them" in note for note in model.inference().notes)


def spread_out(solved):
    return replace(solved, covariance=solved.covariance + 100.0 * np.eye(len(solved.estimate)))


def test_classes_and_plain_rows_are_kept(tmp_path, run):  # noqa: F811
    frame = table()
    release = pi.PrivateLogisticRegression(epsilon=4.0, delta=1e-6, x_bound=[(0, 100)], classes=("no", "yes"))
    release.fit(frame[["age"]].to_numpy(), frame["ill"].to_numpy())
    model = pi.load_model(release.save(tmp_path / "ill.json", features=["age"], target="ill"))
    assert model.predict(np.array([[90.0]]))[0] in ("no", "yes")
    told = "\n".join(readable_model(model).lines())
    assert "log odds of 'yes'" in told and "where every column is 0" in told
    mean = pi.NoisyMean(scale=1.0, statistic="sum").fit(np.ones((5, 2)))
    mean.save(tmp_path / "mean.json")
    done = run("show", tmp_path / "mean.json")
    assert done.code == 2 and "numbers as they are" in done.err
    with pytest.raises(pi.errors.InvalidInput, match="cannot be written"):
        release.save(tmp_path / "none" / "model.json")


def test_every_other_file_is_refused_in_one_sentence(tmp_path, run):  # noqa: F811
    for content in (None, b"", b"a,b\n1,2\n", b"\x00\xff"):
        if content is not None:
            (tmp_path / "model.json").write_bytes(content)
        done = run("show", tmp_path / "model.json")
        assert done.code == 2 and done.err.count("\n") == 1 and "model.json" in done.err
