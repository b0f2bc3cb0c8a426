from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift
from perinstance.report import render, words
from perinstance.shown_decimals import declared_text, short_loss_text

positive_floats = st.floats(min_value=0, exclude_min=True, allow_infinity=False)


@pytest.mark.parametrize("write", [words.loss, short_loss_text])
@given(positive_floats)
@example(0.1)
@example(0.0999999999999)
@example(1e-5)
@example(9.9999e-5)
@example(math.nextafter(1e-4, 0))
@example(math.nextafter(1.0, 2))
@example(math.nextafter(1000.0, 0))
@example(1e15)
@example(5e-324)
@example(math.nextafter(math.inf, 0))
def test_a_shown_loss_is_exactly_rounded_up(write, value):
    """Compared as fractions: not below by any part of a float, and not a unit of the last shown digit above."""
    shown = Decimal(write(value).replace(",", ""))
    assert Fraction(shown) >= Fraction(value)
    digits = 3 if write is words.loss else 6
    unit = Fraction(10) ** (Decimal(value).adjusted() - digits + 1)
    assert Fraction(shown) - Fraction(value) < unit


@given(positive_floats)
def test_a_declared_number_is_shown_with_all_its_digits(value):
    assert float(declared_text(value)) == value


@given(st.integers(1, 999_999), st.integers(-12, 12))
def test_short_losses_look_like_the_format_g(digits, exponent):
    value = digits * 2.0**exponent
    if Decimal(f"{value:.6g}") == Decimal(value):
        assert short_loss_text(value) == f"{value:.6g}"


def test_what_has_few_digits_stays():
    assert [words.loss(v) for v in (0.5, 1.0, 100.0, 1000.0, 0.125)] == ["0.500", "1.00", "100", "1,000", "0.125"]
    assert [words.loss(v) for v in (0.0, math.inf, 709.2)] == ["0", "∞", "710"]


@given(st.floats(0, 1))
def test_a_share_reads_as_the_probability_it_is(p):
    shown = float(words.share(p).rstrip("%")) / 100
    assert abs(shown - p) <= max(0.06 * p, 1e-300) and (shown < 1) == (p < 1) or p > 1 - 1e-12


def test_reasons_name_what_stands_out():
    leverage = np.r_[np.linspace(0.02, 0.01, 98), 1.0, 1.0]
    residual = np.r_[np.linspace(-1, 1, 97), 50.0, 0.0, -60.0]
    assert words.reasons(leverage, residual, [97, 98, 99, 50]) == [
        "badly predicted",
        "rare features",
        "rare features and badly predicted",
        "neither stands out",
    ]
    assert words.reasons(np.ones(5), np.zeros(5), [0, 4]) == ["neither stands out"] * 2  # nobody, in constant columns


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 30.0])
def test_the_explained_mechanism_has_that_loss(epsilon):
    shift = words.shift_of_loss(epsilon, 1e-6)
    assert float(shift.epsilon(1e-6)[0]) == pytest.approx(epsilon, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.3])
def test_no_gaussian_beats_the_bound_for_any_mechanism(rate):
    for distance in (0.1, 1.0, 3.0):
        epsilon = float(GaussianShift([distance]).epsilon(1e-5)[0])
        power = float(ndtr(ndtri(rate) + distance))
        assert power <= words.most_attack_power(epsilon, 1e-5, rate) + 1e-12


def test_the_bound_is_attained_by_randomised_response():
    # Randomised response with odds e^eps: reject on "yes" with probability such that the false alarms are a.
    epsilon, a = 1.2, 0.1
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    power = a / (1 - p) * p
    assert words.most_attack_power(epsilon, 0.0, a) == pytest.approx(min(power, 1.0))


def test_bad_delta_is_refused():
    with pytest.raises(InvalidInput, match=r"delta must lie in \(0, 1\), got 0"):
        words.shift_of_loss(1.0, 0.0)
    assert np.isfinite(words.most_attack_power(1e4, 0.0, 0.5))


def test_belief_after_an_alarm_is_bayes_rule_counted_in_people():
    # of 100,000 candidates 1,000 are in: the test finds 90 of them and errs on 990 others
    assert words.belief_after_alarm(0.01, 0.09) == pytest.approx(90 / (90 + 990))
    assert words.belief_after_alarm(0.5, 0.01) == pytest.approx(0.5)  # a test that guesses changes nothing


@pytest.mark.parametrize(
    ("power", "word"),
    [(0.01, "very small"), (0.017, "small"), (0.0215, "moderate"), (0.2, "large"), (1.0, "very large")],
)
def test_a_loss_is_called_small_or_large_by_what_an_alarm_says(power, word):
    assert words.size_in_words(power) == word


def test_the_page_says_it_with_odds(audit):
    page = render(audit)
    power = float(audit.pairs[[int(np.argmax(audit.losses))]].attack_power(0.01)[0])
    belief = 0.1 * power / (0.1 * power + 0.9 * 0.01)
    assert "For the most exposed person this is " in page
    assert f"10% becomes {words.share_at_most(belief)}" in page
