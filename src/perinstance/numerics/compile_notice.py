"""Somebody waits: tell them that numerical code is compiled, once.

Numba is not imported here: whoever wants to be told may never compile anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

NOTICE = "compiling numerical code for this machine, once; later starts find it"

_waiting: list[Callable[[], None]] = []


@contextmanager
def telling_of_compilation(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell()`` the first time that a function is compiled, from whichever thread compiles it."""
    _waiting.append(tell)
    try:
        yield
    finally:
        if tell in _waiting:
            _waiting.remove(tell)


def compilation_as_stage(progress: Callable[[str, int, int | None], None] | None) -> AbstractContextManager[None]:
    """Make compiling a stage of its own, ``"compile"``, for whoever is told of progress."""
    return nullcontext() if progress is None else telling_of_compilation(lambda: progress("compile", 0, None))


def announce() -> None:
    """Tell everybody who waits, once each: something is about to be compiled."""
    while _waiting:
        _waiting.pop()()
