"""Clipping never grows a norm, never leaves the bound, and treats every row by itself: checked with rationals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perinstance.errors import InvalidInput
from perinstance.sampling import fixed_rows

FINITE = st.floats(allow_nan=False, allow_infinity=False)
HARD = st.one_of(
    FINITE, st.sampled_from([0.0, -0.0, 5e-324, 1.7976931348623157e308, 1e308, 1.0, math.nextafter(1, 2), 0.6, 0.8])
)
BOUNDS = st.one_of(st.floats(1e-6, 1e6), st.sampled_from([1.0, 0.5, 1 / 3, 1e-100, 1e100, 3]))


def squared(row) -> Fraction:
    return sum((Fraction(v) ** 2 for v in np.atleast_1d(row).tolist()), Fraction(0))


@settings(deadline=None, max_examples=400)
@given(arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=HARD), BOUNDS, BOUNDS)
def test_rows_stay_inside_and_never_grow(X, x_bound, y_bound):
    rows = fixed_rows(X, X[:, 0], x_bound, y_bound)
    grid = Fraction(2) ** (math.frexp(x_bound)[1] - 39)
    for before, after in zip(X, rows.X, strict=True):
        assert squared(after) <= Fraction(x_bound) ** 2
        assert squared(after) <= squared(before)
        assert all((Fraction(v) / grid).denominator == 1 for v in after.tolist())
        if squared(before) <= (Fraction(x_bound) - grid) ** 2:  # inside: truncation is all that happens
            assert all(abs(Fraction(a) - Fraction(b)) < grid for a, b in zip(before, after, strict=True))
    for before, after in zip(X[:, 0].tolist(), rows.y.tolist(), strict=True):
        assert abs(after) <= min(y_bound, abs(before))
        assert before * after >= 0


@settings(deadline=None, max_examples=200)
@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=FINITE), st.floats(1e-3, 1e3))
def test_a_clipped_row_keeps_its_direction_and_reaches_the_bound(X, bound):
    after = fixed_rows(X, np.zeros(len(X)), bound, 1.0).X
    for row, clipped in zip(X, after, strict=True):
        scaled = np.ldexp(row, -np.frexp(np.abs(row).max())[1])  # exact, and far from overflow
        if squared(row) > Fraction(bound) ** 2:
            np.testing.assert_allclose(clipped, bound * scaled / np.linalg.norm(scaled), rtol=0, atol=bound * 2e-11)


def test_a_row_does_not_depend_on_its_neighbours_or_the_layout():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 37)) * 10.0 ** rng.integers(-3, 3, (3000, 1))
    y = rng.standard_normal(3000)
    whole = fixed_rows(X, y, 1.0, 1.0)
    np.testing.assert_array_equal(fixed_rows(np.asfortranarray(X), y, 1.0, 1.0).X, whole.X)
    for i in (0, 1, 17, 2999):
        np.testing.assert_array_equal(fixed_rows(X[i : i + 1], y[i : i + 1], 1.0, 1.0).X[0], whole.X[i])
    np.testing.assert_array_equal(fixed_rows(X[::-3], y[::-3], 1.0, 1.0).X, whole.X[::-3])


def test_ties_on_the_sphere_are_kept():
    rows = fixed_rows([[0.0, 1.0], [0.6, 0.8], [math.nextafter(1, 2), 0.0]], [1.0, -1.0, 1.0000001], 1.0, 1.0)
    assert rows.clipped_x == 0  # the third row is truncated onto the sphere
    assert rows.clipped_y == 1
    np.testing.assert_array_equal(rows.X[[0, 2]], [[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(rows.y, [1.0, -1.0, 1.0])


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf, None, "1"])
def test_bounds_are_declared_not_guessed(bound):
    with pytest.raises(InvalidInput, match="x_bound must be a positive number declared"):
        fixed_rows([[1.0]], [1.0], bound, 1.0)


def test_refusals():
    with pytest.raises(InvalidInput, match="one per row"):
        fixed_rows([[1.0]], [1.0, 2.0], 1.0, 1.0)
    assert fixed_rows(np.zeros((0, 3)), [], 1.0, 1.0).X.shape == (0, 3)
