"""One to seven columns seen through a triangle, or through a full matrix with weights."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.folds.sweep import ArraySweep
from perinstance.models.linear.loops.few_columns import Square, Triangle
from perinstance.models.linear.loops.fewest_columns import THREE, Fewest
from perinstance.models.linear.ridge import row_map
from perinstance.models.linear.row_statistics import _loop_for
from perinstance.numerics.simd_vectors import (
    both2,
    both4,
    both8,
    columns2,
    columns4,
    columns8,
    store2,
    store4,
    store8,
    three2,
    three4,
    three8,
)

from .test_narrow import dumb_sums

NOTHING = np.empty(0)


def triangle(d, rng):
    W, image = np.triu(rng.normal(size=(d, d))), rng.normal(size=d)
    return W, image, (Triangle if d > THREE else Fewest).of(W, np.zeros(d), image, np.zeros(d), True)


def square(d, rng):
    W, image, weights = rng.normal(size=(d, d)), rng.normal(size=d), rng.random(d)
    return W, image, weights, (Square if d > THREE else Fewest).of(W, np.zeros(d), image, weights, False)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_columns_are_those_of_the_rows(count):
    columns = {2: columns2, 4: columns4, 8: columns8}[count]
    store = {2: store2, 4: store4, 8: store8}[count]

    @njit
    def turned(x, at, step, out):
        for k, column in enumerate(columns(x, at, step)):
            store(out, k * count, column)

    x, out = np.arange(100.0), np.empty(4 * count)
    for step in (4, 5, 7):
        turned(x, 3, step, out)
        assert out.reshape(4, count).tolist() == [[3.0 + k + step * i for i in range(count)] for k in range(4)]


@pytest.mark.parametrize("count", [2, 4, 8])
def test_all_columns_of_short_rows(count):
    both, three = {2: (both2, three2), 4: (both4, three4), 8: (both8, three8)}[count]
    store = {2: store2, 4: store4, 8: store8}[count]

    @njit
    def of_two(x, at, out):
        for k, column in enumerate(both(x, at)):
            store(out, k * count, column)

    @njit
    def of_three(x, at, out):
        for k, column in enumerate(three(x, at)):
            store(out, k * count, column)

    x = np.arange(100.0)
    for turned, d in ((of_two, 2), (of_three, 3)):
        out = np.empty(d * count)
        turned(x, 5, out)
        assert out.reshape(d, count).tolist() == [[5.0 + k + d * i for i in range(count)] for k in range(d)]


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("d", range(1, 8))
def test_the_three_sums_of_each_row(d, n):
    rng = np.random.default_rng(d + 100 * n)
    X = rng.normal(size=(n, d))
    W, image, weights, loop = square(d, rng)
    expected = dumb_sums(X, W, np.zeros(d), image, weights)
    got = np.full((3, n), np.nan)
    loop.sums(X, *got)
    assert got == pytest.approx(expected, rel=1e-13, abs=1e-13 * expected[0].max())


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("d", range(1, 8))
def test_the_sums_of_each_row(d, n):
    rng = np.random.default_rng(d + 100 * n)
    X = rng.normal(size=(n, d))
    W, image, loop = triangle(d, rng)
    expected = dumb_sums(X, W, np.zeros(d), image, np.zeros(d))[:2]
    got = np.full((2, n), np.nan)
    loop.sums(X, *got, NOTHING)
    assert got == pytest.approx(expected, rel=1e-13, abs=1e-13 * expected[0].max())


@pytest.mark.parametrize("d", range(1, 8))
def test_a_person_has_the_same_bits_wherever_they_stand(d):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(13, d))
    loops = triangle(d, rng)[-1], square(d, rng)[-1]
    for loop, count in zip(loops, (2, 3), strict=True):
        nothing = [NOTHING] * (3 - count)
        whole = np.empty((count, 13))
        loop.sums(X, *whole, *nothing)
        for start in range(13):
            for stop in range(start + 1, 14):
                part = np.empty((count, stop - start))
                loop.sums(X[start:stop], *part, *nothing)
                assert (part == whole[:, start:stop]).all()


def test_only_a_plain_triangle_or_square_goes_there(monkeypatch):
    for place in ("cholesky_qr", "ridge"):  # a small table's lengths take a second product
        monkeypatch.setattr(f"perinstance.models.linear.{place}.SMALL_TABLE", 0)
    rng = np.random.default_rng(0)

    def chosen(release, d, order="C", kind=Triangle):
        X, y = np.asarray(rng.normal(size=(50, d)), order=order), rng.normal(size=50)
        return type(_loop_for(row_map(release.confidential_fit(ArraySweep(X, y))), X)) is kind

    sample = pi.PosteriorSample(alpha=1.0)
    assert [d for d in range(1, 12) if chosen(sample, d)] == [4, 5, 6, 7]
    assert [d for d in range(1, 12) if chosen(sample, d, kind=Fewest)] == [1, 2, 3]
    assert not chosen(pi.PosteriorSample(alpha=1.0, fit_intercept=True), 2, kind=Fewest)
    assert not chosen(sample, 5, "F")
    assert not chosen(pi.PosteriorSample(alpha=1.0, fit_intercept=True), 5)
    assert not chosen(pi.OutputPerturbation(scale=1.0), 5)
    output = pi.OutputPerturbation(Ridge(fit_intercept=False), scale=1.0)
    assert [d for d in range(1, 12) if chosen(output, d, kind=Square)] == [4, 5, 6, 7]
    assert [d for d in range(1, 12) if chosen(output, d, kind=Fewest)] == [1, 2, 3]
    assert not chosen(pi.OutputPerturbation(scale=1.0), 5, kind=Square)
