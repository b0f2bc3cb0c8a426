"""Epsilon of a posterior sample at one delta, as polynomials: most people need neither a step nor a root.

Where only one tail counts (``mu`` at most about 1/4 of ``drift = s rho``) and the drift is well above delta, epsilon is
an analytic function of ``w = drift^2 = mu rho^2`` and of mu. In each cell, a quarter of an octave of w times a strip of
``mu g``, it is a polynomial in both; ``g``, within 7% of ``1/drift``, is what a subtraction makes of the bits of w.
``tables_per_delta.py`` makes the polynomials, raises them by the solver's error and checks them between their nodes. A
cell that fails holds NaN, and its people are solved as those outside are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.inline_exp_log import bits_of, float_of
from perinstance.numerics.numba_compile import kernel, piece
from perinstance.numerics.simd_vectors import (
    eight_in_a_register,
    first,
    load2,
    load8,
    multiply8,
    multiply_add2,
    multiply_add8,
    pairs8,
    repeat8,
    second,
    spread2,
    store8,
    turned8,
)

#: Cells: the top bits of w pick a row, four an octave, and those of ``FROM + mu g`` one of the columns: the first two
#: have a width of 1/64, four of 1/32, two of 1/16.
BITS, COLUMNS, FROM = 50, 8, 3.0 / 32.0
#: Coefficients: powers of the place in the row, for each power of the place in the column.
POWERS = (8, 8, 6, 6, 3, 3)
SIZE = sum(POWERS)
#: Where in a cell the odd powers of t begin, and what has none above it; two powers of x lie side by side.
ODD, LAST = 16, 32
BLOCK = 512  # people at a time: all scratch stays in the first-level cache

_ONE = 0x3FF << 52  # the bits of 1.0
_FIRST_COLUMN = int(np.float64(FROM).view(np.int64)) >> BITS
_PLACE = (1 << BITS) - 1
_MIDDLE = 1.0 + 2.0 ** (BITS - 53)  # of the numbers that have the bits of 1.0 but for the place in a cell
_HALF = 2.0 ** (53 - BITS)


class PolynomialPlaces(NamedTuple):
    """Room for one block: whose polynomial a person has, and its arguments."""

    cell: Any
    t: Any
    x: Any


@piece
def near_inverse_root(w_bits):
    """Return about ``1/sqrt(w)``: from 4^k to 4^(k+1) it falls from 2^-k to 2^-k/2, linearly in each octave."""
    return float_of(_ONE + (_ONE >> 1) - (w_bits >> 1))


@piece
def _two_powers(p, at, t1):
    """Add an odd power of t to the even one below it."""
    return multiply_add2(load2(p, at + ODD), t1, load2(p, at))


@piece
def _first_powers(p, at, t1):
    """Add pairs of powers of t: eight of the first two powers of x, six of the next, two of the last."""
    a, b, c, d = (
        _two_powers(p, at, t1),
        _two_powers(p, at + 2, t1),
        _two_powers(p, at + 4, t1),
        _two_powers(p, at + 6, t1),
    )
    e, f, g = _two_powers(p, at + 8, t1), _two_powers(p, at + 10, t1), _two_powers(p, at + 12, t1)
    return a, b, c, d, e, f, g, _two_powers(p, at + 14, t1), load2(p, at + LAST)


@piece
def _other_powers(sums, t2, t4, x2):
    a, b, c, d, e, f, g, h, last = sums
    low = multiply_add2(multiply_add2(d, t2, c), t4, multiply_add2(b, t2, a))
    middle = multiply_add2(g, t4, multiply_add2(f, t2, e))
    return multiply_add2(multiply_add2(multiply_add2(last, t2, h), x2, middle), x2, low)


@piece
def evaluate_two(polynomials, cells, t, x):
    """Return two polynomials whose coefficients begin at ``cells``, for t and x in [-1, 1].

    Two powers of x lie side by side. The powers of t are added pair by pair, and two people go together: a chain of
    products would be waited for.
    """
    s, r = t[0] * t[0], t[1] * t[1]
    a, b = _first_powers(polynomials, cells[0], spread2(t[0])), _first_powers(polynomials, cells[1], spread2(t[1]))
    a = _other_powers(a, spread2(s), spread2(s * s), spread2(x[0] * x[0]))
    b = _other_powers(b, spread2(r), spread2(r * r), spread2(x[1] * x[1]))
    return first(a) + x[0] * second(a), first(b) + x[1] * second(b)


@kernel
def by_twos(polynomials, cell, t, x, out):
    """Fill ``out``."""
    n = len(out)
    for i in range(0, n - 1, 2):
        at = SIZE * cell[i], SIZE * cell[i + 1]
        out[i], out[i + 1] = evaluate_two(polynomials, at, (t[i], t[i + 1]), (x[i], x[i + 1]))
    if n % 2:
        at = SIZE * cell[n - 1], SIZE * cell[n - 1]
        out[n - 1], _ = evaluate_two(polynomials, at, (t[n - 1], t[n - 1]), (x[n - 1], x[n - 1]))


@piece
def _pairs_of_powers(p, at, t, i):
    """``_first_powers`` of one person but for the last, four pairs in a register."""
    v = repeat8(t, i)
    low = multiply_add8(load8(p, at + ODD), v, load8(p, at))
    return low, multiply_add8(load8(p, at + ODD + 8), v, load8(p, at + 8))


@piece
def _other_powers_of_eight(sums, t2, t4, x2):
    """``_other_powers`` of one power of x, for eight people."""
    a, b, c, d, e, f, g, h, last = sums
    low = multiply_add8(multiply_add8(d, t2, c), t4, multiply_add8(b, t2, a))
    middle = multiply_add8(g, t4, multiply_add8(f, t2, e))
    return multiply_add8(multiply_add8(multiply_add8(last, t2, h), x2, middle), x2, low)


@piece
def evaluate_eight(p, cell, t, x, out, i):
    """Do what ``evaluate_two`` does, to the same bits, to eight people from place i on, who then are the lanes."""
    a0, a1, a2, a3 = SIZE * cell[i], SIZE * cell[i + 1], SIZE * cell[i + 2], SIZE * cell[i + 3]
    a4, a5, a6, a7 = SIZE * cell[i + 4], SIZE * cell[i + 5], SIZE * cell[i + 6], SIZE * cell[i + 7]
    u0, v0 = _pairs_of_powers(p, a0, t, i)
    u1, v1 = _pairs_of_powers(p, a1, t, i + 1)
    u2, v2 = _pairs_of_powers(p, a2, t, i + 2)
    u3, v3 = _pairs_of_powers(p, a3, t, i + 3)
    u4, v4 = _pairs_of_powers(p, a4, t, i + 4)
    u5, v5 = _pairs_of_powers(p, a5, t, i + 5)
    u6, v6 = _pairs_of_powers(p, a6, t, i + 6)
    u7, v7 = _pairs_of_powers(p, a7, t, i + 7)
    u, v = turned8((u0, u1, u2, u3, u4, u5, u6, u7)), turned8((v0, v1, v2, v3, v4, v5, v6, v7))
    last = pairs8(p, (a0 + LAST, a1 + LAST, a2 + LAST, a3 + LAST, a4 + LAST, a5 + LAST, a6 + LAST, a7 + LAST))
    places, across = load8(t, i), load8(x, i)
    t2 = multiply8(places, places)
    t4, x2 = multiply8(t2, t2), multiply8(across, across)
    even = _other_powers_of_eight((u[0], u[2], u[4], u[6], v[0], v[2], v[4], v[6], last[0]), t2, t4, x2)
    odd = _other_powers_of_eight((u[1], u[3], u[5], u[7], v[1], v[3], v[5], v[7], last[1]), t2, t4, x2)
    store8(out, i, multiply_add8(across, odd, even))


@kernel
def by_eights(polynomials, cell, t, x, out):
    """Fill ``out``; the last eight may overlap those before."""
    n = len(out)
    if n < 8:
        by_twos(polynomials, cell, t, x, out)
        return
    for start in range(0, n, 8):
        evaluate_eight(polynomials, cell, t, x, out, min(start, n - 8))


#: what this machine's registers hold
_FILL = by_eights if eight_in_a_register() else by_twos


@kernel
def _find_cells(mu, rho, first_row, n_rows, cell, t, x):
    """Find everybody's polynomial, the one behind the last where there is none; count who has one.

    Without a branch: SIMD code. A row that is found has a finite w > 0, and then no column is below the first.
    """
    inside = 0
    rows, nothing = np.uint64(n_rows), n_rows * COLUMNS
    for i in range(len(mu)):
        bits = bits_of(mu[i] * rho[i] * rho[i])
        row = (bits >> BITS) - first_row
        across = bits_of(FROM + mu[i] * near_inverse_root(bits))
        column = (across >> BITS) - _FIRST_COLUMN
        found = (np.uint64(row) < rows) & (column < COLUMNS)
        cell[i] = row * COLUMNS + column if found else nothing
        t[i] = _HALF * float_of(_ONE | (bits & _PLACE)) - _HALF * _MIDDLE
        x[i] = _HALF * float_of(_ONE | (across & _PLACE)) - _HALF * _MIDDLE
        inside += 1 if found else 0
    return inside


@kernel
def read_block(mu, rho, polynomials, first_row, cells, out):
    """Fill ``out`` where a cell is known, with NaN elsewhere; tell whether that is anybody."""
    cell, t, x = cells
    n = len(mu)
    n_rows = polynomials.size // (COLUMNS * SIZE)
    if 2 * _find_cells(mu, rho, first_row, n_rows, cell, t, x) < n:
        return False  # hardly anybody: not worth the sorting
    _FILL(polynomials, cell[:n], t[:n], x[:n], out)
    return True
