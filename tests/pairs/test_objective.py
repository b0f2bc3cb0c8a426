"""Objective perturbation against MATH 1c literally, against refitted Gaussians, against simulation."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from perinstance.errors import InvalidInput
from perinstance.pairs import GeneralGaussian, ObjectivePair
from tests.pairs.reference import objective_delta, simulated

# leverage, residual/s, x'x, v'v, epsilon: ordinary, nearly one-dimensional, high leverage, deep tails
CASES = [
    (0.1, 1.0, 2.0, 0.03, 0.5),
    (0.1, 1.0, 2.0, 0.03, -0.7),
    (0.5, 0.2, 1.0, 0.26, 2.0),
    (0.01, 3.0, 1.0, 0.01, 6.0),
    (20.0, 0.1, 4.0, 130.0, 8.0),
    (0.02, 0.5, 1.0, 0.0009, 5.0),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("over", ["without", "with"])
def test_profile_is_the_integral_over_the_residual(case, over):
    *parameters, epsilon = case
    with mp.workdps(40):
        truth = objective_delta(*parameters, epsilon, over)
        got = ObjectivePair(*([p] for p in parameters)).delta(epsilon, over)[0]
        assert truth * (1 - mp.mpf("1e-14")) <= got <= truth * (1 + mp.mpf("1e-9"))


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


def test_profile_matches_draws_of_the_perturbation():
    rng = np.random.default_rng(7)
    mu, r, x, v2 = 0.3, 0.8, np.array([1.2, 0.0]), 0.4
    v = np.array([mu / x[0], v2])
    b = rng.normal(size=(400_000, 2))
    e = r + b @ v
    loss = e * (b @ x) + e**2 * (x @ x) / 2 - np.log1p(mu)
    pair = ObjectivePair([mu], [r], [x @ x], [v @ v])
    for epsilon in (-1.0, 0.0, 0.5, 2.0):
        mean, error = simulated(loss, epsilon)
        assert abs(pair.delta(epsilon, "without")[0] - mean) < 5 * error + 1e-9
    np.testing.assert_allclose(pair.kl("without"), loss.mean(), atol=5 * loss.std() / 600)
    b = rng.normal(size=(400_000, 2))  # now under Q: b' = b + x e
    e = (r + b @ v) / (1 + mu)
    loss = -(e * (b @ x) - e**2 * (x @ x) / 2 - np.log1p(mu))
    for epsilon in (-1.0, 0.0, 0.5, 2.0):
        mean, error = simulated(loss, epsilon)
        assert abs(pair.delta(epsilon, "with")[0] - mean) < 5 * error + 1e-9


def test_whole_range_is_consistent_and_quiet():
    rng = np.random.default_rng(3)
    n = 3000
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


def test_loss_grows_with_the_residual_and_the_tilt():
    r = np.linspace(0, 5, 40)
    assert (np.diff(ObjectivePair([0.2], r, [1.0], [0.1]).epsilon(1e-6)) > 0).all()
    tilt = np.linspace(0.04, 1, 40)
    assert (np.diff(ObjectivePair([0.2], [0.5], [1.0], tilt).epsilon(1e-6)) > 0).all()


def test_scale_of_the_features_is_absorbed():
    base = ObjectivePair([0.2], [3.0], [1.0], [0.09])
    scaled = ObjectivePair([0.2], [1.5], [4.0], [0.0225])
    np.testing.assert_allclose(scaled.epsilon(1e-6), base.epsilon(1e-6), rtol=1e-12)


def test_edges():
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


def test_refuses_what_cannot_be():
    with pytest.raises(InvalidInput, match="Cauchy-Schwarz"):
        ObjectivePair([0.5], [1.0], [1.0], [0.2])
    with pytest.raises(InvalidInput, match="residual"):
        ObjectivePair([0.5], [-1.0], [1.0], [0.3])
    with pytest.raises(InvalidInput, match="same length"):
        ObjectivePair([0.5, 0.5], [1.0, 1.0, 1.0], [1.0], [0.3])
    with pytest.raises(InvalidInput, match="delta must lie"):
        ObjectivePair([0.5], [1.0], [1.0], [0.3]).epsilon(1.5)
