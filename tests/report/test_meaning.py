from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift
from perinstance.report.words import most_attack_power, shift_of_loss


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 30.0])
def test_the_explained_mechanism_has_that_loss(epsilon):
    shift = shift_of_loss(epsilon, 1e-6)
    assert float(shift.epsilon(1e-6)[0]) == pytest.approx(epsilon, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.3])
def test_no_gaussian_beats_the_bound_for_any_mechanism(rate):
    for distance in (0.1, 1.0, 3.0):
        epsilon = float(GaussianShift([distance]).epsilon(1e-5)[0])
        power = float(ndtr(ndtri(rate) + distance))
        assert power <= most_attack_power(epsilon, 1e-5, rate) + 1e-12


def test_the_bound_is_attained_by_randomised_response():
    # Randomised response with odds e^eps: reject on "yes" with probability such that the false alarms are a.
    epsilon, a = 1.2, 0.1
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    power = a / (1 - p) * p
    assert most_attack_power(epsilon, 0.0, a) == pytest.approx(min(power, 1.0))


def test_bad_delta_is_refused():
    with pytest.raises(InvalidInput, match=r"delta must lie in \(0, 1\), got 0"):
        shift_of_loss(1.0, 0.0)
    assert np.isfinite(most_attack_power(1e4, 0.0, 0.5))


def test_belief_after_an_alarm_is_bayes_rule_counted_in_people():
    from perinstance.report.words import belief_after_alarm

    # of 100,000 candidates 1,000 are in: the test finds 90 of them and errs on 990 others
    assert belief_after_alarm(0.01, 0.09) == pytest.approx(90 / (90 + 990))
    assert belief_after_alarm(0.5, 0.01) == pytest.approx(0.5)  # a test that guesses changes nothing


@pytest.mark.parametrize(
    ("power", "word"),
    [(0.01, "very small"), (0.017, "small"), (0.0215, "moderate"), (0.2, "large"), (1.0, "very large")],
)
def test_a_loss_is_called_small_or_large_by_what_an_alarm_says(power, word):
    from perinstance.report.words import size_in_words

    assert size_in_words(power) == word


def test_the_page_says_it_with_odds(audit):
    from perinstance.report import render
    from perinstance.report.words import share_at_most

    page = render(audit)
    power = float(audit.pairs[[int(np.argmax(audit.losses))]].attack_power(0.01)[0])
    belief = 0.1 * power / (0.1 * power + 0.9 * 0.01)
    assert "For the most exposed person this is " in page
    assert f"10% becomes {share_at_most(belief)}" in page
