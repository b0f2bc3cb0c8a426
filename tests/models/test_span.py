"""The exact span of rows and exact sums of products, against rationals; dependence that is only rounding is refused."""

import fractions
import pickle

import numpy as np
import pytest
from flint import fmpq, fmpq_mat
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.errors import InvalidInput, NumericalTrouble
from perinstance.models import ArraySweep
from perinstance.models.linear.ridge import linear_fit
from perinstance.numerics.exact_linear_algebra import exact_sums
from perinstance.numerics.exact_linear_algebra.exact_rank import PRIMES, span
from perinstance.numerics.exact_linear_algebra.exact_sums import rational, rational_sums


def rational_rank(X, intercept):
    rows = [[fractions.Fraction(float(v)) for v in row] + [fractions.Fraction(1)] * intercept for row in X]
    return fmpq_mat([[fmpq(v.numerator, v.denominator) for v in row] for row in rows]).rank() if len(rows) else 0


def test_the_primes_are_primes():
    for q in PRIMES:
        assert 2**30 < q < 2**31
        assert all(q % k for k in range(2, int(q**0.5) + 1))


@given(st.integers(0, 2**32), st.integers(0, 9), st.integers(1, 6), st.booleans())
def test_rank_and_membership_are_those_of_rationals(seed, n, d, intercept):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-300, 300, d)
    kind = rng.integers(4)
    if kind == 0 and d > 1:
        X[:, -1] = X[:, 0]
    if kind == 1 and d > 1:
        X[:, -1] = X[:, 0] * (1 + 2.0**-52)  # equal up to the last bit
    if kind == 2:
        X = np.round(rng.normal(size=(n, d)))
    half = n // 2
    seen = span(X[:half], X[:half, 0], intercept) + span(X[half:], X[half:, 0], intercept)
    assert seen.rank == rational_rank(X, intercept)
    new = np.vstack([X[:2], rng.normal(size=(2, d)), np.zeros((1, d)), 5e-324 * np.ones((1, d))])
    for row, held in zip(new, seen.contains(new, intercept), strict=True):
        assert held == (rational_rank(np.vstack([X, row]), intercept) == seen.rank)


@given(st.integers(0, 2**32), st.integers(0, 12), st.integers(1, 4), st.sampled_from([0, 1, 20, 300]))
def test_sums_of_products_are_those_of_rationals(seed, n, p, powers):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, p)) * 10.0 ** rng.uniform(-powers, powers, size=(n, p))
    Z[rng.random(size=(n, p)) < 0.2] = rng.choice([0.0, 5e-324, -1.7e308, 1.0])
    exact = fmpq_mat(n, p, [rational(v) for v in Z.ravel().tolist()])
    apart = rational_sums(Z[: n // 2]) + pickle.loads(pickle.dumps(rational_sums(Z[n // 2 :])))  # as on a cluster
    assert rational_sums(Z).cross == apart.cross == exact.transpose() * exact


def test_sums_of_many_rows(monkeypatch):
    monkeypatch.setattr(exact_sums, "MOST_ROWS", 2000)
    Z = np.random.default_rng(0).normal(size=(4500, 2))
    exact = fmpq_mat(4500, 2, [rational(v) for v in Z.ravel().tolist()])
    assert rational_sums(Z).cross == exact.transpose() * exact


def test_dependence_up_to_rounding_is_told_apart_from_dependence():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    same = np.column_stack([X, X[:, 0] + X[:, 1]])  # rounded: the sum is not exact
    release = pi.OutputPerturbation(Ridge(alpha=0.0, fit_intercept=False), scale=1.0)
    with pytest.raises(NumericalTrouble, match="not exactly: of 4 directions float64 sees 3 and exact arithmetic 4"):
        pi.audit(release, same, y)
    whole = np.round(8 * X)
    dependent = np.column_stack([whole, whole[:, 0] + whole[:, 1]])
    assert np.isfinite(pi.audit(release, dependent, y).losses).all()
    with pytest.raises(InvalidInput, match="singular"):  # the limit of small penalties can be audited, not published
        release.fit(dependent, y)


def test_columns_in_proportion_up_to_rounding_are_told_too():
    """Three times the float 1e-8 is no float: such a table was met among awkward ones."""
    X = np.array([[0.0, 0.0], [1.0, 1.0], [3.0, 3.0]]) * [1.0, 1e-8]
    with pytest.raises(NumericalTrouble, match="of 2 directions float64 sees 1 and exact arithmetic 2"):
        pi.audit(pi.PosteriorSample(alpha=0.0), X, np.zeros(3))


def test_an_outsider_with_the_slightest_part_in_an_open_direction_loses_everything():
    X = np.array([[1.0, 1.0], [2.0, 2.0], [-1.0, -1.0]])
    y = np.array([1.0, 0.0, 1.0])
    release = pi.OutputPerturbation(Ridge(alpha=0.0, fit_intercept=False), scale=1.0)
    new = np.array([[3.0, 3.0], [1.0, 1.0 + 2.0**-52], [0.0, 1e-300]])
    assert np.isinf(pi.audit(release, X, y, outsiders=(new, np.ones(3))).losses).tolist() == [False, True, True]


def test_a_regular_table_is_not_looked_at_twice():
    rng = np.random.default_rng(1)
    assert linear_fit(ArraySweep(rng.normal(size=(20, 3)), rng.normal(size=20)), 0.0, True).span is None
