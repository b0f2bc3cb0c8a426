"""Fresh processes that cost no start: forked from one, started once a session, that has imported everything already.

What runs in them has memory, folder, environment and streams of its own, as a process that a shell starts, except for
what only the start of an interpreter decides (``PYTHON*`` variables, the locale): that needs a real one.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from io import FileIO, TextIOWrapper
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOADED = (
    "perinstance.cli.app",
    "perinstance.cli.terminal",
    "perinstance.releases.promises.promise",
    "perinstance.engines.local",
    "pyarrow.parquet",
    "pyarrow.csv",
    "pyarrow.dataset",
    "narwhals",
    "scipy.linalg",
)

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(LOADED))


def start(*modules: str) -> None:
    """Start the process that others are forked from, with these modules beside ours, unless it runs already."""
    _context.set_forkserver_preload([*LOADED, *modules])
    forkserver.ensure_running()


def command(*words: str) -> None:
    """Run the command line in this process, for ``forked``."""
    from perinstance.cli import main

    sys.argv = ["perinstance", *map(str, words)]
    main()


def forked(
    function: Callable[..., Any],
    *arguments: Any,
    folder: str | Path = ROOT,
    environment: Mapping[str, str] = {},  # noqa: B006 - read only
    stdout: str | None = None,
    encoding: str = "utf-8",
) -> tuple[int, str, str]:
    """Run a function of a module in a process of its own; return exit code, output and errors.

    ``stdout`` is the path that output goes to in place of a file that is read and returned, "closed" for a pipe whose
    reader has left; ``encoding`` is that of both streams.
    """
    with tempfile.TemporaryDirectory() as place:
        out, err = (Path(place) / name for name in ("out", "err"))
        streams = (stdout or str(out), str(err), encoding)
        process = _context.Process(target=_run, args=(function, arguments, str(folder), dict(environment), streams))
        process.start()
        process.join(300)
        assert process.exitcode is not None, "it takes more than five minutes"
        said = [file.read_text("utf-8", "replace") if file.exists() else "" for file in (out, err)]
        return process.exitcode, said[0], said[1]


def _run(function: Callable[..., Any], arguments: tuple, folder: str, environment: dict, streams: tuple) -> None:
    os.chdir(folder)
    os.environ.update(environment)
    for number, path in zip((1, 2), streams, strict=False):
        os.dup2(_closed_pipe() if path == "closed" else os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
    sys.stdout, sys.stderr = (TextIOWrapper(FileIO(number, "w", closefd=False), streams[2]) for number in (1, 2))
    function(*arguments)


def _closed_pipe() -> int:
    """Return the writing end of a pipe that nobody reads, so that every write meets it."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing
