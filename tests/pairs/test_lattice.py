"""Sampled steps on a lattice of losses: each part against exact or brute arithmetic, the whole against proved roads."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from perinstance.numerics.normal_tails import upper_tail
from perinstance.pairs import SampledGaussian
from perinstance.pairs.loss_sums.sampled.few_steps.gauss_rule import NODES, RULE
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import make_step
from perinstance.pairs.loss_sums.sampled.lattice import answers, lattice_bound
from perinstance.pairs.loss_sums.sampled.lattice.answers import lattice_epsilon, lattice_log_delta
from perinstance.pairs.loss_sums.sampled.lattice.block_convolution import convolve
from perinstance.pairs.loss_sums.sampled.lattice.lattice_bound import Kinds, LatticeBound
from perinstance.pairs.loss_sums.sampled.lattice.lattice_laws import Lattice, coarsened
from perinstance.pairs.loss_sums.sampled.lattice.potential_lowering import factor_masses
from perinstance.pairs.loss_sums.sampled.lattice.step_levels import SpreadStep
from perinstance.pairs.loss_sums.sampled.lattice.step_spread import above_least, move_up, noise_at, spread_step
from perinstance.pairs.loss_sums.sampled.more_digits import precise_answers
from perinstance.pairs.loss_sums.sampled.more_digits.line_answer import NONE

SIGNS = {"with": 1.0, "without": -1.0}


def test_the_rule_of_the_strips():
    """Gauss's rule is exact for polynomials up to twice its nodes less one."""
    for power in range(0, 2 * NODES, 2):
        assert RULE[1] @ RULE[0] ** power == pytest.approx(2 / (power + 1), rel=2e-15)


@pytest.mark.parametrize(("q", "m"), [(0.1, 1.0), (1e-5, 0.3), (0.7, 6.0), (0.02, 0.001), (1e-3, 45.0)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_step_on_the_lattice(q, m, sign):
    """Masses at the points are integrals of hats, by ball arithmetic: never below, hardly above."""
    from flint import acb, arb, ctx

    step = make_step(q, m, sign)
    start, points = above_least(-7.0, step), 65
    spacing = (above_least(m + 3.0, step) - start) / (points - 1)
    masses, places = np.empty((2, points))
    last, off, _ = spread_step(step, (start, spacing, 0), 0.0, -7.0, masses, places)
    assert last == pytest.approx(noise_at(start + spacing * (points - 1), step)[0])
    assert 0.0 < off < 1e-11 * (1.0 + start + spacing * points)
    ctx.prec = 120
    assert places == pytest.approx([-7.0, *(noise_at(start + spacing * j, step)[0] for j in range(1, points))])
    for j in (1, 2, 20, 40, 63):
        x, y, z = (arb(place) for place in places[j - 1 : j + 2])

        def part(a, b, up, y=y):
            whole = ((b - a) * m).exp() - 1

            def hat(t, _):
                share = (((t - a) * m).exp() - 1) / whole
                return ((y * y - t * t) / 2).exp() * (share if up else 1 - share)

            cuts = [a + (b - a) * k / 4 for k in range(5)]
            return sum((acb.integral(hat, c, d).real for c, d in itertools.pairwise(cuts)), arb(0))

        truth = (part(x, y, True) + part(y, z, False)) * (-y * y / 2).exp() / (2 * arb.pi()).sqrt()
        found = arb(masses[j])
        beside = arb(masses[j - 1] + masses[j + 1])
        assert found + arb(1e-300) > truth  # which is added to all of them
        assert found < truth * (1 + arb(1e-12)) + beside * arb(1e-11) + arb(1e-290)
    ctx.prec = 53


@pytest.mark.parametrize(("n", "head"), [(7, 0), (33, 0), (900, 0), (5000, 0), (64, 64), (900, 128), (5000, 64)])
def test_convolution_is_rounded_up(n, head):
    """Every number at least the exact one, also far below the largest; above by little of what its block holds.

    Products of two of the first ones are left out.
    """
    from flint import arb, arb_poly, ctx

    random = np.random.default_rng(n)
    j = np.arange(n)
    left = np.exp(-0.5 * (40.0 * j / n) ** 2) * random.uniform(0.5, 1.0, n) + 1e-300
    left[0] = 1.0
    right = np.exp(-30.0 * j / n) * random.uniform(0.5, 1.0, n) + 1e-300
    for one, two, count in ((left, right, n), (left, left, n), (left, right, 2 * n - 1), (right, right, 2 * n - 1)):
        found = convolve(one, two, count, head)
        ctx.prec = 200
        a, b = ([arb(float(x)) for x in numbers] for numbers in (one, two))
        exact = arb_poly([0] * head + a[head:]) * arb_poly(b) + arb_poly(a[:head]) * arb_poly([0] * head + b[head:])
        values = [exact[k] for k in range(count)]
        assert all(arb(float(f)) >= v for f, v in zip(found, values, strict=True))
        ctx.prec = 53
        truth = np.array([float(v.mid()) for v in values])
        around = np.array([truth[max(k - max(n // 8, 256), 0) : k + 1].max() for k in range(count)])
        assert (found <= truth * (1 + 1e-13) + 1e-9 * around + 2e-300).all()


THREE_STEPS = [[0.2, 0.05], [1.0, 2.0], [2.0, 1.0]]
SEVEN_STEPS = [[0.2, 0.05, 0.01, 0.1, 0.02, 0.03], [1.0, 2.0, 1.5, 0.7, 1.2, 0.9], [1.0, 1.0, 2.0, 1.0, 1.0, 1.0]]


@pytest.mark.parametrize("table", [THREE_STEPS, SEVEN_STEPS])
def test_the_bound_is_that_of_the_steps_it_stands_for(table, monkeypatch):
    """A few steps on a short lattice: the sum over all points of each, and of what lies beyond, one by one."""
    monkeypatch.setattr(lattice_bound, "WORTH", np.inf)
    table, epsilon, points = np.array(table), 1.5, 40
    kinds = Kinds.of(table, 1.0, -10.0)
    bound = LatticeBound(kinds, epsilon, points)
    spacing = bound.lattice.spacing
    laws = []
    for law, start in zip(kinds.laws, kinds.starts, strict=True):  # the same lattice, continued as far as anything lies
        masses, places = np.empty((2, 2000))
        spread_step(law, (start, spacing, 0), 0.0, kinds.first, masses, places)
        masses[0] += upper_tail(-kinds.first)
        laws.append(masses)
    both = np.ones(1)
    for masses, times in zip(laws, kinds.times, strict=True):
        for _ in range(times):
            both = np.convolve(both, masses)
    losses = kinds.least - kinds.edge + spacing * np.arange(both.size)
    for j in (bound.last, bound.last - 1, points // 2):
        at = losses[j]
        some = both > 1e-290
        truth = (both[some] * np.maximum(np.exp(losses[some]) - np.exp(at), 0.0)).sum()
        assert bound.log_delta(j) == pytest.approx(math.log(truth), abs=1e-10)
        assert bound.epsilon(j) == pytest.approx(at, abs=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_many_kinds_are_not_all_in_memory(sign, monkeypatch):
    """One after the other or all at once: the same bounds."""
    random = np.random.default_rng(5)
    table = np.array([np.full(12, 1e-3), random.uniform(0.5, 3.0, 12), random.integers(1, 4, 12)])
    kinds = Kinds.of(table, sign, -15.0)
    monkeypatch.setattr(lattice_bound, "WORTH", 0.0)
    epsilon = 2.0 if sign > 0.0 else 0.005
    bounds = []
    for few in (16, 0):
        monkeypatch.setattr(lattice_bound, "FEW_KINDS", few)
        bound = LatticeBound(kinds, epsilon, 2000)
        bounds.append([bound.log_delta(j) for j in range(bound.first, bound.last + 1, 50)])
    assert bounds[0] == bounds[1] and np.isfinite(bounds[0]).sum() > 20


def _potential(q, m, losses):
    """``E[(L - l)_+]`` of one step at ``l = (1 - q) e^g``, in closed form."""
    cut = (losses + np.log(-np.expm1(-losses)) - math.log(q / (1 - q))) / m + 0.5 * m  # the noise there
    return q * ndtr(m - cut) - (1 - q) * np.expm1(losses) * ndtr(-cut)


@pytest.mark.parametrize(("q", "m", "points"), [(0.2, 1.0, 60), (0.05, 3.0, 200), (0.9, 0.4, 300), (1e-3, 2.0, 3000)])
def test_lowered_potentials(q, m, points):
    """Times the factor every call on one step costs at least the true one, at every strike; without it some do not."""
    step = make_step(q, m, 1.0)
    start = float(above_least(-7.0, step))
    spacing = (float(above_least(m + 6.0, step)) - start) / (points - 1)
    lattice = Lattice(spacing, 0.0, points, 1.0)
    calls = []
    strikes = start + spacing * (2.0 + np.arange(0.0, points - 8.0, 0.0625 if points < 1000 else 1.4142))
    truth = _potential(q, m, strikes)
    for lowered in (False, True):
        law = SpreadStep(step, start, -7.0, lattice).loss(lowered)
        masses = law.masses * math.exp(law.log_scale)
        places = (1 - q) * np.exp(start + spacing * np.arange(points))

        def call(losses, masses=masses, places=places, law=law):
            below = (1 - q) * np.exp(losses)
            beyond = (law.excess + law.beyond) * places[-1] - law.beyond * below
            return np.maximum(places - below[:, None], 0.0) @ masses + beyond * math.exp(law.log_scale)

        a, b = factor_masses(spacing, 1.0)
        averaged = a * call(strikes - spacing) + (1 - a - b) * call(strikes) + b * call(strikes + spacing)
        calls.append((call(strikes), averaged))
    (spread, _), (low, averaged) = calls
    assert (spread >= truth * (1 - 1e-13)).all() and (averaged >= truth * (1 - 1e-13)).all()
    assert (low < truth * (1 - 1e-9)).any()
    saved = SpreadStep(step, start, -7.0, lattice).saved
    density = np.exp(-strikes)  # what a strike weighs in the variance of the loss
    gained = ((spread - low) * density).sum() * (strikes[1] - strikes[0]) / (1 - q) / spacing**2
    assert 0.0 < saved < 1 / 12 and gained == pytest.approx(saved, rel=0.05)


@pytest.mark.parametrize("order", [0.0, 1.7, -3.0])
def test_moved_to_coarser_points(order):
    """Masses on parts of a spacing go to its ends: probability and mean of the ratio stay."""
    parts, cells, spacing = 8, 5, 0.3
    fine = np.random.default_rng(5).random(cells * parts + 1)
    coarse = coarsened(fine, parts, spacing, order)
    at, around = spacing / parts * np.arange(fine.size), spacing * np.arange(cells + 1)
    assert coarse.shape == around.shape and (coarse > 0).all()
    for power in (0.0, 1.0):
        truth = fine @ np.exp((power - order) * at)
        assert coarse @ np.exp((power - order) * around) == pytest.approx(truth, rel=1e-13)


@pytest.mark.parametrize(("q", "m", "times"), [(1e-5, 4.0, 14000), (3e-4, 1.0, 600), (1e-4, 2.0, 3000)])
def test_seldom_steps_stay_on_finer_points(q, m, times, monkeypatch):
    """None of the probability is lost, and delta is far closer to that of many more points than on one level."""
    kinds = Kinds.of(np.array([[q], [m], [float(times)]]), 1.0, -20.0)
    bound = LatticeBound(kinds, 8.0, 4096)
    assert len(bound.lattice.finer) > 1
    points, order = bound.lattice.spacing * np.arange(4096), bound.lattice.order
    for half in bound._halves:
        assert [masses.size for masses in half.levels] == [level[1] for level in bound.lattice.levels]
        inside = half.masses @ np.exp(half.log_scale - order * points)
        assert inside + half.beyond * math.exp(half.log_scale - order * points[-1]) == pytest.approx(1.0, rel=1e-9)
    many = LatticeBound(kinds, 8.0, 1 << 16)
    monkeypatch.setattr(lattice_bound, "finer_levels", lambda *_: ())
    one_level = LatticeBound(kinds, 8.0, 4096)
    close, coarse = (one.log_delta(one.last) - many.log_delta(many.last) for one in (bound, one_level))
    assert 0.0 < close < 0.5 * coarse


@pytest.mark.parametrize("direction", ["with", "without"])
def test_two_steps_are_those_of_the_integral(direction):
    """A few thousand points: never below what is integrated over the noise to 14 digits, and next to it."""
    random = np.random.default_rng(7)
    for _ in range(12):
        rate = [float(10 ** random.uniform(-4, -0.2))] * 2
        distance = [float(10 ** random.uniform(-0.7, 0.9))] * 2
        if random.random() < 0.5:
            rate[1], distance[1] = rate[0] * random.uniform(0.3, 1.0), distance[0] * random.uniform(0.5, 1.0)
        delta = float(10 ** random.uniform(-12, -2))
        (truth,) = SampledGaussian([rate], [distance], 1).epsilon(delta, direction)
        table = np.array([rate, distance, [1.0, 1.0]])
        edge = -np.log1p(-np.array(rate)).sum() if direction == "without" else np.inf
        found = lattice_epsilon(table, SIGNS[direction], math.log(delta), (float(edge), np.inf), 1 << 12)
        assert truth * (1 - 1e-13) <= found <= truth * (1 + 1e-4) + 1e-13
        if 0.0 < found < edge * 0.999:
            log, slope = lattice_log_delta(table, SIGNS[direction], found, 1 << 12)
            here = math.log(SampledGaussian([rate], [distance], 1).delta(found, direction)[0])
            assert here - 1e-11 * abs(here) <= log <= here + 1e-3 * max(slope * found, 1.0)


def test_few_steps_cost_more_than_fewer():
    """Between one step, which has a closed form, and more of them; monotone in delta too."""
    for direction in ("with", "without"):
        losses = [SampledGaussian(0.02, [1.5], k).epsilon(1e-5, direction)[0] for k in (1, 2, 3, 5)]
        assert (np.diff(losses) > 0).all()
        pairs = SampledGaussian(0.02, [1.5], 3)
        assert pairs.epsilon(1e-4, direction)[0] < losses[2] < pairs.epsilon(1e-6, direction)[0]


def test_many_people_get_fewer_points():
    """Asked together with many different ones the bound may be a looser one, never a smaller one."""
    distance = np.linspace(0.8, 1.6, 64)
    together = SampledGaussian(0.001, distance, 3).epsilon(1e-6, "with")
    alone = SampledGaussian(0.001, distance[:2], 3).epsilon(1e-6, "with")
    assert (alone <= together[:2] * (1 + 1e-14)).all()  # the same lattice, but for roundings
    assert (together[:2] <= alone * (1 + 1e-6)).all()


@pytest.mark.parametrize(("direction", "above"), [("with", 1e-6), ("without", 1e-9)])
def test_many_kinds_of_steps(direction, above, monkeypatch):
    """Twelve kinds that are next to one: between as many of the shortest step and of the longest; then by lines."""
    monkeypatch.setattr(precise_answers, "_along_hyperbola", lambda *_: NONE)
    monkeypatch.setattr(answers, "FINEST", 1 << 16)
    distances = np.linspace(2.0 - 2e-9, 2.0, 12)
    short, long = (SampledGaussian(0.001, [m], 12).epsilon(1e-6, direction)[0] for m in distances[[0, -1]])
    (found,) = SampledGaussian([[0.001] * 12], [distances], 1).epsilon(1e-6, direction)
    assert short * (1 - 1e-12) <= found <= long * (1 + above)
    monkeypatch.setattr(answers, "MOST_STEPS", 11.0)
    (lines,) = SampledGaussian([[0.001] * 12], [distances], 1).epsilon(1e-6, direction)
    assert found < lines < found * (1 + 1e-3)


def test_hundreds_of_kinds():
    """300 kinds that are next to one, seldom: between as many steps of the shortest and of the longest, to 1e-5."""
    distances = np.linspace(3.0 - 1e-9, 3.0, 300)
    short, long = (SampledGaussian(1e-5, [m], 300).epsilon(1e-9, "with")[0] for m in distances[[0, -1]])
    table = np.array([np.full(300, 1e-5), distances, np.ones(300)])
    found = answers.lattice_epsilon(table, 1.0, math.log(1e-9), (np.inf, np.inf), 1 << 11)
    assert short * (1 - 1e-12) <= found <= long * (1 + 1e-5)


def test_people_of_many_kinds_share_points(monkeypatch):
    """Alone they have more points than with others, and with others never fewer than as many as eight kinds have."""
    given = []

    def told(*arguments):
        given.append(arguments[4])
        return 1.0

    monkeypatch.setattr(answers, "lattice_epsilon", told)
    monkeypatch.setattr(answers, "OF_ALL", 32.0)
    distances = np.linspace(0.5, 1.5, 60) + 1e-3 * np.arange(9)[:, None]
    for some in (distances[:1], distances):
        goals = np.tile([-20.0, 1.0, np.inf], (len(some), 1))
        view = SampledGaussian(1e-6, some, 1).coordinates()
        answers.answer_on_lattice(view, goals, np.full((len(some), 2), np.inf), True)
    assert given == [answers.FINEST * 32 // 60] + [answers.FINEST * 8 // 60] * 9


AWKWARD = [
    ([0.3, 0.3, 0.05], [1e-6, 6.0, 1e-6], "with"),
    ([1e-6, 0.9, 1e-6], [40.0, 0.001, 1e-3], "without"),
    ([0.999998, 1e-6, 0.5], [0.5, 50.0, 0.1], "without"),
    pytest.param([0.999998, 1e-6, 0.5], [0.5, 50.0, 0.1], "with", marks=pytest.mark.slow),  # half a minute
]


@pytest.mark.parametrize(("rate", "distance", "direction"), AWKWARD)
def test_awkward_steps(rate, distance, direction):
    """Next to nothing, far out, next to certain: an answer between those of fewer and of more."""
    (found,) = SampledGaussian([rate], [distance], 1).epsilon(1e-9, direction)
    (fewer,) = SampledGaussian([rate[:2]], [distance[:2]], 1).epsilon(1e-9, direction)
    halves = [
        SampledGaussian([[q]], [[m]], 1).epsilon(1e-9 / 3, direction)[0] for q, m in zip(rate, distance, strict=True)
    ]
    assert fewer * (1 - 1e-12) <= found <= sum(halves) * (1 + 1e-12)


@pytest.mark.parametrize("order", [0.0, 1.7, -3.0])
def test_points_that_are_off(order):
    """What was moved up counts as much as if every point were as far off as it may be, and hardly more."""
    spacing, start, share, points = 0.01, 0.3, 1e-4, 50
    losses = start + spacing * np.arange(points)
    scale = np.exp(order * (losses - start))
    before = np.random.default_rng(3).random(points) * scale
    after = before.copy()
    above = move_up(after, start, spacing, order, share) / scale[-1] * np.exp(losses[-1])
    for least in (0.0, *np.exp(losses[[0, 10, 30, 48, 49]])):
        truth = ((np.exp(losses * (1 + share)) - least).clip(0) * before / scale).sum()
        found = ((np.exp(losses) - least).clip(0) * after / scale).sum() + above
        assert truth <= found <= truth + 1e-12 + share * losses[-1] * np.exp(losses).sum()
        assert found == pytest.approx(truth, rel=1e-13) if least == 0.0 else True
    assert move_up(before, start, 1e-5, order, share) == np.inf  # closer than they are off


def test_too_far_out_for_floats():
    """A lattice whose masses overflow knows nothing; a person gets an answer all the same."""
    table = np.array([[0.5], [2.0], [3.0]])
    bound = LatticeBound(Kinds.of(table, 1.0, -690.0), 1e5, 64)
    assert bound.log_delta(bound.last) == np.inf
    (found,) = SampledGaussian([[0.5]], [[2.0]], [[3]]).epsilon(1e-300, "with")
    assert 100.0 < found < np.inf
    # the mean of e^loss is beyond the floats: (1 - q)^-steps
    assert lattice_epsilon(np.array([[0.9], [0.5], [1000.0]]), 1.0, -20.0, (2000.0, np.inf), 1 << 9) == 2000.0
    assert lattice_log_delta(np.array([[0.9], [0.5], [1000.0]]), 1.0, 900.0, 1 << 9)[0] == np.inf


@pytest.mark.parametrize("given", [0.46084929, 0.46048878774974294])
def test_two_lattices_next_to_each_other_by_chance(given):
    """Both 2e-9 above or more, and 4e-9 apart: what coarser ones said of their errors counts too."""
    table = np.array([[0.00145008], [4.64777], [3.0]])
    found = lattice_epsilon(table, 1.0, math.log(0.003424708918520493), (given, np.inf), 1 << 19)
    assert 0.459877612149 <= found < 0.459877612149 * (1.0 + 1e-9)
