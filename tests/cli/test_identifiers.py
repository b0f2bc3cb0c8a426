"""Who forgets --id is told before patient numbers are a feature; ids are read as ids by every command."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from .test_failures import check_refusal

N = 120
BOUNDS = ("--epsilon", "1", "--x-bound", "100", "--y-bound", "40")


@pytest.fixture
def patients(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"patient_id": rng.permutation(N), "age": rng.integers(18, 90, N), "bmi": rng.normal(size=N)})
    frame.assign(ward=["a", "b"] * (N // 2)).to_csv(tmp_path / "wards.csv", index=False)
    frame.to_csv(tmp_path / "patients.csv", index=False)
    return tmp_path / "patients.csv"


@pytest.mark.filterwarnings("always::perinstance.errors.IdentifierAsFeature")
def test_an_audit_tells(run, patients):
    words = ("wards.csv", "--group", "ward")
    outcome = run("audit", *words, "--target", "bmi")
    assert outcome.code == 0
    told = [line for line in outcome.err.splitlines() if "identifier" in line]
    assert len(told) == 1 and told[0].startswith("perinstance: column 0 ('patient_id') is a feature")
    assert "pass --id 'patient_id'" in told[0] and told[0].endswith("name the features: --feature")
    for said in (("--id", "patient_id"), ("--feature", "patient_id", "--feature", "age"), ("--quiet",)):
        assert "identifier" not in run("audit", *words, "--target", "bmi", *said).err


def test_a_release_refuses_by_the_name_before_anything_is_published(run, patients, tmp_path):
    outcome = run("release", patients, "--target", "bmi", *BOUNDS)
    check_refusal(outcome)
    assert "--id 'patient_id'" in outcome.err and not (tmp_path / "model.json").exists()
    for name, said in (("a", ("--id", "patient_id")), ("b", ("--feature", "patient_id", "--feature", "age"))):
        assert run("release", patients, "--target", "bmi", *BOUNDS, *said, "--out", f"{name}.json").code == 0
    ranges = ("--range", "patient_id=0:200", "--range", "age=0:110", "--y-bound", "40")
    assert run("release", patients, "--target", "bmi", "--epsilon", "1", *ranges, "--out", "c.json").code == 0


def test_people_who_do_not_count_are_told_of_at_the_curators_terminal(run, patients):
    """A column of words makes a model of nobody; standard output and exit code do not tell."""
    outcome = run("release", "wards.csv", "--target", "bmi", "--id", "patient_id", *BOUNDS)
    assert outcome.code == 0 and f"confidential: {N} of {N} people have a cell that is missing" in outcome.err
    fine = run("release", patients, "--target", "bmi", "--id", "patient_id", *BOUNDS, "--out", "fine.json")
    assert "do not count" not in fine.err and str(N) not in outcome.out


def test_a_number_is_no_class(run, patients):
    """Every patient alone in a class of their own would take minutes, and mean nothing."""
    outcome = run("audit", patients, "--target", "bmi", "--id", "patient_id", "--release", "logistic", "--quiet")
    check_refusal(outcome)
    assert f"got {N} numbers that are not whole" in outcome.err


def test_ids_that_a_ledger_charges(run, tmp_path):
    assert run("ledger", "init", "book").code == 0
    (tmp_path / "semicolons.csv").write_text("person;age\n007;1\n8;2\n")
    (tmp_path / "nobody.csv").write_text("person,age\n")
    (tmp_path / "absent.csv").write_text("person,age\n7,1\n,2\n")

    def charge(file, id, *words):
        return run("ledger", "charge", "book", file, "--id", id, "--key", "k", "--epsilon", "1", *words)

    for outcome, said in (
        (charge("semicolons.csv", "person"), "pass --delimiter ';'"),
        (charge("nobody.csv", "person"), "no rows; there is nobody to charge"),
        (charge("absent.csv", "person"), "row 3: an id is empty"),
        (charge("absent.csv", "name"), "the column of ids is not among the 2 columns"),
    ):
        check_refusal(outcome)
        assert said in outcome.err
    assert charge("semicolons.csv", "person", "--delimiter", ";").code == 0
    assert "total 1" in run("ledger", "person", "book", "007").out
