"""The draws have the distribution they should: moments, Kolmogorov-Smirnov, radii, several scales.

Tests of independent randomness fail now and then by right: the bits come from a fixed stream, so that a right sampler
fails always or never. Each test has the power to see an error of a few per cent (see the control).
"""

import numpy as np
import pytest
from scipy import stats
from scipy.special import factorial, factorial2

from perinstance.sampling import ExactGram, ExactObjective, ExactOutput, ExactPosterior, Noisy
from perinstance.sampling.ideal_laws import settle
from perinstance.sampling.random_bits import SystemBits

pytestmark = pytest.mark.usefixtures("fixed_noise")

LEVEL = 1e-6
GRID_EXPONENT = -40
FEW = 12_000
MANY = pytest.param(400_000, marks=pytest.mark.slow)

rng = np.random.default_rng(11)
X = rng.standard_normal((40, 4)) * [1.0, 3.0, 0.2, 1.0]
y = X @ [1.0, -1.0, 2.0, 0.0] + rng.standard_normal(40)
EQUATIONS = ExactGram.of(X, y).normal_equations(0.7)
H = X.T @ X + 0.7 * np.eye(4)
THETA_HAT = np.linalg.solve(H, X.T @ y)
A = np.diag([1.0, 4.0, 0.3, 1.0]) + 0.2
COVARIANCES = {
    "output": (ExactOutput(EQUATIONS, 0.8), 0.64 * np.eye(4)),
    "shaped output": (ExactOutput(EQUATIONS, 0.8, A), 0.64 * np.linalg.inv(A)),
    "posterior": (ExactPosterior(EQUATIONS, 2.5), np.linalg.inv(H) / 2.5),
    "objective": (ExactObjective(EQUATIONS, 3.0), 9.0 * np.linalg.inv(H @ H)),
}


def draws(ideal, exponent=GRID_EXPONENT) -> np.ndarray:
    """What ``draw`` does, without the padded time."""
    return np.array([float(k) for k in settle(ideal, [SystemBits() for _ in range(ideal.d)], exponent)]) * 2.0**exponent


def check_standard(z: np.ndarray, law) -> None:
    """Kolmogorov-Smirnov and the first four moments of standardised draws, against their own standard errors."""
    n = len(z)
    assert stats.kstest(z, law.cdf).pvalue > LEVEL
    even = factorial if law.dist.name == "laplace" else lambda k: factorial2(k - 1)
    moments = [0.0 if k % 2 else float(even(k)) for k in range(9)]
    for k in (1, 2, 3, 4):
        error = np.sqrt((moments[2 * k] - moments[k] ** 2) / n)
        assert abs(np.mean(z**k) - moments[k]) < stats.norm.isf(LEVEL / 2) * error * (2 if k > 2 else 1)


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_scalar_draws(noise, count):
    law = stats.norm() if noise == "gaussian" else stats.laplace()
    check_standard(draws(Noisy(np.zeros(count), 1.0, noise)), law)


@pytest.mark.parametrize("count", [800, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", list(COVARIANCES))
def test_radii_and_directions_of_regressions(name, count):
    ideal, covariance = COVARIANCES[name]
    z = np.linalg.solve(np.linalg.cholesky(covariance), (np.array([draws(ideal) for _ in range(count)]) - THETA_HAT).T)
    assert stats.kstest(np.sum(z**2, axis=0), stats.chi2(4).cdf).pvalue > LEVEL
    for row in z:
        assert stats.kstest(row, stats.norm.cdf).pvalue > LEVEL
    correlation = np.corrcoef(z)[np.triu_indices(4, 1)] * np.sqrt(count)
    assert np.abs(correlation).max() < stats.norm.isf(LEVEL / 12)


@pytest.mark.parametrize("wrong", [lambda z: 1.05 * z, lambda z: z + 0.05, lambda z: np.clip(z, -1.8, 1.8)])
def test_the_control_sees_a_wrong_sampler(wrong):
    with pytest.raises(AssertionError):
        check_standard(wrong(np.random.default_rng(2).standard_normal(FEW)), stats.norm())


def test_low_bits_of_the_grid_are_fair():
    k = np.array(settle(Noisy(np.zeros(FEW), 1.0), [SystemBits() for _ in range(FEW)], GRID_EXPONENT))
    for bit in range(20):
        ones = int(((np.abs(k) >> bit) & 1).sum())
        assert stats.binomtest(ones, FEW).pvalue > LEVEL
