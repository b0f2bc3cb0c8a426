"""Many people with one kind of step each, answered in groups, and guesses from neighbours: never below."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perinstance.pairs import GaussianShift, SampledGaussian
from perinstance.pairs.loss_sums.records import Tolerance
from perinstance.pairs.loss_sums.sampled import epsilon as by_lines
from perinstance.pairs.loss_sums.sampled import like_people
from perinstance.pairs.loss_sums.sampled.more_digits import precise_answers
from perinstance.pairs.loss_sums.sampled.more_digits.line_answer import NONE, LineAnswer
from perinstance.pairs.loss_sums.sampled.more_digits.nearby_epsilons import NearbyEpsilons

GROUPED = Tolerance(groups=True)


@pytest.fixture
def crowd(monkeypatch):
    """Thirty people, of whom some have the same steps, in twelve groups; returns rates, distances and steps."""
    monkeypatch.setattr(like_people, "GROUPS", 12)
    random = np.random.default_rng(5)
    rates, steps = random.choice([1e-4, 1.2e-4], 30), random.choice([90.0, 100.0], 30)
    return rates, random.choice(np.geomspace(0.5, 1.5, 12), 30), steps


@given(
    st.lists(st.lists(st.integers(-8, 8), min_size=2, max_size=2), min_size=1, max_size=40),
    st.integers(1, 12),
)
def test_boxes_hold_everybody(points, most):
    table = np.array(points) * 0.1
    which = like_people.cells(table, most)
    used = np.unique(which)
    assert used.tolist() == list(range(len(used)))
    assert len(used) == min(most, len(np.unique(table, axis=0)))
    if len(used) == len(np.unique(table, axis=0)):  # nobody shares a box with somebody else
        assert all(len(np.unique(table[which == box], axis=0)) == 1 for box in used)


def test_numbers_next_to_each_other_are_told_apart():
    here = np.array([[1.0], [np.nextafter(1.0, 2.0)], [1.0]])
    assert like_people.cells(here, 5).tolist() == [0, 1, 0]


@pytest.mark.parametrize("direction", ["with", "without"])
def test_epsilons_of_groups(crowd, direction):
    """Each is the epsilon of somebody with the largest of everything, alone."""
    pairs = SampledGaussian(*crowd)
    found = pairs._epsilon(1e-6, direction, GROUPED)
    each = np.concatenate([pairs[i : i + 1].epsilon(1e-6, direction) for i in range(30)])
    assert (found >= each * (1.0 - 1e-12)).all()
    assert (found < 2.0 * each).all()
    if direction == "with":  # without, lines of floats do
        assert (found > each * 1.001).sum() > 5
        for epsilon in np.unique(found):
            rows = found == epsilon
            (alone,) = SampledGaussian(*(part[rows].max(keepdims=True) for part in crowd)).epsilon(1e-6, direction)
            assert epsilon == pytest.approx(alone, rel=1e-12)


def test_deltas_that_differ(crowd):
    """Everybody in a group is told the epsilon of its least delta."""
    rates, distances, steps = crowd[0], np.linspace(1.0, 1.0001, 30), np.full(30, 100.0)
    pairs, deltas = SampledGaussian(rates, distances, steps), np.geomspace(1e-7, 1e-5, 30)
    found = pairs._epsilon(deltas, "with", GROUPED)
    each = np.concatenate([pairs[i : i + 1].epsilon(deltas[i], "with") for i in range(30)])
    assert (found >= each * (1.0 - 1e-12)).all() and (found < 2.0 * each).all() and len(np.unique(found)) <= 12


def test_epsilon_itself_knows_no_groups(crowd, monkeypatch):
    """Everybody has all digits, some at a time; audits of thousands, and readings, are told bounds of groups."""
    monkeypatch.setattr(by_lines, "IN_FULL", 7)
    pairs = SampledGaussian(*crowd)
    each = np.concatenate([pairs[i : i + 1].epsilon(1e-6) for i in range(30)])
    assert pairs.epsilon(1e-6) == pytest.approx(each, rel=1e-9)
    found = pairs.near_epsilon(1e-6, crowds_only=True)
    assert (found >= each * (1.0 - 1e-12)).all() and (found > 1.001 * each).any()


def test_parts_of_a_crowd(monkeypatch):
    """No part has more kinds of steps than get all the work, but for one person with more; nobody is left out."""
    monkeypatch.setattr(by_lines, "IN_FULL", 5)
    steps = np.array([[1, 1, 1], [1, 0, 0], [1, 1, 1], [1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0]])
    view = SampledGaussian(1e-3, np.arange(1.0, 22.0).reshape(7, 3), steps).coordinates()
    rows = np.array([0, 2, 3, 4, 5, 6])
    parts = list(by_lines._in_parts(view, rows, Tolerance()))
    assert np.concatenate(parts).tolist() == rows.tolist() and len(parts) > 2
    assert [part.tolist() for part in by_lines._in_parts(view, rows, GROUPED)] == [rows.tolist()]


def test_who_is_no_crowd(crowd, monkeypatch):
    """People who are few, share their kinds of steps, take several, or have others too are answered one by one."""
    monkeypatch.setattr(like_people, "GROUPS", 2)
    rates, distances, steps = crowd
    few = SampledGaussian(rates[:2], distances[:2], steps[:2])
    shared = SampledGaussian(1e-4, np.array([[0.5, 1.0]]), np.column_stack([90.0 + np.arange(4), np.zeros(4)]))
    two = SampledGaussian(1e-4, np.column_stack([distances, 0.5 * distances]), 40.0)[:4]
    others = SampledGaussian(rates, distances, steps)[:4] + GaussianShift(np.full(4, 0.5))
    for pairs in (few, shared, two, others):
        ask = getattr(pairs, "_epsilon", None)
        found = pairs.epsilon(1e-6, "with") if ask is None else ask(1e-6, "with", GROUPED)
        each = np.concatenate([pairs[i : i + 1].epsilon(1e-6, "with") for i in range(len(found))])
        assert found == pytest.approx(each, rel=1e-9)


def test_guesses_from_neighbours(monkeypatch):
    """Most people need one line instead of two, and are told the same."""
    pairs = SampledGaussian(1e-4, np.geomspace(0.9, 1.5, 12), 100)
    make, lines = precise_answers._line, []

    def counted(*args):
        lines.append(args[1])
        return make(*args)

    monkeypatch.setattr(precise_answers, "_line", counted)
    together = pairs.epsilon(1e-6, "with")
    guessed = len(lines)
    alone = np.concatenate([pairs[i : i + 1].epsilon(1e-6, "with") for i in range(12)])
    assert together == pytest.approx(alone, rel=1e-13)
    assert guessed < 0.75 * (len(lines) - guessed)


@pytest.mark.parametrize("factor", [0.1, 0.5, 2.0, 10.0])
def test_a_wrong_guess_does_no_harm(factor, monkeypatch):
    pairs = SampledGaussian(1e-4, np.geomspace(0.9, 1.5, 3), 100)
    true = np.concatenate([pairs[i : i + 1].epsilon(1e-6, "with") for i in range(3)])
    monkeypatch.setattr(NearbyEpsilons, "guess", lambda *_: LineAnswer(factor * true[1], 1.0, np.inf))
    assert pairs.epsilon(1e-6, "with") == pytest.approx(true, rel=1e-9)


def test_neighbours():
    """An epsilon that is a power of the distance is guessed; not that of somebody else, nor far away."""
    last, goal = NearbyEpsilons(), np.array([-10.0, 0.0, np.inf])

    def kind(distance, rate=1e-3):
        return np.array([[rate], [distance], [7.0]])

    for m in (1.0, 1.1):
        last.guess(kind(m), goal)
        last.put(kind(m), 0.3 * m**2.5)
    assert last.guess(kind(1.2), goal).value == pytest.approx(0.3 * 1.2**2.5)
    assert math.isinf(last.guess(kind(1.2), goal).cost)
    assert last.guess(kind(1.2 * math.e), goal) is NONE
    assert last.guess(kind(1.2, 2e-3), goal) is NONE
    assert last.guess(np.ones((3, 2)), goal) is NONE
