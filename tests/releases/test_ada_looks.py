"""AdaSSP's looks: nobody moves a total further than the noise is made for; what is read off them."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perinstance.releases.adaops.mechanism import FIRST, ROUNDS, Coordinates
from perinstance.releases.adassp.mechanism import PASSED, Round, estimate, noisy_gram, posterior_mean, spend
from perinstance.releases.base.row_sums import halvings
from perinstance.releases.promises.declared_box import box_of
from perinstance.releases.promises.looks import ColumnLook, Look, Opening, common, opening, standardised
from perinstance.releases.promises.window import Window, simulated
from perinstance.sampling import fixed_rows

from .slow_roads import Plain

units = st.floats(-1.0, 1.0)


@given(arrays(float, (1, 3), elements=units), units, st.booleans(), st.floats(0.01, 2.0))
@settings(max_examples=60)
def test_nobody_moves_a_look_further_than_its_distance(row, v, intercept, length):
    """In exact numbers: what one person adds to the totals, over the noise."""
    bound = np.sqrt(3.0) * (1 + 2.0**-30)
    person = fixed_rows(row, np.array([v]), bound, 1.0)
    for n_public in (None, 7):
        look = Look(3, bound, intercept, n_public, 0.2)
        assert squared_distance(look.moves(person), look.scales()) <= Fraction(0.2) ** 2
    columns = ColumnLook(3, intercept, bound, 0.1)
    asked = columns.frame(length)
    assert squared_distance(columns.moves(person, asked), columns.scales(asked)) <= Fraction(0.1) ** 2


def squared_distance(moves, scales):
    return sum((Fraction(u) / Fraction(s)) ** 2 for u, s in zip(moves[0], scales, strict=True))


@given(arrays(float, (3, 3), elements=units), arrays(float, 3, elements=units), st.integers(0, 10**6), st.booleans())
@settings(max_examples=60)
def test_rows_of_adaops_keep_its_bounds_whatever_was_published(X, y, seed, intercept):
    """In integers; each from its own row alone; and a row that counts for less keeps its linear relation."""
    rng = np.random.default_rng(seed)
    box = box_of([(-1.0, 1.0)] * 3, 1.0, 3, intercept)
    first = spend(1.0, 1e-6, box, None, ROUNDS, 7, part=FIRST)
    nobody = box.rows(np.zeros((0, 3)), np.zeros(0))
    at = Coordinates.look(first, Window(nobody, simulated(rng)))
    units_ = box.rows(X, y)
    seen = at.rows(units_)
    exactly = [[Fraction(v) for v in row] for row in seen.X]
    assert all(sum(v * v for v in row) <= Fraction(at.x_bound) ** 2 for row in exactly)
    assert (np.abs(seen.y) <= 1.0).all()
    for i in range(3):
        alone = at.rows(units_.picked(slice(i, i + 1)))
        assert (alone.X[0] == seen.X[i]).all() and alone.y[0] == seen.y[i]
    residual = (units_.y - units_.X @ at.first.coef) / at.half
    free = at.frame.free_rows(units_)
    kept = np.abs(residual) < 1.0
    lengths = np.linalg.norm(free, axis=1)
    shorter = np.minimum(1.0, at.x_bound / np.maximum(lengths, 1e-300))
    assert seen.y[kept] == pytest.approx((residual * shorter)[kept], abs=1e-9)


@given(arrays(float, (4, 2), elements=st.floats(-2.0, 2.0)))
@settings(max_examples=40)
def test_halvings_are_a_logarithm(rows):
    found = halvings(rows, 3.0) + 4
    for h, squared in zip(found, (rows**2).sum(axis=1), strict=True):
        assert squared <= 9.0 / 2**h * (1 + 1e-15) and (h == 8 or squared > 9.0 / 2 ** (h + 1) * (1 - 1e-15))


def read(X, y, intercept=True, n_public=None, distance=50.0):
    """Look twice at so many people that noise does not matter, and leave it out."""
    d, bound, window = X.shape[1], np.sqrt(X.shape[1]), Plain((X, y))
    look = Look(d, bound, intercept, n_public, distance)
    found = opening(look, window.sums(look.moves, look.scales()))
    columns = ColumnLook(d, intercept, bound, distance)
    asked = columns.frame(found.length)
    totals = window.sums(partial(columns.moves, frame=asked), columns.scales(asked))
    return found, standardised(columns, found, asked, totals)


@pytest.mark.parametrize("n_public", [None, 4000])
def test_without_noise_the_looks_find_lengths_centres_and_spreads(n_public):
    rng = np.random.default_rng(3)
    X = np.clip(rng.normal([0.3, 0.0, -0.2], [0.10, 0.07, 0.14], size=(4000, 3)), -1, 1)
    y = np.clip(0.2 + 0.1 * rng.normal(size=4000), -1, 1)
    found, frame = read(X, y, n_public=n_public)
    assert (
        found.n == 4000 and found.start == pytest.approx(0.2, abs=0.01) and found.clip == pytest.approx(0.1, abs=0.02)
    )
    assert 0.7 < found.length / np.exp(np.log(np.linalg.norm(X, axis=1)).mean()) < 1.4
    np.testing.assert_allclose(frame.center, [0.3, 0.0, -0.2], atol=0.05)
    np.testing.assert_allclose(frame.spread, [0.10, 0.07, 0.14], rtol=0.25)
    assert not read(X, y, intercept=False)[1].center.any()


def test_what_is_lost_in_noise_is_not_believed():
    look = Look(5, np.sqrt(5), True, None, 1e-3)
    found = opening(look, np.array([100.0, 90.0, -1e6, 1e6]))
    assert found.n is None and found.start == 0.0 and 0 < found.length < np.sqrt(5)
    frame = common(ColumnLook(5, True, np.sqrt(5), 1e-3), found)
    assert len(set(frame.spread)) == 1 and np.isfinite(frame.radius)
    wild = opening(Look(5, np.sqrt(5), True, 1, 1e-3), np.array([90.0, -1e6, -1e9]))
    assert 0 < wild.length <= np.sqrt(5)


def test_spreads_that_differ_less_than_their_noise_are_one():
    columns = ColumnLook(4, False, 2.0, 0.01)
    found = Opening(1000.0, 0.0, 0.2, 0.8, 0.1)
    asked = columns.frame(found.length)
    noise = columns.scales(asked)[-1]
    frame = standardised(columns, found, asked, np.array([0.5, -0.5, 0.4, -0.4]) * noise)
    assert len(set(frame.spread)) == 1 and frame.weight == 0.0


def test_rounds_at_one_estimate_average_their_noise():
    """Two rounds of residuals at the same estimate are one round of half the noise's variance, but for their age."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(500, 3))
    gram = noisy_gram(X.T @ X, 1e-3)
    theta, moment = np.array([0.1, 0.0, 0.2]), rng.normal(size=3) * 20
    one, two = Round(theta, moment, 0.2, 5.0), Round(theta, moment, 0.2, 5.0)
    shrunk = theta + posterior_mean(gram, moment / PASSED, 5.0 / PASSED * np.sqrt(0.6**2 + 1) / 1.6)  # weights 0.6 : 1
    np.testing.assert_allclose(estimate(gram, [one, two]), shrunk, rtol=1e-12)
    narrow = Round(-theta, moment, 0.1, 2.5)
    np.testing.assert_array_equal(estimate(gram, [narrow, one]), estimate(gram, [one]))
