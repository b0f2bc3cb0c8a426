"""Many posterior samples at one delta: most by ``epsilon_polynomials.py``, the others by a start and one step.

For a fixed delta the threshold u of P over Q is a tame function of ``y = s rho + mu`` and of ``mu/y``. A table of it
(``tables_per_delta.py``) is good to about 1e-3; from there one step of the inverse Taylor series of ``log delta``, to
its third term, leaves an error of fourth order. With ``g = s c``, ``T = B/phi``, ``W = 1 + E``, ``V = u + a E`` and
``T' = g T - W``:

``delta' = -g T``, ``delta'' = -(mu T + g T')``, ``delta''' = -2 mu T' - g (mu T + g T' + V)``, all over phi(u).

People for whom the third term is not tiny are solved one by one, with a bracket (``one_epsilon.py``). The loops that do
arithmetic are kept apart from those that look up or sort, because only the former become SIMD code.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.inline_exp_log import bits_of, fast_exp, fast_log1p
from perinstance.numerics.normal_tails import mills_at
from perinstance.numerics.numba_compile import kernel, piece
from perinstance.numerics.rounding import SOLVER_ABSOLUTE, SOLVER_RELATIVE, THIRD_TERM
from perinstance.pairs.closed_form.epsilon_polynomials import BLOCK, PolynomialPlaces, read_block
from perinstance.pairs.closed_form.one_epsilon import solve_without

#: Columns of the table (cells of mu/y); the top bits of y pick a row: 16 rows an octave.
COLUMNS, ROW_BITS = 32, 48
#: people of whom mostly nobody has to wait
GROUP = 32


class DeltaTables(NamedTuple):
    """What is known of one delta: where to start (flat, row by row), and the polynomials of most people."""

    delta: Any
    log_goal: Any  #: ``log(delta sqrt(2 pi))``
    table: Any
    first_row: Any
    polynomials: Any
    first_cell: Any


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
def _epsilon(mu, drift, q, u):
    """``s u rho + mu (u^2 + q^2)/2 - log1p(mu)/2`` with ``drift = s rho``, raised by the solver's error."""
    epsilon = u * drift + 0.5 * (mu * (u * u + q * q) - fast_log1p(mu))
    return max(0.0, epsilon + (SOLVER_RELATIVE * abs(epsilon) + SOLVER_ABSOLUTE * min(1.0, drift + mu)))


@piece
def _far(mu, rho, s, u, log_goal):
    """One step for a person with ``E = exp(-2 c rho/mu)`` below the last digit: only one tail counts."""
    t = math.sqrt(1.0 + mu)
    both = 1.0 / (t * (1.0 + t))
    over_t, over_1t = both * (1.0 + t), both * t
    q = rho * over_t
    c = rho + s * u
    h = s * (c + q) * over_1t
    x1, x2 = u + 6.0, u + h + 6.0
    both = 1.0 / (x1 * x2)
    R, R_next = mills_at(both * x2), mills_at(both * x1)
    T = R_next * over_t
    X = _drop(R, R_next, u, h) + T * (mu * over_1t)
    step, third = _inverse_series(X, T, 1.0, u, u, s * c, mu, log_goal)
    return u + step, third, q


@piece
def _near(mu, rho, s, u, log_goal):
    """One step for a person both of whose tails count."""
    t = math.sqrt(1.0 + mu)
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
    return u + step, third, q


@kernel
def _far_loop(mu, rho, s, u, epsilon, log_goal):
    """Write epsilon, and the size of the third term in the place of s."""
    for i in range(mu.size):
        new, third, q = _far(mu[i], rho[i], s[i], u[i], log_goal)
        epsilon[i] = _epsilon(mu[i], s[i] * rho[i], q, new)
        s[i] = third


@kernel
def _near_loop(mu, rho, s, u, epsilon, log_goal):
    """Write epsilon, and the size of the third term in the place of s."""
    for i in range(mu.size):
        new, third, q = _near(mu[i], rho[i], s[i], u[i], log_goal)
        epsilon[i] = _epsilon(mu[i], s[i] * rho[i], q, new)
        s[i] = third


@kernel
def improve(mu, rho, u, log_goal):
    """One step for one person. Returns the new threshold and the size of the third term."""
    new, third, _ = _near(mu, rho, math.sqrt(mu), u, log_goal)
    return new, third


@kernel
def _again(mu, rho, u, delta, log_goal):
    """Repeat the step for a person whom the table served badly; give up on it when it does not settle."""
    for _ in range(6):
        u, third = improve(mu, rho, u, log_goal)
        if not -1.5 < u < 40.0:
            break
        if third < THIRD_TERM:
            return _epsilon(mu, math.sqrt(mu) * rho, rho / math.sqrt(1.0 + mu), u)
    return solve_without(mu, rho, delta)


@kernel
def step_loop(mu, rho, u, third, log_goal):
    """One step for everybody, in place."""
    for i in range(mu.size):
        u[i], third[i], _ = _near(mu[i], rho[i], math.sqrt(mu[i]), u[i], log_goal)


@piece
def _start(table, row, across, place):
    """Return the threshold in a row of the table, between this row and the next, between two columns."""
    width, one = np.uint64(COLUMNS + 1), np.uint64(1)
    column = min(np.uint64(place), np.uint64(COLUMNS - 1))
    along = place - np.int64(column)
    cell = row * width + column
    below = cell + width
    low = table[cell] + along * (table[cell + one] - table[cell])
    high = table[below] + along * (table[below + one] - table[below])
    return low + across * (high - low)


@kernel
def starts(y, share, table, first_row, out):
    """Fill ``out`` with thresholds to start from, for y within the table."""
    for i in range(y.size):
        bits = bits_of(y[i])
        across = (bits & ((1 << ROW_BITS) - 1)) * (1.0 / (1 << ROW_BITS))
        out[i] = _start(table, np.uint64((bits >> ROW_BITS) - first_row), across, COLUMNS * share[i])


class Others(NamedTuple):
    """Room for people whom no polynomial answers for, in the order of their places."""

    place: Any
    mu: Any
    rho: Any
    s: Any
    y: Any
    along: Any  #: ``mu/y`` in columns of the table


class Sorted(NamedTuple):
    """Room for the same people, those with one tail from below, the others from above."""

    who: Any
    mu: Any
    rho: Any
    s: Any
    u: Any
    epsilon: Any


@piece
def _any_missing(epsilon):
    """Tell whether somebody has none: without a branch."""
    missing = False
    for i in range(len(epsilon)):
        missing |= epsilon[i] != epsilon[i]
    return missing


@kernel
def solve_many(mu, rho, tables, out):
    """Fill ``out`` with the epsilon, P over Q, of everybody at one delta.

    Those without a polynomial wait until they are many: loops over a few people are slow.
    """
    cells = PolynomialPlaces(np.empty(BLOCK, dtype=np.int64), np.empty(BLOCK), np.empty(BLOCK))
    place, who = np.empty(2 * BLOCK + 1, dtype=np.int64), np.empty(BLOCK, dtype=np.int64)
    others = Others(place, np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK))
    room = Sorted(who, np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK))
    waiting = 0
    for start in range(0, mu.size, BLOCK):
        stop = min(start + BLOCK, mu.size)
        known = read_block(
            mu[start:stop], rho[start:stop], tables.polynomials, tables.first_cell, cells, out[start:stop]
        )
        for first in range(start, stop, GROUP):
            last = min(first + GROUP, stop)
            if not known or _any_missing(out[first:last]):
                for i in range(first, last):
                    place[waiting] = i
                    waiting += 1 if not known or out[i] != out[i] else 0
        if waiting >= BLOCK:
            _solve_others(BLOCK, mu, rho, others, room, tables, out)
            waiting -= BLOCK
            place[:waiting] = place[BLOCK : BLOCK + waiting]
    if waiting > 0:
        _solve_others(waiting, mu, rho, others, room, tables, out)


@kernel
def _address_loop(mu, rho, s, y, along):
    """Where in the table everybody is: a loop of its own, because roots and quotients are SIMD code here."""
    for i in range(len(mu)):
        s[i] = math.sqrt(mu[i])
        y[i] = s[i] * rho[i] + mu[i]
        along[i] = COLUMNS * (mu[i] / y[i])


@kernel
def _solve_others(n, all_mu, all_rho, others, room, tables, out):
    """Fill ``out`` at the places of n people: by a start and one step, or person by person."""
    delta, log_goal, table, first_row, _, _ = tables
    (place, mu, rho, s, y, along), (who, m1, r1, s1, u1, e1) = others, room
    for k in range(n):
        mu[k], rho[k] = all_mu[place[k]], all_rho[place[k]]
    _address_loop(mu[:n], rho[:n], s, y, along)
    n_rows = np.uint64(table.size // (COLUMNS + 1) - 1)
    top_bits, mask, unit = np.uint64(ROW_BITS), np.uint64((1 << ROW_BITS) - 1), 1.0 / (1 << ROW_BITS)
    one = np.uint64(1)
    far, near = np.uint64(0), np.uint64(BLOCK)  # people with one tail fill the scratch from below
    for k in range(n):
        bits = np.uint64(bits_of(y[k]))
        row = (bits >> top_bits) - np.uint64(first_row)  # below the first row it wraps around to a huge number
        if row >= n_rows:
            # the total variation distance is at most y/2
            out[place[k]] = 0.0 if y[k] < 2.0 * delta else solve_without(mu[k], rho[k], delta)
            continue
        u = _start(table, row, np.int64(bits & mask) * unit, along[k])
        if 2.0 * rho[k] * (rho[k] + u * s[k]) > 36.0 * mu[k]:
            at = far
            far += one
        else:
            near -= one
            at = near
        who[at] = place[k]
        m1[at] = mu[k]
        r1[at] = rho[k]
        s1[at] = s[k]
        u1[at] = u
    a, b = np.int64(far), np.int64(near)
    _far_loop(m1[:a], r1[:a], s1[:a], u1[:a], e1[:a], log_goal)
    _near_loop(m1[b:], r1[b:], s1[b:], u1[b:], e1[b:], log_goal)
    for j in range(a):
        out[who[j]] = e1[j] if s1[j] < THIRD_TERM else _again(m1[j], r1[j], u1[j], delta, log_goal)
    for j in range(b, BLOCK):
        out[who[j]] = e1[j] if s1[j] < THIRD_TERM else _again(m1[j], r1[j], u1[j], delta, log_goal)
