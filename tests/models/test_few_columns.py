"""Four to seven columns seen through a triangle."""

from __future__ import annotations

import numpy as np
import pytest

import perinstance as pi
from perinstance.folds.sweep import ArraySweep
from perinstance.models.linear.loops.few_columns import Triangle
from perinstance.models.linear.ridge import row_map
from perinstance.models.linear.row_statistics import _loop_for

from .test_narrow import dumb_sums

NOTHING = np.empty(0)


def triangle(d, rng):
    W, image = np.triu(rng.normal(size=(d, d))), rng.normal(size=d)
    return W, image, Triangle.of(W, np.zeros(d), image, np.zeros(d), True)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 11])
@pytest.mark.parametrize("d", [4, 5, 6, 7])
def test_the_sums_of_each_row(d, n):
    rng = np.random.default_rng(d + 100 * n)
    X = rng.normal(size=(n, d))
    W, image, loop = triangle(d, rng)
    expected = dumb_sums(X, W, np.zeros(d), image, np.zeros(d))[:2]
    got = np.full((2, n), np.nan)
    loop.sums(X, *got, NOTHING)
    assert got == pytest.approx(expected, rel=1e-13, abs=1e-13 * expected[0].max())


@pytest.mark.parametrize("d", [4, 5, 6, 7])
def test_a_person_has_the_same_bits_wherever_they_stand(d):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(13, d))
    _, _, loop = triangle(d, rng)
    whole = np.empty((2, 13))
    loop.sums(X, *whole, NOTHING)
    for start in range(13):
        for stop in range(start + 1, 14):
            part = np.empty((2, stop - start))
            loop.sums(X[start:stop], *part, NOTHING)
            assert (part == whole[:, start:stop]).all()


def test_only_a_plain_triangle_goes_there():
    rng = np.random.default_rng(0)

    def chosen(release, d, order="C"):
        X, y = np.asarray(rng.normal(size=(50, d)), order=order), rng.normal(size=50)
        return type(_loop_for(row_map(release.confidential_fit(ArraySweep(X, y))), X)) is Triangle

    sample = pi.PosteriorSample(alpha=1.0)
    assert [d for d in range(1, 12) if chosen(sample, d)] == [4, 5, 6, 7]
    assert not chosen(sample, 5, "F")
    assert not chosen(pi.PosteriorSample(alpha=1.0, fit_intercept=True), 5)
    assert not chosen(pi.OutputPerturbation(scale=1.0), 5)
