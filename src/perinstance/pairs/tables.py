"""What is prepared once for a delta, so that a person costs little: where to start, and epsilon of a shift itself."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from perinstance.errors import NumericalTrouble
from perinstance.pairs.base import Floats
from perinstance.pairs.batch import COLUMNS, ROW_BITS, improve
from perinstance.pairs.compiled import kernel
from perinstance.pairs.inlined import bits_of
from perinstance.pairs.solver import SHIFT, WITHOUT, rounded_up, solve_shift, threshold

#: A shift's table: Chebyshev points per cell (polynomials of one degree less), 8 cells an octave.
POINTS, CELL_BITS = 9, 49
#: Tables start here or where epsilon begins to be positive; what lies outside is solved person by person.
LOWEST, HIGHEST_DRIFT, HIGHEST_SHIFT = 2.0**-40, 2.0**31, 2.0**14


@dataclass(frozen=True, slots=True)
class StartTable:
    """The threshold u of a posterior sample at one delta, over rows of y and columns of mu/y."""

    thresholds: Floats
    first_row: int
    log_goal: float  #: ``log(delta sqrt(2 pi))``


@dataclass(frozen=True, slots=True)
class ShiftTable:
    """``epsilon/D`` of a shift at one delta as a polynomial of D in each cell."""

    polynomials: Floats
    first_cell: int


def _edges(low: float, high: float, bits: int) -> tuple[Floats, int]:
    """Return the floats between low and high whose last bits are zero, and the index of the first."""
    first, last = (int(np.float64(x).view(np.int64) >> bits) for x in (low, high))
    return (np.arange(first, last + 1, dtype=np.int64) << bits).view(np.float64), first


@kernel
def _fill_thresholds(y, delta, log_goal, out):
    """Walk down from large y, each row starting from the one above."""
    top = math.sqrt(-2.0 * math.log(delta)) + 1e-9
    for j in range(out.shape[1]):
        share = max(j / (out.shape[1] - 1.0), 1e-9)  # no leverage at all would leave no residual to speak of
        u = top
        for i in range(y.size - 1, -1, -1):
            mu = share * y[i]
            rho = (y[i] - mu) / math.sqrt(mu)
            for _ in range(4):
                new, third = improve(mu, rho, u, log_goal)
                step = abs(new - u)
                u = new
                if step < 1e-5 or not step < 1.0:
                    break
            if not (step < 1e-5 and third < 1e-10 and -1.5 < u < top):
                u = threshold(WITHOUT, -1.5, top, mu, rho, delta, math.nan)
            out[i, j] = u


@functools.lru_cache(maxsize=16)
def start_table(delta: float) -> StartTable:
    """Make the table of a delta in (0, 1/2]."""
    y, first = _edges(max(2.0 * delta, LOWEST), HIGHEST_DRIFT, ROW_BITS)
    thresholds = np.empty((len(y), COLUMNS + 1))
    log_goal = math.log(delta) + 0.5 * math.log(2.0 * math.pi)
    _fill_thresholds(y, delta, log_goal, thresholds)
    return StartTable(thresholds, first, log_goal)


@kernel
def _fill_shifts(D, delta, out):
    """``epsilon/D``, each threshold starting from the one before."""
    top = math.sqrt(-2.0 * math.log(delta)) + 1e-9
    u = math.nan
    for i in range(D.shape[0]):
        for j in range(D.shape[1]):
            u = threshold(SHIFT, -1.5, top, 0.0, D[i, j], delta, u)
            out[i, j] = u + 0.5 * D[i, j]


@kernel
def _evaluate(polynomial, t):
    value = polynomial[POINTS - 1]
    for k in range(POINTS - 2, -1, -1):
        value = value * t + polynomial[k]
    return value


@kernel
def solve_shifts(D, delta, polynomials, first_cell, out):
    """Fill ``out`` with the epsilon of every shift at one delta."""
    mask, unit = (1 << CELL_BITS) - 1, 2.0 / (1 << CELL_BITS)
    for i in range(D.size):
        bits = bits_of(D[i])
        cell = (bits >> CELL_BITS) - first_cell
        if 0 <= cell < polynomials.shape[0]:
            t = (bits & mask) * unit - 1.0
            out[i] = rounded_up(D[i] * _evaluate(polynomials[cell], t), D[i])
        else:
            # the total variation distance is at most D phi(0)
            out[i] = 0.0 if D[i] < 2.5 * delta else solve_shift(D[i], delta)


@functools.lru_cache(maxsize=16)
def shift_table(delta: float) -> ShiftTable:
    """Make the table of a delta in (0, 1/2], and prove it between its points."""
    edges, first = _edges(max(2.5 * delta, LOWEST), HIGHEST_SHIFT, CELL_BITS)
    left, width = edges[:-1, None], np.diff(edges)[:, None]
    t = np.cos((np.arange(POINTS) + 0.5) * np.pi / POINTS)
    between = np.array([-1.0, 0.5 * (t[3] + t[4]), 1.0])
    spots = np.concatenate([t, between])
    values = np.empty((len(left), len(spots)))
    _fill_shifts(left + 0.5 * (spots + 1.0) * width, delta, values)
    polynomials = np.linalg.solve(np.vander(t, increasing=True), values[:, :POINTS].T).T.copy()
    error = np.abs(np.vander(between, POINTS, increasing=True) @ polynomials.T - values[:, POINTS:].T)
    if not (error <= 1e-14 + 1e-12 * np.abs(values[:, POINTS:].T)).all():
        raise NumericalTrouble("the table of a shift is not accurate enough")
    return ShiftTable(polynomials, first)
