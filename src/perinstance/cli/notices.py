"""What is said on the error stream besides the work: refusals, warnings, that numerical code is prepared.

The package speaks of arguments, ``delimiter=';'``; whoever sits at a shell reads ``--delimiter ';'``.

``perinstance audit ... | head`` closes our output while there is more to say. That is no failure of ours: the rest is
dropped, the work is finished, and the exit status is what it would have been. A terminal may know few characters.
"""

from __future__ import annotations

import codecs
import io
import json
import logging
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from perinstance.errors import PerinstanceWarning
from perinstance.event_log import LOG
from perinstance.numerics.compile_notice import NOTICE, telling_of_compilation

#: Arguments that are options of the commands, under another name where it is not their own.
_OWN_NAMES = (
    "alpha again classes decimal delimiter delta epsilon gamma kappa key n_public people recipe scale store target "
    "threads x_bound y_bound"
)
OPTIONS = {name: "--" + name.replace("_", "-") for name in _OWN_NAMES.split()}
OPTIONS |= {"ids": "--id", "features": "--feature"}
_VALUE = r"""('[^']*'|"[^"]*"|\([^()]*\)|[\w+-]+(?:\.\w+)*)?"""
_ARGUMENT = re.compile(rf"\b({'|'.join(OPTIONS)})={_VALUE}")
_SUBJECT = re.compile(rf"^({'|'.join(OPTIONS)})(?= must )|\b(x_bound|y_bound|n_public)\b(?!=)")
#: What has another way in Python than at a shell.
PHRASES = {
    "a perinstance.Recipe": "a recipe (--recipe)",
    "perinstance.Recipe": "--recipe",
    "Ledger(..., filter=RenyiBudget(8, 1.0))": "perinstance ledger init --renyi 8 1",
    "ledger.releases()": "perinstance ledger releases",
    "or declare the column otherwise": "or declare the column otherwise (perinstance recipe FILE --check RECIPE counts "
    "everything)",
    "use ledger.admit(release, ...)": "use perinstance release --ledger, which admits it",
    "commit it if its output may have been seen, cancel it if not": "say what became of it (perinstance ledger settle "
    "LEDGER KEY --published if its output may have been seen, --not-published if not)",
    "ledger.declare_fixed says": "perinstance ledger fixed-in-advance says",
    "order must be": "ORDER of --renyi must be",
    "try order=8": "try --renyi 8 1",
    "distance must be": "--gaussian must be",
    "try distance=1.0": "try --gaussian 1",
    "pass limits=Limits(": "read it in Python with limits=Limits(",
    "; None means all cores of this process": "; left out, all cores are used",
    ", or None": ", or leave it out",
    " or None": ", or left out",
}

#: What an encoding without Greek gets instead; whatever else it lacks becomes a question mark.
_NAMES = 'epsilon delta gamma alpha mu theta lambda infinity <= >= x * - - - ... \' " " * sqrt'
SPELLED = dict(zip("εδγαμθλ∞≤≥×·−–—…’“”•√", _NAMES.split(), strict=True))
ERRORS = "perinstance.spelled"

_silent: set[str] = set()
_handlers: list[logging.Handler] = []


def silenced(value: bool) -> bool:
    """Option callback of ``--quiet`` and ``--json``: nothing is said besides results and errors."""
    if value:
        _silent.add("asked for")
    return value


def in_options(sentence: str) -> str:
    """Say a sentence about arguments in the words of the command line.

    >>> in_options("the header is one column; if the file is separated otherwise, pass delimiter=';'")
    "the header is one column; if the file is separated otherwise, pass --delimiter ';'"
    >>> in_options("n_public must be a whole number >= 1 or None, got 0; try n_public=1000")
    '--n-public must be a whole number >= 1, or left out, got 0; try --n-public 1000'
    """
    for phrase, instead in PHRASES.items():
        sentence = sentence.replace(phrase, instead)
    sentence = _SUBJECT.sub(lambda found: OPTIONS[found.group(1) or found.group(2)], sentence)

    def option(found: re.Match[str]) -> str:
        value = found.group(2) or ""
        if value.startswith("("):  # a tuple is written with commas
            value = ",".join(part.strip().strip("'\"") for part in value[1:-1].split(","))
        return OPTIONS[found.group(1)] + (f" {value}" if value not in ("", "True") else "")

    return _ARGUMENT.sub(option, sentence)


def say(sentence: str) -> None:
    """Print one line where it disturbs no result."""
    if not _silent:
        print(f"perinstance: {sentence}", file=sys.stderr, flush=True)


class JsonLines(logging.Formatter):
    """A record as one line of JSON, with the time in UTC: for what gathers logs."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        told = {"time": at, "level": record.levelname.lower(), "step": record.getMessage()}
        return json.dumps({**told, "process": record.process})


def told_of_steps(value: Any) -> Any:
    """Option callback of ``--verbose`` and ``--log-format``: the logger ``perinstance`` speaks on the error stream."""
    if value:
        handler = logging.StreamHandler(sys.stderr)
        as_json = getattr(value, "value", None) == "json"
        handler.setFormatter(JsonLines() if as_json else logging.Formatter("perinstance: %(message)s"))
        while _handlers:  # both options: the last one says how
            LOG.removeHandler(_handlers.pop())
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
                say(in_options(str(message)))
            else:
                usual(message, category, *rest, **named)

        warnings.showwarning = show
        try:
            yield
        finally:
            while _handlers:
                LOG.removeHandler(_handlers.pop())


def spell(error: UnicodeError) -> tuple[str, int]:
    """Codec error handler: write the name of a character that the encoding does not have.

    >>> codecs.register_error("doctest.spelled", spell)
    >>> "a loss of ε ≤ 1 for Jürgen".encode("ascii", "doctest.spelled")
    b'a loss of epsilon <= 1 for J?rgen'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(SPELLED.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


class Descriptor(io.FileIO):
    """A file descriptor to write to; when its reader has left, what is written goes nowhere."""

    abandoned = False

    def write(self, data: Any) -> int:
        """Write some of the data, or drop it when nobody reads."""
        if not self.abandoned:
            try:
                return super().write(data)
            except OSError as error:
                self.abandoned = True  # a full disk is told once, not again by each later flush
                if not isinstance(error, BrokenPipeError):
                    raise
        return len(data)


@contextmanager
def tolerant_streams() -> Iterator[None]:
    """While this lasts, standard output and error survive a closed pipe and an encoding without Greek."""
    codecs.register_error(ERRORS, spell)
    before = sys.stdout, sys.stderr
    streams: list[Any] = []
    for stream in before:
        try:  # one that a test or an application put in its place stays as it is
            stream.flush()
            raw = Descriptor(stream.fileno(), "wb", closefd=False)
        except (AttributeError, OSError, ValueError):  # no stream at all (pythonw), or none with a descriptor
            streams.append(stream)
            continue
        lines = getattr(stream, "line_buffering", False) or stream is sys.stderr
        buffer = io.BufferedWriter(raw)
        streams.append(io.TextIOWrapper(buffer, encoding=stream.encoding, errors=ERRORS, line_buffering=lines))
    sys.stdout, sys.stderr = streams
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        sys.stdout, sys.stderr = before
