"""Pairs that are known from above only, and what they compose to, against discrete pairs that obey the bounds."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perinstance.pairs import Composed, GaussianShift, LaplaceShift, PosteriorSamplePair, compose
from perinstance.pairs.bounded import Dominated
from perinstance.pairs.sums.solve import less_tail


def _profile(p, q, epsilon, rest=None):
    """``sum_i p_i rest(epsilon - log p_i/q_i)``: the discrete pair composed with another profile (none: one step)."""
    loss = np.log(p / q)
    if rest is None:
        return np.array([float(np.sum(p * np.maximum(-np.expm1(e - loss), 0.0))) for e in np.atleast_1d(epsilon)])
    return np.array([float(np.sum(p * rest(e - loss))) for e in np.atleast_1d(epsilon)])


@cache
def _pairs(count):
    """Discrete pairs with the smallest tail for which a distance and an offset bound them; some of them tightly."""
    rng = np.random.default_rng(3)
    found = []
    for k in range(count):
        D, offset = 10 ** rng.uniform(-0.7, 0.5), 10 ** rng.uniform(-2, 0)
        edges = np.linspace(-4, 4 + D, 40)
        middle = 0.5 * (edges[1:] + edges[:-1])
        p, q = np.exp(-((middle - D) ** 2) / 2), np.exp(-(middle**2) / 2)
        if k % 3:  # Q has up to the offset more wherever it is the larger one
            q = q * np.where(middle < D / 2, np.exp(offset * rng.random(middle.size) ** (k % 2)), 1.0)
        if k % 5 == 0:  # or nothing is like a Gaussian
            p, q = p * np.exp(rng.normal(size=p.size) / 3), q * np.exp(rng.normal(size=p.size) / 3)
        p, q = p / p.sum(), q / q.sum()
        loss = np.log(p / q)
        at = np.unique(np.concatenate([np.abs(loss), np.linspace(0, 12, 3000)]))
        bound = GaussianShift(np.full(at.size, D)).delta(at)
        over = max(np.max(_profile(p, q, at) - bound), np.max(_profile(q, p, at + offset) - bound), 0.0)
        if over < 0.3:
            found.append((p, q, D, offset, over + 1e-6))  # for what lies between the points
    return found


@pytest.mark.parametrize(
    "other", [GaussianShift([0.7]), LaplaceShift([0.4]), PosteriorSamplePair([0.2], [1.0])], ids=repr
)
def test_composition_bounds_every_pair_that_obeys_the_bounds(other):
    checked, close = 0, 0
    epsilons = np.array([-2.0, -0.3, 0.0, 0.2, 1.0, 3.0, 6.0])
    others = other[np.zeros(len(epsilons), dtype=int)]
    for p, q, D, offset, tail in _pairs(15):
        one = Dominated(np.full(len(epsilons), D), offset, tail)
        both = one + others
        assert both.kind == "upper"
        for direction, (a, b) in {"without": (p, q), "with": (q, p)}.items():

            def rest(epsilons, direction=direction):
                n = len(epsilons)
                return other[np.zeros(n, dtype=int)].delta(epsilons, direction)

            alone, true = _profile(a, b, epsilons), _profile(a, b, epsilons, rest)
            assert (alone <= one.delta(epsilons, direction) * (1 + 1e-12) + 1e-15).all()
            bound = both.delta(epsilons, direction)
            assert (true <= bound * (1 + 1e-12) + 1e-15).all()
            checked, close = checked + len(epsilons), close + int((bound < 1.5 * true + tail).sum())
    assert checked > 100 and close > checked / 3  # it bounds, and it is not idle


def test_offsets_and_tails_add_up():
    one, two = Dominated([0.3, 0.0], [0.1, 0.0], [1e-9, 0.0]), Dominated([0.4, 0.0], [0.02, 0.0], [1e-9, 0.0])
    both = one + two
    assert isinstance(both, Composed) and list(both.kinds) == ["upper", "upper"]
    shift = GaussianShift([0.5])
    assert both.epsilon(1e-6)[0] == pytest.approx(shift.epsilon(1e-6 - 2e-9)[0] + 0.12, rel=1e-9)
    assert both.delta(1.0)[0] == pytest.approx(shift.delta(0.88)[0] + 2e-9, rel=1e-9)
    assert both.delta(both.epsilon(1e-6))[0] <= 1e-6
    assert both.epsilon(1e-6)[1] == 0 and both.renyi(2.0)[1] == 0 and both.epsilon(0.0)[1] == 0
    assert np.isposinf(both.renyi(2.0)[0]) and np.isposinf(both.zcdp()[0]) and np.isposinf(both.epsilon(1e-9)[0])
    for rate in (0.0, 0.01, 0.5, 1.0):
        assert both.attack_power(rate)[0] >= shift.attack_power(rate)[0]
        assert both.attack_power(rate)[0] <= min(shift.attack_power(min(rate * np.exp(0.121), 1.0))[0] + 3e-9, 1.0)
    assert both[0].epsilon(1e-6)[0] == both.epsilon(1e-6)[0]
    assert len(Composed.concatenate([both, both])) == 4


def test_inside_a_composition_and_beside_nothing():
    one = Dominated([0.5], [0.01], [1e-12])
    assert one + GaussianShift([0.0]) is one
    inner = PosteriorSamplePair([0.1], [1.0]) + LaplaceShift([0.2])
    total = compose([inner, one])
    assert [type(part).__name__ for part in total.parts] == ["PosteriorSamplePair", "LaplaceShift", "Dominated"]
    simple = inner.epsilon(5e-7) + one.epsilon(5e-7)
    assert inner.epsilon(1e-6)[0] < total.epsilon(1e-6)[0] < simple[0]
    # a tail or an offset alone is not nothing
    assert Composed([GaussianShift([0.0]), Dominated([0.0], [0.3], [1e-3])]).delta(0.1)[0] == pytest.approx(
        1 - np.exp(-0.2) + 1e-3
    )
    lost = GaussianShift([1.0]) + Dominated([0.5], [np.inf], [0.0])
    assert np.isposinf(lost.epsilon(1e-6)[0]) and lost.delta(3.0)[0] == 1 and lost.attack_power(0.0)[0] == 1


def test_total_variation_bounds_the_second_direction_below_the_offset():
    one = Dominated([0.5], [0.4], [1e-6])
    assert one.delta(0.1, "with")[0] == pytest.approx(GaussianShift([0.5]).delta(0.0)[0] + 1e-6)
    assert one.epsilon(0.5, "with")[0] == 0


@given(st.floats(1e-300, 0.9), st.floats(0.0, 1.0))
def test_what_a_tail_leaves_of_delta_is_rounded_down(delta, share):
    tail = delta * share
    left = float(less_tail(np.array([delta]), np.array([tail]))[0])
    assert Fraction(left) <= Fraction(delta) - Fraction(tail) and left >= (delta - tail) * (1 - 1e-15) - 1e-320


@pytest.mark.parametrize("rate", [1e-3, 0.05, 0.4])
def test_power_of_a_sum_with_a_bounded_shift_is_the_least_of_its_lines(rate):
    """Every epsilon bounds the power by ``delta(epsilon) + e^epsilon r``; the offset moves where the least lies."""
    pair = Composed([Dominated([0.5], [0.3], [1e-9]), PosteriorSamplePair([0.05], [2.0])])
    epsilons = np.linspace(-12, 12, 2001)
    lines = pair[np.zeros(2001, dtype=int)].delta(epsilons, "with") + np.exp(epsilons) * rate
    assert pair.attack_power(rate)[0] == pytest.approx(lines.min(), rel=1e-4)
