"""Epsilon of a shift at one delta, as polynomials: ``epsilon/D`` in each cell, an eighth of an octave of D.

``tables_per_delta.py`` makes them and checks them between their nodes. A cell that fails holds NaN; its people, and
those outside, are solved one by one (``one_epsilon.py``).
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.inline_exp_log import bits_of
from perinstance.numerics.numba_compile import kernel, piece
from perinstance.numerics.simd_vectors import (
    eight_in_a_register,
    load8,
    multiply8,
    multiply_add8,
    picked8,
    store8,
    turned8,
)
from perinstance.pairs.closed_form.one_epsilon import rounded_up, solve_shift

#: Chebyshev points per cell (polynomials of one degree less, which is even), 8 cells an octave.
POINTS, CELL_BITS = 9, 49
#: people at a time: all scratch stays in the first-level cache
BLOCK = 512

_PLACE, _UNIT = (1 << CELL_BITS) - 1, 2.0 / (1 << CELL_BITS)


@kernel
def _evaluate(polynomials, at, t):
    """Even and odd powers side by side: a person waits half as long."""
    square = t * t
    even, odd = polynomials[at + POINTS - 1], polynomials[at + POINTS - 2]
    for k in range(POINTS - 3, 0, -2):
        even = even * square + polynomials[at + k]
        odd = odd * square + polynomials[at + k - 1]
    return even * square + polynomials[at] + odd * t


@kernel
def one_by_one(polynomials, at, t, out):
    """Fill ``out`` with ``epsilon/D`` of people whose coefficients begin at ``at``."""
    for i in range(len(out)):
        out[i] = _evaluate(polynomials, at[i], t[i])


@piece
def _evaluate_eight(p, at, t, out, i):
    """Do the same, to the same bits, to eight people from place i on, who then are the lanes."""
    a0, a1, a2, a3, a4, a5, a6, a7 = at[i], at[i + 1], at[i + 2], at[i + 3], at[i + 4], at[i + 5], at[i + 6], at[i + 7]
    low = load8(p, a0), load8(p, a1), load8(p, a2), load8(p, a3)
    c = turned8((*low, load8(p, a4), load8(p, a5), load8(p, a6), load8(p, a7)))
    last = picked8(p, (a0 + 8, a1 + 8, a2 + 8, a3 + 8, a4 + 8, a5 + 8, a6 + 8, a7 + 8))
    place = load8(t, i)
    square = multiply8(place, place)
    even = multiply_add8(multiply_add8(last, square, c[6]), square, c[4])
    odd = multiply_add8(multiply_add8(c[7], square, c[5]), square, c[3])
    even, odd = multiply_add8(even, square, c[2]), multiply_add8(odd, square, c[1])
    store8(out, i, multiply_add8(odd, place, multiply_add8(even, square, c[0])))


@kernel
def by_eights(polynomials, at, t, out):
    """Fill ``out``; the last eight may overlap those before."""
    n = len(out)
    if n < 8:
        one_by_one(polynomials, at, t, out)
        return
    for start in range(0, n, 8):
        _evaluate_eight(polynomials, at, t, out, min(start, n - 8))


#: what this machine's registers hold
_FILL = by_eights if eight_in_a_register() else one_by_one


@kernel
def _find_cells(D, first_cell, cells, at, t):
    """Find where everybody's polynomial begins; whoever has none gets a place that is not a number in the first."""
    for i in range(len(D)):
        bits = bits_of(D[i])
        cell = (bits >> CELL_BITS) - first_cell
        inside = np.uint64(cell) < np.uint64(cells)
        at[i] = POINTS * cell if inside else 0
        t[i] = (bits & _PLACE) * _UNIT - 1.0 if inside else math.nan


@kernel
def _raise(D, share, out):
    """Turn shares into epsilons; count those that are not known."""
    missing = 0
    for i in range(len(D)):
        out[i] = rounded_up(D[i] * share[i], D[i])
        missing += 1 if share[i] != share[i] else 0
    return missing


@kernel
def solve_shifts(D, delta, polynomials, first_cell, out):
    """Fill ``out`` with the epsilon of every shift at one delta."""
    flat, cells = polynomials.reshape(-1), len(polynomials)
    places, t, share = np.empty(BLOCK, dtype=np.int64), np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, D.size, BLOCK):
        n = min(BLOCK, D.size - start)
        distance, epsilon = D[start : start + n], out[start : start + n]
        _find_cells(distance, first_cell, cells, places, t)
        _FILL(flat, places[:n], t[:n], share[:n])
        if _raise(distance, share, epsilon):
            for i in range(n):
                if math.isnan(share[i]):
                    # the total variation distance is at most D phi(0)
                    epsilon[i] = 0.0 if distance[i] < 2.5 * delta else solve_shift(distance[i], delta)
