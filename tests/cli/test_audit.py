from __future__ import annotations

import gzip
import json
import os
import stat

import numpy as np
import pandas as pd
import pytest

import perinstance as pi
from tests.cli.conftest import people

COMMON = ("--target", "bmi", "--id", "person", "--group", "ward")


def test_an_audit_says_what_was_found_and_where_the_report_lies(run, table, tmp_path):
    outcome = run("audit", table, *COMMON, "--gamma", "0.5")
    assert outcome.code == 0, outcome.err
    for words in ("50 people, 3 features", "median", "maximum", "50 of 50 answers are exact", "Do not publish"):
        assert words in outcome.out
    assert str(tmp_path / "report.html") in outcome.out
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o600


def test_the_numbers_are_those_of_the_library(run, table):
    outcome = run("audit", table, *COMMON, "--gamma", "0.5", "--delta", "1e-5", "--json")
    record = json.loads(outcome.out)
    frame = people()
    audit = pi.audit(
        pi.PosteriorSample(alpha=1.0, gamma=0.5), frame[["age", "weight", "dose"]], frame["bmi"], delta=1e-5
    )
    assert record["epsilon"]["max"] == pytest.approx(float(np.max(audit.losses)), rel=1e-9)
    assert record["people"] == 50 and record["kinds"] == {"exact": 50} and record["confidential"] is True


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "arrow"])
def test_every_kind_of_file(run, tmp_path, kind):
    frame, path = people(), tmp_path / f"people.{kind}"
    if kind == "csv.gz":
        with gzip.open(path, "wt") as stream:
            frame.to_csv(stream, index=False)
    elif kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_feather(path)
    outcome = run("audit", path, *COMMON, "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["people"] == 50


def test_ids_stay_as_written(run, tmp_path):
    frame = people(4)
    frame["person"] = ["007", "7", "NA", "null"]
    frame.to_csv(tmp_path / "p.csv", index=False)
    outcome = run("audit", tmp_path / "p.csv", *COMMON, "--per-person", "losses.csv")
    assert outcome.code == 0, outcome.err
    written = pd.read_csv(tmp_path / "losses.csv", dtype=str, keep_default_na=False)
    assert written["id"].tolist() == ["007", "7", "NA", "null"]
    assert stat.S_IMODE((tmp_path / "losses.csv").stat().st_mode) == 0o600


def test_files_are_private_under_an_open_umask(run, table, tmp_path):
    old = os.umask(0)
    try:
        run("audit", table, *COMMON, "--per-person", "losses.parquet", "--out", "r.html")
    finally:
        os.umask(old)
    for name in ("losses.parquet", "r.html"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_fail_over_exits_one_only_when_somebody_exceeds_it(run, table):
    assert run("audit", table, *COMMON, "--fail-over", "1e-9").code == 1
    assert run("audit", table, *COMMON, "--fail-over", "1e9").code == 0
    assert run("audit", table, *COMMON, "--fail-over", "-1").code == 2


def test_quiet_prints_nothing(run, table):
    outcome = run("audit", table, *COMMON, "--quiet")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_bounds_bring_the_worst_case_beside_it(run, table):
    record = json.loads(run("audit", table, *COMMON, "--x-bound", "9", "--y-bound", "20", "--json").out)
    assert record["dp_infinite"] or record["dp"] >= record["epsilon"]["max"]
    assert record["everyone"] >= record["epsilon"]["median"]


@pytest.mark.parametrize("release", ["posterior", "output", "objective"])
def test_each_linear_release(run, table, release):
    assert run("audit", table, *COMMON, "--release", release, "--scale", "2", "--intercept", "--quiet").code == 0


def test_a_second_run_replaces_the_report(run, table, tmp_path):
    run("audit", table, *COMMON)
    first = (tmp_path / "report.html").read_bytes()
    assert run("audit", table, *COMMON).code == 0
    assert (tmp_path / "report.html").read_bytes() == first
    assert [p.name for p in tmp_path.iterdir() if "report" in p.name] == ["report.html"]


def test_redacted_reports_name_nobody(run, table, tmp_path):
    run("audit", table, *COMMON, "--redact")
    page = (tmp_path / "report.html").read_text()
    assert not any(f"<td>{i:03d}</td>" in page for i in range(50))
