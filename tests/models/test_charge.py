"""What is charged, and which label follows, at the ends of the float range."""

from __future__ import annotations

import numpy as np

from perinstance.analysis import branch_and_bound as monotone_losses
from perinstance.numerics import charged_rounding
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


def test_one_person_is_no_broadcast_array(monkeypatch):
    """Compiling for one warns: numba asks whether it can be written. Only the first call in a process compiles."""
    asked = []

    def looked_at(*arrays):
        asked.extend(array.flags.writeable for array in arrays)
        return np.zeros(1)

    monkeypatch.setattr(charged_rounding, "_charge_each", looked_at)
    charge(np.ones(1), 0.0)
    charge(1.0, np.ones(1))
    assert len(asked) == 8
    real = monotone_losses.PosteriorSamplePair
    monkeypatch.setattr(monotone_losses, "PosteriorSamplePair", lambda *arrays: (looked_at(*arrays), real(*arrays))[1])
    monotone_losses.posterior_upper(np.full(1, 0.1), 1.0, 1e-6)
    assert len(asked) == 10 and all(asked)
