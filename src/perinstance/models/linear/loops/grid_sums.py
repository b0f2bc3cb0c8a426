"""``X'(y - X theta)`` of up to seven columns with some 25 digits, by sums whose high parts are on a grid.

A sum that begins at ``C = 1.5 2^K`` and stays within ``2^K/4`` of it is a multiple of ``h = 2^(K - 52)`` all the way:
what a step adds to it is exact, and the product less that, rounded once, is what the step left behind. With u half a
unit and ``|x w| <= 2^K/4``:

    t' = fl(t + x w),   left = fl(x w - (t' - t)),   |t + x w - t'| <= h/2,   |left| <= h/2 (1 + u)

each rounded once (a fused product), which takes three operations, a third of what sums and products of pairs do. The
lanes of a register are people. Nobody's ``|y| + |x||theta|`` and no sum of ``x_j e`` over ``||x_j||`` is beyond
``S = ||y|| + sum_j ||x_j|| |theta_j|``, so that one K with ``2^K >= 4 S`` does for all residuals, and ``2^K/scale_j``
for column j, whose length is below 1/scale_j.

Of a residual ``(d + 2)^2 u h`` is lost at most: d + 1 parts of at most 5/8 h, rounded, are added. Of the sum over N
people of one lane at most ``2 N^2 u h/scale_j``, for N >= 64 and d <= 7: what is left behind, with the low parts of
residuals times x, adds up to ``5/8 (N + (d + 2) sqrt(N)) h/scale_j``, and each addition loses u of that.

Whoever reads the rows for something else can sum them on the way (``add_moments``), while they lie in a cache: reading
them takes longer than the sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from perinstance.folds.shared_turns import Cuts, SharedCall, SharingSweep, WholeTable
from perinstance.models.linear.loops.few_columns import FEWEST_COLUMNS, MOST_COLUMNS
from perinstance.models.linear.loops.fewest_columns import LANES
from perinstance.models.linear.loops.grid_kernels import (
    FOUR,
    PEOPLE,
    TOGETHER,
    add_turns,
    led_moment_turns,
    moment_turns,
)
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import HALF_UNIT, UNIT

#: rows of a turn of a pass for these sums alone
ROWS = 32 * TOGETHER


class Grid(NamedTuple):
    """What sums begin with, ``1.5 2^K``, and what rows are multiplied by; up to four columns are filled up to four."""

    weights: Floats  #: -theta
    start: Floats  #: of each column's sum, and of a residual
    columns: int  #: d; 0: nothing is summed

    @classmethod
    def of(cls, theta: Floats, scale: Floats, size: float) -> Grid:
        """Return the grid of rows whose columns are shorter than ``1/scale``; ``size`` is S, rather more than less."""
        d, power = len(theta), np.ldexp(1.0, int(np.frexp(4.0 * size)[1]))
        weights, start = np.zeros(max(d, FOUR)), np.full(max(d, FOUR) + 1, 1.5 * power)
        weights[:d], start[:d] = -theta, 1.5 * power / scale
        return cls(weights, start, d)

    @classmethod
    def nothing(cls) -> Grid:
        """Return what nothing is summed on."""
        return cls(np.empty(0), np.empty(0), 0)


class GridSums(NamedTuple):
    """``X'(y - X theta)`` as pairs of floats, and how far each entry can be off, times the column's scale."""

    high: Floats
    low: Floats
    lost: float


def fits_grids(d: int, intercept: bool) -> bool:
    """Whether the loops here are for such rows."""
    return FEWEST_COLUMNS <= d <= MOST_COLUMNS and not intercept


def moments_on_grids(sweep: SharingSweep, table: WholeTable, grid: Grid) -> GridSums:
    """Return the sums over all rows, by a pass of their own."""
    cuts = table.turns_of(ROWS)
    sums = np.zeros((len(cuts) - 1, 2, grid.columns))
    rows = table.X.reshape(-1), table.y
    for lap in table.laps(cuts, sweep.threads):
        call = SharedCall(moment_turns, led_moment_turns, (rows, grid, sums[lap.start : lap.stop - 1]))
        sweep.share(call, cuts[lap], "fold", last=lap.stop == len(cuts))  # it mostly is enough
    return sums_of_turns(grid, sums, cuts)


def sums_of_turns(grid: Grid, sums: Floats, cuts: Cuts) -> GridSums:
    """Add what ``add_moments`` wrote for each turn, (turns, 2, d), and say what was lost.

    A turn may go through it in several calls, each but the last of a multiple of ``TOGETHER`` rows.
    """
    d = grid.columns
    high, low = np.zeros(d), np.zeros(d)
    add_turns(sums, high, low)
    runs = len(cuts) * (2 + int(np.diff(cuts).max()) // TOGETHER)
    step = HALF_UNIT * UNIT * float(grid.start[-1] / 1.5)  # u h
    rows = float(np.sqrt(cuts[-1])) * (d + 2) ** 2
    lanes = 2 * PEOPLE**2 * LANES + 2 * PEOPLE * LANES**2 + 2  # of a run: each lane, their sum, and it is added
    return GridSums(high, low, 1.02 * step * (rows + lanes * runs))
