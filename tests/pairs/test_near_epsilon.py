"""Epsilons of readings and figures: never below those of all digits, and next to them."""

from __future__ import annotations

import numpy as np
import pytest

from perinstance.pairs import GaussianShift, SampledGaussian
from perinstance.pairs.loss_sums.sampled.lattice import answers
from perinstance.pairs.loss_sums.sampled.more_digits import precise_answers, precise_tables
from perinstance.pairs.sampled_gaussian import NEAR

LEVELS, DELTA = np.linspace(0.1, 1.0, 10)[None], 1e-6


def seldom(people: int, rate: float, steps: int, noise: float = 1.0) -> SampledGaussian:
    """People of two or three kinds out of ten that they share, sampled once or so."""
    random = np.random.default_rng(3)
    counts = random.multinomial(3, np.full(10, 0.1), people) * (steps // 3)
    return SampledGaussian(rate, LEVELS / noise, counts.astype(float))


@pytest.mark.parametrize(
    ("rate", "steps", "noise"),
    [(1e-3, 900, 1.0), (1e-2, 90, 1.0), (1e-2, 90, 0.1), (1e-4, 300, 0.7), (0.2, 300, 2.0), (1e-3, 900, 8.0)],
)
def test_a_few_are_next_to_all_digits(rate, steps, noise):
    """By a line in floats or a coarse lattice, also under much less noise."""
    pairs = seldom(4, rate, steps, noise)
    near, all_digits = pairs.near_epsilon(DELTA), pairs.epsilon(DELTA)
    assert (near >= all_digits * (1.0 - 1e-9)).all()
    assert (near <= all_digits * (1.0 + NEAR)).all()


def test_a_crowd_has_no_answers_one_by_one(monkeypatch):
    """A hundred people are answered along shared lines in floats, and each as a few are."""
    pairs = seldom(100, 1e-3, 900)
    expected = pairs[:5].epsilon(DELTA)
    monkeypatch.setattr(precise_answers, "answer_precisely", None)
    monkeypatch.setattr(answers, "answer_on_lattice", None)
    near = pairs.near_epsilon(DELTA)
    assert (near[:5] >= expected * (1.0 - 1e-9)).all()
    assert (near[:5] <= expected * (1.0 + NEAR)).all()


def test_who_is_not_near_gets_all_digits(monkeypatch):
    """Where lines in floats do not serve a crowd, it is answered as ever."""
    pairs = seldom(70, 1e-4, 300, 0.5)
    near, all_digits = pairs.near_epsilon(1e-9), pairs.epsilon(1e-9)
    assert (near >= all_digits * (1.0 - 1e-9)).all()
    assert (near <= all_digits * (1.0 + NEAR)).all()


def test_distances_of_ones_own_have_all_digits():
    """And so has every other pair."""
    own = SampledGaussian(0.05, np.linspace(0.2, 0.6, 70), 400)
    np.testing.assert_array_equal(own.near_epsilon(DELTA), own.epsilon(DELTA))
    shifts = GaussianShift([0.1, 2.0])
    np.testing.assert_array_equal(shifts.near_epsilon(DELTA), shifts.epsilon(DELTA))


def test_moments_that_are_dropped_are_summed_again(monkeypatch):
    """However few are kept for the next person."""
    pairs = seldom(6, 1e-3, 900)
    expected = pairs.epsilon(DELTA)
    monkeypatch.setattr(precise_tables, "MOST_KEPT", 1 << 11)
    np.testing.assert_allclose(pairs.epsilon(DELTA), expected, rtol=1e-12)
