"""Two sampled steps by integrals over the noise: the bounds that the proof rests on, and ball arithmetic's truths."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perinstance.pairs import (
    GaussianShift,
    GeneralGaussian,
    LaplaceShift,
    ObjectivePair,
    PosteriorSamplePair,
    SampledGaussian,
)
from perinstance.pairs.bounded import Dominated
from perinstance.pairs.composition import pairs_of_promise
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import loss_at, make_step, step_bound
from perinstance.pairs.loss_sums.sampled.few_steps.strips import box_bound, value_at

from .sampled_truth import one_step_delta

SIGNS = {"with": 1.0, "without": -1.0}


def _random_step(random):
    rate = 10 ** random.uniform(-6, -0.01) if random.random() < 0.9 else 1 - 10 ** random.uniform(-9, -1)
    return float(rate), float(10 ** random.uniform(-6 if random.random() < 0.3 else -1, 1.7))


def _log(ball):
    return float(ball.log().mid())


@pytest.mark.parametrize("direction", ["with", "without"])
def test_one_step_lies_between_its_bounds(direction):
    """The upper and the lower bound of one step at an epsilon, also where the epsilon itself is not known."""
    from flint import ctx

    random = np.random.default_rng(11)
    step_count = 0
    for _ in range(90):
        q, m = _random_step(random)
        step = make_step(q, m, SIGNS[direction])
        E = m * m / 2 + m * random.uniform(0, 30)
        epsilon = math.log1p(q * math.expm1(E)) if E < 300 else math.log(q) + E
        epsilon = epsilon if direction == "with" else -math.log1p(q * math.expm1(-E))
        ctx.prec = 3000
        truth = one_step_delta(q, m, epsilon, direction)
        if not truth > 0:
            continue
        truth = _log(truth)
        ctx.prec = 53
        for off in (0.0, 1e-13 * epsilon):
            up, down = step_bound(epsilon, off, step, 1.0), step_bound(epsilon, off, step, -1.0)
            if not up.moved < np.inf:
                continue
            step_count += 1
            assert down.power + math.log(down.factor) <= truth + 1e-15 * abs(truth)
            assert up.power + math.log(up.factor) >= truth - 1e-15 * abs(truth)
            if off == 0.0 and direction == "with":
                assert up.power + math.log(up.factor) <= truth + 1e-9 * max(1.0, abs(truth))
    assert step_count > 90


def _integrand(x, epsilon, one, two, direction):
    """``phi(x) w(x) delta_2(epsilon - l(x))`` (with) or ``phi(x) delta_2(epsilon + l(x))`` at complex x, as printed."""
    from flint import acb, arb

    (q, m), (q2, m2) = ([arb(part) for part in step] for step in (one, two))
    w = 1 - q + q * (m * x - m * m / 2).exp()
    z = arb(epsilon).exp() / w if direction == "with" else arb(-epsilon).exp() / w
    edge = ((z - 1 + q2) / q2).log() / m2 + m2 / 2
    root = arb(2).sqrt()
    phi = (-x * x / 2).exp() / (2 * arb.pi()).sqrt()
    if direction == "with":
        u, v = ((edge / root).erfc() / 2, ((edge - m2) / root).erfc() / 2)
        return phi * (w * ((1 - q2) * u + q2 * v) - arb(epsilon).exp() * u)
    u, v = ((-edge / root).erfc() / 2, ((m2 - edge) / root).erfc() / 2)
    return acb(phi) * (u - arb(epsilon).exp() * w * ((1 - q2) * u + q2 * v))


@pytest.mark.parametrize("direction", ["with", "without"])
def test_the_integrand_is_below_its_bound_on_a_box(direction):
    """At random points of random boxes in the complex plane; on the real line the kernel's value is next to it."""
    from flint import acb, ctx

    random = np.random.default_rng(12)
    ctx.prec = 1500
    seen, close = 0, []
    for _ in range(90):
        one, two = _random_step(random), _random_step(random)
        first, second = (make_step(*step, SIGNS[direction]) for step in (one, two))
        right = random.uniform(-6, 6)
        loss = loss_at(right, first)[0]
        part = 10 ** random.uniform(-3, 1)  # what is left for the other step: of its scale, from next to the kink on
        left = math.log1p(two[0] * part) if direction == "with" else -math.log1p(two[0] * math.expm1(-part))
        epsilon = loss + left if direction == "with" else left - loss
        wide = 10 ** random.uniform(-2, 0) * min(1.0, 2 / one[1])
        box = (right - wide, right, wide * random.uniform(0, 2))
        bound = box_bound(epsilon, box, first, second)
        if not bound < np.inf:
            continue
        for place in (1.0, *random.uniform(0, 1, 3)):
            high = random.choice([0.0, 1.0, random.uniform(0, 1)])
            x = acb(box[0] + (box[1] - box[0]) * place, box[2] * high)
            size = abs(_integrand(x, epsilon, one, two, direction))
            if size > 0:
                seen += 1
                assert _log(size) <= bound, (one, two, epsilon, box, place, high)
                close.append(bound - _log(size))
        real = _integrand(acb(right), epsilon, one, two, direction)
        power, factor, _u, _loss = value_at(right, epsilon, first, second)
        if real.real > 0 and factor > 0:
            assert power + math.log(factor) >= _log(real.real) - 1e-15 * abs(power)
    ctx.prec = 53
    assert seen > 120 and np.median(close) < 12


TRUTHS = list(
    csv.DictReader((Path(__file__).parent / "data" / "two_steps_truth.csv").read_text(encoding="utf-8").splitlines())
)


@pytest.mark.parametrize("n", [60, pytest.param(len(TRUTHS), marks=pytest.mark.slow)])
def test_table_of_two_steps(n):
    """Over the whole range, proved by balls (``make_sampled_truth.py``): never below, at most 1e-9 of itself above.

    Or, where delta hardly depends on epsilon (far steps at a delta next to the rate), delta is known to 1e-12.
    """
    for row in TRUTHS[:n]:
        rates, distances, steps = ([float(x) for x in row[name].split()] for name in ("rates", "distances", "steps"))
        truth, delta = float(row["epsilon"]), float(row["delta"])
        pairs = SampledGaussian([rates], [distances], [steps])
        (found,), (profile,) = pairs.epsilon(delta, row["direction"]), pairs.delta(truth, row["direction"])
        assert found >= truth * (1 - 1e-15) and profile >= delta * (1 - 1e-15), row
        assert found <= truth * (1 + 1e-9) + 1e-13 or profile <= delta * (1 + 1e-12), row
        assert profile <= delta * (1 + 1e-6) or pairs.epsilon(delta, "without")[0] >= 0.99 * _largest(rates, steps), row


def _largest(rates, steps):
    return -sum(k * math.log1p(-q) for q, k in zip(rates * (3 - len(rates)), steps, strict=False))


def test_answers_do_not_depend_on_who_asks_along():
    """Everybody is answered alone, however many ask, and whatever else they were released in."""
    random = np.random.default_rng(3)
    rate, distance = 10 ** random.uniform(-4, -0.3, (60, 2)), 10 ** random.uniform(-2, 1, (60, 2))
    steps = np.ones((60, 2))
    steps[50:] = [2, 3]
    for direction in ("with", "without"):
        together = SampledGaussian(rate[:50], distance[:50], steps[:50]).epsilon(1e-6, direction)
        alone = [SampledGaussian(rate[i : i + 1], distance[i : i + 1], 1).epsilon(1e-6, direction)[0] for i in range(8)]
        assert together[:8].tolist() == alone
    mixed = SampledGaussian(rate[48:52], distance[48:52], steps[48:52]).epsilon(1e-6, "without")
    assert mixed[0] == together[48] and mixed[1] == together[49]


people = st.tuples(
    *[st.tuples(st.floats(-5.0, -0.05).map(lambda x: 10.0**x), st.floats(-3.0, 1.3).map(lambda x: 10.0**x))] * 2
)


@settings(max_examples=40, deadline=None)
@given(people, st.floats(-30.0, -0.4).map(lambda x: 10.0**x), st.sampled_from(["with", "without"]))
def test_what_two_steps_must_obey(steps, delta, direction):
    """At least each alone, at most their sum at half of delta; the order is nothing; delta at epsilon is delta."""
    (q, m), (q2, m2) = steps
    pairs = SampledGaussian([[q, q2], [q2, q]], [[m, m2], [m2, m]], 1)
    epsilon = pairs.epsilon(delta, direction)
    alone = SampledGaussian([q, q2], [m, m2])
    room = 1e-9 * epsilon[0] + 1e-13
    assert abs(epsilon[0] - epsilon[1]) <= room
    assert epsilon[0] >= alone.epsilon(delta, direction).max() - room
    assert epsilon[0] <= alone.epsilon(delta / 2, direction).sum() + room
    # next to the largest loss the last digit of epsilon is worth more than that
    assert (pairs.delta(epsilon * (1 + 1e-12), direction) <= delta * (1 + 1e-9)).all()


def test_zero_where_delta_allows_everything():
    """The total variation, or how often the person is sampled at all, is delta enough."""
    pairs = SampledGaussian([[0.01, 0.02]], [[1.0, 2.0]], 1)
    (most,) = pairs.delta(0.0)
    assert pairs.epsilon(most * 1.001) == pytest.approx(0.0, abs=0.0) and pairs.epsilon(most * 0.999) > 0.0
    assert pairs.epsilon(0.05) == pytest.approx(0.0, abs=0.0)


def test_attack_power_is_the_dual_of_the_profile():
    """``min_epsilon delta(epsilon) + e^epsilon r`` over a fine grid of epsilon."""
    pairs = SampledGaussian([[0.3, 0.05]], [[1.5, 4.0]], 1)
    grid = np.linspace(-1.0, 4.0, 251)
    many = SampledGaussian(np.repeat([[0.3, 0.05]], 251, axis=0), np.repeat([[1.5, 4.0]], 251, axis=0), 1)
    profile = many.delta(grid, "with")
    for level in (0.01, 0.2):
        assert pairs.attack_power(level)[0] == pytest.approx((profile + np.exp(grid) * level).min(), rel=1e-4)


def test_next_to_the_largest_loss_there_is_still_a_bound():
    """A step that samples almost surely and is almost certain to be seen, next to one that hardly ever samples."""
    rate, distance = [1.50852187e-09, 0.99999999843], [2.69368763e-03, 65.7166303]
    pairs = SampledGaussian([rate], [distance], 1)
    (epsilon,) = pairs.epsilon(4.703829475519982e-10, "without")
    assert 0.999999999 * _largest(rate, [1, 1]) < epsilon <= _largest(rate, [1, 1]) * (1 + 1e-12)
    assert pairs.delta(epsilon, "without") < 1e-3


OTHERS = {
    "shift": GaussianShift([1e-3]),
    "tiny shift": GaussianShift([1e-200]),
    "far shift": GaussianShift([1e13]),
    "LaplaceShift": LaplaceShift([1e-3]),
    "posterior": PosteriorSamplePair([1e-3], [0.0]),
    "variance": GeneralGaussian([[0.0]], [[1.001]]),
    "objective": ObjectivePair([1e-3], [0.0], [1.0], [1.0]),
    "offset": Dominated([0.0], [0.1], [0.0]),
    "no offset known": Dominated([0.0], [np.inf], [0.0]),
    "tail": Dominated([0.0], [0.0], [5e-7]),
    "promise": pairs_of_promise(0.01, 5e-7, 1),
    "step of rate 1": SampledGaussian(1.0, [1e-3]),
    "far step": SampledGaussian(0.5, [1e3]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_that_happens_besides_is_left_out(name):
    """Two steps next to any other kind of loss cost more than alone, in every number that is stated of them."""
    two = SampledGaussian(0.1, [1.0], 2)
    both = two + OTHERS[name]
    for direction in ("with", "without"):
        more = both.epsilon(1e-6, direction) - two.epsilon(1e-6, direction)
        assert more > (0 if name == "tiny shift" else 1e-9)
        assert both.delta(0.5, direction) >= two.delta(0.5, direction)
    assert both.attack_power(0.01) >= two.attack_power(0.01)
    assert both.zcdp() >= two.zcdp() and both.renyi(2.0) >= two.renyi(2.0)
