"""Sampled Gaussian steps: against ball arithmetic, closed forms, checked numbers, and Google's accountant."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx
from scipy.stats import norm

from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift, LaplaceShift, PosteriorSamplePair, SampledGaussian

from .truth import tail


def one_step_delta(rate: float, distance: float, epsilon: float, direction: str) -> arb:
    """``P(S) - e^epsilon Q(S)`` on the half-line where the log ratio exceeds epsilon >= 0."""
    q, m, e = arb(rate), arb(distance), arb(epsilon)
    if direction == "with":
        edge = ((1 + e.expm1() / q).log() + m * m / 2) / m
        return (1 - q) * tail(edge) + q * tail(edge - m) - e.exp() * tail(edge)
    left = (-e).expm1() + q
    if not left > 0:
        return arb(0)
    edge = ((left / q).log() + m * m / 2) / m
    return tail(-edge) - e.exp() * ((1 - q) * tail(-edge) + q * tail(m - edge))


def _is_right(epsilon, delta, profile, most=1e-9):
    """Never below, and at most ``most`` of itself or 1e-13 above."""
    above = epsilon * (1 - most) - 1e-13
    return not profile(epsilon) > delta and (above <= 0 or not profile(above) < delta)


def _one_step_cases(n, seed):
    random = np.random.default_rng(seed)
    rate, distance = 10 ** random.uniform(-6, -0.001, n), 10 ** random.uniform(-6, 1.7, n)
    deep = random.random(n) < 0.5
    return rate, distance, 10 ** np.where(deep, random.uniform(-300, -0.3, n), random.uniform(-12, -0.3, n))


@pytest.mark.parametrize("n", [60, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("direction", ["with", "without"])
def test_one_step_is_proved(direction, n):
    rate, distance, delta = _one_step_cases(n, 1)
    epsilon = SampledGaussian(rate, distance).epsilon(delta, direction)
    ctx.prec = 2600
    wrong = [
        i
        for i in range(n)
        if not _is_right(epsilon[i], delta[i], lambda e, i=i: one_step_delta(rate[i], distance[i], e, direction))
    ]
    ctx.prec = 53
    assert wrong == []


def test_one_step_that_is_next_to_never_sampled_is_not_below():
    """The logarithm of the rate and the shift's epsilon cancel."""
    random = np.random.default_rng(5)
    rate, distance = 10 ** -random.uniform(10, 120, 60), 10 ** random.uniform(-1, 1, 60)
    delta = rate * 10 ** -random.uniform(1, 150, 60)
    rate[::6], delta[::6] = 10 ** -random.uniform(290, 307, 10), 1e-307
    epsilon = SampledGaussian(rate, distance).epsilon(delta, "with")
    ctx.prec = 4000
    try:
        for case in zip(rate, distance, epsilon, delta, strict=True):
            assert not one_step_delta(*case[:3], "with") > case[3], case
    finally:
        ctx.prec = 53


@pytest.mark.parametrize("direction", ["with", "without"])
def test_delta_of_one_step_next_to_the_largest_loss(direction):
    """``1 - q`` and ``e^-epsilon`` cancel; what is left is of deltas far below the rate."""
    random = np.random.default_rng(6)
    rate, distance = 10 ** -random.uniform(0.01, 6, 200), 10 ** random.uniform(-1, 1.2, 200)
    epsilon = -np.log1p(-rate) * (1 - 10 ** -random.uniform(1, 15, 200))
    epsilon[::20], rate[::20], distance[::20] = 600.0, 1e-100, 50.0  # where e^epsilon/q is no float
    found = SampledGaussian(rate, distance).delta(epsilon, direction)
    ctx.prec = 4000
    try:
        for i in range(200):
            truth = one_step_delta(rate[i], distance[i], epsilon[i], direction)
            if truth > 1e-280:
                assert truth * (1 - 1e-12) < found[i] < truth * 1.05, (rate[i], distance[i], epsilon[i])
    finally:
        ctx.prec = 53


def test_power_of_one_step():
    """The best test asks whether the noisy number is beyond a threshold."""
    threshold, rate, distance = np.linspace(-3.0, 6.0, 10), 0.1, 0.8
    truth = (1 - rate) * norm.sf(threshold) + rate * norm.sf(threshold - distance)
    found = [SampledGaussian(rate, [distance]).attack_power(r)[0] for r in norm.sf(threshold)]
    assert (found >= truth * (1 - 1e-12)).all() and found == pytest.approx(truth, rel=1e-9)


def test_a_rate_of_one_is_a_shift():
    pairs = SampledGaussian(1.0, [0.1, 1.0, 3.0], [4, 1, 9])
    shift = GaussianShift([0.2, 1.0, 9.0])
    for delta in (1e-9, 1e-3, 0.3):
        found, truth = pairs.epsilon(delta), shift.epsilon(delta)
        assert (found >= truth).all() and (found <= truth * (1 + 1e-12)).all() and found[1] == truth[1]
    assert pairs.delta(1.0) == pytest.approx(shift.delta(1.0), rel=1e-12)
    assert (pairs.kinds == "exact").all()
    assert pairs.renyi(3.0) == pytest.approx(shift.renyi(3.0), rel=1e-12)
    assert pairs.zcdp() == pytest.approx(shift.zcdp(), rel=1e-12)


def test_a_rate_of_one_is_a_shift_of_any_length():
    """Squares of distances neither underflow nor overflow."""
    lengths = np.array([3e-310, 1e-200, 1e-160, 1e100, 1e160])
    pairs, shift = SampledGaussian(1.0, lengths, 4), GaussianShift(2 * lengths)
    assert (pairs.delta(0.0) >= shift.delta(0.0)).all() and (pairs.tv() >= shift.tv()).all()
    assert pairs.delta(0.0) == pytest.approx(shift.delta(0.0), rel=1e-12, abs=1e-320)
    both = SampledGaussian(1.0, np.array([[3e-200, 4e-200]]), np.array([[1, 1]]))
    assert both.tv()[0] >= GaussianShift([5e-200]).tv()[0] > 0.0


def test_nothing_is_lost_without_rate_distance_or_steps():
    pairs = SampledGaussian([0.0, 0.5, 0.5], [1.0, 0.0, 1.0], [7, 7, 0])
    assert (pairs.epsilon(0.0) == 0).all() and (pairs.delta(0.0) == 0).all() and (pairs.renyi(5.0) == 0).all()
    assert (pairs.attack_power(0.2) == 0.2).all() and (pairs.zcdp() == 0).all()


def test_without_noise_to_hide_in_the_loss_is_bounded_on_one_side():
    pairs = SampledGaussian(0.1, [1.0], 3)
    assert pairs.epsilon(0.0, "without") == pytest.approx([-3 * np.log(0.9)], rel=1e-12)
    assert np.isinf(pairs.epsilon(0.0, "with")).all()


def test_steps_add_up_over_columns_and_trainings():
    together = SampledGaussian(0.05, [[0.5, 0.5]], [[60, 140]])
    apart = SampledGaussian(0.05, [0.5], 60) + SampledGaussian(0.05, [0.5], 140)
    once = SampledGaussian(0.05, [0.5], 200)
    for pairs in (together, apart):
        assert pairs.epsilon(1e-6) == pytest.approx(once.epsilon(1e-6), rel=1e-5)


def test_composition_with_other_releases():
    """With rate one it is a shift, whose sums the other engine knows."""
    nearly = SampledGaussian(1.0 - 2.0**-40, [0.1], 25)
    for other in (PosteriorSamplePair([0.05], [2.0]), GaussianShift([0.7]), LaplaceShift([0.05])):
        truth = (other + GaussianShift([0.5])).epsilon(1e-5)
        assert (nearly + other).epsilon(1e-5) == pytest.approx(truth, rel=1e-5)


def test_renyi_of_an_integer_order_is_a_finite_sum():
    """``E[w^a] = sum_k binom(a, k) (1-q)^(a-k) q^k e^{k (k-1) m^2/2}``."""
    from math import comb, exp, log

    q, m = 0.03, 0.8
    for a in (2, 5, 17):
        moment = sum(comb(a, k) * (1 - q) ** (a - k) * q**k * exp(k * (k - 1) * m * m / 2) for k in range(a + 1))
        truth = 40 * log(moment) / (a - 1)
        assert SampledGaussian(q, [m], 40).renyi(a, "with") == pytest.approx([truth], rel=1e-11)


@pytest.mark.parametrize("order", [1e2, 1e4, 1e6])
def test_renyi_of_large_orders(order):
    """``log E[w^a]`` is next to ``a log q + a (a - 1) m^2/2`` there: 60 standard deviations of the noise and beyond."""
    q, m = 0.03, 0.8
    truth = (order * np.log(q) + order * (order - 1) * m * m / 2) / (order - 1)
    found = SampledGaussian(q, [m]).renyi(order, "with")
    assert (found >= truth * (1 - 1e-12)).all() and found == pytest.approx([truth], rel=1e-10)


def test_orders_of_which_only_a_bound_is_known_are_refused():
    """One step is exact: a bound under that label must be next to the moment, or be asked for as a bound."""
    with pytest.raises(InvalidInput, match="order 2e\\+09"):
        SampledGaussian(0.5, [1e-4]).renyi(2e9, "with")
    assert np.isfinite(SampledGaussian(0.5, [1e-4], kind="upper").renyi(2e9, "with")).all()
    assert SampledGaussian(0.5, [50.0]).renyi(1e5, "without") == pytest.approx([np.log(2)], rel=1e-9)
    with pytest.raises(InvalidInput, match="order"):
        SampledGaussian(0.5, [0.01]).renyi(1e12, "without")
    assert SampledGaussian(0.5, [0.01]).renyi(np.inf, "without") == pytest.approx([np.log(2)], rel=1e-12)


def test_googles_accountant_brackets_it():
    accounting = pytest.importorskip("dp_accounting")
    pld = accounting.pld.privacy_loss_distribution
    rate, distance, steps, delta = 0.02, 0.8, 500, 1e-5
    found = SampledGaussian(rate, [distance], steps).epsilon(delta).item()
    ends = [
        pld.from_gaussian_mechanism(
            1 / distance,
            sampling_prob=rate,
            value_discretization_interval=1e-3,
            pessimistic_estimate=pessimistic,
            neighboring_relation=accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        )
        .self_compose(steps)
        .get_epsilon_for_delta(delta)
        for pessimistic in (False, True)
    ]
    assert ends[0] <= found <= ends[1]


def test_tiny_steps_have_a_bound():
    pairs = SampledGaussian([1e-300, 1e-12, 0.5], [1.0, 1e-200, 1e-12], 100)
    for direction in ("with", "without"):
        epsilon = pairs.epsilon(1e-6, direction)
        assert (epsilon >= 0).all() and (epsilon < 1e-6).all()


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_distances_whose_square_overflows_are_answered(steps):
    """Without the person nothing is lost beyond ``-log(1 - q)`` a step; with them everything may be."""
    pairs = SampledGaussian(0.1, [1e153, 1e160, 1e300, np.finfo(float).max], steps)
    assert pairs.epsilon(1e-6, "without") == pytest.approx(-steps * np.log(0.9), rel=1e-5)
    assert np.isinf(pairs.epsilon(1e-6, "with")[1:]).all() and (pairs.epsilon(1e-6, "with") > 1e305).all()
    for number in (pairs.renyi(2.0), pairs.zcdp()):
        assert (number > 1e305).all()
    assert (pairs.delta(1.0) >= 0.1).all() and (pairs.attack_power(0.01) >= 0.109).all()


def test_steps_that_nobody_took_cost_nothing_however_far():
    far = SampledGaussian([[0.1, 0.1]], [[1e300, 1.0]], [[0, 3], [1, 3]]).epsilon(1e-6)
    assert far[0] == SampledGaussian(0.1, [1.0], 3).epsilon(1e-6)[0] and np.isinf(far[1])
    assert SampledGaussian([[1.0, 1.0]], [[1e300, 1.0]], [[0, 3]]).epsilon(1e-6) < 10


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInput, match="fit together"):
        SampledGaussian(0.1, np.ones((2, 3)), np.ones((2, 4)))
