"""What was published is run through the mechanism once more: what each person moved, at the numbers that were drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.releases.base.log_ratios import NoisySums, cell
from perinstance.releases.promises.window import ExactWindow, published_before
from perinstance.sampling import GRID, FixedRows
from perinstance.sampling.ball_arithmetic import Ball, exact

PRECISION = 256  # bits: rows are on a grid, sums of products of them need about a hundred

#: What is done with a window.
Run = Callable[[ExactWindow], Any]


def asked(run: Run, rows: FixedRows, answers: list[Floats]) -> list[tuple[Floats, Sequence[Any], Sequence[float]]]:
    """Run the mechanism on published numbers: each of them, the exact sums of these rows, and the scales.

    Everything that is asked is a sum over people of a function of one row and of what was published before: what one
    row alone answers is the step by which the person moved the sum.
    """
    found, replay = [], published_before(answers)

    def answer(center: Sequence[Any], scales: Sequence[float]) -> Floats:
        found.append((replay(center, scales), center, scales))
        return found[-1][0]

    run(ExactWindow(rows, answer=answer))
    if len(found) != len(answers):
        raise InvalidInput("what was published does not fit the audited release; pass the fitted release itself")
    return found


def replayed_log_ratios(run: Run, rows: FixedRows, answers: list[Floats]) -> list[Ball]:
    """Return ``log q/p`` of everybody at all sums that were published."""
    found = []
    with working_precision(PRECISION):
        sums = asked(run, rows, answers)
        whole = [NoisySums.of(cell(values, GRID), center, scales, "gaussian") for values, center, scales in sums]
        for i in range(len(rows.y)):
            steps = zip(whole, asked(run, one_of(rows, i), answers), strict=True)
            found.append(sum((one.log_ratio(exact(u) for u in center) for one, (_, center, _) in steps), exact(0)))
    return found


def one_of(rows: FixedRows, i: int) -> FixedRows:
    """Return one person's row by itself; what becomes of a row depends on nothing else."""
    own = slice(i, i + 1)
    return FixedRows(rows.X[own], rows.y[own], rows.x_grid, rows.y_grid, 0, 0, 0, rows.present[own])
