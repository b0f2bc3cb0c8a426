"""``X'(y - X theta)`` on grids: against sums of fractions, and what the quick estimate of it says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.data import read_table
from perinstance.engines import Local
from perinstance.engines.local import LocalSweep
from perinstance.models.linear import open_people, residuals_in_pairs
from perinstance.models.linear.loops.grid_sums import LANES, Grid, fits_grids, moments_on_grids, sums_of_turns
from perinstance.models.linear.residuals_in_pairs import quick_estimate, sharper_estimate
from perinstance.models.linear.ridge import linear_fit
from perinstance.releases import output_perturbation

from .test_residuals_in_pairs import almost_fitted

PEOPLE = 9_000  # of a table of several blocks


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several of them, of a table that is not sharpened for being small."""
    monkeypatch.setattr("perinstance.data.memory.table.rows_per_view", lambda n, d: 2500)
    monkeypatch.setattr("perinstance.models.linear.cholesky_qr.SMALL_TABLE", 0)
    monkeypatch.setattr("perinstance.models.linear.ridge.SMALL_TABLE", 0)


def exact_moments(X, y, theta):
    """One product at a time, in fractions."""
    theta = [Fraction(v) for v in theta]
    out = [Fraction(0)] * len(theta)
    for row, target in zip(X.tolist(), y.tolist(), strict=True):
        x = [Fraction(v) for v in row]
        e = Fraction(target) - sum(a * b for a, b in zip(x, theta, strict=True))
        out = [total + a * e for total, a in zip(out, x, strict=True)]
    return out


def hostile(kind, n, d, rng):
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    if kind == "tails":
        X[rng.integers(0, n, 9)] *= 1e7
        y[rng.integers(0, n, 9)] *= 1e9
    if kind == "scales":
        X *= 2.0 ** rng.integers(-150, 150, size=d)
        y *= 2.0**-60
    if kind == "offset":
        X += 1e6
        y = X @ rng.normal(size=d) + 1e-3 * y
    return X, y


def folded(X, y, theta, threads=1):
    lengths, target = np.linalg.norm(X, axis=0), np.linalg.norm(y)
    scale = np.ldexp(1.0, -np.frexp(lengths)[1])
    size = 1.02 * float(target + np.abs(theta / scale).sum())
    with LocalSweep(read_table(X, y), threads=threads) as sweep:
        return moments_on_grids(sweep, sweep.whole_table, Grid.of(theta, scale, size)), scale, size


KINDS = ("plain", "tails", "scales", "offset")
#: every number of columns with two of the kinds, every kind with three numbers or four
ALWAYS = [(d, KINDS[k]) for d in range(1, 8) for k in range(4) if (d + k) % 2]
OTHERS = [(d, kind) for d in range(1, 8) for kind in KINDS if (d, kind) not in ALWAYS]


@pytest.mark.parametrize(("d", "kind"), [*ALWAYS, *(pytest.param(*case, marks=pytest.mark.slow) for case in OTHERS)])
def test_the_sums_are_off_by_less_than_they_say(d, kind):
    rng = np.random.default_rng(d)
    X, y = hostile(kind, PEOPLE + LANES - 1, d, rng)  # some who do not fill a register
    scale = np.linalg.norm(X, axis=0)
    theta = rng.normal(size=d) * np.linalg.norm(y) / scale
    found, scale, size = folded(X, y, theta)
    truth = exact_moments(X, y, theta)
    off = [abs(Fraction(a) + Fraction(b) - c) for a, b, c in zip(found.high, found.low, truth, strict=True)]
    assert all(float(v * Fraction(s)) <= found.lost for v, s in zip(off, scale, strict=True))
    assert found.lost < 1e-20 * size  # 22 digits of the largest that they could be
    assert any(v > 0 for v in off) or kind == "scales"


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("kind", ["tails", "plain"])
def test_the_map_over_the_people_makes_the_same_sums(d, kind, monkeypatch):
    """In turns of its own, of 2,048 people and more at a time, from the last turn on, and in several laps."""
    monkeypatch.setattr(output_perturbation, "OFTEN_OPEN", 0)
    monkeypatch.setattr("perinstance.auditing.map_people.TURN_BYTES", 8 * d * 2100)
    monkeypatch.setattr("perinstance.folds.shared_turns.LAP_BYTES", 8 * d * 4000)
    kept = {}

    def keep(grid, sums, cuts):
        kept[len(kept)] = grid, sums_of_turns(grid, sums, cuts), cuts
        return kept[len(kept) - 1][1]

    monkeypatch.setattr(output_perturbation, "sums_of_turns", keep)
    X, y = hostile(kind, PEOPLE + LANES - 1, d, np.random.default_rng(d))
    release = pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=1.0)
    audits = [pi.audit(release, X, y, engine=Local(threads=threads)) for threads in (1, 3)]
    (grid, found, cuts), (_, other, _) = kept.values()
    assert (found.high == other.high).all() and (found.low == other.low).all()
    assert (audits[0].losses == audits[1].losses).all() and len(cuts) > 3 and cuts[-1] == len(y)
    power = grid.start[-1] / 1.5
    truth = exact_moments(X, y, -grid.weights[:d])
    for j, (high, low, exact) in enumerate(zip(found.high, found.low, truth, strict=True)):
        scale = Fraction(power) / (Fraction(grid.start[j]) / Fraction(1.5))
        assert abs(Fraction(high) + Fraction(low) - exact) * scale <= Fraction(found.lost)
    assert found.lost < 1e-20 * power


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(1)
    X, y = hostile("tails", 3 * PEOPLE + 5, 5, rng)
    theta = rng.normal(size=5)
    one, three = (folded(X, y, theta, threads)[0] for threads in (1, 3))
    assert (one.high == three.high).all() and (one.low == three.low).all()


def test_a_table_of_few_columns_without_an_intercept_is_for_them():
    assert [d for d in range(12) if fits_grids(d, False)] == [1, 2, 3, 4, 5, 6, 7]
    assert not fits_grids(5, True)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7])
def test_a_quick_estimate_is_the_sharper_one_to_what_both_say(d):
    X, y = almost_fitted(d, PEOPLE, d, 1e-9, offset=2.0)
    with LocalSweep(read_table(X, y), threads=1) as sweep:
        fit = linear_fit(sweep, 0.5, False)
        quick, sharp = quick_estimate(fit, sweep), sharper_estimate(fit, sweep)
        roots = np.linalg.norm(X[:200] @ fit.factor.W, axis=1)
        (e, lost), (f, less) = (found.residuals(X[:200], y[:200], roots) for found in (quick, sharp))
    assert (np.abs(e - f) <= lost + less).all()
    assert sharp.per_root < quick.per_root < 1e-15
    assert (lost <= 1e-8 * np.abs(e)).all()


def _never(*_, **__):
    raise AssertionError("the quick fold was enough")


def test_people_who_are_almost_fitted_take_one_quick_fold(monkeypatch):
    X, y = almost_fitted(5, PEOPLE, 4, 1e-9)
    release = pi.OutputPerturbation(Ridge(alpha=1e-9, fit_intercept=False), scale=1.0)
    slow = pi.audit(release, X, y, engine=Local(threads=1, block_bytes=1 << 17))  # block by block: no grids
    monkeypatch.setattr(open_people, "sharper_estimate", _never)
    quick = pi.audit(release, X, y, engine=Local(threads=1))
    assert quick.refined == slow.refined >= 1 and (quick.pairs.kinds == slow.pairs.kinds).all()
    np.testing.assert_allclose(quick.losses, slow.losses, rtol=1e-7)
    np.testing.assert_allclose(quick.residuals, slow.residuals, rtol=1e-7)


def test_a_large_table_is_not_read_once_more_for_them(monkeypatch):
    X, y = almost_fitted(5, PEOPLE, 4, 1e-9)
    release = pi.OutputPerturbation(Ridge(alpha=1e-9, fit_intercept=False), scale=1.0)
    another_pass = pi.audit(release, X, y, engine=Local(threads=1))
    monkeypatch.setattr(output_perturbation, "OFTEN_OPEN", len(y))
    for name in ("moments_on_grids", "sharper_estimate"):
        monkeypatch.setattr(residuals_in_pairs if name == "moments_on_grids" else open_people, name, _never)
    on_the_way = pi.audit(release, X, y, engine=Local(threads=2))
    assert on_the_way.refined == another_pass.refined >= 1
    assert (on_the_way.pairs.kinds == another_pass.pairs.kinds).all()
    np.testing.assert_allclose(on_the_way.losses, another_pass.losses, rtol=1e-7)
    np.testing.assert_allclose(on_the_way.residuals, another_pass.residuals, rtol=1e-7)
    monkeypatch.setattr(output_perturbation, "OFTEN_OPEN", len(y) + 1)
    with pytest.raises(AssertionError, match="enough"):  # a smaller one is
        pi.audit(release, X, y, engine=Local(threads=1))


def test_who_is_fitted_even_better_takes_the_sharper_one():
    X, y = almost_fitted(6, PEOPLE, 4, 0.0)
    X[0], y[0] = 1.0, 0.0
    others = np.arange(len(y)) > 0
    theta = np.linalg.solve(X[others].T @ X[others] + np.eye(4), X[others].T @ y[others])
    y[0] = X[0] @ theta  # to the last digit or two of floats
    release = pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=1.0)
    slow = pi.audit(release, X, y, engine=Local(threads=1, block_bytes=1 << 17))
    quick = pi.audit(release, X, y, engine=Local(threads=1))
    assert (quick.pairs.kinds == slow.pairs.kinds).all()
    np.testing.assert_allclose(quick.residuals[0], slow.residuals[0], rtol=1e-7)
