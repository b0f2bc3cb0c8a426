"""Two general Gaussians and objective perturbation: closed forms, nested quadrature, refits, simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perinstance.errors import InvalidInput
from perinstance.pairs import GeneralGaussian, ObjectivePair, PosteriorSamplePair
from tests.pairs.reference import simulated


@settings(max_examples=40)
@given(st.floats(-10, 5), st.floats(-3, 4), st.floats(-250, -0.1), st.sampled_from(["without", "with", "worst"]))
def test_a_posterior_is_a_gaussian_with_one_coordinate(mu, rho, delta, direction):
    mu, rho, delta = 10**mu, 10**rho, 10**delta
    slow, fast = GeneralGaussian([[mu]], [[rho * np.sqrt(mu / (1 + mu))]]), PosteriorSamplePair([mu], [rho])
    np.testing.assert_allclose(slow.epsilon(delta, direction), fast.epsilon(delta, direction), rtol=2e-9, atol=1e-12)
    np.testing.assert_allclose(slow.attack_power(0.01), fast.attack_power(0.01), rtol=1e-8)
    np.testing.assert_allclose(slow.renyi(1.01, direction), fast.renyi(1.01, direction), rtol=1e-9)
    np.testing.assert_allclose(slow.kl(direction), fast.kl(direction), rtol=1e-9, atol=1e-300)


def _moments(seed, n=4, k=3):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(2, n, k, k))
    covariances = roots @ np.swapaxes(roots, 2, 3) + 0.3 * np.eye(k)
    means = rng.normal(size=(2, n, k))
    return means[0], covariances[0], means[1], covariances[1]


def test_moments_match_simulation_and_the_textbook_divergence():
    mean_p, cov_p, mean_q, cov_q = _moments(0, n=2)
    pair = GeneralGaussian.from_moments(mean_p, cov_p, mean_q, cov_q)
    rng = np.random.default_rng(1)
    for i in range(2):
        x = rng.multivariate_normal(mean_p[i], cov_p[i], size=300_000)
        dp, dq = x - mean_p[i], x - mean_q[i]
        loss = 0.5 * (
            np.einsum("ni,ij,nj->n", dq, np.linalg.inv(cov_q[i]), dq)
            - np.einsum("ni,ij,nj->n", dp, np.linalg.inv(cov_p[i]), dp)
            + np.linalg.slogdet(cov_q[i])[1]
            - np.linalg.slogdet(cov_p[i])[1]
        )
        for epsilon in (-0.5, 0.0, 1.0, 3.0):
            mean, error = simulated(loss, epsilon)
            assert abs(pair.delta(epsilon, "without")[i] - mean) < 5 * error + 1e-9
        d = mean_p[i] - mean_q[i]
        inverse = np.linalg.inv(cov_q[i])
        kl = 0.5 * (np.trace(inverse @ cov_p[i]) - 3 + d @ inverse @ d)
        kl += 0.5 * (np.linalg.slogdet(cov_q[i])[1] - np.linalg.slogdet(cov_p[i])[1])
        np.testing.assert_allclose(pair.kl("without")[i], kl, rtol=1e-10)


def test_an_affine_map_changes_nothing_and_exchange_swaps_directions():
    mean_p, cov_p, mean_q, cov_q = _moments(2)
    here = GeneralGaussian.from_moments(mean_p, cov_p, mean_q, cov_q)
    T = np.array([[2.0, 0.3, 0.0], [0.0, 0.5, 1.0], [1.0, 0.0, 3.0]])
    moved = GeneralGaussian.from_moments(mean_p @ T.T + 1, T @ cov_p @ T.T, mean_q @ T.T + 1, T @ cov_q @ T.T)
    np.testing.assert_allclose(moved.epsilon(1e-5), here.epsilon(1e-5), rtol=1e-9)
    back = GeneralGaussian.from_moments(mean_q, cov_q, mean_p, cov_p)
    np.testing.assert_allclose(back.epsilon(1e-5, "with"), here.epsilon(1e-5, "without"), rtol=1e-9)
    np.testing.assert_allclose(back.delta(0.7, "without"), here.delta(0.7, "with"), rtol=1e-9)


def test_attack_is_the_likelihood_ratio_test():
    pair = GeneralGaussian([[0.5, -0.4]], [[0.3, 1.0]])
    rng = np.random.default_rng(5)
    null = np.array([0.3, 1.0]) + rng.normal(size=(400_000, 2)) * np.sqrt([1.5, 0.6])  # P: she is out
    alternative = rng.normal(size=(400_000, 2))
    statistic = [np.sum((x - [0.3, 1.0]) ** 2 / [1.5, 0.6] - x**2, axis=1) for x in (null, alternative)]
    for rate in (0.01, 0.2, 0.7):
        threshold = np.quantile(statistic[0], 1 - rate)
        assert abs(pair.attack_power(rate)[0] - (statistic[1] > threshold).mean()) < 0.005


def test_edges():
    pair = GeneralGaussian([[0.2, 0.0], [0.0, 0.0]], [[0.5, 0.0], [0.0, 0.0]], kind=["upper", "exact"])
    short = GeneralGaussian([[0.2]], [[0.5]])
    np.testing.assert_array_equal(pair.epsilon(1e-6)[0], short.epsilon(1e-6)[0])
    assert pair.epsilon(1e-6)[1] == 0 and pair.kind == "upper" and pair[1].kind == "exact"
    assert GeneralGaussian.concatenate([pair, short]).excess.shape == (3, 2)
    assert list(pair.to_frame().columns) == ["excess_1", "excess_2", "shift_1", "shift_2", "kind"]
    assert np.isposinf(GeneralGaussian([[np.inf]], [[0.0]]).epsilon(1e-6)).all()
    bounded = GeneralGaussian([[-0.5]], [[0.0]])  # P is the narrower one: P over Q has a largest loss
    np.testing.assert_allclose(bounded.epsilon(0.0, "without"), np.log(2) / 2)
    assert np.isposinf(bounded.epsilon(0.0)).all() and bounded.delta(0.4, "without")[0] == 0
    np.testing.assert_allclose(bounded.renyi(np.inf, "without"), np.log(2) / 2)
    assert len(GeneralGaussian(np.zeros((0, 2)), np.zeros((0, 2))).epsilon(1e-6)) == 0


def test_refuses_what_cannot_be():
    with pytest.raises(InvalidInput, match="above -1"):
        GeneralGaussian([[-1.0]], [[0.0]])
    with pytest.raises(InvalidInput, match="NaN"):
        GeneralGaussian([[np.nan]], [[0.0]])
    with pytest.raises(InvalidInput, match="same shape"):
        GeneralGaussian([[0.1, 0.2]], [[0.0]])
    with pytest.raises(InvalidInput, match="2-d"):
        GeneralGaussian([0.1], [0.0])
    one, flat = np.eye(2)[None], np.zeros((1, 2))
    with pytest.raises(InvalidInput, match="positive definite"):
        GeneralGaussian.from_moments(flat, one, flat, np.diag([1.0, 0.0])[None])
    with pytest.raises(InvalidInput, match="shape"):
        GeneralGaussian.from_moments(flat, one, flat, np.eye(3)[None])
    with pytest.raises(InvalidInput, match="finite"):
        GeneralGaussian.from_moments(flat + np.inf, one, flat, one)


def _refit(seed: int, d: int, s: float):
    """A data set, a person, and the two Gaussians of the release without and with her."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(30, d)), rng.normal(size=30)
    x, target = 1.5 * rng.normal(size=d), 2.0
    H = X.T @ X + np.eye(d)
    moments = []
    for A, b in ((H, X.T @ y), (H + np.outer(x, x), X.T @ y + x * target)):
        inverse = np.linalg.inv(A)
        moments.append((inverse @ b, s * s * inverse @ inverse))
    v = np.linalg.solve(H, x)
    return moments, (x @ v, abs(target - x @ moments[0][0]) / s, x @ x, v @ v)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("d", [1, 2, 5])
def test_agrees_with_the_two_refitted_gaussians(seed, d):
    (p, q), parameters = _refit(seed, d, s=2.0)
    fast = ObjectivePair(*([value] for value in parameters))
    slow = GeneralGaussian.from_moments(p[0][None], p[1][None], q[0][None], q[1][None])
    for direction in ("without", "with", "worst"):
        np.testing.assert_allclose(fast.epsilon(1e-6, direction), slow.epsilon(1e-6, direction), rtol=1e-8)
        np.testing.assert_allclose(fast.delta(0.3, direction), slow.delta(0.3, direction), rtol=1e-8)
        np.testing.assert_allclose(fast.renyi(1.5, direction), slow.renyi(1.5, direction), rtol=1e-8)
        np.testing.assert_allclose(fast.kl(direction), slow.kl(direction), rtol=1e-8)
    np.testing.assert_allclose(fast.attack_power(0.05), slow.attack_power(0.05), rtol=1e-8)
    np.testing.assert_allclose(fast.tv(), slow.tv(), rtol=1e-8)


def test_whole_range_is_consistent_and_quiet():
    rng = np.random.default_rng(3)
    n = 600
    mu = np.where(rng.random(n) < 0.1, 0.0, 10 ** rng.uniform(-12, 6, n))
    r = np.where(rng.random(n) < 0.1, 0.0, 10 ** rng.uniform(-6, 6, n))
    xx = 10 ** rng.uniform(-3, 3, n)
    tilt = np.where(rng.random(n) < 0.3, 1.0, 10 ** rng.uniform(0, 3, n))
    pair = ObjectivePair(mu, r / np.sqrt(xx), xx, (mu * tilt) ** 2 / xx)
    delta = np.where(rng.random(n) < 0.5, 10 ** rng.uniform(-299, 0, n), 10 ** rng.uniform(-12, -0.01, n))
    for direction in ("without", "with"):
        epsilon = pair.epsilon(delta, direction)
        assert np.isfinite(epsilon).all() and (epsilon >= 0).all()
        back = pair.delta(epsilon, direction)
        edge = epsilon >= pair.renyi(np.inf, direction) * (1 - 1e-12)  # there a rounding of epsilon is all of delta
        assert (back[~edge] <= delta[~edge] * (1 + 1e-7)).all()
        lower = pair.delta(epsilon * (1 - 2e-9) - 2e-12, direction)
        assert (lower[epsilon > 1e-11] >= delta[epsilon > 1e-11]).all()


def test_scale_of_the_features_is_absorbed():
    base = ObjectivePair([0.2], [3.0], [1.0], [0.09])
    scaled = ObjectivePair([0.2], [1.5], [4.0], [0.0225])
    np.testing.assert_allclose(scaled.epsilon(1e-6), base.epsilon(1e-6), rtol=1e-12)


def test_edges_of_objective_perturbation():
    nobody = ObjectivePair([0.0, 0.0], [5.0, np.inf], [0.0, 0.0], [0.0, 0.0])
    assert (nobody.epsilon(1e-6) == 0).all() and (nobody.delta(0.0) == 0).all() and (nobody.zcdp() == 0).all()
    np.testing.assert_allclose(nobody.delta(-1.0), -np.expm1(-1.0))
    lost = ObjectivePair([np.inf, 0.1], [1.0, np.inf], [np.inf, 1.0], [np.inf, 0.1])
    assert (
        np.isposinf(lost.epsilon(1e-6)).all() and (lost.delta(3.0) == 1).all() and (lost.attack_power(0.0) == 1).all()
    )
    some = ObjectivePair([0.1], [1.0], [1.0], [0.02])
    assert np.isposinf(some.epsilon(0.0)).all() and np.isposinf(some.zcdp()).all()
    assert some.delta(np.inf)[0] == 0 and some.delta(-np.inf)[0] == 1
    assert some.attack_power(0.0)[0] == 0 and some.attack_power(1.0)[0] == 1
    assert len(some[[0, 0]]) == 2 and some[0].kind == "exact"
    assert len(ObjectivePair.concatenate([some, lost])) == 3
    assert list(some.to_frame().columns) == ["leverage", "residual", "x_squared", "v_squared", "kind"]
    assert len(some[:0].epsilon(1e-6)) == 0


def test_no_objective_breaks_cauchy_schwarz():
    with pytest.raises(InvalidInput, match="Cauchy-Schwarz"):
        ObjectivePair([0.5], [1.0], [1.0], [0.2])
    with pytest.raises(InvalidInput, match="residual"):
        ObjectivePair([0.5], [-1.0], [1.0], [0.3])
    with pytest.raises(InvalidInput, match="same length"):
        ObjectivePair([0.5, 0.5], [1.0, 1.0, 1.0], [1.0], [0.3])
    with pytest.raises(InvalidInput, match="delta must lie"):
        ObjectivePair([0.5], [1.0], [1.0], [0.3]).epsilon(1.5)
