"""The kernels for few columns and the products for many, against plain sums written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from perinstance.folds.block import Block
from perinstance.models.linear.gram_matrix import gram
from perinstance.models.linear.loops import eight_lanes
from perinstance.models.linear.loops.eight_lanes import EightPanels
from perinstance.models.linear.loops.few_columns import FEWEST_COLUMNS, add_cross_of_few
from perinstance.models.linear.loops.library_loops import Products
from perinstance.models.linear.loops.shared_gram import target_sums
from perinstance.models.linear.row_kernels import NARROWEST, WIDEST, Panels, RowSums, add_cross
from perinstance.numerics.simd_vectors import load2, load4, repeat4, store2

WIDTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 20, 21, 31, 64]


def dumb_sums(X, W, offset, image, weights):
    """One person, one column, one product at a time; sums are rounded once."""
    out = np.empty((3, len(X)))
    for i, x in enumerate(X):
        q = [math.fsum([o, *(x * column)]) for o, column in zip(offset, W.T, strict=True)]
        out[0, i] = math.fsum(v * v for v in q)
        out[1, i] = math.fsum(v * b for v, b in zip(q, image, strict=True))
        out[2, i] = math.fsum(v * v * a for v, a in zip(q, weights, strict=True))
    return out


@pytest.mark.parametrize("road", ["narrow", "eight", "wide"])
@pytest.mark.parametrize("n", [1, 3, 4, 5, 11])
@pytest.mark.parametrize("d", WIDTHS)
def test_the_sums_of_each_row(d, n, road):
    rng = np.random.default_rng(d + 100 * n)
    X = rng.normal(size=(n, d))
    for r in (d, d + 1):
        for triangular in (False, True):
            W = np.triu(rng.normal(size=(d, r))) if triangular else rng.normal(size=(d, r))
            offset, image, weights = rng.normal(size=r), rng.normal(size=r), rng.random(r)
            expected = dumb_sums(X, W, offset, image, weights)
            if road != "wide":
                sums = (Panels if road == "narrow" else EightPanels).of(W, offset, image, weights, triangular).sums
            else:
                sums = Products.of(W, offset, image, weights, triangular, None).sums
            got = np.full((3, n), np.nan)
            sums(X, *got)
            size = expected[0].max()
            assert got == pytest.approx(expected, rel=1e-13, abs=1e-13 * size)
            two = np.full((2, n), np.nan)
            sums(X, *two, np.empty(0))
            assert two == pytest.approx(got[:2], rel=1e-13, abs=1e-13 * size)


@pytest.mark.parametrize("kind", [Panels, EightPanels])
def test_a_person_has_the_same_bits_wherever_they_stand(kind):
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(23, 13)), np.triu(rng.normal(size=(13, 13)))
    panels = kind.of(W, W[0], W[1], W[2], True)
    whole = np.empty((3, 23))
    panels.sums(X, *whole)
    for start in range(23):
        for stop in range(start + 1, 24):
            part = np.empty((3, stop - start))
            panels.sums(X[start:stop], *part)
            assert (part == whole[:, start:stop]).all()


@pytest.mark.parametrize("d", [17, 24, 25, 33, 40, 77])
def test_three_panels_at_a_time_give_the_bits_of_one(d):
    rng = np.random.default_rng(d)
    X, W = rng.normal(size=(21, d)), rng.normal(size=(d, d + 1))
    vectors = rng.normal(size=(3, d + 1))
    cut = EightPanels.of(W, *vectors, False).cut
    found = np.full((2, 3, 21), np.nan)
    eight_lanes._three_sums_one_by_one(X.ravel(), d, cut, RowSums(*found[0]))
    eight_lanes._three_sums_by_threes(X.ravel(), d, cut, RowSums(*found[1]))
    assert np.isfinite(found).all() and (found[0] == found[1]).all()


@pytest.mark.parametrize("n", [1, 2, 3, 8, 500])
@pytest.mark.parametrize("d", [d for d in WIDTHS if d >= FEWEST_COLUMNS])
@pytest.mark.parametrize("add", [add_cross, eight_lanes.add_cross])
def test_cross_products(d, n, add):
    if d < NARROWEST:

        def add(X, y, cross, moment):
            add_cross_of_few(X.ravel(), y, d, 100, cross, moment)

    rng = np.random.default_rng(d + 100 * n)
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    cross, moment = np.ones((d, d)), np.ones(d)
    add(X, y, cross, moment)
    for j in range(d):
        for k in range(d):
            exact = 1.0 + (math.fsum(X[:, j] * X[:, k]) if k >= j else 0.0)
            assert cross[j, k] == pytest.approx(exact, abs=1e-13 * n)
        assert moment[j] == pytest.approx(1.0 + math.fsum(X[:, j] * y), abs=1e-13 * n)


@pytest.mark.parametrize("n", [0, 1, 31, 1023, 1024, 1025, 5000])
def test_sums_of_targets(n):
    y = np.random.default_rng(n).normal(size=n) + 3.0
    square, total = target_sums(y)
    assert square == pytest.approx(math.fsum(y * y), rel=1e-14)
    assert total == pytest.approx(math.fsum(y), rel=1e-14)


@pytest.mark.parametrize("d", [NARROWEST - 1, NARROWEST, WIDEST, WIDEST + 1])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_statistic_on_either_side_of_the_limits(d, intercept):
    rng = np.random.default_rng(d)
    X, table = rng.normal(size=(300, d)), rng.normal(size=(300, 2))
    y = table[:, 1]  # a column of a table: its numbers do not lie side by side
    Z = np.hstack([X, np.ones((300, int(intercept)))])
    for layout in (X, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
        got = gram(Block(layout, y), intercept)
        assert got.cross == pytest.approx(Z.T @ Z, abs=1e-11)
        assert got.moment == pytest.approx(Z.T @ y, abs=1e-11)
        assert (got.cross == got.cross.T).all()


def test_lanes_refuse_what_an_index_does_not_reach():
    """A strided array would be read at wrong places without a word."""

    @njit
    def copy(a, out):
        store2(out, 0, load2(a, 1))

    out = np.empty(2)
    copy(np.arange(4.0), out)
    assert out.tolist() == [1.0, 2.0]
    for bad in (np.arange(8.0)[::2], np.arange(4, dtype=np.float32), np.zeros((2, 2))):
        with pytest.raises(TypingError, match="contiguous"):
            copy(bad, out)
    for read in (load4, repeat4):

        @njit
        def use(a, read=read):
            read(a, 0)

        with pytest.raises(TypingError, match="contiguous"):
            use(np.arange(16.0)[::2])
