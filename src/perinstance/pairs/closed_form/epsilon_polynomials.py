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
from perinstance.numerics.simd_vectors import first, load2, multiply_add2, second, spread2

#: Cells: the top bits of w pick a row, four an octave, and those of ``FROM + mu g`` one of the columns: the first two
#: have a width of 1/64, four of 1/32, two of 1/16.
BITS, COLUMNS, FROM = 50, 8, 3.0 / 32.0
#: Coefficients: powers of the place in the row, for each power of the place in the column.
POWERS = (8, 8, 6, 6, 3, 3)
SIZE = sum(POWERS)
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
def _first_powers(p, at, t1):
    """Add pairs of powers of t: eight of the first two powers of x, six of the next, two of the last."""
    a, b = multiply_add2(load2(p, at + 2), t1, load2(p, at)), multiply_add2(load2(p, at + 6), t1, load2(p, at + 4))
    c, d = (
        multiply_add2(load2(p, at + 10), t1, load2(p, at + 8)),
        multiply_add2(load2(p, at + 14), t1, load2(p, at + 12)),
    )
    e, f = (
        multiply_add2(load2(p, at + 18), t1, load2(p, at + 16)),
        multiply_add2(load2(p, at + 22), t1, load2(p, at + 20)),
    )
    g, h = (
        multiply_add2(load2(p, at + 26), t1, load2(p, at + 24)),
        multiply_add2(load2(p, at + 30), t1, load2(p, at + 28)),
    )
    return a, b, c, d, e, f, g, h, load2(p, at + 32)


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
    last = n - n % 2
    for i in range(0, last, 2):
        at = SIZE * cell[i], SIZE * cell[i + 1]
        out[i], out[i + 1] = evaluate_two(polynomials, at, (t[i], t[i + 1]), (x[i], x[i + 1]))
    if last < n:
        at = SIZE * cell[last], SIZE * cell[last]
        out[last], _ = evaluate_two(polynomials, at, (t[last], t[last]), (x[last], x[last]))
    return True
