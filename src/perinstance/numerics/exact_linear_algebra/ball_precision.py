"""The precision of ball arithmetic: python-flint keeps it in one variable per process, so whoever sets it holds a lock.

Nothing else may set it. A thread that starts work at another precision meanwhile would make the first one's balls as
wide as its own: still true, but too wide to decide anything.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.RLock()


def _fresh_lock() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # a child must not inherit a lock that another thread of its parent held
    os.register_at_fork(after_in_child=_fresh_lock)


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute with balls of this many bits; one thread at a time, which may do so within.

    Whoever holds it must not wait for another thread: a fold's may ask for it as well.
    """
    from flint import ctx

    with _lock, ctx.workprec(bits):
        yield
