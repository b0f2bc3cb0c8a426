"""Under a promise nothing that a row holds, nor the number of rows, is a reason to refuse; declared facts are."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import perinstance as pi
from perinstance.errors import InvalidTable
from perinstance.releases.promises.looks import opening
from perinstance.sampling import fixed_rows

RELEASES = [pi.AdaSSP(x_bound=1.0, y_bound=2.0), pi.AdaOPS(x_bound=1.0, y_bound=2.0)]
RELEASES += [pi.PrivateGram(x_bound=1.0, y_bound=2.0), pi.PrivateGram(x_bound=1.0, y_bound=2.0, fit_intercept=False)]
PER_COLUMN = [pi.AdaSSP(x_bound=[(0, 9), 2.0, (-1, 3)], y_bound=(0, 7)), pi.AdaOPS(x_bound=[1, 2, 3], y_bound=(0, 7))]
PER_COLUMN += [pi.AdaSSP(epsilon=20.0, x_bound=[(0, 9), 2.0, (-1, 3)], y_bound=(0, 7), intervals="robust")]
WIDE = [pi.AdaSSP(x_bound=1e100, y_bound=1e-100), pi.AdaOPS(x_bound=1e-100, y_bound=1e100, n_public=10)]

FLOATS = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
OBJECTS = st.one_of(
    FLOATS,
    st.integers(-(10**400), 10**400),
    st.sampled_from(["HIV+", "3", b"1", 2j, datetime.date(2020, 1, 1)]),
    st.sampled_from([None, pd.NA, pd.NaT, True, np.True_, Fraction(10) ** 400, Decimal("-1e999"), Decimal("sNaN")]),
    st.floats(width=32).map(np.float32),
)


@st.composite
def tables(draw):
    """Rows and targets: floats, objects, lists of lists, a table with names."""
    n, d = draw(st.integers(0, 4)), draw(st.integers(1, 3))
    cells = draw(st.sampled_from([FLOATS, OBJECTS]))
    Z = np.empty((n, d + 1), dtype=object)
    for place in np.ndindex(Z.shape):
        Z[place] = draw(cells)
    if cells is FLOATS:
        Z = Z.astype(np.float64)
    shape = draw(st.sampled_from(["array", "lists", "frame"])) if n else "array"
    if shape == "lists":
        return Z[:, :-1].tolist(), Z[:, -1].tolist(), d
    if shape == "frame":
        return (
            pd.DataFrame(Z[:, :-1], columns=[f"c{k}" for k in range(d)], dtype=Z.dtype),
            pd.Series(Z[:, -1], dtype=Z.dtype),
            d,
        )
    return Z[:, :-1], Z[:, -1], d


def published(model):
    """Everything public that ``fit`` set: names, types and shapes, which must not depend on the rows."""
    fixed = [name for name, value in vars(model).items() if isinstance(value, np.ndarray)]
    return {
        name: (type(value), np.shape(value) if name in fixed and name not in ASKED_IF_BELIEVED else None)
        for name, value in vars(model).items()
        if name != "feature_names_in_"
    }


ASKED_IF_BELIEVED = ("column_totals_", "squared_residuals_", "score_", "meat_")


def second_look(model, d):
    """How many totals of columns AdaSSP asks for: the noised totals it has published decide, and nothing else."""
    plan = model._plan(model._box(d))
    if plan.column_look is None or opening(plan.look, model.totals_).n is None:
        return 0
    return len(plan.column_look.scales(plan.column_look.frame(1.0)))


@pytest.mark.parametrize("release", RELEASES + WIDE + PER_COLUMN, ids=str)
@given(tables())
@settings(max_examples=25)
def test_whatever_the_rows_hold_something_is_published(release, table):
    X, y, d = table
    if release in PER_COLUMN:
        release = clone(release).set_params(x_bound=release.x_bound[:d])
    ordinary = clone(release).fit(np.linspace(-1, 1, 3 * d).reshape(3, d), [1.0, 0.5, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clone(release).fit(X, y)
    assert model.coef_.shape == (d,) and np.isfinite(model.coef_).all()
    assert published(model) == published(ordinary)
    for one in (model, ordinary):
        if isinstance(one, pi.AdaSSP):
            assert len(one.column_totals_) == second_look(one, d)
            bought = one.intervals is not None and len(one.column_totals_) > 0
            assert len(one.score_) == bought * (d + 1) and len(one.squared_residuals_) == bought
    assert model.privacy_ == release.promise(d)
    assert all(value is None or np.isfinite(value).all() for value in model.published_parameters().values())


REFUSED = {
    "complex": (np.full((3, 2), 1j), np.ones(3)),
    "complex target": (np.ones((1, 2)), np.array([1j])),
    "text": (np.array([["1", "2"]]), [1.0]),
    "a column of text": (pd.DataFrame({"a": pd.array(["1"], dtype="string"), "b": [1.0]}), [1.0]),
    "a column of dates": (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), [1.0]),
    "dates": (np.array([["2020-01-01"]], dtype="datetime64[D]"), [1.0]),
    "one dimension": (np.ones(3), np.ones(3)),
    "rows of two lengths": ([[1.0, 2.0], [3.0]], [1.0, 2.0]),
    "no columns": (np.ones((3, 0)), np.ones(3)),
    "fewer targets than rows": (np.ones((3, 2)), np.ones(2)),
    "no target": (np.ones((3, 2)), None),
}


@pytest.mark.parametrize("release", [*RELEASES, pi.PrivateLogisticRegression(x_bound=1.0, classes=(0, 1))], ids=str)
@pytest.mark.parametrize("case", REFUSED)
def test_declared_facts_are_refused_with_a_typed_error(release, case):
    with pytest.raises(InvalidTable):
        clone(release).fit(*REFUSED[case])


def test_missing_rows_are_zeros_and_infinite_ones_lie_on_the_bound():
    nan, inf = np.nan, np.inf
    X = [[nan, 1.0], [0.5, 0.5], [inf, 7.0], [-inf, inf], [0.1, 0.2], [nan, inf]]
    rows = fixed_rows(X, [1.0, nan, inf, -inf, 0.25, 1.0], x_bound=2.0, y_bound=1.0)
    root = np.sqrt(2.0)
    truth = [[0.0, 0.0], [0.0, 0.0], [2.0, 0.0], [-root, root], [0.1, 0.2], [0.0, 0.0]]
    assert pytest.approx(np.array(truth), abs=1e-9) == rows.X
    assert rows.y.tolist() == [0.0, 0.0, 1.0, -1.0, 0.25, 0.0]
    assert (rows.missing, rows.clipped_x, rows.clipped_y) == (3, 2, 2)
    assert (np.linalg.norm(rows.X, axis=1) <= 2.0).all()


def test_the_curator_may_know_how_many_rows_were_missing():
    counted = pi.AdaSSP(x_bound=1.0, y_bound=1.0).clipped([[np.nan], [None], [3.0]], [1.0, 1.0, 1.0])
    assert (counted.missing, counted.features) == (2, 1)
