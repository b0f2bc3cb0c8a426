"""Loops over whole blocks by a library, and the choice between loops, against plain sums written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

import perinstance as pi
from perinstance.engines import Local
from perinstance.folds.block import Block
from perinstance.models.linear import gram_matrix, row_statistics
from perinstance.models.linear.gram_matrix import gram
from perinstance.models.linear.loops.library_loops import CROSS_ROWS, Products, cross_rows
from tests.models.test_narrow import dumb_sums


def layouts(X):
    """The same table as rows, as columns, as columns of a longer table, and as a library cannot read it."""
    longer = np.zeros((len(X) + 7, X.shape[1]), order="F")
    longer[5 : 5 + len(X)] = X
    return X, np.asfortranarray(X), longer[5 : 5 + len(X)], np.repeat(X, 2, axis=1)[:, ::2]


@pytest.mark.parametrize("d", [1, 3, 70])
@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_sums_over_more_than_one_piece(d, seen, intercept):
    n = CROSS_ROWS + 300 if d < 8 else 130
    rng = np.random.default_rng(d)
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    Z = np.hstack([X, np.ones((n, int(intercept)))])
    W = rng.normal(size=(Z.shape[1], 4)) if seen else None
    Q = Z if W is None else np.array([[math.fsum(z * w) for w in W.T] for z in Z])
    few = range(min(Q.shape[1], 5))
    for table in layouts(X):
        got = gram(Block(table, y), intercept, W)
        assert (got.cross == got.cross.T).all()
        for j in few:
            assert got.moment[j] == pytest.approx(math.fsum(Q[:, j] * y), abs=1e-12 * n)
            for k in few:
                assert got.cross[j, k] == pytest.approx(math.fsum(Q[:, j] * Q[:, k]), abs=1e-12 * n)
        assert got.moment == pytest.approx(Q.T @ y, abs=1e-11 * n)
        assert got.cross == pytest.approx(Q.T @ Q, abs=1e-11 * n)


@pytest.mark.parametrize("d", [2, 5, 60])
def test_squared_lengths_by_a_second_product(d):
    rng = np.random.default_rng(d)
    X, W, lift = rng.normal(size=(203, d)), rng.normal(size=(d, d)), rng.normal(size=(d, d + 1))
    offset, image = rng.normal(size=d), rng.normal(size=d)
    expected = dumb_sums(X, W, offset, image, np.zeros(d))
    q = X @ W + offset
    loop = Products.of(W, offset, image, np.zeros(d), False, lift)
    for table in layouts(X):
        got = np.full((3, len(X)), np.nan)
        loop.sums(table, *got)
        assert got[:2] == pytest.approx(expected[:2], rel=1e-12, abs=1e-11 * d)
        assert got[2] == pytest.approx([math.fsum(v * v) for v in q @ lift], rel=1e-11)


@pytest.mark.parametrize("d", [24, 25, 47, 50, 101, 230])
def test_every_column_is_in_one_panel(d):
    for r in (d, d + 1):
        W = np.triu(np.ones((d, r)))
        cut = Products.of(W, np.zeros(r), np.zeros(r), np.zeros(r), True, None).cut
        assert cut.cuts[0] == 0 and cut.cuts[-1] == r and (np.diff(cut.cuts) > 0).all()
        for a, b, depth in zip(cut.cuts, cut.cuts[1:], cut.depth, strict=False):
            assert not W[depth:, a:b].any()  # nothing is left out


def test_additions_are_counted():
    X, y = np.ones((5000, 3)), np.ones(5000)
    one = gram(Block(X, y), False)
    assert one.depth == CROSS_ROWS + 3  # three pieces
    rows = [gram(Block(X[i : i + 1], y[i : i + 1]), False) for i in range(40)]
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    assert total.depth == 40 == total.n  # as many blocks as people: every sum is a chain of all
    assert (one + total).depth == one.depth + 1
    assert cross_rows(1) == CROSS_ROWS and cross_rows(10**6) == 64
    wide = gram(Block(np.ones((70_000, 20)), np.ones(70_000)), True)
    assert 32768 // 160 <= wide.depth < 2048


@pytest.mark.parametrize("d", [3, 20, 70])
def test_whatever_registers_hold_the_losses_are_the_same(d, monkeypatch):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(900, d))
    y = X[:, 0] + rng.normal(size=900)
    releases = pi.PosteriorSample(1.0, 1.0, fit_intercept=True), pi.OutputPerturbation(scale=0.1)
    found = []
    for eight in (False, True):
        for module in (gram_matrix, row_statistics):
            monkeypatch.setattr(module, "eight_in_a_register", lambda eight=eight: eight)
        found.append([pi.audit(release, X, y).losses for release in releases])
    for four, eight in zip(*found, strict=True):
        assert eight == pytest.approx(four, rel=1e-9)


def test_threads_do_not_change_a_bit_of_a_table_that_is_cut_into_blocks():
    rng = np.random.default_rng(0)
    for d, n in ((6, 200_000), (70, 20_000)):
        X, y = rng.normal(size=(n, d)), rng.normal(size=n)
        one, three = (pi.audit(pi.PosteriorSample(1.0, 1.0), X, y, engine=Local(threads=k)) for k in (1, 3))
        assert (one.losses == three.losses).all() and (one.leverages == three.leverages).all()
        assert (one.residuals == three.residuals).all()
