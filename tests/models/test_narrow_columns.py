"""The kernels for tables that lie column by column, against plain sums written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perinstance.folds.block import Block
from perinstance.models.linear.gram_matrix import gram
from perinstance.models.linear.loops.column_kernels import RUN_BYTES, ColumnPanels, _crowded, add_cross
from perinstance.models.linear.row_kernels import NARROWEST, by_columns
from tests.models.test_narrow import WIDTHS, dumb_sums


def column_table(n: int, d: int, step: int, seed: int = 0) -> np.ndarray:
    """A table whose columns begin ``step`` numbers after each other, in the middle of a larger one."""
    assert step >= n + 5
    larger = np.random.default_rng(seed).normal(size=(d, step)).T
    return larger[3 : n + 3]


@pytest.mark.parametrize("step", [80, 2048])
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 16, 75])
@pytest.mark.parametrize("d", WIDTHS)
def test_the_sums_of_each_row(d, n, step):
    rng = np.random.default_rng(d + 100 * n)
    X = column_table(n, d, step)
    for r in (0, 1, d, d + 1):
        for triangular in (False, True):
            W = np.triu(rng.normal(size=(d, r))) if triangular else rng.normal(size=(d, r))
            offset, image, weights = rng.normal(size=r), rng.normal(size=r), rng.random(r)
            expected = dumb_sums(X, W, offset, image, weights)
            sums = ColumnPanels.of(W, offset, image, weights, triangular).sums
            got = np.full((3, n), np.nan)
            sums(X, *got)
            size = max(expected[0].max(), 1e-300)
            assert got == pytest.approx(expected, rel=1e-13, abs=1e-13 * size)
            two = np.full((2, n), np.nan)
            sums(X, *two, np.empty(0))
            assert two == pytest.approx(got[:2], rel=1e-13, abs=1e-13 * size)


@pytest.mark.parametrize("full", [False, True])
def test_a_person_has_the_same_bits_wherever_she_stands(full):
    rng = np.random.default_rng(0)
    X, W = column_table(83, 13, 2048), rng.normal(size=(13, 13))
    panels = ColumnPanels.of(W if full else np.triu(W), W[0], W[1], W[2], not full)
    whole = np.empty((3, 83))
    panels.sums(X, *whole)
    for start in range(0, 83, 5):
        for stop in range(start + 1, 84):
            for part_of in (X[start:stop], np.asfortranarray(X[start:stop])):
                if by_columns(part_of):  # one person, or one column, lies both ways
                    part = np.empty((3, stop - start))
                    panels.sums(part_of, *part)
                    assert (part == whole[:, start:stop]).all()


@pytest.mark.parametrize("step", [600, 4096])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 501])
@pytest.mark.parametrize("d", [d for d in WIDTHS if d >= NARROWEST])
def test_cross_products(d, n, step):
    X, y = column_table(n, d, step), np.random.default_rng(1).normal(size=n)
    cross, moment = np.ones((d, d)), np.ones(d)
    add_cross(X, y, cross, moment)
    for j in range(d):
        assert moment[j] == pytest.approx(1.0 + math.fsum(X[:, j] * y), abs=1e-13 * n)
        for k in range(d):
            exact = 1.0 + (math.fsum(X[:, j] * X[:, k]) if k >= j else 0.0)
            assert cross[j, k] == pytest.approx(exact, abs=1e-13 * n)


def test_columns_that_fall_on_each_other_are_told_from_those_that_do_not():
    for step, crowded in ((2048, True), (43690, True), (32768, True), (24966, False), (48368, False)):
        assert _crowded(step, 20, 64) == crowded
        assert _crowded(step, 20, RUN_BYTES // 160 // 4 * 4) == crowded


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 7, 8, 20, 64, 65])
def test_the_gram_matrix_does_not_hang_on_the_order(d, kind):
    rng = np.random.default_rng(d)
    X, y = rng.normal(size=(3000, d)).astype(kind), rng.normal(size=3000)
    rows, columns = (gram(Block(np.asarray(X, order=order), y), True) for order in "CF")
    assert columns.cross == pytest.approx(rows.cross, rel=1e-12, abs=1e-10)
    assert columns.moment == pytest.approx(rows.moment, rel=1e-12, abs=1e-10)
    assert columns.square == rows.square and columns.n == rows.n


def test_what_the_kernels_can_read():
    F = np.zeros((9, 4), order="F")
    assert by_columns(F) and by_columns(F[2:7]) and by_columns(F[:, ::2])
    assert not by_columns(np.zeros((9, 4)))  # rows
    assert not by_columns(F[::2]) and not by_columns(F.astype(np.float32))
    unaligned = np.zeros(9 * 4 * 8 + 1, dtype=np.uint8)[1:].view(np.float64).reshape((9, 4), order="F")
    assert not by_columns(unaligned)
