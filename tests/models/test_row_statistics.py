"""The one road for every container: pieces of rows, their sums, and what follows from a row's product."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.engines import Local
from perinstance.folds import block as blocks
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.models.linear import cholesky_qr, ridge
from perinstance.models.linear.gram_matrix import gram, placed_rows
from perinstance.models.linear.ridge import linear_fit
from perinstance.models.linear.row_statistics import (
    HARD,
    HARD_LEVERAGE,
    ROUGH_RESIDUAL,
    Norm,
    RowMap,
    RowRounding,
    row_statistics_of,
)
from perinstance.numerics.rounding import EXACT_PARAMETER

LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X: np.ascontiguousarray(X[::-1])[::-1],
    "float32": lambda X: X.astype(np.float32),
}


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(blocks, "PIECE_BYTES", 1 << 12)


def table(n, d, seed=5):
    rng = np.random.default_rng([seed, n, d])
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3, d)
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pieces_hold_every_row_once(small_pieces, layout):
    X = LAYOUTS[layout](table(300, 3)[0])
    parts = [(run, Z.copy()) for run, Z in placed_rows(X)]
    whole = np.asarray(X, dtype=np.float64)
    assert len(parts) > 1 and all((whole[run] == Z).all() and Z.dtype == np.float64 for run, Z in parts)
    assert np.concatenate([np.arange(run.start, run.stop) for run, _ in parts]).tolist() == list(range(300))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("d", [1, 12, 66])
@pytest.mark.parametrize("seen_through", [False, True])
def test_sums_are_those_of_all_rows_to_the_additions_that_are_stated(layout, d, seen_through):
    X, y = table(5001, d)
    X = LAYOUTS[layout](X)
    W = np.diag(2.0 ** np.arange(d + 1)) if seen_through else None  # which rounds nothing
    sums = gram(Block(X[:3000], y[:3000]), True, W) + gram(Block(X[3000:], y[3000:]), True, W)
    Z = np.hstack([np.asarray(X, dtype=np.float64), np.ones((len(X), 1))]) @ (np.eye(d + 1) if W is None else W)
    assert sums.n == 5001 and 1024 < sums.depth < 3010

    def held(value, products):
        exact, size = math.fsum(products), math.fsum(np.abs(products))
        assert abs(value - exact) <= (sums.depth + 1) * 2.0**-53 * size

    for j, k in [(0, 0), (d, 0), (d, d), (d // 2, d // 3)]:
        held(sums.cross[j, k], Z[:, j] * Z[:, k])
        assert sums.cross[j, k] == sums.cross[k, j]
        held(sums.moment[j], Z[:, j] * y)
    held(sums.square, y * y)


CHARGES = RowRounding(1e-10, 2e-10, 3e-9, 4e-9, 5e-10, 6e-10, 7e-10, None)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("how", ["none", "weights", "lift"])
@pytest.mark.parametrize("looked", [False, True])
def test_numbers_are_raised_by_what_rounding_may_have_taken(inside, how, looked):
    """Against the formulas in a dozen lines, for rows whose products are exact."""
    rng = np.random.default_rng(3)
    d, n = 3, 50
    X = np.round(rng.normal(size=(n, d)) * 8) / 64 + 1 / 128
    y, b, a = rng.normal(size=n), np.array([1.0, -0.5, 0.25]), np.array([4.0, 1.0, 0.0625])
    lift = np.diag(np.sqrt(a))
    norm = {"none": None, "weights": Norm(a, None), "lift": Norm(np.empty(0), lift)}[how]
    cost = np.array([0.02, 0.01, 0.03]) if looked else None
    rounding = RowRounding(*[getattr(CHARGES, name) for name in RowRounding._fields[:7]], cost)
    found = row_statistics_of(RowMap(np.eye(d), b, norm, False, rounding), X, y, inside)
    m, e, square = (X**2).sum(1), y - X @ b, (X**2 * a).sum(1)
    part = np.minimum(1, np.abs(X) @ cost / np.sqrt(m)) if looked else 1.0
    away = 1e-10 + part * 2e-10
    root = np.sqrt(m) * (1 + away)
    lost = root * (3e-9 + part * 4e-9)
    rest = 1 / (1 - root**2) if inside else 1.0
    along = 1 if inside else 1 + 2.5 * away * np.minimum(1, root**2)
    np.testing.assert_allclose(found.leverage, root**2 * rest, rtol=1e-14)
    np.testing.assert_allclose(found.residual, np.copysign((np.abs(e) + lost) * rest * along, e), rtol=1e-13)
    assert found.open is None or not found.open[np.abs(e) > 1].any()
    if how != "none":
        mu = found.leverage
        more = np.sqrt(mu / (1 + mu) if inside else mu) * (5e-10 + part * 6e-10) + np.sqrt(square) * 7e-10
        length = (np.sqrt(square) + more) / (1 if inside else 1 + mu * (1 - 4 * away))
        np.testing.assert_allclose(found.length, length, rtol=1e-14)
        np.testing.assert_allclose(found.share, more / np.sqrt(square) + 4 * away, rtol=1e-6)
    else:
        assert not len(found.length)


def test_who_is_not_known_well_enough_is_left_open():
    one = RowMap(np.eye(1), np.ones(1), None, False, CHARGES)
    lost = 7e-9 * 0.5  # of the residual, at m = 1/4
    edge = lost / EXACT_PARAMETER
    y = 0.5 + np.array([1.01 * edge, 0.99 * edge, -1.01 * edge, -0.99 * edge])
    found = row_statistics_of(one, np.full((4, 1), 0.5), y, True)
    assert found.open.tolist() == [False, True, False, True] and found.kind_code.tolist() == [0, 1, 0, 1]
    floor = edge / np.sqrt(1 / 3)  # of the leverage, which moves a posterior sample by as much
    assert row_statistics_of(one, np.full((4, 1), 0.5), y, True, 1.02 * floor).open is None
    assert row_statistics_of(one, np.full((4, 1), 0.5), y, True, 0.5 * floor).open.tolist() == [0, 1, 0, 1]
    large = RowMap(np.eye(1), np.ones(1), None, False, CHARGES, large=True)
    found = row_statistics_of(large, np.full((4, 1), 0.5), y, True)
    assert not found.open.any() and found.kind_code.tolist() == [0, 1, 0, 1]
    sure = RowMap(np.eye(1), np.ones(1), None, False, RowRounding(1e-15, *[0.0] * 6, None), large=True)
    leverages = np.sqrt(np.array([HARD_LEVERAGE - 1e-6, HARD_LEVERAGE + 1e-6, 1e-300]))[:, None]
    found = row_statistics_of(sure, leverages, np.full(3, 9.0), True)
    assert found.open.tolist() == [False, True, True]
    assert HARD > ROUGH_RESIDUAL > 0


RELEASES = [
    pi.PosteriorSample(1.0, 1.0),
    pi.PosteriorSample(1.0, 2.0, fit_intercept=True),
    pi.OutputPerturbation(Ridge(1.0, fit_intercept=False), scale=0.1),
    pi.OutputPerturbation(Ridge(1.0), scale=0.1),
]


@pytest.mark.parametrize("release", RELEASES, ids=["sample", "with intercept", "output", "output with intercept"])
@pytest.mark.parametrize("small", [False, True])
def test_people_are_the_same_in_every_container_whatever_the_threads(release, small, monkeypatch):
    monkeypatch.setattr("perinstance.data.memory.table.rows_per_view", lambda n, d: 2500)
    for module in () if small else (cholesky_qr, ridge):
        monkeypatch.setattr(module, "SMALL_TABLE", 0)
    X, y = table(7003, 5)
    X[77], y[77] = 0.0, 3.0  # in no equation
    X[6000] *= 500 * np.sqrt(len(X) / 5)  # answered one by one
    columns = {f"c{j}": X[:, j] for j in range(5)}
    found = [pi.audit(release, X, y, engine=Local(threads=threads)) for threads in (1, 2, 5)]
    for other in found[1:]:
        for name in ("losses", "leverages", "residuals"):
            np.testing.assert_array_equal(getattr(found[0], name), getattr(other, name))
    for rows in (np.asfortranarray(X), pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        other = pi.audit(release, rows, y)
        assert (np.asarray(other.kind) == np.asarray(found[0].kind)).all()
        np.testing.assert_allclose(np.asarray(other.losses), found[0].losses, rtol=1e-7, atol=1e-12)
    assert found[0].health.refined >= 1 and (np.asarray(found[0].kind) == "exact").mean() > 0.99


def test_a_large_table_is_charged_for_what_its_sums_may_lose(monkeypatch):
    """The measured bound of a factor and an image, against sums without rounding; there is room for other machines."""
    monkeypatch.setattr(cholesky_qr, "SMALL_TABLE", 0)
    worst = 0.0
    for d in (2, 7, 20):
        for offset in (0.0, 3.0):
            X = np.random.default_rng(d).normal(size=(60_000, d)) + offset
            y = X @ np.ones(d) + np.random.default_rng(1).normal(size=60_000)
            fit = linear_fit(ArraySweep(X, y), 1.0, False)
            exact = np.array([math.fsum(X[:, j] * y) for j in range(d)])
            missed = np.linalg.norm(fit.factor.W.T @ exact - fit.image)
            worst = max(worst, missed / fit.factor.image_error)
    assert 0 < worst < 0.5
