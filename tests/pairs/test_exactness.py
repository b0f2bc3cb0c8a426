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

from perinstance.numerics.rounding import PROMISED_ABSOLUTE, THIRD_TERM
from perinstance.pairs import GaussianShift, PosteriorSamplePair
from perinstance.pairs.closed_form.epsilon import (
    HIGHEST,
    LOWEST,
    _starts,
    _step,
    posterior_epsilons,
    solve_posteriors,
    start_table,
)
from perinstance.pairs.closed_form.profile import as_posterior

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
    assert not wrong_epsilons(shift_profile, shifts(distances), GaussianShift(distances).epsilon(deltas), deltas)


@pytest.mark.parametrize("direction", ["worst", "with"])
@given(mu=batch(LEVERAGES, N), rho=batch(RESIDUALS, N), deltas=batch(DELTAS, N))
@examples(60)
def test_epsilon_of_a_posterior(direction, mu, rho, deltas):
    epsilons = PosteriorSamplePair(mu, rho).epsilon(deltas, direction)
    people = posteriors(mu, rho, direction == "with")
    assert not wrong_epsilons(truth.posterior_delta, people, epsilons, deltas)


@given(batch(DISTANCES, N), batch(LEVERAGES, N), batch(RESIDUALS, N), DELTAS)
@examples(40)
def test_epsilon_of_many_at_one_delta(distances, mu, rho, delta):
    """From 512 people on by a table."""
    shifted = GaussianShift(np.resize(distances, 520)).epsilon(delta)[:N]
    assert not wrong_epsilons(shift_profile, shifts(distances), shifted, delta)
    sampled = PosteriorSamplePair(np.resize(mu, 520), np.resize(rho, 520)).epsilon(delta)[:N]
    assert not wrong_epsilons(truth.posterior_delta, posteriors(mu, rho, False), sampled, delta)


@pytest.mark.parametrize("delta", [1e-300, 1e-40, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.02, 0.4, 0.5])
def test_many_people_at_one_delta_as_one_by_one(delta):
    """Each is raised by 2e-10, and closer to the other; at the borders of the table's rows and columns and beyond."""
    rng = np.random.default_rng(1)
    rows = np.unique(np.r_[0.3, 0.99, 1.0, 1.04, 1.1, 1.2, 1.25, 2.0, 3.0, 2.0 ** np.arange(2, 75, 0.5)])
    y = np.r_[rows * max(2 * delta, LOWEST), np.exp(rng.uniform(np.log(max(delta, 1e-9)), 5, 3000)), HIGHEST * 3]
    y = np.concatenate([y, np.nextafter(y, 0), np.nextafter(y, np.inf)])
    share = rng.choice([1e-12, 1e-5, 1 / 32, 0.5, 1 - 1 / 32, 1.0], len(y)) * rng.choice([1.0, 0.9999, 0.5], len(y))
    mu = share * y
    rho = np.maximum(y - mu, 0.0) / np.sqrt(mu)
    for people in ((mu, rho), as_posterior(y)):
        fast = np.empty(len(y))
        solve_posteriors(*people, start_table(delta), fast)
        slow = posterior_epsilons(*people, np.full(len(y), delta))
        assert fast == pytest.approx(slow, rel=4e-11, abs=4e-14)


def test_the_start_is_close_enough_that_hardly_anybody_takes_a_second_step():
    """A person whose third term is not tiny costs ten times as much; the table is small enough for a cache."""
    table = start_table(1e-6)
    assert table.thresholds.nbytes < 400_000
    rng = np.random.default_rng(0)
    mu, rho = 10 ** rng.uniform(-6, 0, 2000), np.abs(rng.standard_normal(2000))
    starts = np.empty(2000)
    _starts(mu, rho, table, starts)
    third = np.array([_step(*one, table.log_goal)[1] for one in zip(mu, rho, starts, strict=True)])
    assert (third < THIRD_TERM).mean() > 0.995


@given(batch(scale(2.0, 100.0), N), batch(st.floats(0.0, 1.0), N), scale(1e-12, 0.5, 1e-6, 0.01))
@examples(30)
def test_epsilon_where_it_begins_to_be_positive(factors, shares, delta):
    """``y = s rho + mu`` of a few delta: the loss is tiny or zero, and the tables bend most."""
    y = factors * delta
    mu = np.maximum(shares, 1e-9) * y
    rho = (y - mu) / np.sqrt(mu)
    epsilons = np.empty(N)
    solve_posteriors(mu, rho, start_table(delta), epsilons)
    assert not wrong_epsilons(truth.posterior_delta, posteriors(mu, rho, False), epsilons, delta)


def rows(name):
    with (DATA / name).open(newline="") as stream:
        return [list(row.values()) for row in csv.DictReader(stream)]


@pytest.mark.parametrize("name", ["epsilon_truth.csv", "own_truth.csv"])
def test_epsilon_against_the_files(name):
    table = rows(name)
    assert len(table) > 200
    for family, mu, x, delta, exact in table:
        pairs = GaussianShift(float(x)) if family == "shift" else PosteriorSamplePair(float(mu), float(x))
        got = pairs.epsilon(float(delta), "with" if family == "with" else "worst").item()
        with truth.digits():
            excess = arb(got) - arb(exact)
            room = (1e-9 * arb(exact)).max(arb(PROMISED_ABSOLUTE))
            assert -1e-25 * arb(exact) <= excess <= room, (family, mu, x, delta, got)


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
