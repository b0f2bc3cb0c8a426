"""Composition against brute-force convolution, one-dimensional integrals, dp_accounting, and its own laws."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from perinstance.errors import InvalidInput
from perinstance.numerics.rounding import LEAST_PARAMETER
from perinstance.pairs import (
    Composed,
    GaussianShift,
    GeneralGaussian,
    LaplaceShift,
    ObjectivePair,
    PosteriorSamplePair,
    compose,
)
from perinstance.pairs.sums.coordinates import HUGE, LossCoordinates
from perinstance.pairs.sums.laplace_atoms import TERMS, halves


def test_the_distance_of_many_shifts_is_rounded_up():
    rng = np.random.default_rng(3)
    distances = 10 ** rng.uniform(-12, 4, (12, 300))
    distances[rng.random(distances.shape) < 0.3] = 0.0
    distances[:, 0] = 0.0
    distances[3, 1] = np.inf
    together = compose([GaussianShift(row) for row in distances]).distance
    assert together[0] == 0.0 and together[1] == np.inf
    for got, column in zip(together[2:], distances.T[2:], strict=True):
        square = sum(Fraction(v) ** 2 for v in column.tolist())
        assert Fraction(got) ** 2 >= square >= Fraction(got * (1 - 2e-14)) ** 2


def test_shifts_add_in_quadrature():
    both = GaussianShift([3.0, 1.0]) + GaussianShift([4.0, 0.0])
    assert isinstance(both, GaussianShift)
    np.testing.assert_allclose(both.distance, [5.0, 1.0], rtol=4e-15)
    assert both.distance[1] == 1.0


def _release(draw_kind, a, b, n=1):
    a, b = 10**a, 10**b
    return {
        "shift": lambda: GaussianShift([a]),
        "laplace": lambda: LaplaceShift([a]),
        "posterior": lambda: PosteriorSamplePair([a], [b]),
        "objective": lambda: ObjectivePair([a], [b], [1.0], [2 * a * a]),
        "gaussian": lambda: GeneralGaussian([[a, -a / (1 + a)]], [[b, 0.0]]),
    }[draw_kind]()


kinds = st.sampled_from(["shift", "laplace", "posterior", "objective", "gaussian"])
releases = st.builds(_release, kinds, st.floats(-4, 0.5), st.floats(-3, 1))
deltas = st.floats(-12, -0.5).map(lambda x: 10**x)


@settings(max_examples=25)
@given(releases, releases, deltas)
def test_composition_lies_between_one_release_and_simple_composition(p, q, delta):
    both = p + q
    epsilon = both.epsilon(delta)
    assert epsilon >= max(p.epsilon(delta)[0], q.epsilon(delta)[0]) * (1 - 1e-8) - 1e-12
    assert epsilon <= (p.epsilon(delta / 2) + q.epsilon(delta / 2)) * (1 + 1e-9) + 1e-12
    assert both.delta(epsilon)[0] <= delta * (1 + 1e-8)
    np.testing.assert_allclose(both.kl("without"), p.kl("without") + q.kl("without"), rtol=1e-12)
    np.testing.assert_allclose(both.renyi(1.5, "with"), p.renyi(1.5, "with") + q.renyi(1.5, "with"), rtol=1e-9)
    assert both.tv() >= max(p.tv()[0], q.tv()[0]) * (1 - 1e-9)
    np.testing.assert_allclose((q + p).epsilon(delta), epsilon, rtol=1e-9, atol=1e-12)
    assert both.attack_power(0.05) >= max(p.attack_power(0.05)[0], q.attack_power(0.05)[0]) * (1 - 1e-8)


@settings(max_examples=10)
@given(releases, deltas)
def test_what_costs_nothing_changes_nothing(p, delta):
    nothing = [
        GaussianShift([0.0]),
        LaplaceShift([0.0]),
        PosteriorSamplePair([0.0], [3.0]),
        ObjectivePair([0.0], [1.0], [0.0], [0.0]),
    ]
    for zero in nothing:
        assert type(p + zero) is type(p) and type(zero + p) is type(p)
        np.testing.assert_array_equal((p + zero).epsilon(delta), p.epsilon(delta))
    np.testing.assert_allclose(Composed([p, *nothing]).epsilon(delta), p.epsilon(delta), rtol=2e-9, atol=1e-12)


def test_too_many_laplace_distances_become_an_upper_bound():
    rng = np.random.default_rng(1)
    distances = rng.uniform(0.05, 0.1, size=26)
    pair = compose([LaplaceShift([d, 0.07, d]) for d in distances[:24]])
    assert pair.kind == "exact"
    pair = compose([pair, *(LaplaceShift([d, 0.07, d]) for d in distances[24:]), GaussianShift([0.0, 0.0, 0.1])])
    assert list(pair.kinds) == ["upper", "exact", "exact"]  # beside a shift they are not multiplied out
    equal = compose([LaplaceShift([d]) for d in [distances.max()] * 26])
    least = compose([LaplaceShift([d]) for d in [distances.min()] * 26])
    assert equal.kind == "exact"
    assert least.epsilon(1e-3)[0] < pair.epsilon(1e-3)[0] < equal.epsilon(1e-3)[0]
    np.testing.assert_allclose(pair.epsilon(1e-3)[1], compose([LaplaceShift([0.07])] * 26).epsilon(1e-3)[0], rtol=1e-9)


@lru_cache(maxsize=2)
def equal_laplaces(distance, n, towards, cells=256):
    """Loss and weight under P of n equal Laplace losses ``D - 2 min(Y, D)``, Y zero or exponential, by convolution.

    Y is moved to the lower end of its cell (``towards="more"`` loss) or the upper one, so the profile is enclosed.
    """
    inside = np.diff(-np.exp(-distance * np.arange(cells + 1) / cells)) / 2
    weight = np.zeros(cells + 1)
    weight[0], weight[-1] = 0.5, 0.5 * np.exp(-distance)
    weight[:-1] += inside if towards == "more" else 0.0
    weight[1:] += inside if towards == "less" else 0.0
    size = 1 << (n * cells).bit_length()
    summed = np.fft.irfft(np.fft.rfft(weight, size) ** n, size)[: n * cells + 1]
    return n * distance - 2 * distance / cells * np.arange(n * cells + 1), np.maximum(summed, 0.0)


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_more_equal_laplaces_than_could_be_multiplied_out(shift):
    """4,096 of one distance make 4,097 exponentials, one more than several distances are allowed; with a shift, too."""
    n, distance = 4096, 0.001
    pair = compose([GaussianShift([shift]), *[LaplaceShift([distance])] * n])
    assert pair.kind == "exact"
    ends = {towards: equal_laplaces(distance, n, towards) for towards in ("less", "more")}
    for epsilon in (0.0, 0.05, 0.2):
        bounds = {}
        for towards, (loss, weight) in ends.items():
            if shift == 0.0:
                profile = -np.expm1(np.minimum(epsilon - loss, 0.0))
            else:  # the profile of the shift at what the others leave
                left = epsilon - loss
                profile = ndtr(shift / 2 - left / shift) - np.exp(left) * ndtr(-shift / 2 - left / shift)
            bounds[towards] = float(weight @ profile)
        assert bounds["less"] <= pair.delta(epsilon)[0] <= bounds["more"] < 1.002 * bounds["less"]
        back = pair.epsilon(pair.delta(epsilon))[0]
        assert abs(back - epsilon) <= 1e-9
    np.testing.assert_allclose(pair.epsilon(0.0), n * distance if shift == 0.0 else np.inf)


def test_more_laplaces_of_two_distances_than_can_be_multiplied_out_are_raised():
    """The one person has but one distance and is exact; the other's second distance makes hers a bound."""
    pair = compose([*[LaplaceShift([0.001, 0.001])] * 4096, LaplaceShift([0.0, 0.002])])
    assert list(pair.kinds) == ["exact", "upper"]
    fewer = compose([LaplaceShift([0.001])] * 4096)
    np.testing.assert_array_equal(pair[0].delta(0.1), fewer.delta(0.1))
    more = compose([LaplaceShift([0.002])] * 4097)
    assert pair.delta(0.1)[0] < pair.delta(0.1)[1] <= more.delta(0.1)[0] * (1 + 1e-9)


def test_bookkeeping():
    p = PosteriorSamplePair([0.1, 0.2], [1.0, 2.0], kind=["upper", "exact"])
    pair = compose([p, LaplaceShift([0.1, 0.2]), GaussianShift([1.0, 2.0]), GaussianShift([1.0, 2.0])])
    assert isinstance(pair, Composed) and [type(x).__name__ for x in pair.parts] == [
        "GaussianShift",
        "PosteriorSamplePair",
        "LaplaceShift",
    ]
    assert list(pair.kinds) == ["upper", "exact"] and pair.kind == "upper"
    assert (pair + GaussianShift([0.0, 0.0])).parts[0].distance[0] == pair.parts[0].distance[0]
    assert len(pair) == 2 and len(pair[1]) == 1 and pair[1].kind == "exact"
    np.testing.assert_array_equal(pair[[1]].epsilon(1e-6), pair.epsilon(1e-6)[1:])
    joined = Composed.concatenate([pair, pair])
    np.testing.assert_array_equal(joined.epsilon(1e-6), np.tile(pair.epsilon(1e-6), 2))
    assert "posterior2_leverage" in pair.to_frame().columns
    assert compose([p]) is p
    graded = p + GaussianShift([0.0, 0.0], kind="estimate")
    assert graded.kind == "estimate"
    np.testing.assert_allclose(graded.epsilon(1e-6), p.epsilon(1e-6), rtol=1e-9)
    lost = compose([p, PosteriorSamplePair([np.inf, 0.0], [1.0, 1.0])])
    assert np.isposinf(lost.epsilon(1e-6)[0]) and np.isfinite(lost.epsilon(1e-6)[1]) and lost.delta(5.0)[0] == 1
    assert np.isposinf(lost.kl()[0]) and lost.attack_power(0.01)[0] == 1
    assert np.isposinf(pair.zcdp()).all() and np.isposinf(pair.epsilon(0.0)).all()
    mixed = GaussianShift([1.0]) + LaplaceShift([0.5])
    np.testing.assert_allclose(mixed.zcdp(), 0.5 + 0.5 - 1 + np.exp(-0.5))
    with pytest.raises(InvalidInput, match="same people"):
        p + GaussianShift([1.0])
    with pytest.raises(InvalidInput, match="only pairs"):
        compose([p, 3.0])
    with pytest.raises(InvalidInput, match="nothing to compose"):
        compose([])
    with pytest.raises(InvalidInput, match="same releases"):
        Composed.concatenate([pair, Composed([p, p])])


def test_objective_keeps_small_and_large_variances_apart():
    mu, tilt = np.array([1e-9, 1.0, 1e6]), 3.0
    spectrum = ObjectivePair(mu, mu, [1.0, 1.0, 1.0], (mu * tilt) ** 2).coordinates()
    np.testing.assert_allclose(np.prod(spectrum.v, axis=1), (1 + mu) ** 2, rtol=1e-14)
    trace = 2 * mu + (tilt * mu) ** 2
    np.testing.assert_allclose(spectrum.nu.sum(axis=1), trace, rtol=1e-12)
    np.testing.assert_allclose(spectrum.m2.sum(axis=1), mu**2, rtol=1e-14)


def test_raised_distances_dominate_and_are_few():
    distances = np.linspace(0.1, 0.2, 30)
    spectrum = compose([LaplaceShift([d]) for d in distances]).coordinates()
    lap, count = spectrum.lap, spectrum.count
    assert halves(lap[0], count[0])[1] <= TERMS and count.sum() == 30 and spectrum.rounded[0]
    raised = np.sort(np.repeat(lap[0], count[0].astype(int)))
    assert (raised >= distances).all()


def test_extremes_are_lost_or_lifted():
    spectrum = LossCoordinates.gaussian([[HUGE], [0.0], [0.0]], [[0.0], [LEAST_PARAMETER / 10], [0.0]])
    assert list(spectrum.infinite) == [True, False, False] and spectrum.m2[1, 0] == LEAST_PARAMETER**2
    assert list(spectrum.costs) == [True, True, False]
    assert 0 < compose([LaplaceShift([1e-200]), PosteriorSamplePair([1e-200], [1.0])]).delta(0.0)[0] < 1e-100
