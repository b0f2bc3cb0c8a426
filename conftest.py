"""Everything shown is executed: the code and the commands of README and docs run as tests."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import CodeBlockParser, SkipParser


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
        if not check.check_output(expected.strip() + "\n", done.stdout.strip() + "\n", FLAGS):
            return f"{command!r} printed\n{done.stdout}\ninstead of\n{expected}"
    return None


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
