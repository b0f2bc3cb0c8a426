"""The polynomials that answer for most people: at the borders of their cells, inside, and where they are missing."""

from __future__ import annotations

import numpy as np
import pytest

from perinstance.pairs.closed_form import tables_per_delta
from perinstance.pairs.closed_form.many_epsilons import posterior_epsilon, posterior_epsilons
from perinstance.pairs.closed_form.threshold_polynomials import BITS, COLUMNS, SHARES, SIZE

from . import truth
from .test_exactness import posteriors, wrong_epsilons

DELTAS = [1e-290, 1e-40, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.02]


def people(y, share):
    """Return leverage and residual with ``s rho + mu = y`` and ``mu/y = share``, but for a rounding."""
    mu = share * y
    return mu, (y - mu) / np.sqrt(mu)


def region(delta):
    """Where polynomials are: the edges of the rows, and of the columns."""
    known = tables_per_delta.surface(delta)
    rows = len(known.polynomials) // (COLUMNS * SIZE)
    edges = (np.arange(known.first_row, known.first_row + rows + 1, dtype=np.int64) << BITS).view(np.float64)
    return edges, np.arange(COLUMNS + 1) / SHARES


def many(mu, rho, delta):
    out = np.full(len(mu), np.nan)
    posterior_epsilon(mu, rho, delta, out)
    return out


def around(edges):
    return np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, np.inf)])


@pytest.mark.parametrize("delta", DELTAS)
def test_proved_inside_and_at_the_borders(delta):
    rng = np.random.default_rng(0)
    y_edges, share_edges = region(delta)
    low, high = np.log(y_edges[[0, -1]])
    inside = np.exp(rng.uniform(low, high, 60)), rng.uniform(0, COLUMNS / SHARES, 60)
    lonely = np.exp(rng.uniform(low, high, 20)), 10 ** rng.uniform(-12, -2, 20)  # almost a shift
    borders = rng.choice(around(y_edges), 60), rng.choice(around(share_edges[1:]), 60)
    y, share = (np.concatenate(parts) for parts in zip(inside, lonely, borders, strict=True))
    mu, rho = people(y, share)
    assert not wrong_epsilons(truth.posterior_delta, posteriors(mu, rho, False), many(mu, rho, delta), delta)


@pytest.mark.parametrize("delta", DELTAS)
def test_everywhere_as_person_by_person(delta):
    """Both are raised by 2e-10; between them lies what the polynomials are allowed to be wrong by."""
    rng = np.random.default_rng(1)
    y_edges, share_edges = region(delta)
    grid = np.meshgrid(around(y_edges), np.append(around(share_edges[1:]), 1e-9))
    low, high = np.log(y_edges[0] / 3), np.log(y_edges[-1] * 3)
    random = np.exp(rng.uniform(low, high, 20_000)), rng.uniform(0, 1.2 * COLUMNS / SHARES, 20_000)
    y, share = (np.concatenate([a.ravel(), b]) for a, b in zip(grid, random, strict=True))
    mu, rho = people(y, share)
    slow = np.empty(len(mu))
    posterior_epsilons(mu, rho, np.full(len(mu), delta), False, slow)
    assert many(mu, rho, delta) == pytest.approx(slow, rel=1.2 * tables_per_delta.SURFACE_ERROR, abs=0)


def test_cells_that_fail_the_check_are_not_used(monkeypatch):
    """Their people are solved as those outside are."""
    rng = np.random.default_rng(2)
    y_edges, _ = region(1e-6)
    mu, rho = people(np.exp(rng.uniform(*np.log(y_edges[[0, -1]]), 3000)), rng.uniform(0, COLUMNS / SHARES, 3000))
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
    failed = np.isnan(tables_per_delta.surface(delta).polynomials).mean() if delta < 0.05 else 0.0
    assert failed <= (0.0 if delta >= 1e-12 else 0.5)
