"""From delta back to epsilon for many people: by the tables of one delta, or person by person.

``posterior_epsilon`` and ``shift_epsilon`` are what a sweep over blocks calls: no validation, no interpreter lock,
tables kept per delta. Arrays are contiguous float64.
"""

from __future__ import annotations

from perinstance.pairs.base import Floats
from perinstance.pairs.batch import solve_many
from perinstance.pairs.compiled import kernel
from perinstance.pairs.solver import solve_shift, solve_with, solve_without
from perinstance.pairs.tables import shift_table, solve_shifts, start_table, surface


def posterior_epsilon(mu: Floats, rho: Floats, delta: float, out: Floats) -> None:
    """Fill ``out`` with the epsilon of every posterior sample (P over Q, the larger direction)."""
    if 0.0 < delta <= 0.5:
        table, known = start_table(delta), surface(delta)
        solve_many(
            mu,
            rho,
            delta,
            table.log_goal,
            table.thresholds.ravel(),
            table.first_row,
            known.polynomials,
            known.first_row,
            out,
        )
    else:
        _posterior_one_delta(mu, rho, delta, out)


def shift_epsilon(distance: Floats, delta: float, out: Floats) -> None:
    """Fill ``out`` with the epsilon of every shift."""
    if 0.0 < delta <= 0.5:
        table = shift_table(delta)
        solve_shifts(distance, delta, table.polynomials, table.first_cell, out)
    else:
        _shift_one_delta(distance, delta, out)


@kernel
def _posterior_one_delta(mu, rho, delta, out):
    for i in range(mu.size):
        out[i] = solve_without(mu[i], rho[i], delta)


@kernel
def _shift_one_delta(D, delta, out):
    for i in range(D.size):
        out[i] = solve_shift(D[i], delta)


@kernel
def shift_epsilons(D, delta, out):
    """Fill ``out`` with the epsilon of every shift, each at a delta of its own."""
    for i in range(D.size):
        out[i] = solve_shift(D[i], delta[i])


@kernel
def posterior_epsilons(mu, rho, delta, with_over_without, out):
    """Fill ``out`` with the epsilon of every posterior sample in one direction, each at a delta of its own."""
    for i in range(mu.size):
        out[i] = solve_with(mu[i], rho[i], delta[i]) if with_over_without else solve_without(mu[i], rho[i], delta[i])
