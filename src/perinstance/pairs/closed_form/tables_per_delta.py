"""Epsilon of shifts at one delta as polynomials, for engines that evaluate them on a device."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import BRACKET_ROOM, SHIFT_TABLE_ABSOLUTE, SHIFT_TABLE_RELATIVE
from perinstance.pairs.closed_form.one_epsilon import SHIFT, threshold

#: Chebyshev points per cell (polynomials of one degree less, which is even), 8 cells an octave.
POINTS, CELL_BITS = 9, 49
#: The table starts here, or where epsilon begins to be positive.
LOWEST, HIGHEST = 2.0**-40, 2.0**14


@dataclass(frozen=True, slots=True)
class ShiftTable:
    """``epsilon/D`` of a shift at one delta as a polynomial of D in each cell."""

    polynomials: Floats  #: cell by cell; NaN in cells that failed the check
    first_cell: int


@kernel
def _fill_shifts(D, delta, out):
    """``epsilon/D``, each threshold starting from the one before."""
    top = math.sqrt(-2.0 * math.log(delta)) + BRACKET_ROOM
    u = math.nan
    for i in range(D.shape[0]):
        for j in range(D.shape[1]):
            u = threshold(SHIFT, -1.5, top, 0.0, D[i, j], delta, u)
            out[i, j] = u + 0.5 * D[i, j]


@functools.lru_cache(maxsize=16)
def shift_table(delta: float) -> ShiftTable:
    """Make the table of a delta in (0, 1/2], and check it at three places of each cell."""
    first, last = (int(np.float64(D).view(np.int64) >> CELL_BITS) for D in (max(2.5 * delta, LOWEST), HIGHEST))
    edges = (np.arange(first, last + 1, dtype=np.int64) << CELL_BITS).view(np.float64)
    left, width = edges[:-1, None], np.diff(edges)[:, None]
    t = np.cos((np.arange(POINTS) + 0.5) * np.pi / POINTS)
    between = np.array([-1.0, 0.5 * (t[3] + t[4]), 1.0])
    spots = np.concatenate([t, between])
    values = np.empty((len(left), len(spots)))
    _fill_shifts(left + 0.5 * (spots + 1.0) * width, delta, values)
    polynomials = np.linalg.solve(np.vander(t, increasing=True), values[:, :POINTS].T).T.copy()
    error = np.abs(np.vander(between, POINTS, increasing=True) @ polynomials.T - values[:, POINTS:].T)
    good = (error <= SHIFT_TABLE_ABSOLUTE + SHIFT_TABLE_RELATIVE * np.abs(values[:, POINTS:].T)).all(axis=0)
    polynomials[~good] = np.nan  # for some deltas the first cell, where epsilon begins to be positive
    return ShiftTable(polynomials, first)
