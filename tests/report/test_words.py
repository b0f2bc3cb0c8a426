from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perinstance.releases.base.shown_decimals import declared_text, short_loss_text
from perinstance.report import words


@given(st.floats(1e-300, 1e12))
def test_a_shown_loss_is_never_below_the_true_one(value):
    shown = float(words.loss(value).replace(",", ""))
    assert shown >= value * (1 - 1e-8)
    assert shown <= value * 1.0101 + 1e-300


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


def test_edges_of_losses():
    assert words.loss(0.0) == "0"
    assert words.loss(math.inf) == "∞"
    assert words.loss(709.2) == "710"


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


def test_nobody_stands_out_in_a_constant_column():
    assert words.reasons(np.ones(5), np.zeros(5), [0, 4]) == ["neither stands out"] * 2
