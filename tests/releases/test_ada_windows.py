"""The exact window answers the same questions as the simulated one, and nothing else."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from perinstance.folds.sweep import ArraySweep
from perinstance.releases.logistic.mechanism import _slopes_at
from perinstance.releases.promises.window import ExactWindow, FloatWindow, StandardFrame
from perinstance.sampling import fixed_rows

QUIET = 2.0**-30
FRAME = StandardFrame(np.array([0.1, 0.0, -0.2, 0.0]), np.array([0.5, 1.0, 0.7, 0.3]), radius=1.5, weight=0.75)


@pytest.fixture
def both():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    rows = fixed_rows(X, np.clip(X @ [0.5, 0.4, -0.3, 0.0] + rng.normal(size=200) / 5, -1, 1), 1.0, 1.0)
    return ExactWindow(rows), FloatWindow(ArraySweep(rows.X, rows.y), rng)


def test_same_centers(both):
    exact, simulated = both
    theta = np.array([0.3, 0.1, -0.2, 0.05])
    for ask in (
        lambda w: w.count(QUIET),
        lambda w: w.eigenvalue(QUIET),
        lambda w: w.log_size(3.0, 1.0, 2.0, QUIET),
        lambda w: w.posterior(2.0, QUIET**-2),
        lambda w: w.gram(QUIET),
        lambda w: w.gram(QUIET, 7.0),
        lambda w: w.moment(theta, 0.25, QUIET),
        lambda w: w.weighted_sum(partial(_slopes_at, theta=theta), 2.0**-40, QUIET),
        lambda w: w.totals(4, 2.0, np.full(4, QUIET)),
        lambda w: w.totals(0, 1.0, np.full(2, QUIET)),
        lambda w: w.framed(FRAME).column_totals(np.full(10, QUIET)),
        lambda w: w.framed(FRAME).column_totals(np.full(5, QUIET)),
        lambda w: w.framed(FRAME).gram(QUIET, 3.0),
        lambda w: w.framed(FRAME).moment(np.append(theta, 0.3), 0.1, QUIET),
    ):
        np.testing.assert_allclose(ask(exact), ask(simulated), atol=20 * QUIET)


@pytest.mark.usefixtures("fixed_noise")
def test_noise_has_the_scale_that_was_asked_for(both):
    exact, simulated = both
    for window in both:
        draws = np.array([window.gram(1.0) for _ in range(60)])
        assert (draws == np.swapaxes(draws, 1, 2)).all()
        spread = draws.std(axis=0)
        assert 0.8 < np.diag(spread).mean() < 1.2
        assert 0.8 < spread[np.triu_indices(4, 1)].mean() * np.sqrt(2) < 1.2
        assert 0.75 < np.std([window.count(3.0) for _ in range(100)]) / 3 < 1.25


def test_draws_differ_and_lie_on_the_public_grid(both):
    exact, _ = both
    a, b = exact.posterior(1.0, 1.0), exact.posterior(1.0, 1.0)
    assert (a != b).all()
    assert (a * 2.0**40 == np.round(a * 2.0**40)).all()
