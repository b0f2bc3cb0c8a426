"""A perturbed logistic regression as an exact function of bit strings: against mpmath, and as a distribution."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from scipy.special import expit

from perinstance.errors import InvalidInput
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.sampling import PerturbedLogistic, ideal_laws
from perinstance.sampling.ideal_laws import settle
from perinstance.sampling.known_answers import StreamBits
from perinstance.sampling.random_bits import SystemBits
from tests.sampling import reference

EXPONENT = -40


def _strings(label, d):
    return [StreamBits(f"{label} {i}") for i in range(d)]


def _minimum(X, y, weights, tilt, start):
    """Newton's method with 400 digits, no balls; the start only has to be near."""
    A, theta = reference.matrix(X), mpmath.matrix([mpf(v) for v in start])
    n, d = X.shape
    for _ in range(12):
        p = [1 / (1 + mpmath.exp(-e)) for e in A * theta]
        gradient = mpmath.matrix(
            [
                mpmath.fsum((p[j] - mpf(y[j])) * A[j, k] for j in range(n)) + mpf(weights[k]) * theta[k] + tilt[k]
                for k in range(d)
            ]
        )
        H = mpmath.matrix(d, d)
        for k in range(d):
            for m in range(d):
                H[k, m] = mpmath.fsum(p[j] * (1 - p[j]) * A[j, k] * A[j, m] for j in range(n))
            H[k, k] += mpf(weights[k])
        theta = theta - mpmath.lu_solve(H, gradient)
    assert mpmath.norm(gradient) < mpf(10) ** -150
    return list(theta)


def _table(rng, n, d):
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-2, 3, d)
    y = (rng.random(n) < expit(X[:, 0])).astype(float)
    return X, y


@pytest.mark.parametrize("count", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_draws_of_fixed_strings(count):
    rng = np.random.default_rng(21)
    with mp.workdps(reference.DIGITS):
        for i in range(count):
            d = 1 + i % 3
            X, y = _table(rng, 12, d)
            weights, scale = rng.choice([1e-3, 0.5, 20.0], d), float(rng.choice([0.1, 2.0, 30.0]))
            ideal = PerturbedLogistic(X, y, weights, scale)
            z = [reference.normal(f"perturbed {i} {j}") for j in range(d)]
            tilt = [mpf(scale) * v for v in z]
            near = ideal._near([float(v) for v in tilt])
            expected = reference.rounded(_minimum(X, y, weights, tilt, near), EXPONENT)
            assert settle(ideal, _strings(f"perturbed {i}", d), EXPONENT) == expected


def test_more_bits_shrink_the_ball_around_the_same_point(monkeypatch):
    X, y = _table(np.random.default_rng(3), 30, 2)
    ideal = PerturbedLogistic(X, y, np.array([0.5, 2.0]), 3.0)
    balls = []
    for bits in (96, 192, 384):
        with working_precision(bits):
            balls.append(ideal.enclose(_strings("same", 2), bits))
    for wide, narrow in zip(balls, balls[1:], strict=False):
        assert all(a.contains(b) or a.overlaps(b) for a, b in zip(wide, narrow, strict=True))
        assert all(float(b.rad()) < 1e-6 * float(a.rad()) for a, b in zip(wide, narrow, strict=True))
    known = settle(ideal, _strings("same", 2), EXPONENT)
    monkeypatch.setattr(ideal_laws, "FIRST_PRECISION", 8)
    assert settle(ideal, _strings("same", 2), EXPONENT) == known


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("count", [400, pytest.param(5000, marks=pytest.mark.slow)])
def test_the_noise_that_explains_the_draws_is_normal(count):
    """theta is one to one with ``b = -grad F(theta)``: taken back from the draws, b must be N(0, scale^2 I)."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((40, 3))
    y = (rng.random(40) < expit(X[:, 0] - X[:, 1])).astype(float)
    weights, scale = np.array([1.0, 0.5, 2.0]), 3.0
    ideal = PerturbedLogistic(X, y, weights, scale)
    points = [settle(ideal, [SystemBits() for _ in range(3)], EXPONENT) for _ in range(count)]
    theta = np.array(points, dtype=float) * 2.0**EXPONENT
    z = -((expit(theta @ X.T) - y) @ X + theta * weights) / scale
    for column in z.T:
        assert stats.kstest(column, stats.norm.cdf).pvalue > 1e-6
    assert stats.kstest(np.sum(z**2, axis=1), stats.chi2(3).cdf).pvalue > 1e-6


def test_what_is_refused():
    X, y = np.ones((4, 1)), np.array([0.0, 1.0, 0.0, 1.0])
    with pytest.raises(InvalidInput, match="penalty > 0"):
        PerturbedLogistic(X, y, np.zeros(1), 1.0)
    with pytest.raises(InvalidInput, match="scale"):
        PerturbedLogistic(X, y, np.ones(1), 0.0)
    with pytest.raises(InvalidInput, match="0 or 1"):
        PerturbedLogistic(X, 2 * y, np.ones(1), 1.0)
