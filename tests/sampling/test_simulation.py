"""Simulated draws are marked, and cannot be taken for a release."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from perinstance.errors import InvalidInput
from perinstance.sampling import ExactGram, Noisy, NoisyEigenvalue
from perinstance.sampling.simulation import Simulated, simulated_draws


def test_simulated_draws_are_marked():
    simulated = simulated_draws(Noisy([0.0, Fraction(1, 3)], [1.0, 0.1]), 100, np.random.default_rng(0))
    assert isinstance(simulated, Simulated)
    assert simulated.simulated_values.shape == (100, 2)
    assert "not a release" in repr(simulated)
    for word in ("coef_", "values", "integers", "grid", "intercept_", "__array__", "__len__", "__iter__"):
        assert not hasattr(simulated, word)


def test_scalar_noise():
    ideal = Noisy([2.0], 3.0, "laplace")
    values = simulated_draws(ideal, 20_000, np.random.default_rng(1)).simulated_values[:, 0]
    assert stats.kstest((values - 2) / 3, stats.laplace.cdf).pvalue > 1e-6


def test_equal_generators_mean_equal_simulations():
    first, second = (simulated_draws(Noisy([0.0], 1.0), 5, np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(first.simulated_values, second.simulated_values)


def test_refusals():
    with pytest.raises(InvalidInput, match="numpy Generator"):
        simulated_draws(Noisy([0.0], 1.0), 5, 42)
    equations = ExactGram.of([[1.0]], [1.0]).normal_equations()
    with pytest.raises(InvalidInput, match="no simulation is known"):
        simulated_draws(NoisyEigenvalue(equations, 1.0), 5, np.random.default_rng(0))
