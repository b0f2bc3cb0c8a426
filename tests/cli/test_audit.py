from __future__ import annotations

import json
import re
import stat

import numpy as np
import pandas as pd
import pytest

import perinstance as pi
from tests.cli.conftest import people

COMMON = ("--target", "bmi", "--id", "person", "--group", "ward")


def test_an_audit_says_what_was_found_and_where_the_report_lies(run, table, tmp_path):
    outcome = run("audit", table, *COMMON, "--gamma", "0.5", "--unit", "kg/m²")
    assert outcome.code == 0, outcome.err
    for words in ("50 people, 3 features", "median", "maximum", "50 of 50 answers are exact", "Do not publish"):
        assert words in outcome.out
    assert str(tmp_path / "report.html") in outcome.out
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o600
    page = (tmp_path / "report.html").read_text()
    assert "Table: people.csv" in page and "Prediction error of bmi without the person" in page
    assert "kg/m²" in page and "Rare features" in page
    assert re.search(r'<td class="words" data-label="Rare features">[^<]*(age|weight|dose) \d', page)


def test_the_numbers_are_those_of_the_library(run, table):
    outcome = run("audit", table, *COMMON, "--gamma", "0.5", "--delta", "1e-5", "--json")
    record = json.loads(outcome.out)
    frame = people()
    audit = pi.audit(
        pi.PosteriorSample(alpha=1.0, gamma=0.5), frame[["age", "weight", "dose"]], frame["bmi"], delta=1e-5
    )
    assert record["epsilon"]["max"] == pytest.approx(float(np.max(audit.losses)), rel=1e-9)
    assert record["people"] == 50 and record["kinds"] == {"exact": 50} and record["confidential"] is True


def test_ids_stay_as_written(run, tmp_path):
    frame = people(4)
    frame["person"] = ["007", "7", "NA", "null"]
    frame.to_csv(tmp_path / "p.csv", index=False)
    outcome = run("audit", tmp_path / "p.csv", *COMMON, "--per-person", "losses.csv")
    assert outcome.code == 0, outcome.err
    written = pd.read_csv(tmp_path / "losses.csv", dtype=str, keep_default_na=False)
    assert written["id"].tolist() == ["007", "7", "NA", "null"]
    assert stat.S_IMODE((tmp_path / "losses.csv").stat().st_mode) == 0o600


def test_bounds_bring_the_worst_case_beside_it(run, table):
    record = json.loads(run("audit", table, *COMMON, "--x-bound", "9", "--y-bound", "20", "--json").out)
    assert record["dp_infinite"] or record["dp"] >= record["epsilon"]["max"]
    assert record["everyone"] >= record["epsilon"]["median"]


@pytest.mark.parametrize("release", ["posterior", "output", "objective"])
def test_each_linear_release_in_silence(run, table, release):
    outcome = run("audit", table, *COMMON, "--release", release, "--scale", "2", "--intercept", "--quiet")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def planted(n: int = 240) -> pd.DataFrame:
    """One person far from everybody, alone in a ward, and one without a ward."""
    frame = people(n)
    frame.loc[11, ["age", "weight", "dose", "bmi"]] = [31.0, -17.0, 23.0, -90.0]
    frame["sex"] = ["f", "m", "m"] * (n // 3)
    frame["person"] = [f"secret-{i}" for i in range(n)]
    frame.loc[11, "ward"] = "solitary"
    frame.loc[5, "ward"] = None
    return frame


GROUPS = ("--group", "ward", "--group", "sex")


def test_a_redacted_run_tells_of_nobody_anywhere(run, tmp_path):
    frame = planted()
    frame.to_csv(tmp_path / "p.csv", index=False)
    words = ("audit", tmp_path / "p.csv", "--target", "bmi", "--id", "person", *GROUPS, "--redact")
    bounds = ("--x-bound", "9", "--y-bound", "20")
    audit = pi.audit(pi.PosteriorSample(), frame[["age", "weight", "dose"]], frame["bmi"])
    top, others = audit.losses[11], np.delete(audit.losses, 11)
    assert top > 5 * others.max()
    plain, machine = run(*words, *bounds), run(*words, *bounds, "--json")
    assert plain.code == machine.code == 0, plain.err + machine.err
    page = (tmp_path / "report.html").read_text()
    for text in (plain.out + plain.err, machine.out + machine.err, page):
        assert "secret" not in text and "solitary" not in text and "missing" not in text
        assert pi.report.words.loss(float(top)) not in text and f"{top:.4g}" not in text
    assert "Most exposed" not in plain.out and "maximum" not in plain.out.replace("loss ε by", "").split("group")[0]
    record = json.loads(machine.out)
    assert record["redacted"] is True and record["epsilon"]["max"] is None and record["epsilon"]["q99"] is None
    assert record["beyond_bounds"] is None
    assert record["epsilon"]["median"] >= np.median(audit.losses)
    assert {line["group"] for line in record["groups"]["ward"]} == {"north", "south"}
    assert all(line["max"] is None and line["people"] % 20 == 0 for line in record["groups"]["sex"])


def test_several_groupings_and_missing_labels(run, tmp_path):
    frame = planted()
    frame.to_csv(tmp_path / "p.csv", index=False)
    words = ("audit", tmp_path / "p.csv", "--target", "bmi", "--id", "person", *GROUPS)
    record = json.loads(run(*words, "--json").out)
    audit = pi.audit(pi.PosteriorSample(), frame[["age", "weight", "dose"]], frame["bmi"])
    for name in ("ward", "sex"):
        labels = frame[name].fillna("missing")
        slow = {label: audit.losses[(labels == label).to_numpy()] for label in labels.unique()}
        found = {line["group"]: line for line in record["groups"][name]}
        assert set(found) == set(slow)
        for label, losses in slow.items():
            assert found[label]["people"] == len(losses)
            assert found[label]["max"] == pytest.approx(losses.max(), rel=1e-9)
    outcome = run(*words)
    assert "Loss ε by ward" in outcome.out and "Loss ε by sex" in outcome.out and "solitary" in outcome.out
    page = (tmp_path / "report.html").read_text()
    assert "Groups by ward" in page and "Groups by sex" in page and "<td>missing</td>" in page


def test_bounds_that_the_table_breaks_are_told(run, tmp_path):
    planted().to_csv(tmp_path / "p.csv", index=False)
    words = ("audit", tmp_path / "p.csv", "--target", "bmi", "--id", "person", *GROUPS)
    outcome = run(*words, "--x-bound", "9", "--y-bound", "20")
    assert outcome.code == 0, outcome.err
    told = " ".join(outcome.out.split())
    assert "The table breaks the declared bounds: beyond them are 1 of 240 people" in told
    assert "The table breaks the declared bounds" in (tmp_path / "report.html").read_text()
    record = json.loads(run(*words, "--x-bound", "9", "--y-bound", "20", "--json").out)
    assert record["beyond_bounds"] == {"people": 1, "features": 1, "targets": 1}
    kept = run(*words, "--x-bound", "99", "--y-bound", "99")
    assert "breaks the declared bounds" not in kept.out


@pytest.mark.parametrize(
    ("release", "idle", "used"), [("posterior", "--scale", "--gamma"), ("output", "--gamma", "--scale")]
)
def test_an_option_that_does_nothing_is_told(run, table, release, idle, used):
    outcome = run("audit", table, *COMMON, "--release", release, idle, "2")
    assert outcome.code == 0 and f"{idle} does nothing with --release {release}" in outcome.err
    assert "does nothing" not in run("audit", table, *COMMON, "--release", release, used, "2").err
