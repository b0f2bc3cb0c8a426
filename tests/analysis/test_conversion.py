"""The recipe from pDP to DP: its promise against the exact profile of neighbours, and against AdaOPS."""

import numpy as np
import pytest
from scipy.special import ndtr

from perinstance.analysis import KeyQuantity, convert
from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift, PosteriorSamplePair


def test_a_bound_fails_as_rarely_as_it_says_on_both_neighbours():
    rng = np.random.default_rng(0)
    bound = KeyQuantity("count", 1.0, "upper").released(distance=0.5, failure=0.02)
    noise = bound.scale * rng.standard_normal(400_000)
    assert np.mean(bound.bound(10.0 + noise) < 10.0) <= 0.02
    assert np.mean(bound.bound(10.0 + noise) < 11.0) <= 0.02 * 1.1  # the neighbour's value: this one is tight
    assert np.mean(bound.bound(10.0 + noise) < 11.0) >= 0.02 * 0.9
    low = KeyQuantity("eigenvalue", 1.0, "lower").released(distance=0.5, failure=0.02)
    assert np.mean(low.bound(10.0 + noise) > 9.0) == pytest.approx(0.02, rel=0.1)


def exact_delta(eps, lam, row, residual_at, rule, bound):
    """delta of (noisy eigenvalue, posterior sample) for one pair of neighbours in one dimension, by quadrature.

    Without: lambda = lam, with: lam + row^2. The rule turns the noisy value into (ridge, gamma).
    """
    z = np.linspace(-9, 9, 6001)
    noisy = lam + bound.scale * z
    mass = np.diff(ndtr(np.concatenate([[-np.inf], 0.5 * (z[1:] + z[:-1]), [np.inf]])))
    gap = row**2 / bound.scale
    loss = 0.5 * gap**2 - gap * z  # log of the two densities of the noisy value
    ridge, gamma = rule(bound.bound(noisy))
    pairs = PosteriorSamplePair(row**2 / (lam + ridge), np.sqrt(gamma) * residual_at(ridge))
    return float(mass @ pairs.delta(eps - loss, "without"))


def test_the_promise_covers_neighbours_whatever_the_noise_was():
    """One dimension, ||x||, |y| <= 1, n = 50 public: floors 8 and 20 chosen by the noisy eigenvalue."""
    n = 50
    eigenvalue = KeyQuantity("sum of squares", 1.0, "lower").released(distance=0.2, failure=1e-6)
    corners = [(1 / 8.0, 0.5), (1 / 20.0, 0.9)]  # (mu, rho): rho is what gamma is chosen for

    def residual_bound(h):
        return 1 + np.sqrt(n / h)

    def rule(low):
        high = low > 15
        h = np.where(high, 20.0, 8.0)
        rho = np.where(high, corners[1][1], corners[0][1])
        return np.maximum(0.0, h - np.maximum(low, 0.0)), (rho / residual_bound(h)) ** 2

    conversion = convert(
        [eigenvalue],
        leverage=[c[0] for c in corners],
        residual=[c[1] for c in corners],
        enforced=("a ridge lifts the eigenvalue to the floor", "gamma keeps rho at the corner"),
    )
    for lam in (0.5, 5.0, 16.0, 40.0):
        theta = {"y": np.sqrt(n * lam)}  # X'y at most sqrt(lambda) sqrt(n)

        def residual_at(ridge, lam=lam, theta=theta):
            return 1 + theta["y"] / (lam + ridge)

        for eps in (0.5, 1.0, 2.0):
            assert exact_delta(eps, lam, 1.0, residual_at, rule, eigenvalue) <= conversion.promise.delta(eps)


def test_a_purely_gaussian_recipe_is_exact():
    bounds = [KeyQuantity("a", 1.0, "upper").released(0.3, 1e-8), KeyQuantity("b", 2.0, "lower").released(0.4, 1e-8)]
    conversion = convert(bounds, shift=1.2, enforced=("noise of fixed covariance",))
    assert conversion.promise.distance == pytest.approx(1.3)
    assert conversion.epsilon(1e-5) == pytest.approx(GaussianShift([1.3]).epsilon(1e-5 - 2e-8)[0], rel=1e-6)


def test_what_only_rises_needs_no_wider_upper_bound():
    """An upper bound on n without the person: the release with them is higher by one and errs on the safe side."""
    rng = np.random.default_rng(1)
    count = KeyQuantity("count", 1.0, "upper", rises=True).released(distance=0.5, failure=0.02)
    noise = count.scale * rng.standard_normal(400_000)
    assert np.mean(count.bound(10.0 + noise) < 10.0) == pytest.approx(0.02, rel=0.1)
    assert np.mean(count.bound(11.0 + noise) < 10.0) <= 0.02
    low = KeyQuantity("eigenvalue", 1.0, "lower", rises=True).released(distance=0.5, failure=0.02)
    assert np.mean(low.bound(11.0 + noise) > 10.0) == pytest.approx(0.02, rel=0.1)  # lower bounds must be widened


def test_nothing_is_left_out():
    part = KeyQuantity("a", 1.0, "upper").released(0.1, 1e-7)
    for wrong in (
        {"bounds": [part], "enforced": ()},
        {"bounds": ["a"], "enforced": ("x",)},
        {"bounds": [part], "leverage": [0.1], "enforced": ("x",)},
        {"bounds": [part], "leverage": [np.inf], "residual": [1.0], "enforced": ("x",)},
        {"bounds": [part], "shift": -1.0, "enforced": ("x",)},
        {"bounds": [part], "shift": np.nan, "enforced": ("x",)},
        {"bounds": [part], "shift": "1", "enforced": ("x",)},
    ):
        with pytest.raises(InvalidInput):
            convert(**wrong)
    for wrong in (0.0, -1.0, np.nan, np.inf, "1", True):
        with pytest.raises(InvalidInput, match="sensitivity must be"):
            KeyQuantity("a", wrong, "upper")
        with pytest.raises(InvalidInput, match="distance must be"):
            KeyQuantity("a", 1.0, "upper").released(wrong, 1e-7)
    with pytest.raises(InvalidInput, match="failure must"):
        KeyQuantity("a", 1.0, "upper").released(0.1, 1.0)
    with pytest.raises(InvalidInput, match="side must be 'lower' or 'upper', got 'low'"):
        KeyQuantity("a", 1.0, "low")
