"""Sums of very many losses: what rounding up adds is taken back, sums lie on windows, and both remain bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from perinstance.pairs import SampledGaussian
from perinstance.pairs.loss_sums.sampled.lattice import answers, lattice_bound
from perinstance.pairs.loss_sums.sampled.lattice.answers import lattice_epsilon
from perinstance.pairs.loss_sums.sampled.lattice.excess_mass import without_excess
from perinstance.pairs.loss_sums.sampled.lattice.lattice_bound import Kinds, LatticeBound
from perinstance.pairs.loss_sums.sampled.lattice.lattice_laws import Lattice, LossSum, coarsened
from perinstance.pairs.loss_sums.sampled.lattice.loss_sums import added, ended
from perinstance.pairs.loss_sums.sampled.lattice.sum_windows import LossWindow, _sums, begun, repeated

from .test_few_steps_table import ROWS, _numbers


def _above(points, masses):
    """Exact sums of all masses from each point on, in rationals, from the last point to the first."""
    order = np.argsort(-np.array(points), kind="stable")
    total, out = Fraction(0), []
    for i in order:
        total += Fraction(float(masses[i]))
        out.append((float(points[i]), total))
    return out


@pytest.mark.parametrize("excess", [3e-14, 0.2, 0.45])
@pytest.mark.parametrize("seed", range(4))
def test_excess_is_taken_from_the_least_points(excess, seed):
    """Above every point as much is left as a law with a sum of one has; coarser points have what finer ones move there.

    Without a scale everything is exact in rationals. With three of ten times as much the least points are all gone.
    """
    random = np.random.default_rng(seed)
    lattice = Lattice(0.25, 0.0, 40, 1.0, ((8, 4),), many=True)
    fine, coarse = random.random(29) ** 4, random.random(40) ** 4
    fine[:3] *= 1e-3
    coarse[8:] *= 0.2
    total = fine.sum() + coarse[8:].sum() + 0.1
    fine, coarse, beyond = fine / total, coarse / total, 0.1 / total
    points = np.concatenate([np.arange(29) / 16, 0.25 * np.arange(8, 40), [np.inf]])
    law = np.concatenate([fine, coarse[8:], [beyond]])  # a sum of one, but for roundings
    law *= 1.0 - 4e-16
    grown = 1.0 + excess * random.random(law.size)
    raised = law * grown
    fine, coarse[8:] = raised[:29].copy(), raised[29:-1]
    coarse[:8] = coarsened(fine, 4, 0.25, 0.0)[:8]
    before = fine.copy(), coarse.copy()
    found = without_excess(LossSum((coarse, fine), 0.0, 1.0, float(raised[-1]), 0.0), lattice)
    coarse, fine = found.levels
    left = np.concatenate([fine, coarse[8:], [found.beyond]])
    for (at, least), (_, here) in zip(_above(points, law), _above(points, left), strict=True):
        assert here >= least, at
    everything = sum(Fraction(float(x)) for x in left)
    assert 1 - Fraction(1, 10**15) <= everything <= 1 + Fraction(1, 10**13)
    assert (coarse[:8] >= coarsened(fine, 4, 0.25, 0.0)[:8] * (1 - 1e-13)).all()
    assert (fine <= before[0]).all() and (coarse <= before[1] * (1 + 1e-15)).all()
    assert (coarse[:8].sum() < before[1][:8].sum()) == (fine.sum() < before[0].sum())


def test_nothing_is_taken_from_few_steps():
    """Nor where a law has less than one, or nothing is known of what lies beyond."""
    masses = np.full(40, 0.02)
    for many, beyond, log_scale in ((False, 0.5, 0.0), (True, 0.1, 0.0), (True, np.inf, 0.0), (True, 0.5, 900.0)):
        law = LossSum((masses.copy(),), log_scale, 1.0, beyond, 0.0)
        without_excess(law, Lattice(0.25, 0.0, 40, 1.0, (), many))
        assert (law.masses == masses).all()


@pytest.mark.parametrize("order", [0.0, 2.5, -1.5])
def test_what_lies_below_a_window_is_raised_to_it(order):
    """Probability stays, the mean of the ratio is that of the raised law; the end of a law is beyond its last point."""
    lattice = Lattice(0.02, order, 50, 1.0)
    at, random = 0.02 * np.arange(50), np.random.default_rng(2)
    plain = random.random(50) / 40
    beyond, excess = 0.05, 0.08  # of those beyond the last point
    scale = np.exp(order * at - 3.0)
    mean = math.log(plain @ np.exp(at) + (beyond + excess) * math.exp(at[-1]))
    law = LossSum((plain * scale,), 3.0, mean, beyond * scale[-1], excess * scale[-1])
    window = begun(law, 7, lattice)
    raised = plain[7:].copy()
    raised[0] += plain[:7].sum()
    assert window.first == 7 and window.masses == pytest.approx(raised * scale[7:], rel=1e-13)
    assert (window.masses >= raised * scale[7:] * (1 - 1e-15)).all()
    truth = math.log(raised @ np.exp(at[7:]) + (beyond + excess) * math.exp(at[-1])) - at[7]
    assert truth <= window.mean <= truth + plain[:7].sum()  # as if what was raised had not counted before
    assert begun(law, 0, lattice) is law
    end = ended(window, 30, lattice)
    last = at[7 + 29]
    assert end.beyond == pytest.approx((plain[37:].sum() + beyond) * scale[36], rel=1e-12)
    over = plain[37:] @ np.expm1(at[37:] - last) + (beyond + excess) * math.exp(at[-1] - last) - beyond
    assert end.excess == pytest.approx(over * scale[36], rel=1e-12)
    with pytest.raises(OverflowError, match="window"):
        begun(law, 40, lattice)


def test_sums_of_windows_are_sums():
    """Two raised laws, convolved number by number, with all that lies beyond: masses, probability and excess."""
    lattice, random = Lattice(0.05, 1.5, 30, 1.0), np.random.default_rng(4)
    laws, whole = [], []
    for first, size in ((4, 30), (9, 24)):
        plain, far = random.random(size) / 60, random.random(200) / 900  # far: beyond the last point of this one
        at = 0.05 * (first + np.arange(size + 200))
        every = np.concatenate([plain, far])
        scale = np.exp(1.5 * at - 2.0)
        last = at[size - 1]
        beyond, excess = far.sum() * scale[size - 1], far @ np.expm1(at[size:] - last) * scale[size - 1]
        mean = math.log(every @ np.exp(at - at[0]) / every.sum())
        total = math.log(every.sum())  # a probability of one in its scale
        laws.append(
            LossSum(
                (plain * scale[:size] / every.sum(),),
                2.0,
                mean,
                beyond / math.exp(total),
                excess / math.exp(total),
                first,
            )
        )
        whole.append(every / every.sum())
    both = np.convolve(*whole)
    found = added(laws[0], laws[1], lattice)
    at = 0.05 * (13 + np.arange(both.size))
    n = found.masses.size
    assert found.first == 13 and n == 24
    scale = np.exp(1.5 * at - 4.0)
    assert found.masses == pytest.approx(both[:n] * scale[:n], rel=1e-12)
    assert found.beyond == pytest.approx(both[n:].sum() * scale[n - 1], rel=1e-12)
    assert found.excess == pytest.approx(both[n:] @ np.expm1(at[n:] - at[n - 1]) * scale[n - 1], rel=1e-12)


@pytest.mark.parametrize("times", [1, 2, 3, 7, 64, 1000, 999_983, 1 << 24])
def test_sums_that_are_added_up(times):
    """Doublings and single steps, up to how many there are."""
    sums, n = _sums(times), 1
    for many, more in sums:
        assert many == n and more in (1, n)
        n += more
    assert n == times and len(sums) <= 2 * times.bit_length()


@pytest.mark.parametrize("deep", [1.0, 3.0, 9.0])
def test_windows_are_bounds(deep, monkeypatch):
    """However much of a sum lies below its window, and however early windows begin: delta is never below the truth."""
    monkeypatch.setattr(lattice_bound, "NARROW", np.inf)
    monkeypatch.setattr(lattice_bound, "MANY", 50)
    windows = 0
    for row in [row for row in ROWS if row["direction"] == "with" and sum(_numbers(row)[2]) > 100]:
        truth, log_delta = float(row["epsilon"]), math.log(float(row["delta"]))
        kinds = Kinds.of(np.array(_numbers(row)), 1.0, log_delta)
        pairs = zip(kinds.laws, kinds.starts, strict=True)
        kinds = replace(kinds, windows=tuple(LossWindow.of(law, start, kinds.first, deep) for law, start in pairs))
        for points, later in ((256, 0.0), (1000, 0.05)):
            monkeypatch.setattr(lattice_bound, "LATER", later)
            bound = LatticeBound(kinds, 1.01 * truth, points)
            j = int(kinds.place(truth) / bound.lattice.spacing)
            if not 0 < bound.first <= j < bound.last:
                continue
            logs = [bound.log_delta(k) for k in (j, j + 1)]
            if max(logs) == np.inf:
                continue
            windows += 1
            here, there = bound.epsilon(j), bound.epsilon(j + 1)
            share = math.expm1(truth - here) / math.expm1(there - here)
            found = logs[0] + math.log1p(share * math.expm1(logs[1] - logs[0]))
            slope = abs((logs[1] - logs[0]) / (there - here))
            assert found >= log_delta - slope * (1e-11 * truth + bound._off) - 1e-13 * abs(log_delta), row
    assert windows > 5


#: Rate, distance, steps, delta, and how far above a line, which knows nothing of lattices, a coarse one may be.
LONG = [
    (1e-6, 3.0, 1e7, 1e-6, 1e-6),
    (1e-5, 3.0, 1e5, 1e-6, 5e-8),
    (1e-6, 1.0, 1e6, 1e-6, 2e-3),
    (3e-6, 1.5, 999_983.0, 1e-5, 2e-3),
    (1e-3, 0.3, 200_000.0, 1e-7, 2e-2),
]


@pytest.mark.parametrize(("rate", "distance", "steps", "delta", "most"), LONG)
def test_lattices_of_many_steps_meet_lines(rate, distance, steps, delta, most, monkeypatch):
    """Seldom steps, up to ten million: two roads that share nothing after the law of one step."""
    monkeypatch.setattr(answers, "MOST_STEPS", 0.0)  # lines alone
    (line,) = SampledGaussian(rate, [distance], steps).epsilon(delta, "with")
    table = np.array([[rate], [distance], [steps]])
    found = lattice_epsilon(table, 1.0, math.log(delta), (np.inf, np.inf), 1 << 15)
    assert line * (1 - 1e-7) <= found <= line * (1 + most)


def test_more_steps_cost_more():
    """Seldom steps around and beyond what lattices take one by one: losses grow with them, next to a smooth curve."""
    steps = np.array([40_000.0, 65_000.0, 70_000.0, 150_000.0])
    losses = [SampledGaussian(1e-5, [4.0], k).epsilon(1e-4, "with")[0] for k in steps]
    slopes = np.diff(np.log(losses)) / np.diff(np.log(steps))
    assert (slopes > 0).all() and (np.diff(slopes) / slopes[0] < 0.5).all()


def test_windows_begin_later():
    """Up to a mean a sum begins at its least value; then it is raised by what all beginnings together are."""
    window = LossWindow(1e-3, 5e-3, 0.05)
    assert window.begins(49) == 0.0 and window.begins(100) == pytest.approx(0.05)
    total = sum(max(window.begins(a + b) - window.begins(a) - window.begins(b), 0.0) for a, b in _sums(1000))
    assert window.raised(1000) == pytest.approx(total) and total >= window.begins(1000) - window.begins(500) * 2
    masses = np.full(64, 1 / 64)
    law = LossSum((masses,), 0.0, 0.1, 0.0, 0.0)
    lattice = Lattice(1e-3, 0.0, 64, 1.0)
    assert repeated(law, 1, lattice, window) is law
