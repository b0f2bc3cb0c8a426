"""One patient with several rows: whatever publishes or tells, and is given ids, refuses, and says how many, not who."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perinstance as pi
from perinstance.errors import InvalidTable
from tests.cli.conftest import people

BOUNDS = ("--x-bound", 9, "--y-bound", 9, "--feature", "age", "--feature", "dose", "--target", "bmi")
SAID = "ids repeat: 2 people have several rows"


@pytest.fixture
def visits(tmp_path) -> Path:
    frame = people()
    frame.loc[[7, 20, 33], "person"] = "secret-patient"
    frame.loc[49, "person"] = frame.loc[0, "person"]
    path = tmp_path / "visits.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def model(run, table) -> str:
    assert run("release", table, "--epsilon", 1, *BOUNDS, "--id", "person", "--out", "model.json").code == 0
    return "model.json"


def refused(answer, *absent: str) -> None:
    assert answer.code != 0 and SAID in answer.err.replace("\n", " ") and "one row" in answer.err
    assert "secret-patient" not in answer.err + answer.out
    assert not [name for name in absent if Path(name).exists()]


def test_a_release_refuses(run, visits):
    for method in ("adassp", "adaops"):
        words = ("release", visits, "--epsilon", 1, *BOUNDS, "--method", method, "--out", "model.json", "--again")
        refused(run(*words, "--id", "person"), "model.json" if method == "adassp" else "none")
        assert run(*words).code == 0  # nobody said who is who: the promise is one for each row
    Path("model.json").unlink()
    recipe = pi.Recipe({"age": {"range": [-5, 5]}}, target={"column": "bmi", "range": [-9, 9]})
    Path("recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    refused(run("release", visits, "--recipe", "recipe.toml", "--epsilon", 1, "--id", "person"), "model.json")


def test_statements_and_published_losses_refuse(run, model, visits):
    words = ("statement", model, visits, "--target", "bmi", "--id", "person")
    refused(run(*words, "--only", "secret-patient"))
    refused(run(*words, "--out", "pages"), "pages")
    words = ("publish-losses", model, visits, "--target", "bmi", "--epsilon", 1, "--out", "losses.json")
    refused(run(*words, "--id", "person"), "losses.json")


def test_a_charge_refuses_and_an_audit_answers_for_people(run, visits):
    done = run("audit", visits, "--target", "bmi", "--id", "person", "--feature", "age", "--out", "r.html")
    assert done.code == 0 and "47 people, 50 rows" in done.out
    assert run("ledger", "init", "book").code == 0
    refused(run("ledger", "charge", "book", visits, "--key", "k", "--id", "person", "--epsilon", 1))


def test_pages_and_charges_from_python_refuse(tmp_path):
    ids = ["a", "b", "a", "b", "c"]
    told = [pi.disclosure.statement(pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0), [0.1])] * 5
    for publish in (
        lambda: pi.disclosure.write_statements(tmp_path / "pages", ids, told),
        lambda: pi.Ledger(tmp_path / "book").charge_pairs(ids, 1.0, "key", delta=1e-6),
    ):
        with pytest.raises(InvalidTable, match=SAID):
            publish()


def test_weights_at_the_shell(run, visits):
    table = pd.read_csv(visits)
    table["w"] = 1.0 + np.arange(len(table)) % 3
    table.loc[0, "w"] = -1.0  # counts as zero; an audit refuses it
    table.to_csv("weighted.csv", index=False)
    bounds = (*BOUNDS, "--rows-per-person", 2, "--id", "person", "--weight", "w")
    words = ("release", "weighted.csv", "--epsilon", 1, *bounds)
    assert "go together" in run(*words).err
    assert "--weight is not among the" in run(*words[:-1], "nobody", "--weight-bound", 2).err
    done = run(*words, "--weight-bound", 2, "--out", "weighted.json")
    assert done.code == 0, done.err
    document = json.loads(Path("weighted.json").read_text())
    assert document["published"].endswith("rows weighted up to 2") and "w" not in document["features"]
    again = ("audit", "weighted.csv", "--model", "weighted.json", "--id", "person")
    assert "pass sample_weight=" in run(*again).err
    found = run(*again, "--weight", "w", "--json")
    assert found.code == 0, found.err
    answer = run("audit", "weighted.csv", "--target", "bmi", "--id", "person", "--weight", "w", "--feature", "age")
    assert "those of 1 rows are not" in answer.err


def test_a_release_that_declares_how_many_rows_count(run, visits):
    words = ("release", visits, "--epsilon", 1, *BOUNDS, "--rows-per-person", 2, "--out", "model.json")
    assert "needs --id" in run(*words).err
    assert run("ledger", "init", "book").code == 0
    done = run(*words, "--id", "person", "--compare", "--ledger", "book", "--key", "k")
    assert done.code == 0, done.err
    assert "for every person, with at most 2 rows used" in done.out.replace("\n", " ")
    assert "secret-patient" not in done.out + done.err
    model = pi.load_model("model.json")
    assert model.rows_per_person == 2
    explained = run("explain", "--model", "model.json").out.replace("\n", " ")
    assert "with at most 2 records of each person used" in explained
    told = run("ledger", "person", "book", "secret-patient")
    assert told.code == 0 and "1" in told.out
    (charged,) = pi.Ledger("book").releases()
    assert charged.people == 47  # of 50 rows


def test_choosing_counts_people_with_several_rows(run, visits):
    words = ("choose", visits, *BOUNDS, "--at", 4)
    refused(run(*words, "--id", "person"))
    shown = run(*words, "--id", "person", "--rows-per-person", 2, "--json")
    assert shown.code == 0, shown.err
    assert 0 < json.loads(shown.out)["rows"][0]["max"] <= 4.0
    for wrong in (("--rows-per-person", 2), ("--id", "person", "--rows-per-person", 2, "--method", "posterior")):
        assert run(*words, *wrong).code == 2


def test_a_filter_says_why_it_admits_no_such_release(run, visits):
    assert run("ledger", "init", "book", "--gaussian", 1).code == 0
    words = (
        "release",
        visits,
        "--epsilon",
        1,
        *BOUNDS,
        "--id",
        "person",
        "--rows-per-person",
        2,
        "--out",
        "model.json",
    )
    done = run(*words, "--ledger", "book", "--key", "Q1")
    assert done.code == 2 and "leave out rows_per_person" in done.err.replace("\n", " ")
    assert not Path("model.json").exists()
