from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import perinstance as pi
from perinstance.data import load, scan
from perinstance.pairs import GaussianShift
from perinstance.published.readable import readable_model
from tests.cli.conftest import people
from tests.forked import command, forked

SUMS = {"totals_", "column_totals_", "gram_", "moments_"}
BOUNDS = ("--x-bound", "3", "--y-bound", "6")


@pytest.mark.parametrize("method", ["adaops", "adassp"])
def test_a_release_writes_the_model_and_its_promise(run, table, tmp_path, method):
    features = ("--feature", "age", "--feature", "weight", "--feature", "dose")
    outcome = run("release", table, "--target", "bmi", "--method", method, "--epsilon", "2", *BOUNDS, *features)
    assert outcome.code == 0, outcome.err
    path = tmp_path / "model.json"
    model = json.loads(path.read_text())
    assert model["promise"] == {"epsilon": 2.0, "delta": 1e-6, "neighbours": "add or remove one row"}
    assert model["features"] == ["age", "weight", "dose"] and len(model["model"]["coef"]) == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # What was drawn lies on the public grid: nothing finer than 2^-40 leaves the room.
    sums = model["released"].get("moments_", [])
    assert all(float(c * 2**40).is_integer() for moment in sums for c in moment)
    assert model["grid"] == 2.0**-40 and model["perinstance"]
    told = set(model["declared"]) | set(model["released"])
    assert "confidential_clipped_" not in told and "n" not in told
    assert pi.load_model(path).promise == (2.0, 1e-6) and "For the people in the data" in outcome.out
    assert set(model["released"]) <= {"lambda_", "gamma_", "eigenvalue_", "count_", "log_size_", "_floor"} | SUMS


def test_a_logistic_release_of_words_from_a_file(run, tmp_path):
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 90, 2000)
    words = np.where(rng.uniform(size=2000) < 1 / (1 + np.exp(-(age - 55) / 5)), "yes", "no")
    lines = [f"{a:.1f},{w}" for a, w in zip(age, words, strict=True)] + ["40,perhaps", ",yes", "50,"]
    file = tmp_path / "people.csv"
    file.write_text("age,ill\n" + "\n".join(lines) + "\n", encoding="utf-8")
    asked = ("release", file, "--target", "ill", "--method", "logistic", "--epsilon", "3", "--range", "age=0:110")
    outcome = run(*asked, "--classes", "no,yes")
    assert outcome.code == 0, outcome.err
    model = pi.load_model(tmp_path / "model.json")
    assert model.promise == (3.0, 1e-6) and model.predict([[25.0], [85.0]]).tolist() == ["no", "yes"]

    for wrong in ((), ("--classes", "a"), ("--classes", "a,a"), ("--y-bound", "1")):
        assert run(*asked, *wrong, "--again").code == 2
    number = ("release", file, "--target", "ill", "--epsilon", "1", "--x-bound", "1", "--y-bound", "1", "--again")
    assert run(*number, "--classes", "0,1").code == 2


def test_a_second_release_into_a_file_must_be_meant(run, table, tmp_path):
    words = ("release", table, "--target", "bmi", "--epsilon", "2", *BOUNDS, "--feature", "age")
    assert run(*words).code == 0
    first = (tmp_path / "model.json").read_bytes()
    refused = run(*words)
    assert refused.code == 2 and "--again" in refused.err and (tmp_path / "model.json").read_bytes() == first
    again = run(*words, "--again")
    assert again.code == 0 and "epsilon adds up to 4" in again.err and "2e-06" in again.err
    assert (tmp_path / "model.json").read_bytes() != first


def test_rows_beyond_the_bounds_are_told_at_the_curators_terminal_and_nowhere_else(run, table, tmp_path):
    words = ("release", table, "--target", "bmi", "--epsilon", "2", "--feature", "age")
    outcome = run(*words, "--x-bound", "0.5", "--y-bound", "1")
    frame = people()
    rows, targets = int((frame["age"].abs() > 0.5).sum()), int((frame["bmi"].abs() > 1).sum())
    assert f"clipped {rows} rows and {targets} targets of 50 people" in outcome.err
    said = outcome.out.replace("what lies beyond is clipped", "")  # said of every model
    assert "clip" not in said + (tmp_path / "model.json").read_text()
    quiet = run(*words, "--x-bound", "0.5", "--y-bound", "1", "--again", "--json")
    assert quiet.err == "" and "clip" not in quiet.out


@pytest.mark.parametrize(
    "words",
    [
        ("--epsilon", "0", *BOUNDS),
        ("--epsilon", "1"),
        ("--epsilon", "1", "--x-bound", "-1", "--y-bound", "1"),
        ("--epsilon", "1", *BOUNDS, "--delta", "1"),
        ("--epsilon", "1", *BOUNDS, "--method", "adassp", "--kappa", "50"),
        ("--epsilon", "1", *BOUNDS, "--range", "age=0:3"),
        ("--epsilon", "1", "--range", "height=0:3", "--y-bound", "1"),
        ("--epsilon", "1", "--range", "age", "--y-bound", "1"),
        ("--epsilon", "1", "--x-bound", "1", "--y-bound", "3:1"),
        ("--epsilon", "1", "--x-bound", "1", "--y-bound", "much"),
        ("--epsilon", "1", *BOUNDS, "--out", "nowhere/model.json"),
    ],
)
def test_bad_promises_are_one_sentence_and_write_nothing(run, table, tmp_path, words):
    outcome = run("release", table, "--target", "bmi", "--feature", "age", *words)
    assert outcome.code == 2 and outcome.out == "" and len(outcome.err.strip().splitlines()) == 1
    assert not (tmp_path / "model.json").exists()


def test_ranges_of_columns_and_of_the_target(run, table, tmp_path):
    words = ("release", table, "--target", "bmi", "--feature", "age", "--epsilon", "1", "--n-public", "50", "--json")
    outcome = run(*words, "--range", "age=-3:2", "--y-bound", "-1:4")
    assert outcome.code == 0, outcome.err
    record = json.loads(outcome.out)
    assert record["bounds"] == {"x_bound": [[-3.0, 2.0]], "y_bound": [-1.0, 4.0]} and record["format_version"] == 2
    assert record["declared"]["fit_intercept"] and record["model"]["intercept"] != 0.0
    model = pi.load_model(tmp_path / "model.json")
    assert model.bounds == (((-3.0, 2.0),), (-1.0, 4.0))
    frame = people()
    told = model.predict(frame[["age"]])
    np.testing.assert_allclose(told, frame["age"] * record["model"]["coef"][0] + record["model"]["intercept"])
    through_zero = run(*words, "--x-bound", "1", "--y-bound", "1", "--no-intercept", "--again")
    assert json.loads(through_zero.out)["model"]["intercept"] == 0.0


HOSTILE = {
    "nobody": "",
    "missing": "1,,3\n2,5,NA\n",
    "text": "1,HIV+,3\n2,M,x\n",
    "beyond": f"1,{'9' * 400},-inf\n2,1e999,nan\n",
    "bytes": "1,\udcff,3\n",
}


@pytest.mark.parametrize(("rows", "method"), [*((rows, "adassp") for rows in HOSTILE), ("beyond", "adaops")])
def test_whatever_the_rows_of_a_file_hold_a_release_says_the_same(run, tmp_path, rows, method):
    """A header alone, cells that are no numbers: exit code, words and fields are those of any table."""
    outcomes = []
    for name, text in (("ordinary.csv", "1,2,3\n2,-1,1\n"), ("hostile.csv", HOSTILE[rows])):
        (tmp_path / name).write_bytes(("person,age,bmi\n" + text).encode(errors="surrogateescape"))
        words = ("release", name, "--target", "bmi", "--id", "person", "--method", method, "--epsilon", "2", *BOUNDS)
        outcome = run(*words, "--again")
        model = json.loads((tmp_path / "model.json").read_text())
        assert len(model["model"]["coef"]) == 1 and np.isfinite(model["model"]["coef"]).all()
        # what is confidential, for the curator's eyes (counts of clipped rows), goes to the other stream
        assert not outcome.err or "confidential" in outcome.err or "one more release" in outcome.err
        public = set(readable_model(pi.load_model(tmp_path / "model.json")).lines())  # a function of what is published
        rest = [line for line in outcome.out.splitlines() if line not in public]
        outcomes.append((outcome.code, rest, model.keys(), model["model"].keys(), model["promise"]))
    assert outcomes[0] == outcomes[1] and outcomes[0][0] == 0


def test_a_release_is_refused_where_a_row_is_nobodys(run, tmp_path):
    (tmp_path / "people.csv").write_text("person,age,bmi\n1,2,3\n,2,3\n")
    words = ("release", "people.csv", "--target", "bmi", "--id", "person", "--method", "adassp", "--epsilon", "2")
    outcome = run(*words, *BOUNDS)
    assert outcome.code == 2 and "id" in outcome.err and not (tmp_path / "model.json").exists()


@pytest.mark.parametrize("kind", ["parquet", "arrow", "npy"])
def test_typed_files_without_rows_or_with_nulls(run, tmp_path, kind):
    columns = {
        "age": pa.array([1, None, 2**60]),
        "new": pa.array([True, None, False]),
        "bmi": pa.array([1.0, 2.0, None]),
    }
    for table in (pa.table(columns), pa.table(columns).slice(0, 0)):
        path, target = tmp_path / f"table.{kind}", "bmi"
        if kind == "parquet":
            pq.write_table(table, path)
        elif kind == "arrow":
            feather.write_feather(table, path)
        else:
            np.save(path, np.full((table.num_rows, 3), np.nan))
            target = 2
        loaded = load(scan(path), target)
        assert loaded.X.shape == (table.num_rows, 2) and loaded.y.shape == (table.num_rows,)
        if kind != "npy":
            assert np.array_equal(
                loaded.X, np.array([[1, 1], [np.nan] * 2, [2**60, 0]])[: table.num_rows], equal_nan=True
            )
            assert run("release", path, "--target", "bmi", "--epsilon", "2", *BOUNDS, "--quiet", "--again").code == 0


def test_columns_are_refused_by_name_and_type(run, tmp_path):
    pq.write_table(pa.table({"sex": ["M"], "age": [1.0], "bmi": [2.0]}), tmp_path / "t.parquet")
    words = ("release", "t.parquet", "--epsilon", "2", *BOUNDS)
    for wrong in (("--target", "bmi"), ("--target", "weight"), ("--target", "bmi", "--feature", "bmi")):
        assert run(*words, *wrong).code == 2
    assert run(*words, "--target", "bmi", "--feature", "age").code == 0
    (tmp_path / "t.csv").write_text("age,bmi\n1,2,3\n")
    assert run("release", "t.csv", "--target", "bmi", "--epsilon", "2", *BOUNDS).code == 2


def test_explain_gives_the_power_of_the_best_attack(run):
    record = json.loads(run("explain", "1", "--delta", "1e-5", "--json").out)
    row = next(r for r in record["attack"] if r["false_positive_rate"] == 0.01)
    low, high = 0.0, 5.0  # the slow road: the distance whose loss is 1, by bisection here
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if GaussianShift([middle]).epsilon(1e-5)[0] <= 1 else (low, middle)
    assert row["power_gaussian"] == pytest.approx(float(GaussianShift([low]).attack_power(0.01)[0]), rel=1e-6)
    assert row["power_gaussian"] < row["power_at_most"] == pytest.approx(np.e * 0.01 + 1e-5)
    assert run("explain", "--", "-1").code == run("explain", "1", "--delta", "2").code == 2


def test_the_demo_ends_with_the_path_of_its_report(run, tmp_path):
    outcome = run("demo")
    assert outcome.code == 0, outcome.err
    assert outcome.out.strip().endswith(str(tmp_path / "report.html"))
    assert "442 people, 10 features" in outcome.out and (tmp_path / "report.html").exists()


def test_reproduce_makes_figure_and_numbers(run, tmp_path):
    outcome = run("reproduce", "fig2-left", "--quick", "--out", "made")
    assert outcome.code == 0, outcome.err
    assert {p.name for p in (tmp_path / "made").iterdir()} == {"fig2-left.png", "fig2-left.svg", "fig2-left.csv"}
    assert run("reproduce", "fig99").code == 2


def test_help_shows_an_example_for_each(run):
    for name in ("audit", "release", "predict", "demo", "explain", "reproduce"):
        outcome = run(name, "--help")
        assert outcome.code == 0 and f"perinstance {name}" in outcome.out and "Example" in outcome.out
        assert "\\\\" not in outcome.out  # a line that goes on ends in one backslash


def test_a_terminal_gets_a_progress_bar_and_a_pipe_does_not(tmp_path):
    """Drive the command in a pseudo-terminal, as a person would."""
    pty = pytest.importorskip("pty")
    path = tmp_path / "people.parquet"
    frame = people(4000)
    frame.to_parquet(path, index=False)
    words = ("audit", str(path), "--target", "bmi", "--id", "person", "--group", "ward", "--out", str(tmp_path / "r"))
    main, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    script = str(Path(sys.executable).parent / "perinstance")
    process = subprocess.Popen([script, *words], stdin=child, stdout=child, stderr=child, env=environment)
    os.close(child)
    screen = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(main, 65536):
            screen += part
    os.close(main)
    assert process.wait(timeout=60) == 0
    shown = screen.decode(errors="replace")
    assert "Measuring losses" in shown and "people" in shown and "━" in shown
    code, out, err = forked(command, *words)
    assert code == 0 and "━" not in err and "\x1b" not in out
