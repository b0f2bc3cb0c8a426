"""Ways to fail at a shell: exit 2, one sentence, no traceback, and never a cell of the table."""

from __future__ import annotations

import warnings

import pytest

from tests.cli.conftest import people

SECRET = "HIV-positive-4711"
NUMBER = "271828182845"  # a number planted in cells
ASKED = "--target bmi --id person --group ward"


def check_refusal(outcome) -> None:
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    shown = outcome.err
    assert SECRET not in shown and NUMBER not in shown and "Traceback" not in shown
    assert len(shown.strip().splitlines()) == 1, shown
    assert shown.startswith("perinstance: ")


@pytest.mark.parametrize("cell", [SECRET, "", "1e400", f"{NUMBER}x", f" {SECRET}\n"])
def test_a_bad_cell_is_refused_without_being_shown(run, tmp_path, cell):
    """What else a cell may hold, and other formats: ``tests/data/test_secrets.py``."""
    frame = people().astype({"dose": object})
    frame.loc[3, "dose"] = cell
    frame["person"] = [f"{SECRET}-{i}" for i in range(len(frame))]
    frame.to_csv(tmp_path / "people.csv", index=False)
    check_refusal(run("audit", "people.csv", *ASKED.split()))
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "words",
    [
        *("--target nothing", "--target bmi --group nothing", "--target bmi"),
        *(f"{ASKED} --feature nothing", f"{ASKED} --delta nan", f"{ASKED} --release output --scale 0"),
        *(f"{ASKED} --x-bound 1", f"{ASKED} --x-bound -1 --y-bound 1", f"{ASKED} --out nowhere/report.html"),
        *(f"{ASKED} --per-person losses.pickle", f"{ASKED} --fail-over -1"),
    ],
)
def test_bad_options_are_one_sentence(run, table, words):
    check_refusal(run("audit", table, *words.split()))


def test_files_that_are_no_tables(run, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "wide.csv").write_text(",".join(f"c{i}" for i in range(1_000_000)) + "\n")
    contents = {"t.csv": b"", "n.csv": b"a,b\n", "t.parquet": b"PAR1garbage", "t.arrow": b"ARROW1\x00\x00zz"}
    contents |= {"t.csv.gz": b"\x1f\x8bbroken", "u.csv": b"\xff\xfe\x00", "t.dat": b"a,b\n1,2\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    for name in ("nothing.csv", "empty", "wide.csv", *contents):
        check_refusal(run("audit", tmp_path / name, "--target", "b"))


def test_a_warning_that_is_made_an_error_says_what_was_got(run, tmp_path):
    people().assign(person_id=range(7, 57)).to_csv(tmp_path / "p.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome = run("audit", "p.csv", *ASKED.split())
    check_refusal(outcome)
    assert "'person_id'" in outcome.err and "PYTHONWARNINGS" in outcome.err and "bug" not in outcome.err


def test_an_unforeseen_error_shows_its_place_and_nothing_else(run, table, monkeypatch):
    import perinstance.auditing

    def explode(*_, **__):
        raise RuntimeError(SECRET)

    monkeypatch.setattr(perinstance.auditing, "audit", explode)
    check_refusal(run("audit", table, *ASKED.split()))
