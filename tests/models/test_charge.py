"""What is charged, and which label follows, at the ends of the float range."""

from __future__ import annotations

import numpy as np

from perinstance.numerics.charged_rounding import EXACT, UPPER, charge


def test_sizes_are_raised_and_labelled():
    found = charge([1.0, -1.0, 1.0, 0.0, 0.0], [0.0, 1e-7, 1e-5, 0.0, 1e-9])
    assert found.value[0] == 1.0
    assert found.value[1] < -1.0
    assert (np.abs(found.value[1:3]) >= [1 + 1e-7, 1 + 1e-5]).all()
    assert found.kind_code.tolist() == [EXACT, EXACT, UPPER, EXACT, UPPER]


def test_what_is_not_a_number_bounds_nothing():
    """A NaN once left the value as it was, labelled upper, and below the truth."""
    found = charge([1.0, np.nan, np.nan, np.inf], [np.nan, 0.0, np.nan, np.nan])
    assert np.isinf(found.value).all()
    assert (found.kind_code == UPPER).all()


def test_infinity_is_exact_only_where_nothing_was_lost():
    found = charge([np.inf, np.inf, 1.0], [0.0, np.inf, np.inf])
    assert np.isinf(found.value).all()
    assert found.kind_code.tolist() == [EXACT, UPPER, UPPER]
