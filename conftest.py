"""Everything shown is executed: the code and the commands of README and docs run as tests."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser


@pytest.fixture(scope="module")
def empty_folder(tmp_path_factory):
    """Run a page's snippets in a folder of its own, so that what they write is not left in the checkout."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("page"))
    yield
    os.chdir(before)


def run_commands(example: Example) -> str | None:
    """Run the ``$ command`` lines of a console block; what follows must be what they print (``...`` is anything)."""
    commands = example.parsed.replace("\\\n", " ").split("$ ")[1:]
    folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"], "COLUMNS": "120"}
    for block in commands:
        command, _, expected = block.partition("\n")
        done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment, timeout=600)
        if done.returncode:
            return f"{command!r} exited {done.returncode}: {done.stderr}"
        check = doctest.OutputChecker()
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if expected.strip() and not check.check_output(expected.strip() + "\n", done.stdout.strip() + "\n", flags):
            return f"{command!r} printed\n{done.stdout}\ninstead of\n{expected}"
    return None


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser("console", run_commands), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
    fixtures=["empty_folder"],
).pytest()
