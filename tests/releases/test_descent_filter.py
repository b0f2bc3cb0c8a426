"""Budgets inside a descent: nobody spends more than theirs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.analysis.composition_bounds import renyi_to_epsilon
from perinstance.pairs import GaussianShift
from perinstance.releases.descent.clipped_steps import (
    OwnClips,
    Steps,
    SummedGradients,
    objective_of,
    path_of,
)
from perinstance.releases.descent.step_losses import PersonalBudget
from perinstance.releases.promises.promise import renyi_to_delta

from .catalogue import CLASSES, X, Y

PLAIN = Ridge(alpha=1.0, fit_intercept=False)


# The promise


def test_at_rate_one_the_filter_is_one_gaussian_shift():
    release = pi.NoisyDescent(steps=10_000, clip=1.0, noise=2.0, filter=(8, 0.5))
    shift = GaussianShift([math.sqrt(2 * 0.5 / 8)])
    assert release.promise().epsilon(1e-6) == pytest.approx(shift.epsilon(1e-6)[0], rel=1e-9)
    assert release.promise().delta(1.0) == pytest.approx(shift.delta(1.0)[0], rel=1e-9)
    audit = pi.audit(release, X[:9], Y[:9])
    assert (audit.losses <= release.promise().epsilon(1e-6) * (1 + 1e-9)).all() and set(audit.kind) == {"upper"}


def test_below_rate_one_the_filter_is_its_renyi_bound():
    promise = pi.NoisyDescent(steps=10**6, clip=1.0, noise=1.0, rate=0.1, filter=(8, 0.5)).promise()
    budget = promise.budget
    assert renyi_to_epsilon(budget.budget, 8, 1e-6) == pytest.approx(0.5 + math.log(7 / 8) - math.log(8e-6) / 7)
    assert renyi_to_epsilon(0.5, 8, renyi_to_delta(0.5, 8, 2.0)) == pytest.approx(2.0)


# Accounts


@given(
    st.lists(st.lists(st.floats(0, 1.5), min_size=3, max_size=3), min_size=1, max_size=30),
    st.integers(1, 4),
    st.floats(0.05, 3.0),
)
@settings(max_examples=60)
def test_nobody_spends_more_than_their_budget(lengths, refresh, budget):
    terms, noise, clip = PersonalBudget(4.0, budget, refresh), 1.3, 1.0
    accounts = clips_of(terms, 1.0, noise, clip, np.array(lengths))
    spent, own = np.zeros(3), np.zeros(3)
    for t, norms in enumerate(np.array(lengths)):
        if t % refresh == 0:
            own = np.minimum(norms, clip)
        clips = accounts.at(t, None)
        assert ((clips == 0) | ((clips >= own - 1e-11) & (clips <= own + clip / 128 + 1e-12))).all()
        spent += terms.order * (clips / noise) ** 2 / 2
        assert (spent <= budget).all()
        left_out = (clips == 0) & (own > 1e-9)
        assert (spent + terms.order * ((own + clip / 128) / noise) ** 2 / 2 > budget)[left_out].all()


class Lengths:
    """People whose gradients have these lengths, one row a step."""

    def __init__(self, lengths):
        self.rows, self.people = iter(lengths), lengths.shape[1]

    def __len__(self):
        return self.people

    def at(self, theta):
        return next(self.rows)[:, None]


def clips_of(terms, rate, noise, clip, lengths):
    steps = Steps(len(lengths), 0.1, clip, noise, rate, 2.0**-40, terms)
    return OwnClips(Lengths(lengths[:: terms.refresh]), steps)


def test_a_sampled_step_costs_its_divergence():
    q, m, order = 0.3, 0.8, 4.0
    x = np.linspace(-20, 25, 400_001)
    p, w = stats.norm.pdf(x), 1 - q + q * np.exp(m * x - m * m / 2)
    h = x[1] - x[0]
    slow = max(math.log((p * w**order).sum() * h), math.log((p * w ** (1 - order)).sum() * h)) / (order - 1)
    for count, pays in ((2.999, 2), (3.001, 3)):
        accounts = clips_of(PersonalBudget(order, count * slow, 1), q, 1.0, m, np.full((6, 1), m))
        assert sum(accounts.at(t, None)[0] > 0 for t in range(6)) == pays


def slow_descent(rows, y, steps, noise, order, budget, refresh):
    """One loop over steps and people, in plain numbers."""
    theta, spent, own = np.zeros(rows.shape[1]), np.zeros(len(y)), np.zeros(len(y))
    for t in range(steps):
        total = np.zeros(rows.shape[1])
        for i, (x, target) in enumerate(zip(rows, y, strict=True)):
            g = (x @ theta - target) * x
            if t % refresh == 0:
                own[i] = math.ceil(min(np.linalg.norm(g), 1.0) * 128 - 1e-9) / 128
            cost = order * (own[i] / noise) ** 2 / 2
            if spent[i] + cost <= budget:
                spent[i] += cost
                total += g * min(1.0, own[i] / max(np.linalg.norm(g), 1e-30))
        theta = theta - 0.05 * (total + theta)
    return theta, spent


@pytest.mark.parametrize("refresh", [1, 5])
def test_people_who_are_spent_drop_out(refresh):
    people, noise = SummedGradients(objective_of(pi.NoisyDescent(PLAIN, noise=1.0).problem()), X, Y), 0.5
    steps = Steps(12, 0.05, 1.0, noise, 1.0, 2.0**-40, PersonalBudget(4.0, 0.3, refresh))
    slow, spent = slow_descent(X, Y, 12, noise, 4.0, 0.3, refresh)
    assert path_of(people, steps, noisy=False)[-1] == pytest.approx(slow, abs=1e-9)
    assert (spent <= 0.3).all() and (spent > 0.25).any()
    unfiltered = path_of(people, Steps(12, 0.05, 1.0, noise, 1.0, 2.0**-40), noisy=False)[-1]
    assert np.abs(unfiltered - slow).max() > 1e-3


def test_a_filtered_release_is_fitted_read_and_described():
    release = pi.NoisyDescent(
        LogisticRegression(), steps=40, clip=1.0, noise=1.0, rate=0.5, filter=(4, 0.5), refresh=4, publish="all"
    ).fit(X, CLASSES)
    assert "personal Renyi filter" in "".join(str(word) for word in release.mechanism().words)
    assert release.privacy_ == release.promise()
    state = set(vars(release)) - set(release.get_params(deep=False))
    assert state <= {"coef_", "intercept_", "classes_", "path_", "noise_", "privacy_", "n_features_in_"}


def test_a_reading_under_a_filter_stops_where_the_budget_ends():
    release = pi.NoisyDescent(PLAIN, steps=60, clip=1.0, noise=1.0, filter=(4, 0.5), publish="all").fit(X, Y)
    reading = pi.audit(release, X, Y, method="estimate")
    assert (reading.losses <= release.promise().epsilon(1e-6) * (1 + 1e-9)).all()
    free = pi.NoisyDescent(PLAIN, steps=60, clip=1.0, noise=1.0, publish="all").fit(X, Y)
    assert pi.audit(free, X, Y, method="estimate").losses.max() > release.promise().epsilon(1e-6)


def test_conversions_are_never_below_their_formulas():
    """Also where their terms cancel, in fifty digits."""
    from mpmath import exp, log, mp, mpf

    random = np.random.default_rng(7)
    closest = np.inf
    with mp.workdps(50):
        for _ in range(1000):
            order = float(1.0 + 10 ** random.uniform(-6, 7))
            delta = float(10 ** random.uniform(-12, -0.05))
            a, d = mpf(order), mpf(delta)
            nothing = (log(d) + log(a)) / (a - 1) - log(1 - 1 / a)  # the divergence that costs nothing at delta
            gap = float(10 ** random.uniform(-16, 1))
            divergence = max(float(nothing) * (1 + gap), gap)
            exact = mpf(divergence) - nothing
            found = float(renyi_to_epsilon(divergence, order, delta))
            assert found >= exact
            if exact > 0:
                closest = min(closest, float(exact / mpf(divergence)))
                assert found <= float(exact) + 1e-13 * (
                    1 + divergence + (abs(np.log(delta)) + np.log(order)) / (order - 1)
                )
            epsilon = float(abs(random.normal()) * 10 ** random.uniform(-9, 1))
            truth = exp((a - 1) * (mpf(divergence) + log(1 - 1 / a) - mpf(epsilon)) - log(a))
            stated = renyi_to_delta(divergence, order, epsilon)
            assert stated >= min(truth, mpf(1)) or truth < mpf(2) ** -1070
    assert closest < 1e-11
