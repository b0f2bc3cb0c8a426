from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perinstance.report import words


@given(st.floats(1e-300, 1e12))
def test_a_shown_loss_is_never_below_the_true_one(value):
    shown = float(words.loss(value).replace(",", ""))
    assert shown >= value * (1 - 1e-8)
    assert shown <= value * 1.0101 + 1e-300


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
        words.SURPRISING,
        words.RARE,
        words.BOTH,
        words.ORDINARY,
    ]


def test_nobody_stands_out_in_a_constant_column():
    assert words.reasons(np.ones(5), np.zeros(5), [0, 4]) == [words.ORDINARY] * 2
