"""Rivals are compared with their own calibration: it must be what their papers prove."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from perinstance_experiments.rivals import mixing_level


@pytest.mark.parametrize("order", [1.5, 4.0])
def test_the_divergence_of_a_gaussian_sketch(order):
    """One row of a sketch, with and without the person: normals whose variances differ by the person's square."""
    level, row = 20.0, 2.0
    with_, without = norm(0, np.sqrt(level)), norm(0, np.sqrt(level - row))
    slow = quad(lambda v: with_.pdf(v) ** order * without.pdf(v) ** (1 - order), -60, 60)[0]
    fast = 0.5 / (order - 1) * (order * np.log1p(-row / level) - np.log1p(-order * row / level))
    assert np.log(slow) / (order - 1) == pytest.approx(fast, rel=1e-8)


def test_a_mixing_level_falls_with_the_budget_and_grows_with_the_sketch():
    level = mixing_level(1.0, 1e-6, 50, 1, 2.0)
    assert mixing_level(10.0, 1e-6, 50, 1, 2.0) < level < mixing_level(0.1, 1e-6, 50, 1, 2.0)
    assert level < mixing_level(1.0, 1e-6, 100, 1, 2.0) and level < mixing_level(1.0, 1e-6, 50, 3, 2.0)
    assert mixing_level(1.0, 1e-6, 50, 1, 1.0) == pytest.approx(level / 2.0, rel=0.02)
