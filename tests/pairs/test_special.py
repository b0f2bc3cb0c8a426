"""Scalar helpers against mpmath."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from perinstance.numerics import normal_tails
from perinstance.numerics.compilation import kernel
from perinstance.numerics.double_double import log1p_pair, two_product
from perinstance.numerics.inline_exp_log import fast_exp, fast_log1p


@pytest.fixture(autouse=True)
def _sixty_digits():
    with mp.workdps(60):
        yield


def exact_mills(x):
    return mp.sqrt(mp.pi / 2) * mp.exp(x * x / 2) * mp.erfc(x / mp.sqrt(2))


def mills_coefficients(degree: int = 27) -> list[float]:
    """Powers of y of the Chebyshev expansion of ``(x + 6) R(x)``, ``y = (x - 3)/(x + 6)``."""
    points = 80
    angles = [mp.pi * (2 * j + 1) / (2 * points) for j in range(points)]
    values = []
    for angle in angles:
        x = 9 / (1 - mp.cos(angle)) - 6
        values.append((x + 6) * mp.sqrt(mp.pi / 2) * mp.exp(x * x / 2) * mp.erfc(x / mp.sqrt(2)))
    powers = [mp.mpf(0)] * (degree + 1)
    before, now = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for k in range(degree + 1):
        c = (1 if k == 0 else 2) * mp.fsum(v * mp.cos(k * a) for v, a in zip(values, angles, strict=True)) / points
        for j, value in enumerate(before):
            powers[j] += c * value
        after = [mp.mpf(0), *(2 * value for value in now)]
        for j, value in enumerate(before):
            after[j] -= value
        before, now = now, after
    return [float(power) for power in powers]


def test_mills_coefficients_are_the_generated_ones():
    assert list(normal_tails.MILLS) == pytest.approx(mills_coefficients(), rel=1e-12, abs=1e-17)


def test_mills():
    for x in np.concatenate([np.linspace(-1.5, 10, 150), np.geomspace(10, 1000, 30)]):
        assert abs(normal_tails.mills(x) / exact_mills(mp.mpf(float(x))) - 1) < 3e-15


def test_mills_drop():
    rng = np.random.default_rng(0)
    for x, h in zip(rng.uniform(-1.5, 37, 200), 10 ** rng.uniform(-14, 2, 200), strict=True):
        exact = exact_mills(mp.mpf(float(x))) - exact_mills(mp.mpf(float(x)) + mp.mpf(float(h)))
        assert abs(normal_tails.mills_drop(x, h) / exact - 1) < 2e-11


def test_central_mass():
    rng = np.random.default_rng(1)
    for a, r in zip(10 ** rng.uniform(-6, 1.5, 200), 10 ** rng.uniform(-3, 1.5, 200), strict=True):
        exact = mp.ncdf(mp.mpf(float(a)) - mp.mpf(float(r))) - mp.ncdf(-mp.mpf(float(a)) - mp.mpf(float(r)))
        assert abs(normal_tails.central_mass(a, r, a - r) / exact - 1) < 1e-11


def test_log1pmx_and_expm1px():
    for x in [-0.999, -0.5, -1e-3, -1e-12, 1e-20, 1e-9, 1e-3, 0.3, 0.99, 1.01, 7.0, 1e6]:
        exact = mp.log1p(mp.mpf(x)) - mp.mpf(x)
        assert normal_tails.log1pmx(x) == pytest.approx(float(exact), rel=1e-14, abs=0)
    for x in [1e-20, 1e-9, 1e-3, 0.3, 0.499, 0.501, 7.0, 1e3]:
        exact = mp.exp(-mp.mpf(x)) - 1 + mp.mpf(x)
        assert normal_tails.expm1px(x) == pytest.approx(float(exact), rel=1e-14, abs=0)


def test_twice_the_precision():
    rng = np.random.default_rng(2)
    for x, y in 10 ** rng.uniform(-15, 6, (200, 2)):
        high, low = two_product(x, y)
        assert mp.mpf(float(high)) + mp.mpf(float(low)) == mp.mpf(float(x)) * mp.mpf(float(y))
        high, low = log1p_pair(x)
        assert abs((mp.mpf(high) + mp.mpf(low)) / mp.log1p(mp.mpf(float(x))) - 1) < 1e-29


@kernel
def _both(x, y, exps, logs):
    for i in range(x.size):
        exps[i] = fast_exp(x[i])
        logs[i] = fast_log1p(y[i])


def test_straight_line_exponential_and_logarithm():
    rng = np.random.default_rng(3)
    x, y = rng.uniform(-700, 700, 100_000), 10 ** rng.uniform(-300, 12, 100_000)
    exps, logs = np.empty(100_000), np.empty(100_000)
    _both(x, y, exps, logs)
    assert np.abs(exps / np.exp(x) - 1).max() < 2e-15
    assert np.abs(logs / np.log1p(y) - 1).max() < 2e-15
