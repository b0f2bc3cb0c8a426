"""What is prepared once for a delta, so that a person costs little: where to start, and epsilon of a shift itself."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.inline_exp_log import bits_of
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import (
    BRACKET_ROOM,
    LEAST_SHARE,
    SHIFT_TABLE_ABSOLUTE,
    SHIFT_TABLE_RELATIVE,
    SOLVER_ABSOLUTE,
    SOLVER_RELATIVE,
    SURFACE_ERROR,
    THIRD_TERM_OF_NODE,
    THIRD_TERM_OF_START,
)
from perinstance.pairs.closed_form.epsilon_polynomials import BITS, FROM, LAST, ODD, POWERS, SIZE, near_inverse_root
from perinstance.pairs.closed_form.epsilon_polynomials import COLUMNS as SURFACE_COLUMNS
from perinstance.pairs.closed_form.many_posteriors import COLUMNS, ROW_BITS, improve, starts, step_loop
from perinstance.pairs.closed_form.one_epsilon import SHIFT, WITHOUT, threshold
from perinstance.pairs.closed_form.shift_polynomials import CELL_BITS, POINTS

#: Tables start here or where epsilon begins to be positive; what lies outside is solved person by person.
LOWEST, HIGHEST_DRIFT, HIGHEST_SHIFT = 2.0**-40, 2.0**31, 2.0**14
#: The polynomials are for the drift that most people have: from 8 delta, or this, to one (mu up to 1/4).
LOWEST_SURFACE, LEAST_SURFACE, HIGHEST_SURFACE = 8.0, 2.0**-17, 1.0


@dataclass(frozen=True, slots=True)
class StartTable:
    """The threshold u of a posterior sample at one delta, over rows of y and columns of mu/y."""

    thresholds: Floats
    first_row: int
    log_goal: float  #: ``log(delta sqrt(2 pi))``


@dataclass(frozen=True, slots=True)
class Surface:
    """Epsilon of a posterior sample at one delta, raised, as a polynomial of two places in each cell."""

    polynomials: Floats  #: cell by cell, row by row; NaN in cells that failed the check, and in one behind the last
    first_row: int


@dataclass(frozen=True, slots=True)
class ShiftTable:
    """``epsilon/D`` of a shift at one delta as a polynomial of D in each cell."""

    polynomials: Floats  #: cell by cell; NaN in cells that failed the check
    first_cell: int


def _edges(low: float, high: float, bits: int) -> tuple[Floats, int]:
    """Return the floats between low and high whose last bits are zero, and the index of the first."""
    first, last = (int(np.float64(x).view(np.int64) >> bits) for x in (low, high))
    return (np.arange(first, last + 1, dtype=np.int64) << bits).view(np.float64), first


@kernel
def _fill_thresholds(y, delta, log_goal, out):
    """Walk down from large y, each row starting from the one above."""
    top = math.sqrt(-2.0 * math.log(delta)) + BRACKET_ROOM
    for j in range(out.shape[1]):
        share = max(j / (out.shape[1] - 1.0), LEAST_SHARE)
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
            if not (step < 1e-5 and third < THIRD_TERM_OF_START and -1.5 < u < top):
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
def _settle(mu, rho, delta, log_goal, u):
    """Go on from these thresholds until they are right to the last digits: one step does, or two."""
    top = math.sqrt(-2.0 * math.log(delta)) + BRACKET_ROOM
    third = np.empty(mu.size)
    step_loop(mu, rho, u, third, log_goal)
    for i in range(mu.size):
        if not third[i] < THIRD_TERM_OF_NODE:
            u[i], third[i] = improve(mu[i], rho[i], u[i], log_goal)
        if not (third[i] < THIRD_TERM_OF_NODE and -1.5 < u[i] < top):
            u[i] = threshold(WITHOUT, -1.5, top, mu[i], rho[i], delta, math.nan)


@kernel
def _leverages(w, strip, out):
    for i in range(w.size):
        out[i] = strip[i] / near_inverse_root(bits_of(w[i]))


def _epsilons(w: Floats, strip: Floats, delta: float) -> tuple[Floats, Floats]:
    """Return epsilon, and y, at every w (rows, places in a row) and strip (columns, places in a column)."""
    w, strip = np.broadcast_arrays(w[:, None, :, None], strip[None, :, None, :])
    shape, w, strip = w.shape, w.ravel(), strip.ravel()
    table, mu, u = start_table(delta), np.empty(w.size), np.empty(w.size)
    _leverages(w, strip, mu)
    drift = np.sqrt(w)
    y = drift + mu
    starts(y, mu / y, table.thresholds.ravel(), table.first_row, u)
    _settle(mu, drift / np.sqrt(mu), delta, table.log_goal, u)
    epsilon = u * drift + 0.5 * (mu * u * u + w / (1.0 + mu) - np.log1p(mu))
    return epsilon.reshape(shape), y.reshape(shape)


def _spots(points: int) -> tuple[Floats, Floats]:
    """Return Chebyshev points of [-1, 1], and where between them their interpolation is worst: ends and middle."""
    return np.cos((np.arange(points) + 0.5) * np.pi / points), np.array([-1.0 + 1e-6, 0.0, 1.0])


@functools.lru_cache(maxsize=16)
def surface(delta: float) -> Surface:
    """Make the polynomials of a delta in (0, 1/2], and check each cell at nine places between its nodes.

    Of the Chebyshev series through the nodes those terms are left out that ``POWERS`` has no room for; the sum of their
    sizes counts as an error everywhere.
    """
    low = max(LOWEST_SURFACE * delta, LEAST_SURFACE)
    edges, first_row = _edges(low * low, HIGHEST_SURFACE, BITS)
    if len(edges) < 2:
        return Surface(np.full(SIZE, np.nan), 0)
    strips = _strips()
    left, width, start, breadth = edges[:-1, None], np.diff(edges)[:, None], strips[:-1, None], np.diff(strips)[:, None]

    def places(t: Floats, x: Floats) -> tuple[Floats, Floats]:
        return left + 0.5 * (t + 1.0) * width, start + 0.5 * (x + 1.0) * breadth

    rows, columns = max(POWERS), len(POWERS)
    (t, t_between), (x, x_between) = _spots(rows), _spots(columns)
    nodes, _ = _epsilons(*places(t, x), delta)
    series = np.linalg.inv(_chebyshev(t, rows)) @ nodes @ np.linalg.inv(_chebyshev(x, columns)).T
    kept = np.arange(rows)[:, None] < np.array(POWERS)
    epsilon, y = _epsilons(*places(t_between, x_between), delta)
    got = _chebyshev(t_between, rows) @ series @ _chebyshev(x_between, columns).T
    error = np.abs(got - epsilon) + np.abs(np.where(kept, 0.0, series)).sum(axis=(2, 3), keepdims=True)
    powers = (1.0 + SOLVER_RELATIVE) * (_in_powers(rows) @ np.where(kept, series, 0.0) @ _in_powers(columns).T)
    powers[:, :, 0, 0] += SOLVER_ABSOLUTE * y.max(axis=(2, 3))
    powers[~(error <= SURFACE_ERROR * epsilon).all(axis=(2, 3))] = np.nan
    # two powers of x side by side, and of those one power of t after the other; then even powers of t before odd ones
    parts = [powers[:, :, : POWERS[j], j : j + 2].reshape(*powers.shape[:2], -1, 2) for j in range(0, columns, 2)]
    pairs = np.concatenate(parts, axis=2)
    in_order = np.r_[np.arange(0, ODD, 2), np.arange(1, ODD, 2), LAST // 2]
    cells = pairs[:, :, in_order].reshape(-1)
    return Surface(np.append(cells, np.full(SIZE, np.nan)), first_row)


def _strips() -> Floats:
    """Return the edges of the columns: ``mu g``."""
    first = int(np.float64(FROM).view(np.int64) >> BITS)
    return (np.arange(first, first + SURFACE_COLUMNS + 1, dtype=np.int64) << BITS).view(np.float64) - FROM


def _chebyshev(places: Floats, count: int) -> Floats:
    """Return the values of the first Chebyshev polynomials (columns) at some places of [-1, 1]."""
    return np.cos(np.arange(count) * np.arccos(places)[:, None])


def _in_powers(count: int) -> Floats:
    """Return the matrix that turns coefficients of Chebyshev polynomials into those of powers."""
    nodes, _ = _spots(count)
    return np.asarray(np.linalg.solve(np.vander(nodes, increasing=True), _chebyshev(nodes, count)), dtype=np.float64)


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
    edges, first = _edges(max(2.5 * delta, LOWEST), HIGHEST_SHIFT, CELL_BITS)
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
