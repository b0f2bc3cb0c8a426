"""Epsilon of many shifts or posterior samples at one delta: a start from a table, and one step of third order.

For a fixed delta the threshold u of P over Q is a tame function of ``y = s rho + mu`` and of ``mu/y``. A table of it is
good to about 1e-3; from there one step of the inverse Taylor series of ``log delta``, to its third term, leaves an
error of fourth order. With ``g = s c``, ``T = B/phi``, ``W = 1 + E``, ``V = u + a E`` (``profile.py``) and
``T' = g T - W``:

``delta' = -g T``, ``delta'' = -(mu T + g T')``, ``delta''' = -2 mu T' - g (mu T + g T' + V)``, all over phi(u).

A shift by D is the limit ``mu = 0``, ``s rho = D``, where E vanishes. People outside the table, and those for whom the
third term is not tiny, are solved one by one (``one_epsilon.py``). The loops that do arithmetic are kept apart from
those that look up, because only the former become SIMD code.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.inline_exp_log import bits_of, fast_exp, fast_log1p
from perinstance.numerics.normal_tails import mills_at
from perinstance.numerics.numba_compile import kernel, piece
from perinstance.numerics.rounding import (
    BRACKET_ROOM,
    LEAST_SHARE,
    THIRD_TERM,
    THIRD_TERM_OF_START,
)
from perinstance.pairs.closed_form.one_epsilon import (
    WITHOUT,
    doubted_shift,
    doubted_with,
    doubted_without,
    rounded_up,
    solve_shift,
    solve_without,
    threshold,
)

Bools = NDArray[np.bool_]

#: Columns of the table (cells of ``mu/y``); the top bits of y pick a row: 16 rows an octave.
COLUMNS, ROW_BITS = 32, 48
#: The table starts here, or where epsilon begins to be positive; what lies outside is solved person by person.
LOWEST, HIGHEST = 2.0**-40, 2.0**31
#: people at a time: all scratch stays in the first-level cache
BLOCK = 512


class DeltaTable(NamedTuple):
    """The threshold u of posterior samples at one delta, over rows of ``y = s rho + mu`` and columns of ``mu/y``."""

    delta: Any
    log_goal: Any  #: ``log(delta sqrt(2 pi))``
    thresholds: Any
    first_row: Any


def posterior_epsilon(mu: Floats, rho: Floats, delta: float, out: Floats) -> Bools | None:
    """Fill ``out`` with the epsilon of every posterior sample (P over Q, the larger direction).

    All arrays are contiguous. Where delta is large some answers are in doubt, which is returned: safe, but raised by
    more than they should be, because terms cancel that are not known to more digits.
    """
    if not 0.0 < delta <= 0.5:
        return posterior_epsilons(mu, rho, np.full(len(out), delta), False, out)
    solve_posteriors(mu, rho, start_table(delta), out)
    return None


def shift_epsilon(distance: Floats, delta: float, out: Floats) -> Bools | None:
    """Fill ``out`` with the epsilon of every shift; return the doubt."""
    if not 0.0 < delta <= 0.5:
        return shift_epsilons(distance, np.full(len(out), delta), out)
    solve_shifts(distance, start_table(delta), out)
    return None


def shift_epsilons(D: Floats, delta: Floats, out: Floats) -> Bools:
    """Fill ``out`` with the epsilon of every shift, each at a delta of its own; return the doubt."""
    doubt = np.empty(len(out), dtype=np.bool_)
    _shifts(D, delta, out, doubt)
    return doubt


def posterior_epsilons(mu: Floats, rho: Floats, delta: Floats, with_over_without: bool, out: Floats) -> Bools:
    """Fill ``out`` with the epsilon of every posterior sample in one direction, each at its own delta."""
    doubt = np.empty(len(out), dtype=np.bool_)
    _posteriors(mu, rho, delta, with_over_without, out, doubt)
    return doubt


@kernel
def _shifts(D, delta, out, doubt):
    for i in range(D.size):
        out[i], doubt[i] = doubted_shift(D[i], delta[i])


@kernel
def _posteriors(mu, rho, delta, with_over_without, out, doubt):
    for i in range(mu.size):
        if with_over_without:
            out[i], doubt[i] = doubted_with(mu[i], rho[i], delta[i])
        else:
            out[i], doubt[i] = doubted_without(mu[i], rho[i], delta[i])


@piece
def _drop(R, R_next, x, h):
    """``R(x) - R(x + h)``: Taylor to fifth order for small h, else the difference."""
    c1 = x * R - 1.0
    c2 = 0.5 * (x * c1 + R)
    c3 = (x * c2 + c1) * (1.0 / 3.0)
    c4 = 0.25 * (x * c3 + c2)
    c5 = 0.2 * (x * c4 + c3)
    series = -h * (c1 + h * (c2 + h * (c3 + h * (c4 + h * c5))))
    return series if h < 0.01 else R - R_next


@piece
def _inverse_series(X, T, W, V, u, g, mu, log_goal):
    """Return the step from ``delta = phi(u) X`` to the goal, and the size of its last term."""
    x = X * fast_exp(-0.5 * u * u - log_goal) - 1.0
    F = x * (1.0 - x * (0.5 - x * (1.0 / 3.0 - x * (0.25 - x * (0.2 - x * (1.0 / 6.0 - x * (1.0 / 7.0)))))))
    gT = g * T
    inverse = 1.0 / (X * gT)
    over_X = inverse * gT
    over_F1 = -inverse * X * X
    T1 = gT - W
    bend = mu * T + g * T1
    q1 = -gT * over_X
    q2 = -bend * over_X
    q3 = -(2.0 * mu * T1 + g * (bend + V)) * over_X
    a = (q2 - q1 * q1) * over_F1
    b = (q3 - q1 * (3.0 * q2 - 2.0 * q1 * q1)) * over_F1
    r = -F * over_F1
    third = r * r * r * (0.5 * a * a - b * (1.0 / 6.0))
    # a ratio so far from one that the logarithm's series is not good enough counts as a failed step
    size = abs(third) if abs(x) < 0.03 else math.inf
    return r - 0.5 * a * r * r + third, size


@piece
def _posterior_step(mu, rho, u, log_goal):
    """Return the next threshold of a posterior sample, and the size of the third term."""
    s, t = math.sqrt(mu), math.sqrt(1.0 + mu)
    both = 1.0 / (t * (1.0 + t) * s)
    over_t, over_1t, r = both * (1.0 + t) * s, both * t * s, both * t * (1.0 + t) * rho
    q = rho * over_t
    c = rho + s * u
    a = u + 2.0 * r
    h1 = s * (c + q) * over_1t
    h2 = max(0.0, s * (c - q) * over_1t)
    E = fast_exp(max(-600.0, -2.0 * r * (r + u)))
    x1, x2, x3, x4 = u + 6.0, u + h1 + 6.0, a + 6.0, a + h2 + 6.0
    x12, x34 = x1 * x2, x3 * x4
    both = 1.0 / (x12 * x34)
    i12, i34 = both * x34, both * x12
    R, R_next = mills_at(i12 * x2), mills_at(i12 * x1)
    S, S_next = mills_at(i34 * x4), mills_at(i34 * x3)
    T = (R_next + E * S_next) * over_t
    X = _drop(R, R_next, u, h1) + E * _drop(S, S_next, a, h2) + T * (mu * over_1t)
    step, third = _inverse_series(X, T, 1.0 + E, u + E * a, u, s * c, mu, log_goal)
    return u + step, third


@piece
def _shift_step(D, u, log_goal):
    """Return the next threshold of a shift, and the size of the third term."""
    x1, x2 = u + 6.0, u + D + 6.0
    both = 1.0 / (x1 * x2)
    R, T = mills_at(both * x2), mills_at(both * x1)
    step, third = _inverse_series(_drop(R, T, u, D), T, 1.0, u, u, D, 0.0, log_goal)
    return u + step, third


@piece
def _posterior_at(mu, rho, u):
    """``s u rho + mu (u^2 + q^2)/2 - log1p(mu)/2``, raised by the solver's error."""
    drift = math.sqrt(mu) * rho
    q2 = rho * rho / (1.0 + mu)
    return rounded_up(u * drift + 0.5 * (mu * (u * u + q2) - fast_log1p(mu)), drift + mu)


@piece
def _shift_at(D, u):
    """``D (u + D/2)``, raised by the solver's error."""
    return rounded_up(D * (u + 0.5 * D), D)


@kernel
def _posterior_starts(mu, rho, table, out):
    """Fill in thresholds to start from, bilinear in the top bits of y and in ``mu/y``; NaN outside the table."""
    rows = np.uint64(len(table.thresholds) - 1)
    one, top_bits, mask = np.uint64(1), np.uint64(ROW_BITS), np.uint64((1 << ROW_BITS) - 1)
    for i in range(len(out)):
        y = math.sqrt(mu[i]) * rho[i] + mu[i]
        bits = np.uint64(bits_of(y))
        row = (bits >> top_bits) - np.uint64(table.first_row)  # below the first row it wraps around to a huge number
        out[i] = math.nan
        if row < rows:
            place = COLUMNS * (mu[i] / y)
            column = np.uint64(min(np.int64(place), COLUMNS - 1))
            along, across = place - column, (bits & mask) * (1.0 / (1 << ROW_BITS))
            here, next_ = table.thresholds[row], table.thresholds[row + one]
            low = here[column] + along * (here[column + one] - here[column])
            high = next_[column] + along * (next_[column + one] - next_[column])
            out[i] = low + across * (high - low)


@kernel
def _shift_starts(D, table, out):
    """Fill in thresholds to start from, from the first column of the table; NaN outside."""
    rows = np.uint64(len(table.thresholds) - 1)
    one, top_bits, mask = np.uint64(1), np.uint64(ROW_BITS), np.uint64((1 << ROW_BITS) - 1)
    for i in range(len(out)):
        bits = np.uint64(bits_of(D[i]))
        row = (bits >> top_bits) - np.uint64(table.first_row)
        out[i] = math.nan
        if row < rows:
            low, high = table.thresholds[row, 0], table.thresholds[row + one, 0]
            out[i] = low + (bits & mask) * (1.0 / (1 << ROW_BITS)) * (high - low)


@kernel
def solve_posteriors(mu, rho, table, out):
    """Fill ``out`` with the epsilon, P over Q, of every posterior sample at the delta of a table."""
    u, third = np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, mu.size, BLOCK):
        n = min(BLOCK, mu.size - start)
        m, r, epsilon = mu[start : start + n], rho[start : start + n], out[start : start + n]
        _posterior_starts(m, r, table, u[:n])
        for i in range(n):
            u[i], third[i] = _posterior_step(m[i], r[i], u[i], table.log_goal)
            epsilon[i] = _posterior_at(m[i], r[i], u[i])
        for i in range(n):
            if not third[i] < THIRD_TERM:  # the total variation distance is at most y/2
                nothing = math.sqrt(m[i]) * r[i] + m[i] < 2.0 * table.delta
                epsilon[i] = 0.0 if nothing else solve_without(m[i], r[i], table.delta)


@kernel
def solve_shifts(D, table, out):
    """Fill ``out`` with the epsilon of every shift at the delta of a table."""
    u, third = np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, D.size, BLOCK):
        n = min(BLOCK, D.size - start)
        distance, epsilon = D[start : start + n], out[start : start + n]
        _shift_starts(distance, table, u[:n])
        for i in range(n):
            u[i], third[i] = _shift_step(distance[i], u[i], table.log_goal)
            epsilon[i] = _shift_at(distance[i], u[i])
        for i in range(n):
            if not third[i] < THIRD_TERM:  # the total variation distance is at most D phi(0)
                epsilon[i] = 0.0 if distance[i] < 2.5 * table.delta else solve_shift(distance[i], table.delta)


@kernel
def _improve(mu, rho, u, log_goal):
    """``_posterior_step`` where it need not be copied into a loop."""
    return _posterior_step(mu, rho, u, log_goal)


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
                new, third = _improve(mu, rho, u, log_goal)
                step = abs(new - u)
                u = new
                if step < 1e-5 or not step < 1.0:
                    break
            if not (step < 1e-5 and third < THIRD_TERM_OF_START and -1.5 < u < top):
                u = threshold(WITHOUT, -1.5, top, mu, rho, delta, math.nan)
            out[i, j] = u


@functools.lru_cache(maxsize=16)
def start_table(delta: float) -> DeltaTable:
    """Make the table of a delta in (0, 1/2]."""
    first, last = (int(np.float64(y).view(np.int64) >> ROW_BITS) for y in (max(2.0 * delta, LOWEST), HIGHEST))
    y = (np.arange(first, last + 1, dtype=np.int64) << ROW_BITS).view(np.float64)
    thresholds = np.empty((len(y), COLUMNS + 1))
    log_goal = math.log(delta) + 0.5 * math.log(2.0 * math.pi)
    _fill_thresholds(y, delta, log_goal, thresholds)
    return DeltaTable(delta, log_goal, thresholds, first)
