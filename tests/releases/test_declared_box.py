"""Declared boxes: public maps to units and back, exact bounds, and refusals of declared facts alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

import perinstance as pi
from perinstance.errors import InvalidInput
from perinstance.releases.promises.declared_box import box_of

bounds = st.one_of(
    st.floats(1e-6, 1e6),
    st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda pair: (pair[0], pair[0] + pair[1])),
)
cells = st.one_of(st.floats(-1e7, 1e7), st.floats(allow_nan=True, allow_infinity=True))


@st.composite
def boxes(draw):
    d = draw(st.integers(1, 3))
    x_bound = draw(st.one_of(st.floats(1e-6, 1e6), st.lists(bounds, min_size=d, max_size=d)))
    return box_of(x_bound, draw(bounds), d, draw(st.booleans())), d


@given(boxes(), st.data())
def test_rows_never_leave_the_declared_set(made, data):
    box, d = made
    X, y = data.draw(arrays(float, (4, d), elements=cells)), data.draw(arrays(float, 4, elements=cells))
    rows = box.rows(X, y)
    assert rows.X.shape == (4, box.d) and (np.abs(rows.X[:, :d]) <= 1).all() and (np.abs(rows.y) <= 1).all()
    for row in rows.X:
        columns = sum(Fraction(float(cell)) ** 2 for cell in row[:d])
        assert columns <= Fraction(box.radius) ** 2
        assert columns + Fraction(float(row[d:].sum())) ** 2 <= Fraction(box.x_bound) ** 2 * (1 + Fraction(1, 10**14))
    missing = np.isnan(X).any(axis=1) | np.isnan(y)
    assert (rows.X[missing] == 0).all() and (rows.y[missing] == 0).all() and rows.missing == missing.sum()
    if box.weight:
        assert (rows.X[~missing, d] == box.weight).all()
    for i in range(4):  # what becomes of a row depends on nothing but the row
        alone = box.rows(X[i : i + 1], y[i : i + 1])
        assert (alone.X[0] == rows.X[i]).all() and alone.y[0] == rows.y[i]


@given(boxes(), st.data())
def test_coefficients_go_back_to_the_same_predictions(made, data):
    """In exact rationals: ``center_y + half_y z'theta`` is ``x'coef + intercept`` for rows within the box."""
    box, d = made
    theta = data.draw(arrays(float, box.d, elements=st.floats(-4, 4)))
    coef, intercept = box.in_user_units(theta)
    x = [Fraction(one.center) + Fraction(one.half) * Fraction(1, 3) for one in box.columns]
    units = [(cell - Fraction(one.center)) / Fraction(one.half) for cell, one in zip(x, box.columns, strict=True)]
    ones = [Fraction(box.weight)] if box.weight else []
    told = sum(Fraction(float(t)) * u for t, u in zip(theta, units + ones, strict=True))
    truth = Fraction(box.label.center) + Fraction(box.label.half) * told
    back = sum(Fraction(float(c)) * cell for c, cell in zip(coef, x, strict=True)) + Fraction(intercept)
    size = abs(truth) + Fraction(box.label.half) * (1 + sum(abs(one.center) / one.half * 8 for one in box.columns))
    size += abs(Fraction(box.label.center))
    assert abs(back - truth) <= size * Fraction(1, 10**13)


def test_without_an_intercept_nothing_is_centred():
    box = box_of([(2.0, 4.0)], (1.0, 3.0), 1, False)
    rows = box.rows(np.array([[1.0], [3.0]]), np.array([0.0, 3.0]))
    assert rows.X.tolist() == [[0.5], [0.75]] and rows.y.tolist() == pytest.approx([1 / 3, 1.0])
    assert (rows.clipped_x, rows.clipped_y) == (1, 1)
    coef, intercept = box.in_user_units(np.array([0.8]))
    assert coef == [0.6000000000000001] and intercept == 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"x_bound": [1.0, 2.0]},
        {"x_bound": [1.0, 2.0, (3.0, 3.0)]},
        {"x_bound": [1.0, 2.0, (4.0, 3.0)]},
        {"x_bound": [1.0, 2.0, "3"]},
        {"x_bound": [1.0, 2.0, np.nan]},
        {"x_bound": [1.0, 2.0, (0.0, np.inf)]},
        {"x_bound": [1.0, 2.0, (0.0, 1.0, 2.0)]},
        {"x_bound": "123"},
        {"x_bound": object},
        {"y_bound": (1.0, -1.0)},
        {"y_bound": (0.0, "1")},
        {"y_bound": -1.0},
        {"fit_intercept": "yes"},
        {"n_public": 0},
        {"n_public": 2.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("release", [pi.AdaSSP, pi.AdaOPS])
def test_wrong_declarations_are_refused_before_the_data_count(release, wrong):
    declared = {"x_bound": 1.0, "y_bound": 1.0} | wrong
    for rows in (np.zeros((0, 3)), np.full((2, 3), np.nan)):
        with pytest.raises(InvalidInput):
            release(**declared).fit(rows, np.zeros(len(rows)))
    with pytest.raises(InvalidInput):
        release(**declared).promise(3)


def test_a_recipe_declares_the_box():
    table = pi.data.hospital_patients(200)
    columns = {"age": {"range": [0, 110]}, "smoker": {"yes": ["yes"], "no": ["no"], "missing": "no"}}
    columns["ward"] = {"categories": ["surgery", "cardiology"], "missing": "other"}
    recipe = pi.Recipe(columns, target={"column": "cost_eur", "range": [0, 40_000]})
    assert recipe.ranges == [(-1.0, 1.0), (0.0, 1.0), *[(-1.0, 1.0)] * 3] and recipe.row_bound == np.sqrt(3)
    X, y = recipe.transform(table), recipe.transform_target(table)
    release = pi.AdaSSP(epsilon=1.0, x_bound=recipe, y_bound=recipe.target_range)
    rows = release._box(X.shape[1]).rows(X, y)
    assert rows.clipped_x == 0 and np.linalg.norm(rows.X[:, :-1], axis=1).max() <= np.sqrt(3) + 1e-9
    model = clone(release).fit(X, y)
    assert np.isfinite(model.coef_).all()
    with pytest.raises(InvalidInput, match="as it is"):
        _ = pi.Recipe().ranges


@pytest.mark.parametrize("release", [pi.AdaSSP, pi.AdaOPS])
def test_a_recipes_column_of_ones_is_not_paid_for_twice(release):
    columns = {"age": {"range": [0, 110]}, "ward": {"categories": ["surgery", "cardiology"], "missing": "other"}}
    once, twice = (pi.Recipe(columns, intercept=ones) for ones in (False, True))
    table = pi.data.hospital_patients(50)
    y = np.linspace(-1.0, 1.0, 50)
    with_ones = release(epsilon=1.0, x_bound=twice, y_bound=1.0)
    box, plain = with_ones._box(5), release(epsilon=1.0, x_bound=once, y_bound=1.0)._box(4)
    assert (box.columns, box.radius, box.weight, box.d) == (plain.columns, plain.radius, plain.weight, plain.d)
    X = twice.transform(table)
    np.testing.assert_array_equal(box.rows(X, y).X, plain.rows(once.transform(table), y).X)
    coef, intercept = box.in_user_units(np.ones(5))
    assert len(coef) == 5 and coef[-1] == 0.0 and (coef[:-1], intercept)[1] == plain.in_user_units(np.ones(5))[1]
    assert with_ones.fit(X, y).coef_[-1] == 0.0
    own = release(epsilon=1.0, x_bound=twice, y_bound=1.0, fit_intercept=False)
    assert own._box(5).left_out == 0 and own._box(5).d == 5  # there the column is the intercept
