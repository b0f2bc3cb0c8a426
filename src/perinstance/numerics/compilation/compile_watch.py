"""Somebody waits: tell them, after a second of compiling, that this happens once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core import event

#: seconds of compiling before anybody is told
PATIENCE = 1.0
NOTICE = "preparing numerical code for this machine, once"


class _Watch(event.Listener):
    """Adds up the time in which kernels compile (a kernel compiles others meanwhile) and calls back once."""

    def __init__(self, tell: Callable[[], None], patience: float) -> None:
        self._tell = tell
        self._left = patience
        self._depth = 0
        self._since = 0.0
        self._told = False
        self._lock = threading.Lock()

    def on_start(self, event: event.Event) -> None:
        with self._lock:
            if event.kind == "numba:compile":
                if self._depth == 0:
                    self._since = time.monotonic()
                self._depth += 1
            due = not self._told and self._depth > 0 and time.monotonic() - self._since >= self._left
            self._told |= due
        if due:
            self._tell()

    def on_end(self, event: event.Event) -> None:
        if event.kind != "numba:compile":
            return
        with self._lock:
            self._depth = max(0, self._depth - 1)
            if self._depth == 0:
                self._left -= time.monotonic() - self._since


@contextmanager
def telling_of_compilation(tell: Callable[[], None], patience: float = PATIENCE) -> Iterator[None]:
    """Call ``tell()`` once, from whichever thread compiles, when more than ``patience`` seconds go into compiling."""
    watch = _Watch(tell, patience)
    kinds = ("numba:compile", "numba:run_pass")  # a pass is short: its start is a moment to look at the clock
    for kind in kinds:
        event.register(kind, watch)
    try:
        yield
    finally:
        for kind in kinds:
            event.unregister(kind, watch)
