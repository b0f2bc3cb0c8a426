"""What is said on the error stream besides the work: that numerical code is prepared, that it cannot be kept."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from perinstance.errors import PerinstanceWarning
from perinstance.event_log import LOG
from perinstance.numerics.compilation.compile_watch import NOTICE, telling_of_compilation

_silent: set[str] = set()
_handlers: list[logging.Handler] = []


def silenced(value: bool) -> bool:
    """Option callback of ``--quiet`` and ``--json``: nothing is said besides results and errors."""
    if value:
        _silent.add("asked for")
    return value


def say(sentence: str) -> None:
    """Print one line where it disturbs no result."""
    if not _silent:
        print(f"perinstance: {sentence}", file=sys.stderr, flush=True)


def told_of_steps(value: bool) -> bool:
    """Option callback of ``--verbose``: the logger ``perinstance`` speaks on the error stream."""
    if value:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("perinstance: %(message)s"))
        LOG.addHandler(handler)
        LOG.setLevel(logging.DEBUG)
        _handlers.append(handler)
    return value


@contextmanager
def announcing() -> Iterator[None]:
    """While this lasts, long compiling is announced once, and the package's warnings are single lines."""
    _silent.clear()
    with telling_of_compilation(lambda: say(NOTICE)), warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Any, category: type[Warning], *rest: Any, **named: Any) -> None:
            if issubclass(category, PerinstanceWarning):
                say(str(message))
            else:
                usual(message, category, *rest, **named)

        warnings.showwarning = show
        try:
            yield
        finally:
            while _handlers:
                LOG.removeHandler(_handlers.pop())
