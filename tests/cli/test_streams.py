"""The command as a process: closed pipes, other encodings, interrupts, full disks, ``python -m``, completion."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import perinstance as pi
from tests.cli.conftest import people
from tests.forked import command, forked

COMMON = ("--target", "bmi", "--id", "person", "--group", "ward")


def start(*words, environment=None, folder=None, **streams) -> subprocess.Popen:
    """Start the command as a shell does, interpreter and all: for a few tests, it takes seconds."""
    return subprocess.Popen(
        [sys.executable, "-m", "perinstance", *map(str, words)],
        env={**os.environ, **(environment or {})},
        cwd=folder,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )


def finished(*words, **options) -> tuple[int, str, str]:
    process = start(*words, **options)
    out, err = process.communicate(timeout=300)
    return process.returncode, (out or b"").decode(errors="replace"), (err or b"").decode(errors="replace")


def test_the_version_has_a_short_option():
    assert forked(command, "-V") == forked(command, "--version") == (0, f"perinstance {pi.__version__}\n", "")


def test_a_reader_who_leaves_is_no_failure():
    """The reading end is closed before the first byte, so that every write meets a closed pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    code, _, err = finished("explain", "1", stdout=writing)  # a real process: the interpreter writes when it ends
    os.close(writing)
    assert (code, err) == (0, "")


def test_a_reader_who_leaves_does_not_hide_a_limit_that_is_exceeded(table, tmp_path):
    assert forked(command, "audit", "--help", stdout="closed") == (0, "", "")
    words = ("audit", table, *COMMON, "--fail-over", "1e-9")
    code, _, err = forked(command, *words, stdout="closed", folder=tmp_path)
    assert code == 1 and "--fail-over" in err


LOCALE_C = {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_a_locale_without_greek():
    code, out, err = finished("explain", "1", environment=LOCALE_C)
    assert code == 0 and "Traceback" not in err and "epsilon = 1" in out and "delta = 1e-06" in out


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_terminals_without_greek(encoding):
    code, out, err = forked(command, "explain", "1", encoding=encoding)
    assert code == 0 and "Traceback" not in err and "epsilon = 1" in out and "delta = 1e-06" in out
    assert forked(command, "audit", "--help", encoding=encoding)[::2] == (0, "")


def test_an_audit_on_a_terminal_that_knows_ascii_alone(tmp_path):
    frame = people()
    frame["person"] = [f"Jürgen {i} 東" for i in range(len(frame))]
    frame.to_csv(tmp_path / "people.csv", index=False)
    code, out, err = forked(command, "audit", "people.csv", *COMMON, encoding="ascii", folder=tmp_path)
    assert code == 0 and "Most exposed" in out and "Traceback" not in err
    code, out, err = forked(command, "audit", "people.csv", *COMMON, "--json", encoding="ascii", folder=tmp_path)
    assert code == 0 and json.loads(out)["people"] == 50


def test_predictions_keep_ids_in_utf8(tmp_path):
    frame = people()
    frame["person"] = [f"Jürgen {i}" for i in range(len(frame))]
    frame.to_csv(tmp_path / "p.csv", index=False)
    words = ("release", "p.csv", "--target", "bmi", "--epsilon", "1", "--x-bound", "3", "--y-bound", "6")
    features = ("--feature", "age", "--feature", "weight")
    assert forked(command, *words, *features, folder=tmp_path)[0] == 0
    words = ("predict", "model.json", "p.csv", "--id", "person")
    code, out, err = forked(command, *words, encoding="ascii", folder=tmp_path)
    assert code == 0 and "Jürgen 7" in out and err == ""


def test_an_interrupt_says_that_nothing_is_half_written(tmp_path):
    """Ctrl-C while losses are written: no draft, no scratch file, and the old report stays."""
    frame = people(40_000)
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "report.html").write_text("old")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = ("-v", "audit", "people.csv", *COMMON)
    process = start(*words, folder=tmp_path, environment={"TMPDIR": str(scratch)})
    told = b""
    while b"audit of PosteriorSample begins" not in told:
        line = process.stderr.readline()
        assert line, told
        told += line
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted; nothing was left half-written" in err.decode()
    assert "Traceback" not in err.decode() and "Aborted" not in err.decode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "report.html", "scratch"]
    assert (tmp_path / "report.html").read_text() == "old"
    assert list(scratch.iterdir()) == []


def test_a_full_disk_is_called_that_on_standard_output():
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    code, _, err = forked(command, "explain", "1", stdout="/dev/full")
    assert code == 2 and err.startswith("perinstance: the disk is full") and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("number", "where"), [(errno.ENOSPC, "fsync"), (errno.ENOSPC, "open"), (errno.EDQUOT, "write")]
)
def test_a_full_disk_is_called_that(run, table, tmp_path, monkeypatch, number, where):
    def full(*_, **__):
        raise OSError(number, os.strerror(number))

    def sparing(*arguments, **options):
        return full() if str(arguments[0]).endswith(".part") else plain(*arguments, **options)

    plain = os.open
    if where == "write":
        monkeypatch.setattr("perinstance.data.private_files.pcsv.CSVWriter", full)
    else:
        monkeypatch.setattr(os, where, full if where == "fsync" else sparing)
    outcome = run("audit", table, *COMMON, "--per-person", "losses.csv")
    assert outcome.code == 2 and "the disk is full" in outcome.err and "half-written" in outcome.err
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".part" or path.name == "losses.csv"]


def test_shells_can_complete():
    """What ``--install-completion`` would install is shown, and it asks this command, which offers its commands."""
    environment = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    code, out, err = forked(command, "--show-completion", "bash", environment=environment)
    assert code == 0 and "_COMPLETE" in out
    asked = {"_PERINSTANCE_COMPLETE": "complete_bash", "COMP_WORDS": "perinstance pre", "COMP_CWORD": "1"}
    assert forked(command, environment=asked)[:2] == (0, "predict\n")


def test_fail_over_says_why(run, table):
    outcome = run("audit", table, *COMMON, "--fail-over", "1e-9", "--quiet")
    assert outcome.code == 1 and outcome.out == ""
    assert outcome.err.startswith("perinstance: failed, somebody's loss exceeds the limit 1e-09 of --fail-over")
    for words, failed, limit in ((("1e-9",), True, 1e-9), (("1e9",), False, 1e9)):
        outcome = run("audit", table, *COMMON, "--json", "--fail-over", *words)
        record = json.loads(outcome.out)
        assert (record["failed"], record["fail_over"], outcome.code) == (failed, limit, int(failed))


def test_json_numbers_are_numbers_or_null(run, tmp_path):
    """Somebody who alone has a feature has no finite loss without a penalty: null, and a flag beside it."""
    frame = people()
    frame["dose"] = 0.0
    frame.loc[0, "dose"] = 1.0
    frame.to_csv(tmp_path / "p.csv", index=False)
    record = json.loads(run("audit", tmp_path / "p.csv", *COMMON, "--alpha", "0", "--json").out)
    assert record["epsilon"]["max"] is None and record["epsilon"]["max_infinite"] is True
    assert isinstance(record["epsilon"]["median"], float) and record["epsilon"]["median_infinite"] is False
    assert record["dp"] is None and record["dp_infinite"] is False


def test_semicolons_and_decimal_commas(run, table, tmp_path):
    people().to_csv(tmp_path / "german.csv", index=False, sep=";", decimal=",")
    german = json.loads(run("audit", "german.csv", *COMMON, "--decimal", ",", "--json").out)
    assert german["epsilon"] == json.loads(run("audit", table, *COMMON, "--json").out)["epsilon"]
    wrong = run("audit", "german.csv", *COMMON, "--delimiter", ";")
    assert wrong.code == 2 and "a decimal comma" in wrong.err and "," not in wrong.err.split(", row")[0]
    assert run("audit", "german.csv", *COMMON, "--decimal", ",", "--delimiter", ",").code == 2
    assert run("audit", "german.csv", *COMMON, "--decimal", "x").code == 2
    people().to_parquet(tmp_path / "p.parquet", index=False)
    assert "CSV" in run("audit", "p.parquet", *COMMON, "--decimal", ",").err
    people().to_csv(tmp_path / "tabs.csv", index=False, sep="\t")
    assert run("audit", "tabs.csv", *COMMON, "--delimiter", "tab", "--quiet").code == 0


def test_the_list_of_commands_loads_nothing_heavy():
    """The command starts quickly: help and version need none of the numerical packages."""
    heavy = "numba", "sklearn", "pandas", "pyarrow"
    code = f"""import sys
from perinstance.cli import main
for words in (["--version"], ["--help"], ["audit", "--help"]):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as left:
        assert not left.code
print(*[name for name in {heavy} if name in sys.modules], file=sys.stderr)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout and done.stderr == "\n"


def test_steps_as_lines_of_json(run, table):
    words = ("audit", table.name, "--target", "bmi", "--id", "person", "--feature", "age", "-q")
    done = run("--log-format", "json", *words)
    lines = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    assert done.code == 0 and lines and all(set(line) == {"time", "level", "step", "process"} for line in lines)
    assert all(line["time"].endswith("+00:00") for line in lines)
    assert run("--log-format", "yaml", *words).code == 2
