"""The precision of balls is the process's: one thread at a time sets it, and nobody does so elsewhere."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from flint import arb, ctx

import perinstance
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision

SETS = re.compile(r"workprec|workdps|extraprec|extradps|ctx\.(prec|dps)\s*=[^=]|setprec")


def test_nobody_else_sets_it():
    root = Path(perinstance.__file__).parent
    found = [p.relative_to(root).as_posix() for p in root.rglob("*.py") if SETS.search(p.read_text(encoding="utf-8"))]
    assert found == ["numerics/exact_linear_algebra/ball_precision.py"]


def test_one_thread_at_a_time_which_may_do_so_within():
    before, seen = ctx.prec, []

    def other():
        with working_precision(80):
            seen.append(ctx.prec)

    with working_precision(500):
        thread = threading.Thread(target=other)
        thread.start()
        with working_precision(300):
            assert ctx.prec == 300
        thread.join(0.1)
        assert thread.is_alive() and seen == [] and ctx.prec == 500
        assert float(arb(2).sqrt().rad()) < 1e-140
    thread.join()
    assert seen == [80] and ctx.prec == before
