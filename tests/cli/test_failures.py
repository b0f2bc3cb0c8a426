"""A hundred ways to fail: exit 2, one sentence, no traceback, and never a cell of the table."""

from __future__ import annotations

import gzip
import itertools
import warnings

import pandas as pd
import pytest

from tests.cli.conftest import people

SECRET = "HIV-positive-4711"
NUMBER = "271828182845"  # a number planted in cells


def plant(frame: pd.DataFrame, column: str, value: object, row: int = 3) -> pd.DataFrame:
    frame = frame.astype({column: object})
    frame.loc[row, column] = value
    return frame


BAD_CELLS = [SECRET, f"={SECRET}", "", "NaN", "inf", "-inf", "1e400", f"{NUMBER}x", "1,5", f" {SECRET}\n", "0x10", "١٢"]
COLUMNS = ["age", "weight", "dose", "bmi"]
WAYS = [*itertools.product(BAD_CELLS, ["dose"], ["csv"]), *itertools.product([SECRET, ""], COLUMNS, ["csv.gz"])]


@pytest.mark.parametrize(("cell", "column", "suffix"), WAYS)
def test_a_bad_cell_is_refused_without_being_shown(run, tmp_path, cell, column, suffix):
    frame = plant(people(), column, cell)
    frame["person"] = [f"{SECRET}-{i}" for i in range(len(frame))]
    path = tmp_path / f"people.{suffix}"
    with gzip.open(path, "wt") if suffix.endswith("gz") else path.open("w") as stream:
        frame.to_csv(stream, index=False)
    outcome = run("audit", path, "--target", "bmi", "--id", "person", "--group", "ward")
    check_refusal(outcome)
    assert not (tmp_path / "report.html").exists()


def check_refusal(outcome) -> None:
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    shown = outcome.err
    assert SECRET not in shown and NUMBER not in shown and "Traceback" not in shown
    assert len(shown.strip().splitlines()) == 1, shown
    assert shown.startswith("perinstance: ")


def test_rows_of_one_id_are_one_person(run, tmp_path):
    frame = people()
    frame["person"] = "one"
    frame.to_csv(tmp_path / "p.csv", index=False)
    told = run("audit", tmp_path / "p.csv", "--target", "bmi", "--id", "person", "--group", "ward")
    assert told.code == 0 and f"1 person, {len(frame)} rows" in told.out


ASKED = "--target bmi --id person --group ward"


@pytest.mark.parametrize(
    "words",
    [
        *("--target nothing", "--target bmi --id nothing", "--target bmi --group nothing", "--target bmi"),
        *("--target bmi --id person --feature nothing", f"{ASKED} --delta 0", f"{ASKED} --delta nan"),
        *(f"{ASKED} --alpha -1", f"{ASKED} --gamma 0", f"{ASKED} --release output --scale 0"),
        *(f"{ASKED} --x-bound 1", f"{ASKED} --x-bound -1 --y-bound 1", f"{ASKED} --out nowhere/report.html"),
        *(f"{ASKED} --per-person losses.pickle", f"{ASKED} --threads 0"),
    ],
)
def test_bad_options_are_one_sentence(run, table, words):
    check_refusal(run("audit", table, *words.split()))


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"a,b\n", b"PAR1garbage", b"ARROW1\x00\x00zz", b"\x1f\x8bbroken", b"\xff\xfe\x00"]
)
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.csv.gz", "t.arrow", "t.dat"])
def test_broken_files(run, tmp_path, content, name):
    (tmp_path / name).write_bytes(content)
    check_refusal(run("audit", tmp_path / name, "--target", "b"))


def test_no_such_file_and_a_folder_without_tables(run, tmp_path):
    check_refusal(run("audit", tmp_path / "nothing.csv", "--target", "b"))
    (tmp_path / "empty").mkdir()
    check_refusal(run("audit", tmp_path / "empty", "--target", "b"))


def test_a_million_columns(run, tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(1_000_000)) + "\n")
    check_refusal(run("audit", path, "--target", "c0"))


def test_a_warning_that_is_made_an_error_says_what_was_got(run, tmp_path):
    people().assign(person_id=range(7, 57)).to_csv(tmp_path / "p.csv", index=False)
    asked = ("audit", "p.csv", "--target", "bmi", "--id", "person", "--group", "ward")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = run(*asked)
    check_refusal(outcome)
    assert "'person_id'" in outcome.err and "PYTHONWARNINGS" in outcome.err and "bug" not in outcome.err


def test_an_unforeseen_error_shows_its_place_and_nothing_else(run, table, monkeypatch):
    import perinstance.auditing

    def explode(*_, **__):
        raise RuntimeError(SECRET)

    monkeypatch.setattr(perinstance.auditing, "audit", explode)
    check_refusal(run("audit", table, "--target", "bmi", "--id", "person", "--group", "ward"))
