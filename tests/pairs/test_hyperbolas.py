"""Inversion along hyperbolas: moments, bounds and answers against ball arithmetic and roads that share nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import acb, arb, ctx
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from perinstance.pairs import SampledGaussian
from perinstance.pairs.loss_sums.sampled.hyperbolas import hyperbola, hyperbola_answers, hyperbola_line, oblique_noise
from perinstance.pairs.loss_sums.sampled.hyperbolas.hyperbola import Hyperbola, lay_hyperbola
from perinstance.pairs.loss_sums.sampled.hyperbolas.hyperbola_answers import angle_of, answer_along_hyperbola
from perinstance.pairs.loss_sums.sampled.hyperbolas.hyperbola_line import HyperbolaTables, line_along, moments_along
from perinstance.pairs.loss_sums.sampled.hyperbolas.moment_bounds import bounds_of, fill_log_bounds, zero_of
from perinstance.pairs.loss_sums.sampled.hyperbolas.oblique_noise import corners_of_nodes
from perinstance.pairs.loss_sums.sampled.lattice.answers import lattice_epsilon
from perinstance.pairs.loss_sums.sampled.more_digits import precise_answers
from perinstance.pairs.loss_sums.sampled.more_digits.line_answer import NONE

from .sampled_truth import one_step_delta

#: Rate, distance, c (where a strip ends), how fast all dies, log delta, with the person: what a hyperbola is laid for.
SHAPES = [
    (1e-3, 0.5, 40.0, 0.02, -14.0, True),
    (1e-4, 1.0, 17.0, 0.006, -14.0, True),
    (1e-6, 4.0, 1.5, 2.8, -16.0, True),
    (1e-5, 0.3, 100.0, 1.6e-5, -20.0, True),
    (1e-2, 12.0, 0.1, 80.0, -14.0, True),
    (4e-5, 19.0, 0.05, 220.0, -12.0, True),
    (2e-3, 30.0, 0.03, 3.0, -14.0, True),
    (6e-4, 45.0, 0.03, 2400.0, -25.0, True),
    (1e-3, 0.5, 860.0, 0.08, -14.0, False),
    (1e-6, 4.0, 5.4e6, 2.6e-7, -16.0, False),
    (0.3, 1.0, 30.0, 0.4, -12.0, False),
    (9e-5, 18.0, 3.4e5, 1.3e-5, -18.0, False),
    (5e-3, 30.0, 1.3e8, 7e-9, -18.0, False),
]


def _laid(shape: tuple[float, ...]) -> Hyperbola:
    _, m, c, dies, log_delta, over = shape
    found = lay_hyperbola(bool(over), c, dies, (2.0, 2.0), log_delta, angle_of(m) if over else hyperbola.ANGLE)
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def precision():
    """Balls of enough digits."""
    before, ctx.prec = ctx.prec, 240
    yield
    ctx.prec = before


def _path(q: float, m: float, over: bool, plain: bool, nodes: float, far: float):
    """Noise ``t + i theta(t)`` and ``1 + i theta'``, evenly in t: a tanh that rises, a softplus behind the zero."""
    zero, high = zero_of(q, m), (0.42 if over else 0.22) * math.pi / m
    rises, bend = max(high, 0.5), min(1.0, 2.0 / m)
    begin, step = 1.0 if over else -3.0, min(0.5, 0.8 / m) / nodes
    for i in range(int((16.0 + zero + far) / step)):
        t = arb(-16) + i * arb(step)
        if plain:
            yield step, acb(t), acb(1)
        else:
            up, again = (arb(t - begin) / rises).tanh(), (arb(t - zero - 0.5 / m) / bend).exp()
            height = high / 2 * (1 + up) + 0.6 * bend * (1 + again).log()
            slope = high / (2 * rises) * (1 - up * up) + 0.6 * again / (1 + again)
            yield step, acb(t, height), acb(1, slope)


def _moment(q: float, m: float, z: acb, over: bool, nodes: float) -> acb:
    """``A - 1`` by a plain trapezoidal sum along another path, or the real line; w over 1 - q without."""
    rate, apart, least, plain = arb(q), arb(m), (1 - arb(q)).log(), z.imag == 0 or (m > 8.0 and abs(z) < 3)
    far = max(40.0, m * (1.0 + float(z.real.mid())) + 20.0) if plain else 40.0
    total, start = acb(0), (rate / (1 - rate)).log() - apart * apart / 2
    for step, u, slope in _path(q, m, over, plain, nodes, far):
        odds = start + apart * u
        log = (1 + odds.exp()).log() if odds.real < 0 else odds + (1 + (-odds).exp()).log()
        total += (((1 + z) * (log + least if over else log)).exp() - 1) * (-u * u / 2).exp() * slope * step
    return total / (2 * arb.pi()).sqrt()


def _node(shape: Hyperbola, n: int) -> acb:
    grown = (arb(2).log() * n / shape.an_octave).exp()
    return shape.p + acb(shape.zeta) * grown + acb(shape.zeta.conjugate()) / grown


@pytest.mark.parametrize("shape", SHAPES)
def test_moments_at_nodes(shape):
    """``A - 1`` at some nodes is as far off as is said, or nearer."""
    q, m, *_, over = shape
    laid = _laid(shape)
    found, lost = moments_along(q, m, laid)
    assert lost.max() < 1e-15
    for n in (0, laid.nodes // 3, laid.nodes - 1):
        with_digits = acb(*found[:2, n].tolist()) + acb(*found[2:, n].tolist())
        true = _moment(q, m, _node(laid, n), bool(over), 20.0)
        assert float(abs(with_digits - true).mid()) <= lost[n] + 1e-22


@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_of_moments(shape):
    """On every cell of a few, at corners and between them: no moment is larger than its bound."""
    q, m, *_, over = shape
    laid, rng = _laid(shape), np.random.default_rng(1)
    bounds = bounds_of(q, m, bool(over))
    for chain in laid.cells:
        out = np.empty(len(chain.y))
        fill_log_bounds(bounds, chain.x, chain.y, out)
        assert np.isfinite(out).all()
        for k in {0, len(out) // 2, len(out) - 1}:
            for share, higher in ((0.0, 1.0), (1.0, 1.3), (rng.uniform(), 1.0)):
                x = chain.x[k] + share * (chain.x[k + 1] - chain.x[k])
                size = abs(1 + _moment(q, m, acb(x, higher * chain.y[k]), bool(over), 6.0))
                assert float(size.mid()) <= math.exp(out[k]) * (1.0 + 1e-12) + 1e-10


@given(st.floats(-6.0, -0.2), st.floats(-0.7, 1.5), st.floats(-1.0, 4.0), st.floats(0.9, 1.5), st.booleans())
@settings(max_examples=20, deadline=None)
def test_bounds_of_moments_anywhere(log_rate, log_distance, log_size, angle, over):
    q, m = 10.0**log_rate, 10.0**log_distance
    size = 10.0**log_size / m if m <= 8.0 else min(10.0**log_size / m, 1.0)  # the plain sum is long there
    z = size * complex(math.cos(angle), math.sin(angle))
    out = np.empty(1)
    fill_log_bounds(bounds_of(q, m, over), np.array([z.real, 1.02 * z.real]), np.array([z.imag]), out)
    plain, fine = (_moment(q, m, acb(z), over, nodes) for nodes in (5.0, 7.0))
    assume(float(abs(plain - fine).mid()) < 1e-9)  # the plain sum itself has converged
    assert float(abs(1 + fine).mid()) <= math.exp(out[0]) * (1.0 + 1e-12) + 1e-9


@pytest.mark.parametrize("z", [0.3 + 1.0j, 2.0 + 6.0j, 8.0 + 20.0j])
def test_bounds_of_moments_where_nearly_everybody_is_sampled(z):
    """Behind a path log w is below zero there, and the least real part says most."""
    q, m, out = 1.0 - 1e-5, 0.7, np.empty(1)
    fill_log_bounds(bounds_of(q, m, True), np.array([z.real, 1.5 * z.real]), np.array([z.imag]), out)
    for x in (z.real, 1.5 * z.real):
        at = complex(x, z.imag)
        size = math.exp(0.5 * m * m * (at * (1.0 + at)).real)  # of a shift, which it is but for some 1e-5 |z|
        assert size * (1.0 - 1e-3) - 1e-3 <= math.exp(out[0])


@pytest.mark.parametrize("shape", SHAPES)
def test_nodes_lie_within_their_triangles(shape):
    laid = _laid(shape)
    corners, groups = corners_of_nodes(laid)
    assert len(groups) == laid.nodes + 1 and (corners[-1] == laid.p).all()
    for z, group in zip(laid.z, groups, strict=False):
        a, b, c = corners[group]
        turned = [((q - p).conjugate() * (z - p)).imag for p, q in ((a, b), (b, c), (c, a))]
        slack = 1e-9 * abs(z) ** 2
        assert all(t >= -slack for t in turned) or all(t <= slack for t in turned)


ONE_STEP = [
    (1e-3, 0.5, 0.02, True),
    (1e-4, 2.0, 0.7, True),
    (1e-5, 0.3, 2e-5, True),
    (1e-2, 6.0, 11.0, True),
    (0.2, 1.0, 1.5, True),
    (1e-4, 16.0, 130.0, True),
    (1e-5, 48.0, 1200.0, True),
    (1e-3, 0.5, 7e-4, False),
    (1e-4, 16.0, 6e-5, False),
    (1e-2, 6.0, 0.01, False),
    (0.2, 1.0, 0.15, False),
]


def _line_of_one_step(q: float, m: float, epsilon: float, over: bool, delta: float):
    kinds = np.array([[q], [m], [1.0]])
    dies = epsilon if over else -math.log1p(-q) - epsilon
    c = min(3.0 / m + max(math.log((1.0 - q) / q), 0.0) / m**2, 30.0 / m) if over else 4.0 / dies
    shape = lay_hyperbola(over, c, dies, (2.0, 2.0), math.log(delta), angle_of(m) if over else hyperbola.ANGLE)
    assert shape is not None
    return kinds, c, shape


@pytest.mark.parametrize(("q", "m", "epsilon", "over"), ONE_STEP)
def test_one_step_against_its_closed_form(q, m, epsilon, over):
    true = float(one_step_delta(q, m, epsilon, "with" if over else "without"))
    kinds, c, shape = _line_of_one_step(q, m, epsilon, over, true)
    line = line_along(kinds, c, shape, HyperbolaTables(over))
    bound, slope = line.log_bound(epsilon)
    assert math.log(true) - 1e-15 <= bound <= math.log(true) + 1e-10
    ahead = float(one_step_delta(q, m, epsilon * (1.0 + 1e-6), "with" if over else "without"))
    assert slope == pytest.approx(-math.log(ahead / true) / (1e-6 * epsilon), rel=1e-4)


@pytest.mark.parametrize(("q", "m", "epsilon", "over"), ONE_STEP)
@pytest.mark.parametrize("fewer", [(2, 1.0), (4, 1.0), (1, 0.6), (3, 0.5)])
def test_what_is_missed_is_charged(q, m, epsilon, over, fewer):
    """Too few nodes an octave, and too short: the sum is far off, and no further than what is added."""
    true = float(one_step_delta(q, m, epsilon, "with" if over else "without"))
    kinds, c, shape = _line_of_one_step(q, m, epsilon, over, true)
    shape = shape._replace(
        an_octave=max(shape.an_octave // fewer[0], 1), nodes=max(int(shape.nodes / fewer[0] * fewer[1]), 2)
    )
    shape = shape._replace(cells=hyperbola._cells(shape))
    line = line_along(kinds, c, shape, HyperbolaTables(over))
    for e in (epsilon, 0.7 * epsilon, 1.02 * epsilon):
        here = float(one_step_delta(q, m, e, "with" if over else "without"))
        value, _, lost = line._sum(e)
        assert abs(value - here) <= lost + 1e-14 * here


KINDS = [
    (np.array([[1e-3, 1e-4], [1.0, 3.0], [3.0, 5.0]]), 1e-6),
    (np.array([[1e-5, 1e-5, 1e-3], [0.5, 2.0, 0.7], [20.0, 4.0, 2.0]]), 1e-8),
]


@pytest.mark.parametrize("over", [True, False])
@pytest.mark.parametrize(("kinds", "delta"), KINDS)
def test_lattices_say_the_same(kinds, delta, over):
    """Both are bounds; a lattice of half the spacing comes four times nearer."""
    pairs = SampledGaussian(kinds[0][None], kinds[1][None], kinds[2][None])
    found = float(pairs.epsilon(delta, "with" if over else "without")[0])
    edge = np.inf if over else -float(np.dot(kinds[2], np.log1p(-kinds[0])))
    bounds = (edge if edge < np.inf else 100.0, np.inf)
    by_lattice = lattice_epsilon(kinds, 1.0 if over else -1.0, math.log(delta), bounds, 1 << 14)
    assert found == pytest.approx(by_lattice, rel=1e-6)
    assert found <= by_lattice * (1.0 + 1e-12)


def test_moments_next_to_nothing():
    """A proved row whose moments at the first nodes are 1e-17: more than nothing (they were taken to be nothing)."""
    rates, distances = [0.00362536, 0.0130013, 0.242507, 0.0620844], [0.168076, 0.166379, 0.315899, 0.128658]
    (found,) = SampledGaussian([rates], [distances], [[1, 3, 1, 1]]).epsilon(9.346813916940916e-20, "without")
    assert 0.276754255733 <= found <= 0.276754255733 * (1.0 + 1e-9)


@pytest.mark.parametrize(("q", "m", "steps", "delta"), [(9.8e-4, 29.8, 10, 1.94e-10), (3e-3, 20.0, 6, 1.337e-4)])
def test_where_delta_hardly_falls(q, m, steps, delta, monkeypatch):
    """Between two and three large losses: Newton's method ended far above, and costs were told as if it fell by c."""
    pairs = SampledGaussian(q, [[m]], steps)
    (epsilon,) = pairs.epsilon(delta, "with")
    slope = math.log(pairs.delta(epsilon, "with")[0] / pairs.delta(epsilon * (1.0 + 1e-6), "with")[0]) / 1e-6 / epsilon
    assert 0.0 < slope < 0.1 / m
    assert pairs.delta(epsilon * (1.0 - 1e-9), "with")[0] > delta
    monkeypatch.setattr(precise_answers, "_along_hyperbola", lambda *_: NONE)
    assert epsilon == pytest.approx(pairs.epsilon(delta, "with")[0], rel=1e-8)


def test_a_first_guess_beyond_the_largest_loss():
    """Chernoff's bound may be ten times the largest loss without the person: still nothing but a hyperbola is asked."""
    kinds = np.array([np.full(8, 1e-6), np.linspace(0.4, 1.8, 8), np.ones(8)])
    edge = -float(np.dot(kinds[2], np.log1p(-kinds[0])))
    goal, tables = np.array([math.log(1e-9), 10.0 * edge, edge]), HyperbolaTables(False)
    found = answer_along_hyperbola(kinds, (5e4, 0.02), goal, True, tables)
    assert 0.0 < found.value < edge and found.cost < 1e-10 * found.value


@pytest.mark.parametrize("side", ["with", "without"])
def test_epsilon_and_delta_agree(side):
    pairs = SampledGaussian([[1e-5] * 12], [np.geomspace(0.3, 6.0, 12)], [[2] * 12])
    (epsilon,) = pairs.epsilon(1e-7, side)
    assert pairs.delta(epsilon, side)[0] == pytest.approx(1e-7, rel=1e-9)
    assert pairs.delta(epsilon * (1.0 - 1e-9), side)[0] > 1e-7


def test_seldom_people_are_served(monkeypatch):
    """Neither large losses nor lattices are asked for them, nor long lines."""

    def fails(*args):
        raise AssertionError

    monkeypatch.setattr(precise_answers, "_with_cut", fails)
    monkeypatch.setattr("perinstance.pairs.loss_sums.sampled.lattice.answers.answer_on_lattice", fails)
    pairs = SampledGaussian(1e-4, [1.0, 2.0, 3.0, 5.0], 50)
    assert (pairs.epsilon(1e-6) > 0.0).all()


def test_who_is_not_served():
    """Deltas that pairs of floats do not see, hyperbolas that would be too long, noise that has too many nodes."""
    tables, kinds = HyperbolaTables(True), np.array([[1e-3], [1.0], [9.0]])
    place = (5.0, 0.1)
    assert answer_along_hyperbola(kinds, place, np.array([-400.0, 1.0, np.inf]), True, tables) is NONE
    assert answer_along_hyperbola(kinds, place, np.array([-9.0, 0.0, np.inf]), True, tables) is NONE
    assert lay_hyperbola(True, 1e-3, 1e-300, (0.0, 0.0), -20.0) is None
    assert lay_hyperbola(True, 1e-3, 1.0, (1e6, 0.0), -20.0) is None
    with pytest.raises(oblique_noise.NotPreciseError):
        oblique_noise.noise_along(1e-3, 400.0, _laid(SHAPES[0]))
    far = np.array([[1e-3], [60.0], [3.0]])
    assert answer_along_hyperbola(far, (0.02, 0.1), np.array([-9.0, 500.0, np.inf]), True, tables).value > 0.0


def test_bounds_of_many_kinds_are_not_all_kept(monkeypatch):
    monkeypatch.setattr(hyperbola_line, "MOST_KEPT", 3)
    tables = HyperbolaTables(True)
    for m in (0.5, 1.0, 1.5, 2.0, 2.5):
        tables.of(1e-3, m)
    assert len(tables.bounds) == 2
    assert hyperbola_answers.ROUNDS > 1
