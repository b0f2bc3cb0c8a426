"""Standard output and error as commands need them: a reader may leave early, and a terminal may know few characters.

``perinstance audit ... | head`` closes our output while there is more to say. That is no failure of ours: the rest is
dropped, the work is finished, and the exit status is what it would have been.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

#: What an encoding without Greek gets instead; whatever else it lacks becomes a question mark.
_NAMES = 'epsilon delta gamma alpha mu theta lambda infinity <= >= x * - - - ... \' " " * sqrt'
SPELLED = dict(zip("εδγαμθλ∞≤≥×·−–—…’“”•√", _NAMES.split(), strict=True))
ERRORS = "perinstance.spelled"


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
    sys.stdout, sys.stderr = (_tolerant(stream) for stream in before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        sys.stdout, sys.stderr = before


def _tolerant(stream: TextIO) -> Any:
    """Wrap a real stream; one that a test or an application put in its place stays as it is."""
    try:
        stream.flush()
        raw = Descriptor(stream.fileno(), "wb", closefd=False)
    except (AttributeError, OSError, ValueError):  # no stream at all (pythonw), or none with a descriptor
        return stream
    lines = getattr(stream, "line_buffering", False) or stream is sys.stderr
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=ERRORS, line_buffering=lines)
