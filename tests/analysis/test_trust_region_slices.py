"""The trust region: bounds that random points never beat, and that the secular equation reaches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perinstance.analysis.branch_and_bound import objective_below, objective_pairs, objective_upper, posterior_upper
from perinstance.analysis.trust_region_slices import ellipsoid, enclosing, slices
from perinstance.pairs import PosteriorSamplePair


def world(rng, m, intercept):
    p = m + int(intercept)
    B = rng.standard_normal((p, p))
    M = B @ B.T if rng.random() < 0.5 else B + B.T  # psd, or indefinite
    return ellipsoid(rng.uniform(0.2, 3, m), intercept), rng.standard_normal(p), M


def sphere(rng, m, size):
    u = rng.standard_normal((size, m))
    return u / np.linalg.norm(u, axis=1)[:, None] * rng.random((size, 1)) ** rng.choice([0.0, 0.3])


@pytest.mark.parametrize("seed", range(12))
def test_no_point_of_the_ball_beats_its_slice(seed):
    rng = np.random.default_rng(seed)
    m, intercept = int(rng.integers(1, 7)), bool(seed % 2)
    domain, theta, M = world(rng, m, intercept)
    form = slices(domain, theta, M)
    u = np.vstack([sphere(rng, m, 4000), form.maximisers(np.linspace(-1, 1, 200))])
    sigma = np.clip(u @ form.basis[:, 0], -1, 1)
    x = domain.rows(u)
    value = np.einsum("ij,jk,ik->i", x, M, x)
    for cells in (1, 7, 200):
        edges = np.linspace(-1, 1, cells + 1)
        upper = form.upper(edges[:-1], edges[1:])
        cell = np.minimum(((sigma + 1) / 2 * cells).astype(int), cells - 1)
        assert (value <= upper[cell]).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_of_a_thin_slice_is_reached(seed):
    rng = np.random.default_rng(100 + seed)
    m = int(rng.integers(2, 7))
    domain, theta, M = world(rng, m, bool(seed % 2))
    M = M @ M.T  # psd: the maximum is on the sphere
    form = slices(domain, theta, M)
    sigma = np.linspace(-0.999, 0.999, 41)
    x = domain.rows(form.maximisers(sigma))
    assert np.allclose(x @ theta, domain.x0 @ theta + np.linalg.norm(domain.T.T @ theta) * sigma)
    reached = np.einsum("ij,jk,ik->i", x, M, x)
    upper = form.upper(sigma, sigma)
    assert (reached <= upper).all()
    assert np.allclose(reached, upper, rtol=1e-6)


def test_the_hard_case():
    """No linear term along the top eigenvector: what is missing in length lies there."""
    domain = ellipsoid(np.ones(3), False)
    form = slices(domain, np.array([1.0, 0, 0]), np.diag([1.0, 5.0, 2.0]))
    x = domain.rows(form.maximisers(np.array([0.6])))
    assert x[0] @ np.diag([1.0, 5.0, 2.0]) @ x[0] == pytest.approx(0.36 + 5 * 0.64)
    assert form.upper(np.array([0.6]), np.array([0.6]))[0] == pytest.approx(0.36 + 5 * 0.64, rel=1e-9)


def test_a_zero_theta_is_no_special_case():
    domain = ellipsoid(np.ones(3), False)
    form = slices(domain, np.zeros(3), np.diag([1.0, 5.0, 2.0]))
    assert form.upper(np.array([-1.0]), np.array([1.0]))[0] == pytest.approx(5.0)


@pytest.mark.parametrize("seed", range(20))
def test_no_point_of_a_box_beats_the_ellipsoid_around_it(seed):
    """Any symmetric form, over the ellipsoid that suits another form."""
    rng = np.random.default_rng(200 + seed)
    m, intercept = int(rng.integers(1, 6)), bool(seed % 2)
    p = m + int(intercept)
    bounds, theta = rng.uniform(0.2, 2, m), rng.standard_normal(p)
    B = rng.standard_normal((p, p))
    region, M = enclosing(bounds, (B @ B.T)[:m, :m], intercept), B + B.T
    form = slices(region, theta, M)
    x = rng.uniform(-1, 1, (20_000, m))
    x[rng.random(x.shape) < 0.6] = 1.0
    x = np.column_stack([x * rng.choice([-1.0, 1.0], x.shape) * bounds, np.ones((len(x), int(intercept)))])
    value, stretch = np.einsum("ij,jk,ik->i", x, M, x), np.linalg.norm(region.T.T @ theta)
    sigma = (x - region.x0) @ theta / stretch
    assert (np.abs(sigma) <= 1).all() and (np.einsum("ij,ij->i", x, x) <= region.square).all()
    for cells in (1, 7, 100):
        edges = np.linspace(-1, 1, cells + 1)
        upper = form.upper(edges[:-1], edges[1:])
        assert (value <= upper[np.minimum(((sigma + 1) / 2 * cells).astype(int), cells - 1)]).all()


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
