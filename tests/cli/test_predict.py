"""``perinstance predict`` and ``release --compare``: what is answered, and what is refused."""

from __future__ import annotations

import json
import stat

import numpy as np
import pandas as pd
import pytest

import perinstance as pi
from tests.cli.conftest import people
from tests.cli.test_failures import check_refusal

FEATURES = ("--feature", "age", "--feature", "weight", "--feature", "dose")
RELEASE = ("--target", "bmi", "--epsilon", "2", "--x-bound", "3", "--y-bound", "6", *FEATURES)


@pytest.fixture
def model(run, table, tmp_path):
    assert run("release", table, *RELEASE).code == 0
    return tmp_path / "model.json"


def test_predictions_go_to_the_terminal_or_to_a_private_file(run, table, model, tmp_path):
    expected = pi.load_model(model).predict(people()[["age", "weight", "dose"]])
    outcome = run("predict", model, table, "--id", "person")
    assert outcome.code == 0 and outcome.err == ""
    (tmp_path / "shown.csv").write_text(outcome.out)
    shown = pd.read_csv(tmp_path / "shown.csv", dtype={"id": str})
    assert shown["id"].tolist() == people()["person"].tolist()
    assert np.array_equal(shown["prediction"], expected)
    for name in ("p.csv", "p.parquet"):
        outcome = run("predict", model, table, "--out", name)
        assert outcome.code == 0 and "50 predictions of bmi" in outcome.out
        read = pd.read_csv(name) if name.endswith("csv") else pd.read_parquet(name)
        assert np.array_equal(read["prediction"], expected) and list(read.columns) == ["prediction"]
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert run("predict", model, table, "--out", "p.csv", "--quiet").out == ""
    (tmp_path / "empty.csv").write_text("age,weight,dose\n")
    assert (run("predict", model, "empty.csv").code, run("predict", model, "empty.csv").out) == (0, "")


def test_probabilities_stand_beside_the_classes(run, table, tmp_path):
    from sklearn.linear_model import LogisticRegression

    frame = people()
    X, y = frame[["age", "weight", "dose"]], np.where(frame["bmi"] > 0, "high", "low")
    release = pi.OutputPerturbation(LogisticRegression(), scale=0.1).fit(X, y)
    (tmp_path / "m.json").write_text(release.to_json(target="class"))
    lines = run("predict", "m.json", table).out.splitlines()
    assert lines[0] == '"prediction","probability high","probability low"'
    chances = [[float(cell) for cell in line.split(",")[1:]] for line in lines[1:]]
    assert np.array_equal(chances, release.predict_proba(X))


def test_what_cannot_be_predicted_is_one_sentence(run, table, model, tmp_path):
    check_refusal(run("predict", "nothing.json", table))
    check_refusal(run("predict", table, table))
    check_refusal(run("predict", model, "nothing.csv"))
    check_refusal(run("predict", model, table, "--out", "p.pickle"))
    check_refusal(run("predict", model, table, "--quiet"))
    check_refusal(run("predict", model, table, "--id", "nothing"))
    people()[["age", "dose"]].to_csv(tmp_path / "few.csv", index=False)
    outcome = run("predict", model, "few.csv")
    check_refusal(outcome)
    assert "'weight'" in outcome.err
    text = model.read_text()
    model.write_text(text.replace('"epsilon": 2.0', '"epsilon": 0.2'))
    outcome = run("predict", model, table)
    check_refusal(outcome)
    assert "checksum" in outcome.err
    model.write_text(text[:200])
    check_refusal(run("predict", model, table))
    check_refusal(run("explain", "--model", model))


def test_a_comparison_is_shown_and_never_written(run, table, tmp_path):
    outcome = run("release", table, *RELEASE, "--compare")
    assert outcome.code == 0 and "root mean square error" in outcome.out
    assert "no promise covers" in " ".join(outcome.out.split())
    document = json.loads((tmp_path / "model.json").read_text())
    assert not {"comparison", "accuracy"} & set(document) and "square error" not in json.dumps(document)
    check_refusal(run("release", table, *RELEASE, "--compare", "--json", "--out", "other.json"))
    assert not (tmp_path / "other.json").exists()


def test_the_report_has_the_comparison_unless_it_is_redacted(run, table, tmp_path):
    words = ("audit", table, "--target", "bmi", "--id", "person", "--group", "ward", "--compare")
    record = json.loads(run(*words, "--json").out)
    assert record["comparison"]["measure"] == "root mean square error"
    assert "What privacy costs in accuracy" in (tmp_path / "report.html").read_text()
    outcome = run(*words, "--redact")
    assert "What privacy costs" not in (tmp_path / "report.html").read_text() + outcome.out
