"""Epsilon of posterior samples, P over Q, and of Gaussian shifts at delta <= 1/2: never below the truth.

The threshold u of ``profile.py`` is the unknown: ``log delta`` is nearly quadratic in it, its derivative is free, and
``delta <= 2 (1 - Phi(u))`` gives ``u <= sqrt(-2 log delta)``. One person is solved for by Newton's iteration.

Of many people at one delta u is a tame function of ``y = s rho + mu`` and of ``mu/y``. A table of it is good to about
1e-3; from there one step of the inverse Taylor series of ``log delta``, to its third term, leaves an error of fourth
order. With ``g = s c``, ``T = B/phi``, ``W = 1 + E``, ``V = u + a E`` and ``T' = g T - W``:

``delta' = -g T``, ``delta'' = -(mu T + g T')``, ``delta''' = -2 mu T' - g (mu T + g T' + V)``, all over phi(u). A shift
by D has ``delta = phi(u) [R(u) - R(u + D)]``: ``g = D``, ``mu = E = 0``.

People outside the table, and those for whom the third term is not tiny, are solved for one by one. The loops that do
arithmetic are kept apart from those that look up, because only the former become SIMD code.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.compilation import kernel, piece
from perinstance.numerics.inline_exp_log import bits_of, fast_exp, fast_log1p
from perinstance.numerics.normal_tails import MILLS_FROM, mills_at
from perinstance.numerics.rounding import (
    BRACKET_ROOM,
    LEAST_SHARE,
    SOLVER_ABSOLUTE,
    SOLVER_RELATIVE,
    THIRD_TERM,
    THRESHOLD_STEP,
    ZERO_BEYOND_DOUBT,
)
from perinstance.pairs.closed_form.profile import HUGE, as_posterior, without_at

#: Beyond this leverage the two distributions are so different in width that thresholds lose their digits: epsilon is a
#: plain upper bound there.
WIDEST_LEVERAGE = 1e12
#: From this many people on it pays to prepare a table for their common delta.
MANY = 512
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


def posterior_epsilons(mu: Floats, rho: Floats, delta: Floats) -> Floats:
    """Return epsilon, P over Q, at a delta for all (no dimension) or one per person; of more than 1/2 that of 1/2."""
    out = np.where(mu > 0.0, np.inf, 0.0)
    if delta.ndim == 0 and len(out) >= MANY and delta > 0.0:
        solve_posteriors(mu, rho, start_table(min(float(delta), 0.5)), out)
    else:
        _solve_each(mu, rho, np.minimum(np.broadcast_to(delta, out.shape), 0.5), out)
    return out


@kernel
def _threshold(low, high, mu, rho, delta):
    """Solve for the threshold at which the profile is delta, within [low, high]: bracketed Newton on the logarithm.

    The logarithm is concave, so that Newton does not overshoot from the upper end, where it lies below its goal.
    """
    goal, s, x = math.log(delta), math.sqrt(mu), high
    for _ in range(200):
        c = max(rho + s * x, rho / math.sqrt(1.0 + mu))  # the sum may cancel; epsilon >= 0 from q on
        value, B, _lost = without_at(x, c, mu, rho)
        step = (math.log(value) - goal) * value / (s * c * B) if value > 0.0 else -math.inf  # delta underflowed
        if step > 0.0:
            low = x
        else:
            high = x
        new = x + step if low < x + step < high else 0.5 * (low + high)
        moved, x = abs(new - x), new
        still = THRESHOLD_STEP * (1.0 + abs(x))
        if moved <= still or high - low <= still:
            break
    return x


@kernel
def _solve_one(mu, rho, delta):
    """Return epsilon of one person at ``0 < delta <= 1/2``; the leverage is not zero."""
    s, log1p, reach = math.sqrt(mu), math.log1p(mu), math.sqrt(-2.0 * math.log(delta))
    if mu > WIDEST_LEVERAGE or rho > HUGE:
        # the loss at ``u = reach``, where ``P(|w| > c) <= 2 (1 - Phi(u)) <= delta``, without what is taken off there
        return _rounded_up(s * reach * (0.5 * s * reach + rho) + 0.5 * rho * rho, 1.0)
    q2 = rho * rho / (1.0 + mu)
    low = (log1p - mu * q2) / (s * (math.sqrt(log1p + q2) + rho))  # of epsilon = 0
    if low < MILLS_FROM:
        low = MILLS_FROM  # there delta is above one half for everybody: 1 - delta <= 2.5 phi + Phi
    elif without_at(low, max(rho + s * low, rho / math.sqrt(1.0 + mu)), mu, rho)[0] < delta * (1.0 - ZERO_BEYOND_DOUBT):
        return 0.0
    return _epsilon_at(mu, rho, _threshold(low, reach + BRACKET_ROOM, mu, rho, delta))


@kernel
def _solve_each(mu, rho, delta, out):
    """Fill in the epsilon of everybody who has a leverage, each at a delta of their own; at zero nothing is filled."""
    for i in range(mu.size):
        if mu[i] > 0.0 and delta[i] > 0.0:
            out[i] = _solve_one(mu[i], rho[i], delta[i])


@piece
def _rounded_up(epsilon, scale):
    """Raise an epsilon by more than the solver's error; ``scale`` is the distance between the distributions."""
    raised = epsilon + SOLVER_RELATIVE * abs(epsilon) + SOLVER_ABSOLUTE * min(0.1, scale)
    return 0.0 if raised < 0.0 else raised


@piece
def _epsilon_at(mu, rho, u):
    """``s u rho + mu (u^2 + q^2)/2 - log1p(mu)/2``, raised by the solver's error."""
    drift = math.sqrt(mu) * rho
    q2 = rho * rho / (1.0 + mu)
    return _rounded_up(u * drift + 0.5 * (mu * (u * u + q2) - fast_log1p(mu)), drift + mu)


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
def _step(mu, rho, u, log_goal):
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
    X = _drop(R, R_next, u, h1) + E * _drop(S, S_next, a, h2) + T * (mu * over_1t)  # delta = phi(u) X
    x = X * fast_exp(-0.5 * u * u - log_goal) - 1.0
    g, W, V = s * c, 1.0 + E, u + E * a
    T1 = g * T - W
    bend = mu * T + g * T1
    return _third_order(u, x, X, g * T, bend, 2.0 * mu * T1 + g * (bend + V))


@piece
def _third_order(u, x, X, slope, bend, third):
    """Return ``u`` moved to where delta is ``1/(1 + x)`` of itself, and the size of the third term.

    ``delta = phi(u) X``; slope, bend and third are its derivatives, each over ``-phi(u)``.
    """
    F = x * (1.0 - x * (0.5 - x * (1.0 / 3.0 - x * (0.25 - x * (0.2 - x * (1.0 / 6.0 - x * (1.0 / 7.0)))))))
    inverse = 1.0 / (X * slope)
    over_X = inverse * slope
    over_F1 = -inverse * X * X
    q1, q2, q3 = -slope * over_X, -bend * over_X, -third * over_X
    a2 = (q2 - q1 * q1) * over_F1
    a3 = (q3 - q1 * (3.0 * q2 - 2.0 * q1 * q1)) * over_F1
    first = -F * over_F1
    last = first * first * first * (0.5 * a2 * a2 - a3 * (1.0 / 6.0))
    # a ratio so far from one that the logarithm's series is not good enough counts as a failed step
    size = abs(last) if abs(x) < 0.03 else math.inf
    return u + (first - 0.5 * a2 * first * first + last), size


@kernel
def _starts(mu, rho, table, out):
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
            column = np.uint64(int(min(place, COLUMNS - 1.0)))
            along, across = place - column, (bits & mask) * (1.0 / (1 << ROW_BITS))
            here, next_ = table.thresholds[row], table.thresholds[row + one]
            low = here[column] + along * (here[column + one] - here[column])
            high = next_[column] + along * (next_[column + one] - next_[column])
            out[i] = low + across * (high - low)


@kernel
def solve_posteriors(mu, rho, table, out):
    """Fill ``out`` with the epsilon, P over Q, of every posterior sample at the delta of a table."""
    u, third = np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, mu.size, BLOCK):
        n = min(BLOCK, mu.size - start)
        m, r, epsilon = mu[start : start + n], rho[start : start + n], out[start : start + n]
        _starts(m, r, table, u[:n])
        for i in range(n):
            u[i], third[i] = _step(m[i], r[i], u[i], table.log_goal)
            epsilon[i] = _epsilon_at(m[i], r[i], u[i])
        for i in range(n):
            if not third[i] < THIRD_TERM:  # the total variation distance is at most y/2
                nothing = m[i] == 0.0 or math.sqrt(m[i]) * r[i] + m[i] < 2.0 * table.delta
                epsilon[i] = 0.0 if nothing else _solve_one(m[i], r[i], table.delta)


@kernel
def _solve_shifts(distance, table, out):
    """Fill ``out`` with the epsilon of Gaussian shifts at the delta of a table; NaN where a step does not settle it."""
    u, third, rows = np.empty(BLOCK), np.empty(BLOCK), np.uint64(len(table.thresholds) - 1)
    one, top_bits, mask = np.uint64(1), np.uint64(ROW_BITS), np.uint64((1 << ROW_BITS) - 1)
    for start in range(0, distance.size, BLOCK):
        n = min(BLOCK, distance.size - start)
        D, epsilon = distance[start : start + n], out[start : start + n]
        for i in range(n):  # next to no leverage a posterior sample is a shift by y: the first column
            bits = np.uint64(bits_of(D[i]))
            row = (bits >> top_bits) - np.uint64(table.first_row)
            u[i] = math.nan
            if row < rows:
                low, high = table.thresholds[row][0], table.thresholds[row + one][0]
                u[i] = low + (bits & mask) * (1.0 / (1 << ROW_BITS)) * (high - low)
        for i in range(n):  # of a shift by D ``delta = phi(u) [R(u) - R(u + D)]``
            inverse = 1.0 / ((u[i] + 6.0) * (u[i] + D[i] + 6.0))
            T = mills_at(inverse * (u[i] + 6.0))
            X = _drop(mills_at(inverse * (u[i] + D[i] + 6.0)), T, u[i], D[i])
            bend, x = D[i] * (D[i] * T - 1.0), X * fast_exp(-0.5 * u[i] * u[i] - table.log_goal) - 1.0
            u[i], third[i] = _third_order(u[i], x, X, D[i] * T, bend, D[i] * (u[i] + bend))
            epsilon[i] = _rounded_up(u[i] * D[i] + 0.5 * D[i] * D[i], D[i])
        for i in range(n):
            if not third[i] < THIRD_TERM:
                epsilon[i] = math.nan


def shift_epsilons(distance: Floats, delta: Floats) -> Floats:
    """Return epsilon of Gaussian shifts, at a delta for all (no dimension) or one each; above 1/2 that of 1/2."""
    if delta.ndim or len(distance) < MANY or not delta > 0.0:
        return posterior_epsilons(*as_posterior(distance), delta)
    out = np.empty(len(distance))
    _solve_shifts(distance, start_table(min(float(delta), 0.5)), out)
    if (left := np.isnan(out)).any():
        out[left] = posterior_epsilons(*as_posterior(distance[left]), delta)
    return out


@kernel
def _fill_thresholds(y, delta, log_goal, out):
    """Fill in the threshold of each row y and each column ``mu/y``: down from large y, each from the one above."""
    top = math.sqrt(-2.0 * math.log(delta)) + BRACKET_ROOM
    for j in range(out.shape[1]):
        share = max(j / (out.shape[1] - 1.0), LEAST_SHARE)
        u = top
        for i in range(y.size - 1, -1, -1):
            mu = share * y[i]
            rho, moved, third = (y[i] - mu) / math.sqrt(mu), 1.0, 1.0
            for _ in range(4):
                before = u
                u, third = _step(mu, rho, before, log_goal)
                moved = abs(u - before)
                if moved < 1e-5 or not moved < 1.0:
                    break
            if not (moved < 1e-5 and third < THIRD_TERM and MILLS_FROM < u < top):
                u = _threshold(MILLS_FROM, top, mu, rho, delta)
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
