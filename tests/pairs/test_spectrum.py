"""The common form of the pairs: exchange, grouping, what is too large and too small."""

from __future__ import annotations

import numpy as np

from perinstance.numerics.rounding import LEAST_PARAMETER
from perinstance.pairs import GaussianShift, LaplaceShift, ObjectivePair, PosteriorSamplePair, compose
from perinstance.pairs.sums.coordinates import HUGE, LossCoordinates
from perinstance.pairs.sums.laplace_atoms import TERMS, halves


def test_exchanging_twice_changes_nothing():
    rng = np.random.default_rng(0)
    here = LossCoordinates.gaussian(rng.uniform(-0.99, 50, (5, 3)), rng.normal(size=(5, 3)))
    back = here.swapped().swapped()
    for name in ("nu", "v", "m2"):
        np.testing.assert_allclose(getattr(back, name), getattr(here, name), rtol=1e-13, atol=1e-14)


def test_objective_keeps_small_and_large_variances_apart():
    mu, tilt = np.array([1e-9, 1.0, 1e6]), 3.0
    spectrum = ObjectivePair(mu, mu, [1.0, 1.0, 1.0], (mu * tilt) ** 2).coordinates()
    np.testing.assert_allclose(np.prod(spectrum.v, axis=1), (1 + mu) ** 2, rtol=1e-14)
    trace = 2 * mu + (tilt * mu) ** 2
    np.testing.assert_allclose(spectrum.nu.sum(axis=1), trace, rtol=1e-12)
    np.testing.assert_allclose(spectrum.m2.sum(axis=1), mu**2, rtol=1e-14)


def test_equal_laplace_distances_are_counted_and_shifts_merged():
    pair = compose(
        [
            LaplaceShift([0.5, 0.1]),
            LaplaceShift([0.5, 0.0]),
            LaplaceShift([0.2, 0.1]),
            GaussianShift([3.0, 0.0]),
            PosteriorSamplePair([0.1], [1.0])[[0, 0]],
        ]
    )
    spectrum = pair.coordinates()
    assert sorted(zip(spectrum.lap[0], spectrum.count[0], strict=True)) == [(0.2, 1.0), (0.5, 2.0)]
    assert (0.1, 2.0) in zip(spectrum.lap[1], spectrum.count[1], strict=True) and spectrum.count[1].sum() == 2
    assert spectrum.nu.shape == (2, 2) and spectrum.m2[0, 0] == 9.0


def test_raised_distances_dominate_and_are_few():
    distances = np.linspace(0.1, 0.2, 30)
    spectrum = compose([LaplaceShift([d]) for d in distances]).coordinates()
    lap, count = spectrum.lap, spectrum.count
    assert halves(lap[0], count[0])[1] <= TERMS and count.sum() == 30 and spectrum.rounded[0]
    raised = np.sort(np.repeat(lap[0], count[0].astype(int)))
    assert (raised >= distances).all()


def test_extremes_are_lost_or_lifted():
    spectrum = LossCoordinates.gaussian([[HUGE], [0.0], [0.0]], [[0.0], [LEAST_PARAMETER / 10], [0.0]])
    assert list(spectrum.infinite) == [True, False, False] and spectrum.m2[1, 0] == LEAST_PARAMETER**2
    assert list(spectrum.costs) == [True, True, False]
    assert 0 < compose([LaplaceShift([1e-200]), PosteriorSamplePair([1e-200], [1.0])]).delta(0.0)[0] < 1e-100
