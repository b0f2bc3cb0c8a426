"""A bound is never below anybody with smaller parameters; the monotonicities behind it, one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perinstance.analysis.branch_and_bound import objective_below, objective_pairs, objective_upper, posterior_upper
from perinstance.pairs import PosteriorSamplePair

SHARES = np.array(np.meshgrid(np.linspace(0, 1, 9), np.linspace(0, 1, 9))).reshape(2, -1)


@given(st.floats(1e-6, 50.0), st.floats(0.0, 50.0), st.sampled_from([1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9]))
def test_nobody_with_less_leverage_and_residual_loses_more(mu, rho, delta):
    ceiling = float(posterior_upper(mu, rho, delta))
    a, b = SHARES
    assert PosteriorSamplePair(a * mu, b * rho).epsilon(delta).max() <= ceiling * (1 + 1e-8) + 1e-12


def test_the_corner_alone_would_not_do():
    """Beyond the golden ratio the loss can fall with the leverage: the bound knows."""
    few, many = PosteriorSamplePair([3.0, 40.0], [30.0, 30.0]).epsilon(0.9)
    assert few > many
    assert posterior_upper(40.0, 30.0, 0.9) >= few


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 1.6])
def test_up_to_the_golden_ratio_the_profile_grows_with_the_leverage(mu):
    rho = np.array([0.0, 0.1, 1.0, 5.0, 30.0])
    for eps in (0.0, 0.1, 1.0, 10.0):
        less = PosteriorSamplePair(np.full(5, mu * 0.98), rho).delta(eps, "without")
        more = PosteriorSamplePair(np.full(5, mu), rho).delta(eps, "without")
        assert (more >= less - 1e-15).all()


def cloud(seed, size=40):
    rng = np.random.default_rng(seed)
    R, mu, kappa = rng.uniform(0, 3) * rng.random() ** 3, 2 * rng.random() ** 3, 2 * rng.random() ** 3
    share = np.vstack([rng.random((size, 3)) ** 0.5, np.eye(3), 1 - np.eye(3)])
    return (R, mu, kappa), share * np.array([R, mu, kappa]), 10 ** rng.uniform(-8, -1)


@pytest.mark.parametrize("seed", range(8))
def test_objective_perturbation_nobody_below_the_corner_loses_more(seed):
    corner, below, delta = cloud(seed)
    ceiling = float(objective_upper(*corner, delta))
    assert objective_pairs(*below.T).epsilon(delta).max() <= ceiling * (1 + 1e-8) + 1e-12


@pytest.mark.parametrize("seed", range(12, 16))
def test_the_test_below_agrees_with_the_bound(seed):
    _, points, delta = cloud(seed, 10)
    ceiling = objective_upper(*points.T, delta)
    assert objective_below(points.T, delta, ceiling.max() * (1 + 1e-4)).all()
    half = objective_below(points.T, delta, ceiling.max() / 2)
    assert (ceiling[half] <= ceiling.max() / 2 * (1 + 1e-9)).all()


def test_objective_loss_as_the_docstring_has_it():
    """L = E u + E^2/2 - log(1+mu), E = R + mu u + kappa g: simulate delta from it."""
    rng = np.random.default_rng(3)
    R, mu, kappa, eps = 0.8, 0.3, 0.2, 1.0
    u, g = rng.standard_normal((2, 2_000_000))
    E = R + mu * u + kappa * g
    L = E * u + E**2 / 2 - np.log1p(mu)
    gain = np.maximum(1 - np.exp(eps - L), 0)
    exact = objective_pairs(*(np.array([v]) for v in (R, mu, kappa))).delta(eps, "without")[0]
    assert gain.mean() == pytest.approx(exact, abs=5 * gain.std() / len(u) ** 0.5)
