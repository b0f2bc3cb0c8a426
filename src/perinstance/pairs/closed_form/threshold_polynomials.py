"""The threshold u of a posterior sample at one delta, as polynomials: most people need no step at all.

Where only one tail counts (``share = mu/y`` at most 1/4, with ``y = s rho + mu``) and y is well above delta, u is an
analytic function of y and the share. In each cell, a quarter of an octave of y times 1/32 of share, it is a polynomial
in both; ``tables_per_delta.py`` makes them and checks them at nine places between their nodes. A cell that fails holds
NaN, and its people are solved as those outside are.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.inline_exp_log import bits_of
from perinstance.numerics.numba_compile import kernel, piece
from perinstance.numerics.rounding import SOLVER_ABSOLUTE, SOLVER_RELATIVE
from perinstance.numerics.simd_vectors import first, load2, multiply_add1, multiply_add2, second, spread2

#: Cells: the top bits of y pick a row, four an octave; shares up to COLUMNS/SHARES.
BITS, COLUMNS, SHARES = 50, 8, 32
#: Coefficients: powers of the place in the row, times powers of the place in the column.
POWERS, SHARE_POWERS = 8, 6
SIZE = POWERS * SHARE_POWERS
BLOCK = 512  # people at a time: all scratch stays in the first-level cache


class Addresses(NamedTuple):
    """Room for one block: s, y, the share in columns, the threshold, and the places of those without a polynomial."""

    s: Any
    y: Any
    along: Any
    u: Any
    left: Any
    rest: Any  #: what epsilon is besides what hangs on the threshold
    cell: Any  #: whose polynomial a person has, and its arguments
    t: Any
    x: Any


@piece
def _half(cell, at, t2, polynomials):
    """Every second power of t, for two powers of the share."""
    value = load2(polynomials, cell + at + 6 * SHARE_POWERS)
    value = multiply_add2(value, t2, load2(polynomials, cell + at + 4 * SHARE_POWERS))
    value = multiply_add2(value, t2, load2(polynomials, cell + at + 2 * SHARE_POWERS))
    return multiply_add2(value, t2, load2(polynomials, cell + at))


@piece
def evaluate(polynomials, cell, t, x):
    """Return the polynomial whose coefficients begin at ``cell``, for t and x in [-1, 1]."""
    both, square, along = spread2(t), spread2(t * t), spread2(x * x)
    v0 = multiply_add2(_half(cell, SHARE_POWERS, square, polynomials), both, _half(cell, 0, square, polynomials))
    v2 = multiply_add2(_half(cell, SHARE_POWERS + 2, square, polynomials), both, _half(cell, 2, square, polynomials))
    v4 = multiply_add2(_half(cell, SHARE_POWERS + 4, square, polynomials), both, _half(cell, 4, square, polynomials))
    value = multiply_add2(multiply_add2(v4, along, v2), along, v0)
    return first(value) + x * second(value)


@piece
def _rest(mu, drift):
    """``(drift^2/(1 + mu) - log1p(mu))/2`` for mu up to 1/4.

    The logarithm is ``2 artanh(z)`` with ``z = mu/(2 + mu)``; one division serves it and the quotient.
    """
    one, two = 1.0 + mu, 2.0 + mu
    over = 1.0 / (one * two)
    z = mu * (over * one)
    w = z * z
    w2 = w * w
    p = (1.0 / 3.0 + w * (1.0 / 5.0)) + w2 * (1.0 / 7.0 + w * (1.0 / 9.0))
    q = (1.0 / 11.0 + w * (1.0 / 13.0)) + w2 * (1.0 / 15.0 + w * (1.0 / 17.0))
    return 0.5 * (drift * drift) * (over * two) - (z + z * (w * (p + w2 * w2 * q)))


@kernel
def _address_loop(mu, rho, s, y, along, rest):
    """What needs no threshold; its products cost nothing while roots and quotients are waited for."""
    for i in range(len(mu)):
        s[i] = math.sqrt(mu[i])
        y[i] = multiply_add1(s[i], rho[i], mu[i])
        along[i] = SHARES * (mu[i] / y[i])
        rest[i] = _rest(mu[i], s[i] * rho[i])


@kernel
def _find_cells(y, along, first_row, n_rows, cell, t, x):
    """Find everybody's polynomial, NaN for t where there is none; count who has one. Without a branch: SIMD code."""
    mask, unit = (1 << BITS) - 1, 2.0 / (1 << BITS)
    inside = 0
    for i in range(len(y)):
        bits = bits_of(y[i])
        row = (bits >> BITS) - first_row
        found = (row >= 0) & (row < n_rows) & (along[i] < COLUMNS)
        share = along[i] if found else 0.0
        column = np.int64(share)
        cell[i] = row * COLUMNS + column if found else 0
        t[i] = (bits & mask) * unit - 1.0 if found else math.nan
        x[i] = 2.0 * (share - column) - 1.0
        inside += 1 if found else 0
    return inside


@kernel
def _epsilon_loop(mu, rho, s, u, rest, out):
    """``u drift + mu u^2/2 + rest``, raised by the solver's error, with ``drift = s rho``."""
    for i in range(len(mu)):
        drift = s[i] * rho[i]
        epsilon = u[i] * (drift + 0.5 * mu[i] * u[i]) + rest[i]
        out[i] = epsilon + (SOLVER_RELATIVE * epsilon + SOLVER_ABSOLUTE * (drift + mu[i]))


@kernel
def read_block(mu, rho, polynomials, first_row, addresses, out):
    """Fill ``out`` where a cell is known; ``left`` gets the places of the others. Returns how many.

    ``s``, ``y`` and ``along`` are of use for the others too.
    """
    s, y, along, u, left, rest, cell, t, x = addresses
    n = len(mu)
    _address_loop(mu, rho, s, y, along, rest)
    if 2 * _find_cells(y[:n], along, first_row, polynomials.size // (COLUMNS * SIZE), cell, t, x) < n:
        for i in range(n):  # hardly anybody: not worth the sorting
            left[i] = i
        return n
    for i in range(n):  # a long chain of products, which begins with nothing that has to be waited for
        u[i] = evaluate(polynomials, SIZE * cell[i], t[i], x[i])
    others = 0
    for i in range(n):
        left[others] = i
        others += u[i] != u[i]
    _epsilon_loop(mu, rho, s, u, rest, out)
    return others
