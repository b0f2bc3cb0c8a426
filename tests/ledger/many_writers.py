"""Processes that charge one ledger at once, and contest one key.

Run as ``python -m tests.ledger.many_writers WRITERS ADDRESS [STORE]``: prints, of each, who got the contested key. They
are forked from one process, at one moment: none of them has to read the library first, and no thread of pytest's is in
the way.
"""

from __future__ import annotations

import os
import sys
import traceback

import perinstance as pi
import perinstance.ledger.ledger  # before the forks
from perinstance.errors import LedgerConflict
from perinstance.pairs import GaussianShift


def charge(number: int, address: str, store: str | None) -> str:
    """Charge five releases, then one that everybody wants."""
    ledger = pi.Ledger(address, store=store)
    for i in range(5):
        ledger.charge_pairs(["a", "b"], GaussianShift([0.1, 0.2]), key=f"{number}-{i}")
    try:
        ledger.charge_pairs(["a", "b"], GaussianShift([0.1, float(number)]), key="contested")
    except LedgerConflict:
        return "theirs\n"
    return "mine\n"


def main(writers: int, address: str, store: str | None = None) -> None:
    """Fork, wait for all, and tell what they say; a writer that fails is told by its traceback and the exit code."""
    if store is not None:  # imported once, before there are children
        import psycopg  # noqa: F401
        import sqlalchemy  # noqa: F401
    reading, writing = os.pipe()
    children = []
    for number in range(1, writers + 1):
        child = os.fork()
        if not child:
            code = 1
            try:
                os.write(writing, charge(number, address, store).encode())
                code = 0
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(code)
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1]]
    os.close(writing)
    with os.fdopen(reading) as told:  # a few bytes of each: they fit into the pipe
        print(told.read(), end="")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
