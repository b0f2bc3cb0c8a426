"""Everything shown is executed: the code and the commands of README and docs run as tests."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import CodeBlockParser, SkipParser
from tests.forked import command, forked


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
    for block in commands:
        line, _, expected = block.partition("\n")
        code, out, err = run_line(line)
        if code:
            return f"{line!r} exited {code}: {err}"
        if not doctest.OutputChecker().check_output(expected.strip() + "\n", out.strip() + "\n", FLAGS):
            return f"{line!r} printed\n{out}\ninstead of\n{expected}"
    return None


def run_line(line: str) -> tuple[int, str, str]:
    """Run a line of a shell; ours without one, in a process forked from one that has imported everything."""
    words = shlex.split(line)
    if words[0] == "perinstance" and not re.search("[|<>&;]", line):
        return forked(command, *words[1:], folder=Path.cwd(), environment={"COLUMNS": "120"})
    folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"], "COLUMNS": "120"}
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env=environment, timeout=600)
    return done.returncode, done.stdout, done.stderr


#: A python block, and the text block that follows it at once: what it prints.
SNIPPET = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.DOTALL | re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def snippets(document: Document) -> Iterator[Region]:
    """Find the python blocks of a page, each with what is shown of its output."""
    for found in SNIPPET.finditer(document.text):
        yield Region(found.start(), found.end(), (found["code"], found["shown"] or ""), run_snippet)


def run_snippet(example: Example) -> str | None:
    """Run a python block; what it prints must be shown below it (``...`` is anything)."""
    code, shown = example.parsed
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * example.line + code, example.path, "exec"), example.namespace)
    if doctest.OutputChecker().check_output(shown.strip() + "\n", printed.getvalue().strip() + "\n", FLAGS):
        return None
    return f"printed\n{printed.getvalue()}\ninstead of what is shown below it:\n{shown}"


#: A file that the reader is told to write: the block below its name.
FILE = re.compile(r"^<!-- file: (?P<name>[\w.-]+) -->\n+```\w*\n(?P<text>.*?)^```\n", re.DOTALL | re.MULTILINE)


def files(document: Document) -> Iterator[Region]:
    """Find the files that a page shows."""
    for found in FILE.finditer(document.text):
        yield Region(found.start(), found.end(), (found["name"], found["text"]), write_file)


def write_file(example: Example) -> None:
    """Write a file as it is shown, for the commands below it."""
    name, text = example.parsed
    Path(name).write_text(text, encoding="utf-8")


pytest_collect_file = Sybil(
    parsers=[snippets, files, CodeBlockParser("console", run_commands), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
    fixtures=["empty_folder"],
).pytest()
