"""The polynomials that answer for most people: at the borders of their cells, inside, and where they are missing."""

from __future__ import annotations

import numpy as np
import pytest

from perinstance.pairs.closed_form import tables_per_delta
from perinstance.pairs.closed_form.epsilon_polynomials import BITS, COLUMNS, FROM, POWERS, SIZE, by_eights, by_twos
from perinstance.pairs.closed_form.many_epsilons import posterior_epsilon, posterior_epsilons

from . import truth
from .test_exactness import posteriors, wrong_epsilons

DELTAS = [1e-290, 1e-40, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.02]


def people(w, strip):
    """Return leverage and residual with ``mu rho^2 = w`` and ``mu g(w) = strip``, but for a rounding."""
    power = 4.0 ** np.floor(np.log2(w) / 2)
    low, high = np.minimum(w / power, 2.0) - 1.0, np.maximum(w / power, 2.0) - 2.0
    g = (1.0 - 0.25 * low - 0.125 * high) / np.sqrt(power)
    mu = strip / g
    return mu, np.sqrt(w / mu)


def region(delta):
    """Where polynomials are: the edges of the rows, and of the columns."""
    known = tables_per_delta.surface(delta)
    rows = len(known.polynomials) // (COLUMNS * SIZE)
    edges = (np.arange(known.first_row, known.first_row + rows + 1, dtype=np.int64) << BITS).view(np.float64)
    first = int(np.float64(FROM).view(np.int64)) >> BITS
    return edges, (np.arange(first, first + COLUMNS + 1, dtype=np.int64) << BITS).view(np.float64) - FROM


def many(mu, rho, delta):
    out = np.full(len(mu), np.nan)
    posterior_epsilon(mu, rho, delta, out)
    return out


def around(edges):
    return np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, np.inf)])


@pytest.mark.parametrize("delta", DELTAS)
def test_proved_inside_and_at_the_borders(delta):
    rng = np.random.default_rng(0)
    w_edges, strips = region(delta)
    low, high = np.log(w_edges[[0, -1]])
    inside = np.exp(rng.uniform(low, high, 60)), rng.uniform(0, strips[-1], 60)
    lonely = np.exp(rng.uniform(low, high, 20)), 10 ** rng.uniform(-12, -2, 20)  # almost a shift
    borders = rng.choice(around(w_edges), 60), rng.choice(around(strips[1:]), 60)
    w, strip = (np.concatenate(parts) for parts in zip(inside, lonely, borders, strict=True))
    mu, rho = people(w, strip)
    assert not wrong_epsilons(truth.posterior_delta, posteriors(mu, rho, False), many(mu, rho, delta), delta)


@pytest.mark.parametrize("delta", DELTAS)
def test_everywhere_as_person_by_person(delta):
    """Both are raised by 2e-10; between them lies what the polynomials are allowed to be wrong by."""
    rng = np.random.default_rng(1)
    w_edges, strips = region(delta)
    grid = np.meshgrid(around(w_edges), np.append(around(strips[1:]), 1e-9))
    low, high = np.log(w_edges[0] / 9), np.log(w_edges[-1] * 9)
    random = np.exp(rng.uniform(low, high, 20_000)), rng.uniform(0, 1.2 * strips[-1], 20_000)
    w, strip = (np.concatenate([a.ravel(), b]) for a, b in zip(grid, random, strict=True))
    mu, rho = people(w, strip)
    slow = np.empty(len(mu))
    posterior_epsilons(mu, rho, np.full(len(mu), delta), False, slow)
    assert many(mu, rho, delta) == pytest.approx(slow, rel=1.2 * tables_per_delta.SURFACE_ERROR, abs=0)


def test_cells_that_fail_the_check_are_not_used(monkeypatch):
    """Their people are solved as those outside are."""
    rng = np.random.default_rng(2)
    w_edges, strips = region(1e-6)
    mu, rho = people(np.exp(rng.uniform(*np.log(w_edges[[0, -1]]), 3000)), rng.uniform(0, strips[-1], 3000))
    usual = many(mu, rho, 1e-6)
    tables_per_delta.surface.cache_clear()
    monkeypatch.setattr(tables_per_delta, "SURFACE_ERROR", 0.0)
    try:
        assert np.isnan(tables_per_delta.surface(1e-6).polynomials).all()
        stepped = many(mu, rho, 1e-6)
    finally:
        tables_per_delta.surface.cache_clear()
    assert (usual != stepped).any()
    assert usual == pytest.approx(stepped, rel=4e-11, abs=0)


@pytest.mark.parametrize("delta", [1e-300, *DELTAS, 0.07, 0.4, 0.5])
def test_small_enough_for_the_cache(delta):
    assert tables_per_delta.surface(delta).polynomials.nbytes <= 300_000
    cells = tables_per_delta.surface(delta).polynomials[:-SIZE]  # the last one is for those who have none
    failed = np.isnan(cells).mean() if delta < 0.05 else 0.0
    assert failed <= (0.0 if delta >= 1e-12 else 0.5)


def one_polynomial(cell, t, x):
    """Return the sum of powers that a cell holds, as ``surface`` lays them out, and that of their sizes."""
    total = size = 0.0
    pairs = iter(cell.reshape(-1, 2))
    even, odd = ([(j, k) for j in (0, 2, 4) for k in range(first, POWERS[j] - POWERS[j] % 2, 2)] for first in (0, 1))
    for j, k in [*even, *odd, (4, 2)]:
        for power, coefficient in enumerate(next(pairs), j):
            total += coefficient * t**k * x**power
            size += abs(coefficient * t**k * x**power)
    assert next(pairs, None) is None
    return total, size


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 30])
def test_eight_people_at_a_time_have_the_bits_of_two(n):
    rng = np.random.default_rng(n)
    known = tables_per_delta.surface(1e-6).polynomials
    cells = rng.integers(0, known.size // SIZE, n)
    t, x = rng.uniform(-1, 1, (2, n))
    twos, eights = np.full((2, n), 7.0)
    by_twos(known, cells, t, x, twos)
    by_eights(known, cells, t, x, eights)
    np.testing.assert_array_equal(twos, eights)
    for cell, a, b, got in zip(cells, t, x, twos, strict=True):
        expected, size = one_polynomial(known[cell * SIZE :][:SIZE], a, b)
        assert abs(got - expected) <= 1e-14 * size or np.isnan(expected) and np.isnan(got)
