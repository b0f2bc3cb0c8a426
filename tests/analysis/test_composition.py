"""Composition: the exact total, the textbook bounds above it, the odometer, the filter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perinstance import pairs as pairs_
from perinstance.analysis import RenyiFilter, advanced_bound, composition, odometer
from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift, LaplaceShift, PosteriorSamplePair


def test_the_exact_total_is_that_of_the_composed_pairs():
    pairs = [PosteriorSamplePair([0.05], [1.0]), LaplaceShift([0.4]), GaussianShift([0.3])]
    answer = composition(pairs, 1e-4)
    assert answer.exact == pairs_.compose(pairs).epsilon(1e-4) and answer.kind == "exact"
    assert answer.simple == pytest.approx(sum(p.epsilon(1e-4 / 3) for p in pairs), rel=1e-12)


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.floats(1e-4, 0.5), st.floats(0.0, 3.0)), min_size=1, max_size=5),
    st.lists(st.floats(1e-3, 1.5), min_size=0, max_size=4),
    st.sampled_from([1e-9, 1e-6, 1e-3]),
)
def test_no_textbook_bound_is_below_the_exact_total(posteriors, shifts, delta):
    pairs = [PosteriorSamplePair([mu], [rho]) for mu, rho in posteriors] + [GaussianShift([D]) for D in shifts]
    answer = composition(pairs, delta)
    for name in ("simple", "advanced", "renyi"):
        assert getattr(answer, name)[0] >= answer.exact[0] * (1 - 1e-9)


def test_advanced_composition_has_its_printed_constants():
    eps, k, d = 0.05, 400, 1e-5
    assert advanced_bound([eps] * k, d) == pytest.approx(np.sqrt(2 * k * np.log(1 / d)) * eps + k * eps * np.expm1(eps))
    with pytest.raises(InvalidInput):
        advanced_bound([0.1], 0.0)


def test_the_odometer_says_what_its_number_is_worth():
    pairs = [GaussianShift([0.1, 0.2])] * 3
    planned, adaptive = odometer(pairs, fixed_in_advance=True), odometer(pairs, fixed_in_advance=False)
    assert planned.guarantee and not adaptive.guarantee
    assert np.array_equal(planned.epsilon, adaptive.epsilon)
    assert "not a guarantee" in adaptive.assumptions[0]


def test_the_filter_stops_before_the_budget_is_passed():
    accounts = RenyiFilter.of(2, epsilon=1.0, delta=1e-6)
    step = GaussianShift([0.02, 0.1])
    used = np.zeros(2, dtype=int)
    for _ in range(500):
        admitted = accounts.admits(step)
        accounts = accounts.charge(step)
        used += admitted
    assert 0 < used[1] < used[0] <= 500
    assert (accounts.spent <= accounts.budget).all()
    # the guarantee it stands for: what was used, taken together, is within (1, 1e-6)
    assert (GaussianShift(np.sqrt(used) * step.distance).epsilon(1e-6) <= 1.0).all()
    with pytest.raises(InvalidInput):
        accounts.charge(step, used=[True, True])


def test_the_filter_keeps_its_promise_against_an_adaptive_analyst():
    """An analyst who picks the next noise from the last output: simulate the worst privacy loss they can cause.

    Each of the people is one run of the sequence; the noise of the next release depends on the loss so far.
    """
    rng = np.random.default_rng(1)
    epsilon, delta, runs = 2.0, 0.05, 20_000
    accounts, loss = RenyiFilter.of(runs, epsilon, delta), np.zeros(runs)
    for _ in range(200):
        D = np.where(loss > 0.8, 0.5, 0.15)  # gamble when ahead
        step = GaussianShift(D)
        admitted = accounts.admits(step)
        if not admitted.any():
            break
        accounts = accounts.charge(step)
        loss += np.where(admitted, D * rng.standard_normal(runs) + D**2 / 2, 0.0)
    gain = np.maximum(1 - np.exp(epsilon - loss), 0.0)  # its mean is the hockey stick of the whole adaptive sequence
    assert 0 < gain.mean() <= delta
