"""Exponentials and logarithms in pairs of floats, and what lines make of them, against balls."""

from __future__ import annotations

import numpy as np
import pytest
from flint import acb, arb, ctx
from hypothesis import example, given
from hypothesis import strategies as st

from perinstance.numerics.rounding import LOG_2_LOW, PAIR_EXPONENTIAL, PI_LOW
from perinstance.pairs import SampledGaussian
from perinstance.pairs.loss_sums.sampled import epsilon as by_lines
from perinstance.pairs.loss_sums.sampled import steps as steps_of_people
from perinstance.pairs.loss_sums.sampled.lattice import answers as by_lattice
from perinstance.pairs.loss_sums.sampled.more_digits import precise_answers
from perinstance.pairs.loss_sums.sampled.more_digits.ball_integral import ball_line, moments_in_balls
from perinstance.pairs.loss_sums.sampled.more_digits.line_answer import NONE
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import noise_terms, precise_window
from perinstance.pairs.loss_sums.sampled.more_digits.noise_pairs import noise_in_pairs
from perinstance.pairs.loss_sums.sampled.more_digits.pair_functions import (
    GROWN,
    TURNED,
    exp_complex,
    expm1_complex,
    expm1_lost,
    log1p_complex,
    log1p_lost,
)
from perinstance.pairs.loss_sums.sampled.more_digits.pair_integral import pair_line
from perinstance.pairs.loss_sums.sampled.more_digits.pair_logs import logs_over_first
from perinstance.pairs.loss_sums.sampled.more_digits.pair_moments import DEPTH, PairMoments, moments_in_pairs
from perinstance.pairs.loss_sums.sampled.noise_cells import StepKind

BITS = 280
low = st.floats(-(2.0**-53), 2.0**-53).filter(lambda x: x == 0.0 or abs(x) > 1e-25)


def _sized(least: float, most: float):
    size = st.floats(least, most).map(lambda x: 10.0**x)
    return st.builds(lambda sign, x: sign * x, st.sampled_from([-1.0, 1.0]), size)


@st.composite
def pairs_of(draw, real, imag):
    """A complex number as a pair: low parts are at most half a unit in the last place."""
    high = complex(draw(real), draw(imag))
    return high, complex(high.real * draw(low), high.imag * draw(low))


def _ball(high: complex, low: complex) -> acb:
    return acb(high) + acb(low)


def test_constants_and_tables():
    """To the last of 106 bits."""
    with ctx.workprec(BITS):
        assert float(arb.const_log2() - arb(float(np.log(2.0)))) == LOG_2_LOW
        assert float(arb.pi() - arb(np.pi)) == PI_LOW
        for j in range(-16, 17):
            grown, turned = arb(2) ** (arb(j) / 32) - 1, acb(0, arb.pi() * j / 64).exp() - 1
            for table, true in ((GROWN, acb(grown)), (TURNED, turned)):
                off = _ball(*(complex(x) for x in table[:, j + 16])) - true
                assert abs(off.real) <= arb(2.0**-106) * abs(true.real)
                assert abs(off.imag) <= arb(2.0**-106) * abs(true.imag)


@given(pairs_of(_sized(-12, 2.4), _sized(-12, 4)))
@example((complex(0.0, 1e-9), 0j))
def test_exponentials(a):
    """None has lost more than is said; next to zero, of itself."""
    found, near = exp_complex(*a), expm1_complex(*a)
    with ctx.workprec(BITS):
        x = _ball(*a)
        true = x.exp()
        assert abs(_ball(*found) - true) <= arb(PAIR_EXPONENTIAL * (1.0 + 0.5 * abs(a[0]))) * abs(true)
        if abs(a[0].imag) < 3.0:
            assert abs(_ball(*near) - (true - 1)) <= arb(expm1_lost(a[0], near[0]) * (1.0 + 1e-9))


@given(pairs_of(_sized(-14, 3), _sized(-14, 3)) | pairs_of(_sized(-15, 0).map(lambda x: x - 1.0), _sized(-15, 0)))
@example((-1.0 + 0j, 1e-20 + 0j))
@example((-1.0 + 1e-25j, 0j))
def test_logarithms(a):
    """None has lost more than is said, next to zero and next to -1."""
    found = log1p_complex(*a)
    with ctx.workprec(BITS):
        true = (1 + _ball(*a)).log()
        assert abs(_ball(*found) - true) <= arb(log1p_lost(a[0], found[0]) * (1.0 + 1e-9))


@pytest.mark.parametrize("over", [True, False])
@pytest.mark.parametrize(
    ("q", "m", "c"), [(1e-6, 1.0, 17.4), (3e-4, 0.4, 60.0), (0.2, 2.5, 1.0), (0.999, 0.5, 3.0), (1e-3, 1e-4, 500.0)]
)
def test_noise(q, m, c, over):
    """Weights and losses of every node: all of them together are not further off than is said."""
    step = StepKind(q, m, over, 0.0)
    window, noise, _ = precise_window(step, c, DEPTH)
    found = noise_in_pairs(step, c, (window.low, window.high), window.theta, noise, 8)
    off_weight, off_loss = arb(0), arb(0)
    with ctx.workprec(BITS):
        for i, (_, weight, loss) in enumerate(noise_terms(step, c, (window.low, window.high), window.theta, noise)):
            a, b = (_ball(complex(*x[:2, i]), complex(*x[2:, i])) for x in (found.weights, found.losses))
            off_weight += abs(a - weight)
            off_loss += abs(weight) * abs(b - loss)
        assert off_weight < arb(found.off_weight)
        assert off_loss < arb(found.off_loss)
    assert found.off_weight < 1e-26 * found.size
    assert not found.weights[:, noise:].any() and not found.losses[:, noise:].any()


@pytest.mark.parametrize("over", [True, False])
def test_several_kinds_and_balls_agree(over):
    """The bound in pairs is above the one in balls, by no more than it has charged."""
    place, nodes = (6.0, 0.9), 700
    kinds = [(2e-5, 0.9, 300_000.0), (3e-4, 0.3, 7.0), (0.01, 0.05, 12_345.0), (1e-3, 0.7, 0.0)]
    pairs = pair_line([(moments_in_pairs(q, m, over, place, nodes), k) for q, m, k in kinds], place, nodes, 1e-30)
    own = [(moments_in_balls(q, m, over, place, nodes, 192), k) for q, m, k in kinds]
    balls = ball_line(own, place, nodes, 1e-30, 192)
    for epsilon in (0.0, 0.05, 0.3):
        log, least = pairs.log_bound(epsilon)[0], balls.log_bound(epsilon)[0]
        assert least - 1e-14 * (1 + abs(least)) <= log <= least + 1.01 * pairs.charged(epsilon, least) + 1e-13


def test_logarithms_of_vague_moments():
    """What is not known to a digit is not taken for known, and what vanishes neither; zero steps of it are nothing."""
    values = np.array([[2.0 + 0j, 1.0 + 1.0j, 1e-3 + 0j, 1e-200 + 0j], [0j] * 4])
    logs = logs_over_first(values, np.array([1e-30, 1e-30, 1e-3, 1e-30]))
    assert logs.errors[:2].max() < 1e-28
    assert (logs.errors[2:] > 1e100).all()
    assert logs.most[2] == pytest.approx(np.log(1e-3), rel=1e-2)
    place = (2.0, 0.5)
    none, some = (pair_line([(PairMoments(values, np.full(4, 1e-30)), k)], place, 4, 0.0) for k in (0.0, 3.0))
    assert none.lost < 1e-25
    assert (some.terms[0, 3], some.terms[1, 3]) == (0.0, 0.0)


@pytest.fixture
def many():
    """Twenty people who share thirty kinds of steps and are seldom sampled."""
    random = np.random.default_rng(11)
    share = random.dirichlet(np.full(30, 0.5), 20)
    return SampledGaussian(1e-4, np.linspace(0.05, 1.5, 30)[None], np.floor(15_000 * share))


def test_people_who_share_kinds(many, monkeypatch):
    """None of them is given work of their own, and yet each is told what they are told alone."""
    monkeypatch.setattr(precise_answers, "_along_hyperbola", lambda *_: NONE)
    alone = np.concatenate([many[i : i + 1].epsilon(1e-7, "with") for i in range(6)])
    monkeypatch.setattr(steps_of_people, "SHARED", 0)
    together = many.epsilon(1e-7, "with")
    assert together[:6] == pytest.approx(alone, rel=1e-12)
    monkeypatch.setattr(precise_answers, "_along_shared", lambda people, _: dict.fromkeys(people, NONE))
    floats = many[:6].epsilon(1e-7, "with")
    assert (floats >= alone * (1.0 - 1e-12)).all()
    assert (floats > alone * (1.0 + 1e-9)).any()  # it was they who answered


def test_a_line_that_has_to_stay(many, monkeypatch):
    """Where no other line can be had the first one is made finer, and says the same."""
    monkeypatch.setattr(precise_answers, "_along_hyperbola", lambda *_: NONE)
    monkeypatch.setattr(by_lattice, "MOST_STEPS", 0.0)
    monkeypatch.setattr(precise_answers, "_with_cut", lambda *_: NONE)
    one = many[:1]
    (usual,) = one.epsilon(1e-7, "with")
    make, asked = precise_answers._line, []

    def only_the_first(view, place, *others):
        asked.append(place[0])
        return make(view, place, *others) if place[0] == asked[0] else None

    monkeypatch.setattr(precise_answers, "_line", only_the_first)
    (stayed,) = one.epsilon(1e-7, "with")
    assert len(set(asked)) > 1 and asked[-1] == asked[0]
    assert stayed == pytest.approx(usual, rel=1e-9)


def test_long_lines_of_floats_come_last(many, monkeypatch):
    """They are asked where nothing better is had, and then they do answer."""
    asked = []
    straight = by_lines._invert_straight

    def counted(view, tables, places, goals, solving, most):
        asked.append((len(goals), most))
        return straight(view, tables, places, goals, solving, most)

    monkeypatch.setattr(by_lines, "_invert_straight", counted)
    best = many.epsilon(1e-7, "with")
    assert [most for _, most in asked] == [by_lines.SHORT]
    asked.clear()
    monkeypatch.setattr(precise_answers, "MOST_STEPS", 0.0)
    monkeypatch.setattr(by_lattice, "MOST_STEPS", 0.0)
    rough = many.epsilon(1e-7, "with")
    assert [most for _, most in asked] == [by_lines.SHORT, np.inf]
    assert (rough >= best * (1.0 - 1e-12)).all() and (rough < 1.01 * best).all()


@pytest.mark.parametrize("over", [True, False])
@pytest.mark.parametrize(
    ("q", "m", "place"),
    [
        (1e-5, 1.3, (2.0, 0.3)),
        (1e-4, 0.4, (5.0, 0.6)),
        (1e-3, 2.5, (1.5, 0.2)),
        (0.3, 0.7, (3.0, 0.1)),
        (1e-9, 0.8, (1.0, 0.01)),
    ],
)
def test_far_moments_with_floats(q, m, place, over):
    """Within their errors of sums in pairs, at every node; and known to more digits than floats have."""
    nodes, near = 3000, 1100
    pairs, floats = moments_in_pairs(q, m, over, place, nodes), moments_in_pairs(q, m, over, place, nodes, near)
    apart = np.abs((pairs.values[0] - floats.values[0]) + (pairs.values[1] - floats.values[1]))
    np.testing.assert_array_equal(apart[:near], 0.0)
    assert (apart[near:] > 0.0).any()
    assert (apart <= pairs.errors + floats.errors).all()
    assert (floats.errors[near:] <= 40.0 * min(q * place[1] * nodes * np.exp(m * m), 1.0) * 1e-14 + 1e-22).all()
    logs, far = pairs.logs, floats.logs
    known = (logs.errors < 1.0) & (far.errors < 1.0)
    off = np.abs((logs.values[:2] - far.values[:2]) + (logs.values[2:] - far.values[2:])).sum(axis=0)
    assert (off <= logs.errors + far.errors)[known].all()
    assert (far.most >= np.log(np.abs(floats.values[0]) / floats.values[0, 0].real) - 1e-14).all()


def test_people_are_told_the_same_by_far_floats(monkeypatch):
    """A line of some ten thousand nodes, with and without floats far along it."""
    monkeypatch.setattr(precise_answers, "_along_hyperbola", lambda *_: NONE)
    person = SampledGaussian(1e-4, [[0.5, 1.1]], [[300, 200]])
    found = person.epsilon(1e-8)
    monkeypatch.setattr(precise_answers, "LEAST_NEAR", 1 << 30)
    np.testing.assert_allclose(found, person.epsilon(1e-8), rtol=1e-11)
