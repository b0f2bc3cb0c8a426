"""Refusals at a shell name options, not arguments: whatever the package says, and whichever command was asked."""

from __future__ import annotations

import re

import pytest
import typer

from perinstance.cli.app import app
from perinstance.cli.notices import OPTIONS, in_options

from .conftest import people

COMMON = ("--target", "bmi", "--id", "person", "--group", "ward")


def every_option(command):
    """All options of a command and of those below it."""
    below = getattr(command, "commands", {}).values()
    own = {word for parameter in command.params for word in parameter.opts}
    return own.union(*(every_option(one) for one in below))


def test_what_is_named_are_options():
    assert set(OPTIONS.values()) <= every_option(typer.main.get_command(app))


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("pass delimiter='\\t'", "pass --delimiter '\\t'"),
        ("convert it, or pass delimiter=", "convert it, or pass --delimiter"),
        ("delta must lie in (0, 1), got 0; try delta=1e-6", "--delta must lie in (0, 1), got 0; try --delta 1e-6"),
        (
            "x_bound must be a number > 0, got 'a'; try x_bound=1.0",
            "--x-bound must be a number > 0, got 'a'; try --x-bound 1.0",
        ),
        ("declare classes=(0, 1), or classes=('no', 'yes')", "declare --classes 0,1, or --classes no,yes"),
        ("pass again=True to replace them", "pass --again to replace them"),
        ("leave y, target=, ids= and features= away", "leave y, --target, --id and --feature away"),
        (
            "no noise keeps epsilon=1, delta=1e-06 over 3 steps",
            "no noise keeps --epsilon 1, --delta 1e-06 over 3 steps",
        ),
        ("declare it in a perinstance.Recipe", "declare it in a recipe (--recipe)"),
        ("the target=s of both", "the --target s of both"),
        ("--range NAME=LOW:HIGH; method='upper'; the delta of a release", None),
    ],
)
def test_sentences(said, read):
    assert in_options(said) == (said if read is None else read)


def test_no_refusal_of_an_audit_speaks_python(run, table):
    words = (("--delta", "0"), ("--alpha", "-1"), ("--gamma", "-1"), ("--threads", "0"), ("--decimal", ";"))
    for option, value in (*words, ("--feature", "nothing")):
        outcome = run("audit", table, *COMMON, option, value)
        assert outcome.code == 2 and not re.search(r"\b[a-z_]+=|None|perinstance\.[A-Z]", outcome.err), outcome.err
        assert option in outcome.err


def test_semicolons_are_told_by_their_option(run, tmp_path):
    people().to_csv(tmp_path / "german.csv", index=False, sep=";", decimal=",")
    assert "--delimiter ';'" in run("audit", "german.csv", *COMMON).err
    assert "--decimal ','" in run("audit", "german.csv", *COMMON, "--delimiter", ";").err
    people().assign(person="p").to_csv(tmp_path / "people.csv", index=False)
    assert "--id" in run("audit", "people.csv", "--target", "bmi", "--group", "ward").err
    assert "--renyi" in run("ledger", "init", "ledger", "--renyi", "0.5", "1").err
    assert "--gaussian" in run("ledger", "init", "ledger", "--gaussian", "-1").err
