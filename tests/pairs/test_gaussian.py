"""Two general Gaussians against closed forms, intervals in mpmath, nested quadrature and simulation."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import integrate

from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift, GeneralGaussian, PosteriorSamplePair
from tests.pairs.reference import gaussian_delta, simulated, with_gaussian


@settings(max_examples=60)
@given(
    size=st.floats(-8, 4),
    up=st.booleans(),
    shift=st.floats(-4, 3),
    epsilon=st.floats(-3, 3),
    scale=st.floats(-2, 1),
)
def test_one_coordinate_is_an_interval(size, up, shift, epsilon, scale):
    nu = 10**size if up else -(10**size) / (1 + 10**size)
    m = 10**shift
    pair = GeneralGaussian([[nu]], [[m]])
    center, width = pair.kl("without")[0], np.sqrt(m * m * (1 + nu) + nu * nu / 2)
    at = center + 10**scale * epsilon * width
    assume(abs(at) < 4000)
    with mp.workdps(60 + int(abs(at) / 2.3)):
        truth = gaussian_delta(nu, m, at)
        assume(truth > mp.mpf(10) ** -290)
        # what a rounding of epsilon does to delta is beyond anybody's reach
        condition = abs(1 - gaussian_delta(nu, m, at * (1 - mp.mpf(2) ** -50)) / truth)
        got = pair.delta(at, "without")[0]
        assert truth * (1 - mp.mpf("1e-13")) <= got <= truth * (1 + mp.mpf("1e-10") + 2 * condition)


@settings(max_examples=60)
@given(st.floats(-10, 5), st.floats(-3, 4), st.floats(-250, -0.1), st.sampled_from(["without", "with", "worst"]))
def test_a_posterior_is_a_gaussian_with_one_coordinate(mu, rho, delta, direction):
    mu, rho, delta = 10**mu, 10**rho, 10**delta
    slow, fast = GeneralGaussian([[mu]], [[rho * np.sqrt(mu / (1 + mu))]]), PosteriorSamplePair([mu], [rho])
    np.testing.assert_allclose(slow.epsilon(delta, direction), fast.epsilon(delta, direction), rtol=2e-9, atol=1e-12)
    np.testing.assert_allclose(slow.attack_power(0.01), fast.attack_power(0.01), rtol=1e-8)
    np.testing.assert_allclose(slow.renyi(1.01, direction), fast.renyi(1.01, direction), rtol=1e-9)
    np.testing.assert_allclose(slow.kl(direction), fast.kl(direction), rtol=1e-9, atol=1e-300)


@settings(max_examples=60)
@given(st.floats(-9, 4), st.floats(-299, -0.01))
def test_equal_covariances_are_a_shift(distance, delta):
    D = 10**distance
    split = GeneralGaussian([[0.0, 0.0]], [[0.6 * D, 0.8 * D]])
    np.testing.assert_allclose(split.epsilon(10**delta), GaussianShift([D]).epsilon(10**delta), rtol=2e-9, atol=1e-12)
    np.testing.assert_allclose(split.zcdp(), D * D / 2)


@pytest.mark.parametrize(
    ("nu", "m", "epsilon"),
    [
        ((0.0, -0.3), (1.0, 1.0), 0.5),
        ((0.0, 2.0), (3.0, 0.5), 9.0),
        ((0.0, -0.9), (2.0, 2.0), -1.5),
        ((0.0, 1e-3), (0.4, 0.02), 2.5),
        ((0.0, 30.0), (3.0, 1.0), 120.0),
        ((0.0, 0.2), (0.3, 0.3), 12.0),
    ],
)
def test_a_second_coordinate_is_one_more_integral(nu, m, epsilon):
    with mp.workdps(60):
        truth = with_gaussian(
            lambda e: gaussian_delta(nu[0], m[0], e), nu[1], m[1], epsilon, fine=12 if nu[1] > 1 else 2
        )
        got = GeneralGaussian([nu], [m]).delta(epsilon, "without")[0]
        assert truth * (1 - mp.mpf("1e-13")) <= got <= truth * (1 + mp.mpf("1e-9"))


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


@pytest.mark.parametrize("alpha", [1.0, 1.3, 2.0])
def test_renyi_is_its_integral(alpha):
    nu, m = 0.4, 0.7
    pair = GeneralGaussian([[nu]], [[m]])

    def densities(x):
        p = np.exp(-((x - m) ** 2) / (2 * (1 + nu))) / np.sqrt(2 * np.pi * (1 + nu))
        return p, np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)

    for direction in ("without", "with"):

        def integrand(x, direction=direction):
            p, q = densities(x) if direction == "without" else densities(x)[::-1]
            return p * np.log(p / q) if alpha == 1 else p**alpha * q ** (1 - alpha)

        value = integrate.quad(integrand, -20, 20, epsabs=1e-13)[0]
        truth = value if alpha == 1 else np.log(value) / (alpha - 1)
        np.testing.assert_allclose(pair.renyi(alpha, direction), truth, rtol=1e-9)
    assert np.isposinf(pair.renyi(1 + 1 / nu, "without")[0]) and np.isfinite(pair.renyi(1 + 1 / nu, "with")[0])


def test_profile_is_decreasing_and_convex_in_the_odds():
    pair = GeneralGaussian([[0.5, -0.4]], [[0.3, 1.0]])
    odds = np.linspace(0.05, 12, 120)
    for direction in ("without", "with"):
        curve = np.array([pair.delta(np.log(o), direction)[0] for o in odds])
        assert (np.diff(curve) < 0).all() and (np.diff(curve, 2) > -1e-12).all()
        minus = np.array([pair.delta(-np.log(o), "with" if direction == "without" else "without")[0] for o in odds])
        np.testing.assert_allclose(curve, 1 - odds + odds * minus, atol=1e-12)


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
