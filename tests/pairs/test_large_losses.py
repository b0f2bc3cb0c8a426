"""Large losses taken apart: moments, sums of powers, what is proved of the rest, and answers, by roads that share
nothing."""

from __future__ import annotations

import csv
import math
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from flint import acb, arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from perinstance.numerics.rounding import PAIR_PRODUCT
from perinstance.pairs import SampledGaussian
from perinstance.pairs.loss_sums.sampled import steps as steps_of_people
from perinstance.pairs.loss_sums.sampled.large_losses import cut_answers, cut_decay, small_losses
from perinstance.pairs.loss_sums.sampled.large_losses.cut_answers import CutAnswers
from perinstance.pairs.loss_sums.sampled.large_losses.cut_decay import log_decay
from perinstance.pairs.loss_sums.sampled.large_losses.cut_estimates import ORDERS, CutEstimates, log_parts, pole
from perinstance.pairs.loss_sums.sampled.large_losses.cut_integral import (
    BothLines,
    CutKind,
    CutLine,
    add_kind,
    large_line,
    power_sums,
)
from perinstance.pairs.loss_sums.sampled.large_losses.cut_layout import (
    MOST_NODES,
    Goal,
    best_cuts,
    guess_epsilon,
    log_outside,
    lowered,
    make_plan,
    softest_first,
)
from perinstance.pairs.loss_sums.sampled.large_losses.cut_moments import moments_of
from perinstance.pairs.loss_sums.sampled.large_losses.cut_window import cut_noise
from perinstance.pairs.loss_sums.sampled.large_losses.loss_cut import END, LossCut
from perinstance.pairs.loss_sums.sampled.large_losses.small_loss_line import (
    bulk_cuts,
    bulk_line,
    log_large_losses,
    log_spread,
    small_line,
)
from perinstance.pairs.loss_sums.sampled.large_losses.small_losses import log_small_losses
from perinstance.pairs.loss_sums.sampled.lattice import answers
from perinstance.pairs.loss_sums.sampled.more_digits import precise_answers
from perinstance.pairs.loss_sums.sampled.more_digits.line_answer import NONE, LineAnswer, better
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError

DATA = Path(__file__).parent / "data"

CUTS = [
    LossCut(2e-5, 12.0, 30_000.0, 30.0, 0.5, 23.0),
    LossCut(0.02, 3.0, 40.0, 1.5, 0.5, 12.0),
    LossCut(3e-5, 0.9, 90_000.0, 0.4, 0.1, 20.0),
    LossCut(8e-6, 0.24, 2_000.0, 0.013, 0.02, 37.0),
]
ALMOST = 1e-12


def _integral(cut: LossCut, z: acb, large: bool) -> acb:
    """B or D along the real line, by flint's own quadrature."""

    def integrand(x, _):
        w = 1 - arb(cut.q) + arb(cut.q) * (arb(cut.m) * x - arb(cut.m) ** 2 / 2).exp()
        u = (x - arb(cut.place)) / (arb(cut.width) * arb(2).sqrt())
        weight = (-u if large else u).erfc() / 2
        weight *= ((x - arb(cut.last)) / (arb(END) * arb(2).sqrt())).erfc() / 2
        return weight * ((1 + z) * w.log() - x * x / 2).exp() / (2 * arb.pi()).sqrt()

    ends = [-39.0, cut.place - 8 * cut.width, cut.place, cut.place + 8 * cut.width, cut.last, cut.end]
    size = float(log_parts(cut, np.array([float(z.real)]), 1.0)[int(large)][0]) / math.log(2.0)
    tolerance = {"rel_tol": arb(2) ** -110, "abs_tol": arb(2) ** (min(round(size), 0) - 200)}
    pieces = [acb.integral(integrand, a, b, **tolerance) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    return sum(pieces, acb(0))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_moments_are_enclosed(cut, large):
    """They are off by less than they say, at the first node and after every kind of turn; D with all its digits."""
    c, spacing, nodes = 3.0 / cut.m, 0.5 / cut.m, 1030
    log_small, log_large = (float(part[0]) for part in log_parts(cut, np.array([c]), 1.0))
    log = log_large if large else log_small
    power = -round(log / math.log(2.0))
    noise = cut_noise(cut, c, log - 70.0, large)
    found = moments_of(noise, spacing, nodes, power)
    assert found.errors.max() < 1e-20 * abs(found.values[0, 0])
    with ctx.workprec(150):
        for k in (0, 33, 1025):
            true = _integral(cut, acb(c, arb(spacing) * k), large) * arb(2) ** power
            high, low = (acb(part.real, part.imag) for part in found.values[:, k])
            assert abs(high + low - true) < arb(found.errors[k])
        first = float(_integral(cut, acb(c), large).real.log().mid())
    assert log == pytest.approx(first, rel=1e-6, abs=1e-6)  # estimates are good ones


#: All that counts of its noise lies behind the cut: paths begin at some height.
BEHIND = LossCut(1e-3, 40.0, 10.0, 12.0, 0.5, 52.0)


@pytest.mark.parametrize("cut", [*CUTS, BEHIND])
def test_the_rest_of_a_line(cut, monkeypatch):
    """What is proved is above what is there, for all that follows, and falls; whatever the path."""
    c = 3.0 / cut.m
    noise = cut_noise(cut, c, float(log_parts(cut, np.array([c]), 1.0)[1][0]) - 90.0, large=True)
    assert (noise.low > cut.place + 2.0) == (cut is BEHIND)
    for y in (0.2, 1.0, 30.0):
        bounds = [log_decay(noise, y, rise, True) for rise in (0.5, 2.0, 4.0)]
        about = [log_decay(noise, y, rise, False) for rise in (0.5, 2.0, 4.0)]
        assert np.all(np.array(bounds) < np.array(about) + 1.5)
        with ctx.workprec(160):
            for further in (0.0, 0.37):
                size = abs(_integral(cut, acb(c, y + further), large=True))
                assert size.mid() < arb(min(bounds)).exp() + size.rad()
    monkeypatch.setattr(cut_decay, "MOST_CELLS", 1000)
    assert log_decay(noise, 1.0, 1.0, True) == np.inf


@pytest.mark.parametrize("cut", CUTS)
def test_small_losses_alone(cut):
    """Chernoff's bound of them is above the true one, next to it."""
    for order in (0.3, 4.0, 25.0):
        with ctx.workprec(150):
            true = cut.steps * float(_integral(cut, acb(order), large=False).real.log().mid())
        true += order * math.log(order) - (1 + order) * math.log1p(order)
        found = log_small_losses([cut], order)
        assert true <= found < true + 0.05 * (1.0 + abs(true) + cut.steps * cut.q * (1.0 + order))
        assert log_small_losses([cut, cut], order) > 1.9 * found - 10.0


numbers = st.integers(-(10**15), 10**15).map(lambda x: x / 1e15)


@given(numbers, numbers, numbers, numbers, st.floats(0.0, 1.0), st.integers(1, 60))
def test_sums_of_powers(a, b, c, d, near, n):
    """In rationals: no power loses more than n u, no sum of products of powers more than 4 n^2 u."""
    z = np.array([complex(a, b), complex(c, d)])
    z /= np.maximum(1.0, np.abs(z)) * (1.0 + 1e-15)
    z[1] += near * (z[0] - z[1])
    found = power_sums(z[0], 0.0j, z[1], 0.0j, float(n))
    exact = [(Fraction(x.real), Fraction(x.imag)) for x in z]

    def times(x, y):
        return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]

    powers = [[(Fraction(1), Fraction(0))] for _ in exact]
    for x, each in zip(exact, powers, strict=True):
        for _ in range(n):
            each.append(times(each[-1], x))
    terms = [times(powers[0][i], powers[1][n - 1 - i]) for i in range(n)]
    truths = powers[0][n], powers[1][n], (sum(t[0] for t in terms), sum(t[1] for t in terms))
    for k, (truth, allowed) in enumerate(zip(truths, (n, n, 4 * n * n), strict=True)):
        high, low = found[2 * k : 2 * k + 2]
        off = (
            Fraction(high.real) + Fraction(low.real) - truth[0],
            Fraction(high.imag) + Fraction(low.imag) - truth[1],
        )
        assert math.hypot(float(off[0]), float(off[1])) <= allowed * PAIR_PRODUCT


@given(st.lists(st.tuples(numbers, numbers, numbers, numbers, st.integers(1, 300)), min_size=1, max_size=3))
def test_errors_of_differences(kinds):
    """In balls: ``prod A^k - prod B^k`` is off by no more than is said, where moments are off by what they say."""
    rests, found, lost = np.array([[1.0 + 0j], [0j]]), np.zeros((2, 1), complex), np.zeros((2, 1))
    power, moments_off = 40, 2.0**-90
    with ctx.workprec(400):
        all_a, all_b = acb(1), acb(1)
        for a, b, c, d, steps in kinds:
            small, large = 0.7 * complex(a, b) / 2, 0.3 * complex(c, d) / 2
            add_kind(
                np.array([[small], [0j]]),
                np.array([[large * 2.0**power], [0j]]),
                np.array([[moments_off], [moments_off * 2.0**power]]),
                np.array([1.0, 0.0, 2.0**-power, 1.0]),
                float(steps),
                rests,
                found,
                lost,
            )
            off = arb(moments_off) / 2
            true_b = acb(small.real, small.imag) + off
            all_a *= (true_b + acb(large.real, large.imag) - off / 3) ** steps
            all_b *= true_b**steps
        value = sum((acb(part.real, part.imag) for part in found[:, 0]), acb(0))
        assert abs(value - (all_a - all_b) * arb(2) ** power) <= arb(lost[1, 0])


def _start(kinds, delta):
    """Chernoff's epsilon."""
    K = np.zeros(len(ORDERS))
    for q, m, k in kinds:
        K += k * np.logaddexp(*log_parts(LossCut(q, m, k, 1.0, 0.5, 39.0 + m), ORDERS, 1.0))
    return float(np.min((K + pole(ORDERS) - math.log(delta)) / ORDERS))


def _cut(kinds, goal):
    """The softest."""
    return next(softest_first(kinds, goal))


def _large(plan):
    """The line of large losses."""
    parts = []
    for cut, (small, large), log in zip(plan.estimates.cuts, plan.noise, plan.large, strict=True):
        power = -round(log / math.log(2.0))
        moments = (moments_of(part, plan.place[1], plan.nodes, two) for part, two in ((small, 0), (large, power)))
        parts.append(CutKind(*moments, power, cut.steps))
    return large_line(parts, plan.place, plan.log_rests)


def _line(kinds, goal, cuts=None):
    plan = make_plan(cuts or _cut(kinds, goal), goal)
    line = _large(plan)
    return CutLine(
        line, log_small_losses(plan.estimates.cuts, plan.order), plan.order, log_outside(plan.estimates.cuts)
    )


def test_the_cut_does_not_matter():
    """Wherever it lies, and however soft it is, the same delta is found; two equal kinds are one; slopes are slopes."""
    kinds, goal = [(2e-5, 11.0, 40_000.0)], Goal(150.0, math.log(0.05))
    found = _cut(kinds, goal)
    line = _line(kinds, goal, found)
    log, slope = line.log_bound(150.0)
    assert (log - line.log_bound(150.01)[0]) / 0.01 == pytest.approx(slope, rel=1e-3)
    for level, soft in ((0.5, 0.5), (0.8, 0.25)):
        cuts = [replace(cut, level=level * cut.level, soft=soft) for cut in found.cuts]
        other = _line(kinds, goal, CutEstimates.of(cuts, 100.0))
        assert other.log_bound(150.0)[0] == pytest.approx(log, abs=ALMOST)
    halves = _line([(2e-5, 11.0, 15_000.0), (2e-5, 11.0, 25_000.0)], goal)
    assert halves.log_bound(150.0)[0] == pytest.approx(log, abs=ALMOST)


def test_a_sharp_cut_does_not_matter():
    """A tail as heavy as a lognormal's: other cuts, of other softness, find the same delta."""
    kinds, goal = [(8e-6, 0.24, 2_000.0)], Goal(0.0165, -516.0765508)
    sharper, sharpest = list(softest_first(kinds, goal))[-2:]
    lines = [_line(kinds, goal, cuts) for cuts in (sharper, sharpest, lowered(sharpest.cuts, goal, 0.95))]
    found = [line.log_bound(goal.epsilon)[0] for line in lines]
    charged = [line.charged(goal.epsilon, goal.log_delta) for line in lines]
    assert max(charged) < 1e-10
    assert np.ptp(found) < 1e-10
    assert found[1] == pytest.approx(goal.log_delta, abs=1e-6)


@pytest.mark.parametrize("cut", CUTS)
def test_how_small_losses_spread(cut):
    """What is proved of their transform is above what is there, from there on; and less than one."""
    c = 3.0 / cut.m
    with ctx.workprec(160):
        first = abs(_integral(cut, acb(c), large=False))
        log = float(first.log().mid())
        for y in (0.3, 5.0, 300.0):
            bound = log_spread(cut, c, log, y / cut.level)
            assert bound < 0.0
            for further in (1.0, 1.7):
                size = abs(_integral(cut, acb(c, further * y / cut.level), large=False)) / first
                assert size.mid() - size.rad() < arb(bound).exp()


def test_losses_that_no_float_tells_apart_spread_nothing():
    """Far to the left of a large distance log w is log(1 - q) to the last digit, and falls by e^-800 a unit."""
    cut = LossCut(1.5571625417098838e-06, 38.03869492448573, 1.0, 1114.481525729016, 0.5, 46.15294186506628)
    assert log_spread(cut, 0.02209708691207961, 2.7385687228427953, 958.4) <= 0.0


@pytest.mark.parametrize("cut", CUTS)
def test_large_losses_alone(cut):
    """Chernoff's bound of them is above the true one, next to it where they are seldom."""
    for order in (0.3, 2.0):
        with ctx.workprec(160):
            small, large = (_integral(cut, acb(order), part).real for part in (False, True))
            more = arb(cut.steps) * (large / small).log1p()  # (B + D)^k - B^k without cancellation
            true = arb(cut.steps) * small.log() + more.expm1().log()
            seldom = more.mid() < 1e-3
        true = float(true.mid()) + order * math.log(order) - (1 + order) * math.log1p(order)
        found = log_large_losses([cut], order)
        assert found >= true - 1e-9 * abs(true)
        assert not seldom or found < true + 1e-3


def test_the_line_of_small_losses():
    """Where all losses have a line, it says the same; where they have none, it does not matter where the cut lies."""
    kinds = [(1e-3, 0.5, 8_000.0), (2e-3, 0.3, 4_000.0)]
    pairs = SampledGaussian(*(np.array([part]) for part in zip(*kinds, strict=True)))
    (epsilon,) = pairs.epsilon(1e-8, "with")
    goal = Goal(epsilon, math.log(1e-8))
    line, _ = bulk_line(next(bulk_cuts(kinds, goal)), goal, 1 << 26)
    assert line.log_bound(epsilon)[0] == pytest.approx(goal.log_delta, abs=1e-9)
    kinds, goal = [(2.829e-6, 0.2914, 2_335_044.0)], Goal(0.036194256430278376, math.log(1.06e-177))
    served = []
    for found in bulk_cuts(kinds, goal):
        with suppress(NotPreciseError):
            served.append(bulk_line(found, goal, 1 << 26)[0].log_bound(goal.epsilon)[0])
    assert len(served) > 1
    assert served == pytest.approx([goal.log_delta] * len(served), abs=1e-8)


def test_a_line_of_each_part():
    """Where neither part is next to nothing; other cuts find the same, whose parts are others."""
    kinds, goal = [(6.074e-6, 0.2141, 52_709.0)], Goal(0.010019807533136254, math.log(2.74e-239))
    found, shares = [], []
    for soft in (0.02, 0.005):
        cuts = best_cuts(kinds, goal, soft)
        small, _ = small_line(replace(cuts, bulk=True), goal, 1 << 26)
        both = BothLines(_large(make_plan(cuts, goal)), small, log_outside(cuts.cuts))
        found.append(both.log_bound(goal.epsilon))
        shares.append(small.log_bound(goal.epsilon)[0] - goal.log_delta)
        less = both.log_bound(goal.epsilon * (1.0 + 1e-7))[0]
        assert (found[-1][0] - less) / (1e-7 * goal.epsilon) == pytest.approx(found[-1][1], rel=1e-4)
        assert both.charged(goal.epsilon, goal.log_delta) < 1e-12
    assert [log for log, _ in found] == pytest.approx([goal.log_delta] * 2, abs=1e-9)
    assert -30.0 < min(shares) < max(shares) < 0.0


def test_the_end_of_large_losses():
    """Noise beyond it is charged in full: its probability, by quadrature; and it does not matter where it lies."""
    cut = LossCut(0.02, 3.0, 40.0, 1.5, 0.5, 7.0)
    x = np.linspace(-10.0, 30.0, 400_001)
    law = (0.98 * np.exp(-0.5 * x**2) + 0.02 * np.exp(-0.5 * (x - 3.0) ** 2)) / math.sqrt(2.0 * math.pi)
    beyond = 40.0 * float((law * ndtr((x - 7.0) / END)).sum()) * 1e-4
    assert 0.0 <= cut.log_outside - math.log(2.0 * beyond) < 0.02
    kinds, goal = [(1.494e-4, 0.3823, 458.0)], Goal(5.141513901570925, math.log(1.03e-291))
    cuts = list(softest_first(kinds, goal))[1].cuts
    found = []
    for further in (0.0, 1.0):
        moved = CutEstimates.of([replace(one, last=one.last + further) for one in cuts], 1100.0)
        found.append(_line(kinds, goal, moved).log_bound(goal.epsilon)[0])
    assert found == pytest.approx([goal.log_delta] * 2, abs=1e-9)


def _by_convolution(q, m, k, epsilon, spacing):
    """Delta of losses that are moved to the points of a lattice next to them, none of them in the mean: it is more."""
    x = np.linspace(-12.0, 37.5, 400_001)
    middle = 0.5 * (x[1:] + x[:-1])
    w = 1.0 - q + q * np.exp(m * middle - 0.5 * m * m)
    mass = w * np.exp(-0.5 * middle**2) / math.sqrt(2.0 * math.pi) * np.diff(x)
    place = (np.log(w) - math.log1p(-q)) / spacing
    index = place.astype(int)
    count = int((1.6 * epsilon - k * math.log1p(-q)) / spacing) + 2
    inside = index < count - 1
    index, mass, share = index[inside], mass[inside], (place - index)[inside]
    law = np.bincount(index, mass * (1.0 - share), count) + np.bincount(index + 1, mass * share, count)
    total = np.zeros(count)
    total[0] = 1.0
    for digit in bin(int(k))[2:]:
        total = np.convolve(total, total)[:count]
        if digit == "1":
            total = np.convolve(total, law)[:count]
    losses = k * math.log1p(-q) + spacing * np.arange(count)
    return float((total * np.maximum(-np.expm1(epsilon - losses), 0.0)).sum())


def test_heavy_tails_by_convolution():
    """A dumb road: sums of positive numbers lose no digits, however small; a lattice's error falls with its square."""
    q, m, k, delta = 7.838e-6, 0.2387, 2293.0, 3.82e-230
    (epsilon,) = SampledGaussian(q, m, k).epsilon(delta, "with")
    coarse, fine = (math.log(_by_convolution(q, m, k, epsilon, h) / delta) for h in (5e-6, 2.5e-6))
    assert 0.0 < fine < coarse
    assert abs(fine - (coarse - fine) / 3.0) < 0.02  # 2e-4 of epsilon


@given(
    st.floats(-6.0, -0.5),
    st.floats(-1.0, 1.5),
    st.floats(-2.0, 5.0),
    st.floats(-3.0, 1.0),
    st.sampled_from([0.5, 0.02]),
)
def test_the_power_of_small_losses(rate, distance, order, level, soft):
    """Both bounds of B are above it, as floats see it, at whatever order."""
    cut = LossCut(10.0**rate, 10.0**distance, 1.0, 10.0**level, soft, 39.0)
    order = 10.0**order / cut.level
    try:
        x = cut.cells(order * cut.level, 0.02)
        about = log_parts(cut, np.array([order]), order * cut.level)[0][0]
    except NotPreciseError:  # too many cells
        return
    above_least = np.logaddexp(0.0, small_losses._log_above_least(cut, 1.0 + order, x)) + (1.0 + order) * math.log1p(
        -cut.q
    )
    above_one = np.logaddexp(0.0, small_losses._log_above_one(cut, 1.0 + order, x))
    room = 1e-5 * (1.0 + abs(about))
    assert min(above_least, above_one) >= about - room


def _rows(name):
    return list(csv.DictReader((DATA / name).read_text(encoding="utf-8").splitlines()))


ROWS = [
    (name, i)
    for name, some in (("few_steps_truth.csv", 280), ("large_counts_truth.csv", 320), ("seldom_steps_truth.csv", 110))
    for i in range(3, len(_rows(name)), some)
]


def _answers(rows):
    """Whoever is served: epsilon over the proved one, and the costs that were told."""
    out = []
    for name, i in rows:
        row = _rows(name)[i]
        kinds = list(
            zip(*([float(x) for x in row[part].split()] for part in ("rates", "distances", "steps")), strict=True)
        )
        truth, delta = float(row["epsilon"]), float(row["delta"])
        if row["direction"] != "with" or sum(k for _, _, k in kinds) < 2 or any(q == 1.0 for q, _, _ in kinds):
            continue
        goal = np.array([math.log(delta), _start(kinds, delta), np.inf])
        found = CutAnswers(kinds, 1 << 24).answer(goal, NONE, solving=True)
        assert found.value >= truth * (1.0 - ALMOST), row
        if found.cost < np.inf:
            again = CutAnswers(kinds, 1 << 24).answer(np.array([-1.0, truth, np.inf]), found, solving=False)
            assert again.value >= math.log(delta) - ALMOST * abs(math.log(delta)), row
            out.append((found.value / truth - 1.0, found.cost / truth))
    return np.array(out)


def test_proved_truths():
    """Nobody is below; who is served is next to the truth."""
    found = _answers(ROWS)
    served = found[:, 1] < 1e-10
    assert np.count_nonzero(served) > 3
    assert found[served, 0].max() < 1e-9


@pytest.mark.slow
def test_all_proved_truths():
    """The same of every third row."""
    names = ("few_steps_truth.csv", "large_counts_truth.csv", "seldom_steps_truth.csv")
    found = _answers([(name, i) for name in names for i in range(0, len(_rows(name)), 3)])
    served = found[:, 1] < 1e-10
    assert np.count_nonzero(served) > 100
    assert found[served, 0].max() < 1e-9


@pytest.mark.parametrize(
    ("q", "m", "steps", "delta"),
    [(2e-4, 23.5, 7.0, 5e-15), (1e-6, 9.0, 3e5, 1e-10), (3e-5, 0.97, 97_193.0, 4e-97)],
)
def test_lattices_and_lines_are_above(q, m, steps, delta, monkeypatch):
    """Without it, by lattices or lines, everybody was above or as far; with it, epsilon and delta fit together."""
    pairs = SampledGaussian(q, m, steps)
    (found,) = pairs.epsilon(delta, "with")
    assert pairs.delta(found, "with")[0] <= delta * (1.0 + 1e-9)
    assert pairs.delta(found * (1.0 - 1e-9), "with")[0] > delta * (1.0 - 1e-9)
    monkeypatch.setattr(precise_answers, "_with_cut", lambda *_: NONE)
    monkeypatch.setattr(answers, "FINEST", answers.FINEST // 16)
    (before,) = pairs.epsilon(delta, "with")
    assert found * (1.0 - 1e-9) <= before


def test_the_better_of_two():
    """The lower value, whose cost is no larger than that of the higher one."""
    low, high = LineAnswer(1.0, 2.0, np.inf), LineAnswer(1.5, 3.0, 0.25)
    assert better(low, high) == better(high, low) == LineAnswer(1.0, 2.0, 0.25)
    assert better(NONE, high) == high


def test_many_kinds():
    """Nine that are the same are one."""
    goal = np.array([math.log(1e-6), 1000.0, np.inf])
    one = CutAnswers([(2e-5, 12.0, 2_997.0)], 1 << 28).answer(goal, NONE, solving=True)
    goal[1] = 1.01 * one.value
    nine = CutAnswers([(2e-5, 12.0, 333.0)] * 9, 1 << 28).answer(goal, NONE, solving=True)
    assert max(one.cost, nine.cost) < 1e-10 * one.value
    assert nine.value == pytest.approx(one.value, rel=1e-10)


def test_a_cut_beyond_the_noise_of_a_kind():
    """Steps of distance 7 cannot lose what a large loss of distance 22 is: theirs are cut at the end of their noise."""
    kinds = [(0.0476167, 21.8881, 12.0), (0.00431693, 6.87756, 13.0), (0.0243137, 6.98736, 21.0)]
    goal = np.array([math.log(1.3019076212582557e-07), 1859.0, np.inf])
    found = CutAnswers(kinds, 1 << 29).answer(goal, NONE, solving=True)
    assert 1688.84380342 <= found.value < 1688.84380342 * (1.0 + 1e-9)
    assert found.cost < 1e-9 * found.value


def test_people_of_one_call(monkeypatch):
    """Nobody's answer depends on who else is asked for, unless there are very many; along hyperbolas never."""
    monkeypatch.setattr(precise_answers, "_along_hyperbola", lambda *_: NONE)
    distances, steps = np.linspace(1.1, 2.0, 8), np.linspace(60.0, 200.0, 8).round()
    together = SampledGaussian(1e-4, distances, steps).epsilon(1e-6, "with")
    for i in (0, 4, 7):
        (alone,) = SampledGaussian(1e-4, distances[i : i + 1], steps[i : i + 1]).epsilon(1e-6, "with")
        assert together[i] == pytest.approx(alone, rel=1e-14)
    monkeypatch.setattr(steps_of_people, "IN_FULL", 1)
    shares = [steps_of_people.share_of_work([np.ones((3, 2))] * people) for people in (0, 1, 2, 4, 16385)]
    assert shares == [1.0, 0.5, 0.25, 0.125, 0.0]
    monkeypatch.setattr(steps_of_people, "SHARED", 7)
    shared = SampledGaussian(1e-4, distances, steps).epsilon(1e-6, "with")
    assert (shared >= together).all() and (shared > together * 1.0001).any()


def test_a_line_that_says_nothing(monkeypatch):
    """A bound of delta above one is no goal to lay the next line for."""
    monkeypatch.setattr(cut_answers, "read_line", lambda *_: LineAnswer(0.5, 1.0, np.inf))
    found = CutAnswers([(2e-5, 12.0, 30_000.0)], 1 << 26).answer(np.array([-9.0, 200.0, np.inf]), NONE, solving=False)
    assert found.value == 0.5


def test_who_is_not_served():
    """Small losses that reach epsilon, and too much work, are left to others; nothing is raised."""
    often = [(1e-4, 0.05, 1e6)]
    assert next(softest_first(often, Goal(0.015, -7.0)), None) is None
    (epsilon,) = SampledGaussian(*often[0]).epsilon(math.exp(-7.0), "with")
    assert guess_epsilon(often, Goal(0.015, -7.0)) == pytest.approx(epsilon, rel=0.2)  # they are guessed all the same
    with pytest.raises(NotPreciseError, match="cells"):
        CUTS[0].cells(1e9, 0.3)
    with pytest.raises(NotPreciseError, match="above zero"):  # of an epsilon of zero
        lowered([replace(CUTS[0], level=0.0)], Goal(0.0, -7.0), 0.5)
    with pytest.raises(NotPreciseError, match="cut at"):  # moments beyond the range of floats
        cut_noise(LossCut(0.5, 20.0, 100.0, 50.0, 0.5, 45.0), 1.8, 100.0, large=True)
    kinds = [(2e-5, 12.0, 30_000.0)]
    goal = np.array([math.log(1e-6), _start(kinds, 1e-6), np.inf])
    assert CutAnswers(kinds, 1000).answer(goal, NONE, solving=True).cost == np.inf
    assert CutAnswers(20 * kinds, 1 << 28).answer(goal, NONE, solving=True) is NONE
    assert make_plan(_cut(kinds, Goal(200.0, -9.0)), Goal(200.0, -9.0)).nodes <= MOST_NODES
