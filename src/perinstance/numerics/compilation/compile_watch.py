"""Somebody waits: tell them, after a second of compiling, that this happens once.

Numba is not imported here: whoever wants to be told may never compile anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

#: seconds of compiling before anybody is told
PATIENCE = 1.0
NOTICE = "preparing numerical code for this machine, once"


class CompileWatch:
    """Adds up the time in which kernels compile (a kernel compiles others meanwhile) and calls back once."""

    def __init__(self, tell: Callable[[], None], patience: float) -> None:
        self._tell = tell
        self._left = patience
        self._depth = 0
        self._since = 0.0
        self._told = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """A kernel begins to compile."""
        with self._lock:
            if self._depth == 0:
                self._since = time.monotonic()
            self._depth += 1

    def look(self) -> None:
        """Look at the clock; compiling goes on."""
        with self._lock:
            due = not self._told and self._depth > 0 and time.monotonic() - self._since >= self._left
            self._told |= due
        if due:
            self._tell()

    def end(self) -> None:
        """A kernel is compiled, or was refused."""
        with self._lock:
            self._depth = max(0, self._depth - 1)  # one that began before this watch may end within it
            if self._depth == 0:
                self._left -= time.monotonic() - self._since


_watches: list[CompileWatch] = []


@contextmanager
def telling_of_compilation(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell()`` once, from whichever thread compiles, when more than ``PATIENCE`` seconds go into compiling."""
    watch = CompileWatch(tell, PATIENCE)
    _watches.append(watch)
    try:
        yield
    finally:
        _watches.remove(watch)


def compilation_as_stage(progress: Callable[[str, int, int | None], None] | None) -> AbstractContextManager[None]:
    """Make long compiling a stage of its own for whoever is told of progress."""
    return nullcontext() if progress is None else telling_of_compilation(lambda: progress("compile", 0, None))


def listen_to_numba() -> None:
    """Pass on numba's events, to whoever watches at that moment."""
    from numba.core import event

    class Listener(event.Listener):
        """The start of a compiler's pass, which is short, is a moment to look at the clock."""

        def on_start(self, event: event.Event) -> None:
            for watch in list(_watches):
                watch.begin() if event.kind == "numba:compile" else watch.look()

        def on_end(self, event: event.Event) -> None:
            for watch in list(_watches):
                watch.end() if event.kind == "numba:compile" else watch.look()

    listener = Listener()
    for kind in ("numba:compile", "numba:run_pass"):
        event.register(kind, listener)
