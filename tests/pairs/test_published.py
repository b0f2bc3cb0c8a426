"""The published bound for one posterior sample lies below the exact loss; with its missing factor 2 it lies above."""

from __future__ import annotations

import numpy as np
import pytest

from perinstance.pairs import PosteriorSamplePair


def bound(mu, rho, delta, factor):
    """Theorem on one posterior sample, with ``factor log(2/delta)`` in both tail terms; as published, factor is 1."""
    tail = factor * np.log(2 / delta)
    return abs(mu * rho**2 / (1 + mu) - np.log1p(mu)) / 2 + mu * tail / 2 + np.sqrt(mu * tail) * rho


def test_as_published_it_is_below_the_exact_loss():
    """The two cases of MATH section 3, and a large share of ordinary people."""
    exact = PosteriorSamplePair([0.01, 0.1], [1.0, 10.0]).epsilon(1e-6)
    published = np.array([bound(0.01, 1.0, 1e-6, 1), bound(0.1, 10.0, 1e-6, 1)])
    assert exact == pytest.approx([0.4795, 20.02], rel=1e-3)
    assert published == pytest.approx([0.4535, 17.27], rel=1e-3)
    assert (published < exact).all()
    rng = np.random.default_rng(1)
    mu, rho = 10 ** rng.uniform(-5, 0, 2000), 10 ** rng.uniform(-1, 2, 2000)
    assert (bound(mu, rho, 1e-6, 1) < PosteriorSamplePair(mu, rho).epsilon(1e-6)).mean() > 0.3


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3, 0.1])
def test_corrected_it_is_above_the_exact_loss(delta):
    rng = np.random.default_rng(2)
    mu, rho = 10 ** rng.uniform(-10, 4, 20_000), 10 ** rng.uniform(-4, 4, 20_000)
    assert (bound(mu, rho, delta, 2) >= PosteriorSamplePair(mu, rho).epsilon(delta)).all()
