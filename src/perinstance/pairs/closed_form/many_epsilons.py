"""From delta back to epsilon for many people: by the tables of one delta, or person by person.

``posterior_epsilon`` and ``shift_epsilon`` are what a sweep over blocks calls: no validation, no interpreter lock,
tables kept per delta. Arrays are contiguous float64. Where delta is large some answers are in ``doubt``: safe, but
raised by more than they should be, because terms cancel that are not known to more digits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.pairs.closed_form.many_posteriors import DeltaTables, solve_many
from perinstance.pairs.closed_form.one_epsilon import doubted_shift, doubted_with, doubted_without
from perinstance.pairs.closed_form.shift_polynomials import solve_shifts
from perinstance.pairs.closed_form.tables_per_delta import shift_table, start_table, surface

Bools = NDArray[np.bool_]


def posterior_epsilon(mu: Floats, rho: Floats, delta: float, out: Floats) -> Bools | None:
    """Fill ``out`` with the epsilon of every posterior sample (P over Q, the larger direction); return the doubt."""
    if not 0.0 < delta <= 0.5:
        return posterior_epsilons(mu, rho, np.full(len(out), delta), False, out)
    solve_many(mu, rho, posterior_tables(delta), out)
    return None


def posterior_tables(delta: float) -> DeltaTables:
    """Return what ``solve_many`` takes for a delta in (0, 1/2]."""
    table, known = start_table(delta), surface(delta)
    thresholds = table.thresholds.ravel()
    return DeltaTables(delta, table.log_goal, thresholds, table.first_row, known.polynomials, known.first_row)


def shift_epsilon(distance: Floats, delta: float, out: Floats) -> Bools | None:
    """Fill ``out`` with the epsilon of every shift; return the doubt."""
    if not 0.0 < delta <= 0.5:
        return shift_epsilons(distance, np.full(len(out), delta), out)
    table = shift_table(delta)
    solve_shifts(distance, delta, table.polynomials, table.first_cell, out)
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
