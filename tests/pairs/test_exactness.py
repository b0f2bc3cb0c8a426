"""Epsilon is never below the truth and at most 1e-9 above it; delta is within 1e-9: proved case by case.

The truth is ball arithmetic on the printed definition (``truth.py``), so each comparison is a proof for that case.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from perinstance.pairs import Posterior, Shift
from perinstance.pairs.closed_form.many_epsilons import posterior_epsilon, shift_epsilon
from perinstance.pairs.closed_form.shift_polynomials import POINTS, by_eights, one_by_one, solve_shifts
from perinstance.pairs.closed_form.tables_per_delta import shift_table

from . import truth
from .strategies import DELTAS, DISTANCES, LEVERAGES, RESIDUALS, batch, examples, scale

DATA = Path(__file__).parent / "data"
N = 50


def shift_profile(distance, epsilon, _):
    return truth.shift_delta(distance, epsilon)


def wrong_epsilons(profile, people, epsilons, deltas):
    """Return the people whose epsilon is not proved right."""
    rows = zip(people, epsilons.tolist(), np.broadcast_to(deltas, epsilons.shape).tolist(), strict=True)
    return [(p, e, d) for p, e, d in rows if not truth.epsilon_is_right(profile, p, e, d)]


def shifts(distances):
    return [(D, None) for D in distances.tolist()]


def posteriors(mu, rho, with_over_without):
    return [(m, r, with_over_without) for m, r in zip(mu.tolist(), rho.tolist(), strict=True)]


@given(batch(DISTANCES, N), batch(DELTAS, N))
@examples(60)
def test_epsilon_of_a_shift(distances, deltas):
    assert not wrong_epsilons(shift_profile, shifts(distances), Shift(distances).epsilon(deltas), deltas)


@pytest.mark.parametrize("direction", ["worst", "with"])
@given(mu=batch(LEVERAGES, N), rho=batch(RESIDUALS, N), deltas=batch(DELTAS, N))
@examples(60)
def test_epsilon_of_a_posterior(direction, mu, rho, deltas):
    epsilons = Posterior(mu, rho).epsilon(deltas, direction)
    people = posteriors(mu, rho, direction == "with")
    assert not wrong_epsilons(truth.posterior_delta, people, epsilons, deltas)


@given(batch(DISTANCES, N), DELTAS)
@examples(30)
def test_epsilon_of_many_shifts(distances, delta):
    epsilons = np.empty(N)
    shift_epsilon(distances, delta, epsilons)
    assert not wrong_epsilons(shift_profile, shifts(distances), epsilons, delta)


@pytest.mark.parametrize("delta", [0.02, 0.0016770628656112535, 1.5571475352463176e-12])
def test_shifts_of_cells_that_fail_their_check_are_solved_one_by_one(delta):
    """At such deltas the first cell, where epsilon begins to be positive, is next to what is allowed; then all fail."""
    distances, epsilons = delta * np.linspace(2.0, 4.0, N), np.empty(N)
    shift_epsilon(distances, delta, epsilons)
    assert not wrong_epsilons(shift_profile, shifts(distances), epsilons, delta)
    table = shift_table(delta)
    solve_shifts(distances, delta, np.full_like(table.polynomials, np.nan), table.first_cell, epsilons)
    assert not wrong_epsilons(shift_profile, shifts(distances), epsilons, delta)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 30])
def test_shifts_of_eight_people_at_a_time_have_the_bits_of_one(n):
    rng = np.random.default_rng(n)
    known = shift_table(1e-6).polynomials.ravel()
    at, t = POINTS * rng.integers(0, known.size // POINTS, n), rng.uniform(-1, 1, n)
    t[n // 2] = np.nan  # whoever has no polynomial
    ones, eights = np.full((2, n), 7.0)
    one_by_one(known, at, t, ones)
    by_eights(known, at, t, eights)
    np.testing.assert_array_equal(ones, eights)
    expected = [np.polynomial.polynomial.polyval(v, known[k : k + POINTS]) for k, v in zip(at, t, strict=True)]
    np.testing.assert_allclose(ones, expected, rtol=1e-13)


@given(batch(LEVERAGES, N), batch(RESIDUALS, N), DELTAS)
@examples(40)
def test_epsilon_of_many_posteriors(mu, rho, delta):
    epsilons = np.empty(N)
    posterior_epsilon(mu, rho, delta, epsilons)
    assert not wrong_epsilons(truth.posterior_delta, posteriors(mu, rho, False), epsilons, delta)


@given(batch(scale(2.0, 100.0), N), batch(st.floats(0.0, 1.0), N), scale(1e-12, 0.5, 1e-6, 0.01))
@examples(30)
def test_epsilon_where_it_begins_to_be_positive(factors, shares, delta):
    """``y = s rho + mu`` of a few delta: the loss is tiny or zero, and the tables bend most."""
    y = factors * delta
    mu = np.maximum(shares, 1e-9) * y
    rho = (y - mu) / np.sqrt(mu)
    epsilons = np.empty(N)
    posterior_epsilon(mu, rho, delta, epsilons)
    assert not wrong_epsilons(truth.posterior_delta, posteriors(mu, rho, False), epsilons, delta)


def relative_error(got: float, exact: arb) -> float:
    return 0.0 if exact < 1e-300 and got < 2e-300 else abs(float(arb(got) / exact - 1))


FACTORS = st.one_of(st.just(1.0), st.floats(0.0, 2.0), scale(1e-9, 1.0).map(lambda gap: 1.0 - gap))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("direction", ["without", "with"])
@given(mu=batch(LEVERAGES, 20), rho=batch(RESIDUALS, 20), deltas=batch(DELTAS, 20), factors=batch(FACTORS, 20))
@examples(40)
def test_delta_of_a_posterior(direction, sign, mu, rho, deltas, factors):
    pairs = Posterior(mu, rho)
    epsilons = sign * factors * pairs.epsilon(deltas, direction)
    got = pairs.delta(epsilons, direction)
    for m, r, e, d in zip(mu.tolist(), rho.tolist(), epsilons.tolist(), got.tolist(), strict=True):
        exact = truth.enclosed(truth.posterior_delta, m, r, e, direction == "with")
        assert relative_error(d, exact) < 1e-9, (m, r, e, d)


@given(batch(LEVERAGES, 20), batch(RESIDUALS, 20), batch(scale(1e-14, 1.0), 20))
@examples(40)
def test_delta_of_a_posterior_near_the_largest_loss(mu, rho, gaps):
    """Q over P has a largest loss, ``(log1p(mu) + q^2)/2``; delta vanishes there like the cube of a square root."""
    epsilons = 0.5 * (np.log1p(mu) + rho**2 / (1 + mu)) * (1 - gaps)
    got = Posterior(mu, rho).delta(epsilons, "with")
    for m, r, e, d in zip(mu.tolist(), rho.tolist(), epsilons.tolist(), got.tolist(), strict=True):
        assert relative_error(d, truth.enclosed(truth.posterior_delta, m, r, e, True)) < 1e-9, (m, r, e, d)


@given(batch(DISTANCES, 20), batch(DELTAS, 20), batch(FACTORS, 20), st.sampled_from([1.0, -1.0]))
@examples(60)
def test_delta_of_a_shift(distances, deltas, factors, sign):
    pairs = Shift(distances)
    epsilons = sign * factors * pairs.epsilon(deltas)
    for D, e, d in zip(distances.tolist(), epsilons.tolist(), pairs.delta(epsilons).tolist(), strict=True):
        assert relative_error(d, truth.enclosed(truth.shift_delta, D, e)) < 1e-9, (D, e, d)


def rows(name):
    with (DATA / name).open(newline="") as stream:
        return [list(row.values()) for row in csv.DictReader(stream)]


@pytest.mark.parametrize("name", ["epsilon_truth.csv", "own_truth.csv"])
def test_epsilon_against_the_files(name):
    table = rows(name)
    assert len(table) > 200
    for family, mu, x, delta, exact in table:
        pairs = Shift(float(x)) if family == "shift" else Posterior(float(mu), float(x))
        got = pairs.epsilon(float(delta), "with" if family == "with" else "worst").item()
        with truth.digits():
            excess = arb(got) - arb(exact)
            assert -1e-25 * arb(exact) <= excess <= (1e-9 * arb(exact)).max(arb(1e-13)), (family, mu, x, delta, got)


@pytest.mark.parametrize("name", ["epsilon_truth.csv", "own_truth.csv"])
def test_the_files_by_ball_arithmetic(name):
    """The figures come from mpmath at 60 to 120 digits; their profile, enclosed, straddles delta."""
    for family, mu, x, delta, exact in rows(name)[::7]:
        if float(exact) == 0.0:
            continue
        for factor, sign in (("1.0000000000000001", -1), ("0.9999999999999999", 1)):

            def profile(factor=factor, family=family, mu=mu, x=x, exact=exact):
                epsilon = arb(exact) * arb(factor)
                if family == "shift":
                    return truth.shift_delta(float(x), epsilon)
                return truth.posterior_delta(float(mu), float(x), epsilon, family == "with")

            value = truth.enclosed(profile, accuracy=1e-20)
            assert sign * (value - arb(float(delta))) >= 0, (family, mu, x, delta)
