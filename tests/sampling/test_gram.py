"""Exact sums against Python's rational arithmetic, entry by entry."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perinstance.errors import InvalidInput, InvalidTable
from perinstance.sampling import ExactGram, exact_gram

FINITE = st.floats(allow_nan=False, allow_infinity=False)
HARD = st.one_of(FINITE, st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 1.7976931348623157e308, 1.0, -1 / 3]))


def rational_gram(X, y) -> list[list[Fraction]]:
    columns = [[Fraction(v) for v in column] for column in np.column_stack([X, y]).T.tolist()]
    return [[sum((p * q for p, q in zip(a, b, strict=True)), Fraction(0)) for b in columns] for a in columns]


def rational(g: ExactGram) -> list[list[Fraction]]:
    return [[g.fraction(i, j) for j in range(g.d + 1)] for i in range(g.d + 1)]


@settings(deadline=None, max_examples=150)
@given(arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=HARD))
def test_any_floats(Z):
    assert rational(ExactGram.of(Z[:, 1:], Z[:, 0])) == rational_gram(Z[:, 1:], Z[:, 0])


@pytest.mark.parametrize("shape", ["normal", "scaled", "integers", "binary"])
def test_more_rows_than_a_chunk(shape):
    rng = np.random.default_rng(3)
    n, d = 4 * exact_gram.CHUNK + 77, 3
    X = {
        "normal": rng.standard_normal((n, d)),
        "scaled": rng.standard_normal((n, d)) * [1e-8, 1.0, 1e8],
        "integers": rng.integers(-90, 91, (n, d)).astype(float),
        "binary": rng.integers(0, 2, (n, d)).astype(float),
    }[shape]
    y = rng.standard_normal(n)
    assert rational(ExactGram.of(X, y)) == rational_gram(X, y)


def test_largest_digits_in_every_row_do_not_overflow():
    X = (
        1 - np.random.default_rng(4).integers(1, 1000, (exact_gram.CHUNK * 3, 2)) * 2.0**-44
    )  # the largest sums that occur
    assert rational(ExactGram.of(X, -X[:, 0])) == rational_gram(X, -X[:, 0])


@pytest.mark.parametrize("widest", [4, 4096])
def test_absurd_ranges(monkeypatch, widest):
    monkeypatch.setattr(exact_gram, "WIDEST", widest)  # wider ones are split by rows
    rng = np.random.default_rng(6)
    X = rng.standard_normal((40, 2)) * 10.0 ** rng.integers(-300, 300, (40, 2))
    X[:20] = rng.standard_normal((20, 2)) * 10.0 ** rng.integers(50, 300, (20, 2))
    y = rng.standard_normal(40)
    assert rational(ExactGram.of(X, y)) == rational_gram(X, y)


def test_order_and_blocking_do_not_matter():
    rng = np.random.default_rng(7)
    X, y = rng.standard_normal((500, 3)) * [1.0, 1e-5, 1e9], rng.standard_normal(500)
    whole, shuffle = ExactGram.of(X, y), rng.permutation(500)
    parts = ExactGram.of(X[:10], y[:10]) + ExactGram.of(X[10:480], y[10:480]) + ExactGram.of(X[480:], y[480:])
    assert rational(whole) == rational(parts) == rational(ExactGram.of(X[shuffle], y[shuffle]))
    assert parts.n == 500


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1e-300, 1e300, [0.5, 0.0, 1e-9]])
def test_normal_equations_add_the_penalty_exactly(alpha):
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((9, 3)), rng.standard_normal(9)
    equations, expected = ExactGram.of(X, y).normal_equations(alpha), rational_gram(X, y)
    unit = Fraction(2) ** equations.exponent
    for i, penalty in enumerate(np.broadcast_to(alpha, 3).tolist()):
        expected[i][i] += Fraction(penalty)
        assert [v * unit for v in equations.H[i]] == expected[i][:3]
        assert equations.b[i] * unit == expected[i][3]


def test_no_rows_and_refusals():
    assert rational(ExactGram.of(np.zeros((0, 1)), [])) == [[0, 0], [0, 0]]
    with pytest.raises(InvalidTable, match="finite"):
        ExactGram.of([[np.nan]], [1.0])
    with pytest.raises(InvalidInput, match="one per row"):
        ExactGram.of([[1.0]], [1.0, 2.0])
    with pytest.raises(InvalidInput, match="same columns"):
        ExactGram.of([[1.0]], [1.0]) + ExactGram.of([[1.0, 2.0]], [1.0])
    with pytest.raises(InvalidInput, match="alpha"):
        ExactGram.of([[1.0]], [1.0]).normal_equations(-1.0)
