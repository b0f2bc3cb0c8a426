"""Many people who share many kinds of steps: sums over a basis of the tables, and ends of lines at their nodes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from perinstance.pairs import SampledGaussian
from perinstance.pairs.loss_sums.sampled.lines import line_tables, real_splines
from perinstance.pairs.loss_sums.sampled.lines.line_layout import LENGTHS, over_basis
from perinstance.pairs.loss_sums.sampled.lines.line_tables import LineTables
from perinstance.pairs.loss_sums.sampled.log_moments import BEYOND
from perinstance.pairs.loss_sums.sampled.steps import SampledSteps

KINDS, PEOPLE, DELTA = 64, 520, 1e-6


@pytest.fixture(scope="module")
def pairs():
    """The first takes a thousand steps of distance 1, of which the loss was checked when MATH was written down."""
    random = np.random.default_rng(5)
    shape = random.uniform(2.0, 4.0, (PEOPLE, 1))
    edges = np.linspace(1.0 / KINDS, 1.0, KINDS)
    share = edges**shape * np.exp(-shape * edges)
    steps = np.floor(2_000 * share / share.sum(axis=1, keepdims=True))
    steps[0], steps[0, -1] = 0.0, 1000.0
    return SampledGaussian(0.01, edges[None], steps)


@pytest.fixture(scope="module", params=[False, True])
def tables(request, pairs):
    view = pairs.coordinates()
    view = view.swapped() if request.param else view
    with_basis, tables = over_basis(view, LineTables.of(view), np.full(PEOPLE, np.log(DELTA)))
    assert with_basis.sampled.in_basis is not None
    return with_basis.sampled, tables


@pytest.mark.parametrize(("direction", "truth"), [("with", 2.1245151711201), ("without", 1.5890887624649)])
def test_answers_are_those_without_a_basis(pairs, direction, truth):
    many, few = pairs.epsilon(DELTA, direction), pairs[:30].epsilon(DELTA, direction)
    assert 0 <= many[0] - truth * (1 - 1e-12) <= 1e-9 * truth
    assert np.abs(many[:30] / few - 1).max() < 1e-11


def test_sums_over_the_basis_are_as_close_as_is_charged(tables):
    """Against sums of fractions, in units of the table's own first column."""
    steps, made = tables
    checked = 0
    for table in made._lines.values():
        assert steps.fits(table.values)
        found = steps.total_of(table.values, steps.kinds())
        nodes = table.error.size
        for i in (0, 7, PEOPLE - 1):
            exact = [
                sum(Fraction(n) * Fraction(K) for n, K in zip(steps.steps[i], T, strict=True))
                for T in table.values.values.T[[0, 3, nodes + 3, nodes - 1]]
            ]
            off = np.abs(
                [float(Fraction(x) - y) for x, y in zip(found[i, [0, 3, nodes + 3, nodes - 1]], exact, strict=True)]
            )
            more = (table.error_over_basis - table.error)[[0, 3, 3, nodes - 1]]
            assert (off <= more * float(exact[0])).all()
            checked += 1
    assert checked > 3


def test_lines_have_died_at_the_nodes_behind_their_ends(tables):
    """What is said of the nodes from a length on lies below what a table of four times as many nodes has there."""
    steps, made = tables
    (c, spacing, nodes) = next(iter(made._lines))
    decay = made.decay(c, spacing, np.array(LENGTHS) * spacing, steps.kinds())
    beyond = decay[:, LENGTHS.index(nodes), None]
    lengths = [8, 12, 16, nodes]
    ends = made.put_ends(c, spacing, lengths, beyond)
    assert steps.fits(ends)
    dead = steps.total_of(ends, steps.kinds())
    plain = LineTables.of_steps(made.steps).line(c, spacing, 4 * nodes, steps.kinds()).values.values
    K = steps.steps @ plain[:, : 4 * nodes]
    for j, n in enumerate(lengths):
        true = (K[:, :1] - K[:, n:]).min(axis=1)
        assert (np.minimum(dead[:, j], dead[:, -1]) <= true * (1 + 1e-9)).all()
    assert (dead[:, 0] > 0.97 * (K[:, 0] - K[:, 8])).all()


def test_what_a_basis_does_not_span_is_added_kind_by_kind(tables):
    _, made = tables
    basis = made.basis
    rough = np.random.default_rng(0).uniform(1.0, 2.0, (len(basis.vectors), 3))
    assert basis.real(rough).over_basis is None
    assert basis.decay(rough, rough[:, :1]).over_basis is None


def test_people_keep_their_steps_when_they_are_picked(pairs):
    steps = pairs.coordinates().sampled
    assert isinstance(steps, SampledSteps)
    based = steps.with_basis(np.ones((steps.rates.size, 2)))
    for rows in (np.array([5, 3, 400]), slice(2, 9), np.arange(PEOPLE) % 7 == 0):
        some = based[rows][np.array([1, 0])]
        assert np.array_equal(some.steps, steps.steps[rows][[1, 0]])
        assert np.array_equal(some.in_basis[:, 0], some.taken)


def test_the_steps_of_one_person_are_not_looked_for_among_everybodys(pairs, monkeypatch):
    """Of a hundred thousand people a copy of all tables for each of them would take hours."""
    steps = pairs.coordinates().sampled
    some = steps.with_basis(np.ones((steps.rates.size, 2)))[np.array([5, 3, 0])]
    expected = [steps.of_person(i) for i in (5, 3, 0)]
    monkeypatch.setattr(SampledSteps, "steps", property(lambda _: pytest.fail("everybody's steps were copied")))
    for i in range(3):
        np.testing.assert_array_equal(some.of_person(i), expected[i])
    np.testing.assert_array_equal(some.of_person(2), [[0.01], [1.0], [1000.0]])


def test_nobody_is_charged_for_the_rounding_of_steps_that_others_take():
    """A step of distance 5.3 has moments that are lost far out on a line on which people with smaller steps lie."""
    distance = np.append(np.geomspace(0.02, 2.46, 11), 5.26)[None]
    alone = np.array([[2, 14, 1, 24, 11, 8, 26, 2, 6, 19, 1, 0]])
    far = np.append(alone[:, :-1], [[1]], axis=1)
    rate = np.full((1, 12), 0.0115)
    own = SampledGaussian(rate, distance, alone).epsilon(3e-6, "with")[0]
    both = SampledGaussian(rate, distance, np.vstack([alone, far])).epsilon(3e-6, "with")
    assert both[0] == pytest.approx(own, rel=1e-9) and both[1] > both[0]


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize(
    ("q", "c", "low", "high"), [(0.01, 5.0, 0.02, 1.0), (1e-5, 300.0, 1e-6, 1.0), (1e-4, 40.0, 0.01, 3.0)]
)
def test_places_are_found_from_some_of_many_distances(q, c, low, high, over, monkeypatch):
    """Between them moments are good to a thousandth, but for some next to those that are beyond floats, or are."""
    distances = np.random.default_rng(3).permutation(np.geomspace(low, high, 600))[None]
    rates = np.where(np.arange(600) < 10, 0.5, q)[None]
    steps = SampledSteps.of(rates, distances, np.ones((1, 600)))
    steps = steps.swapped() if over else steps
    found = real_splines.RealSplines(steps).values(c, steps.kinds())
    monkeypatch.setattr(real_splines, "TAKEN", 1000)
    own = real_splines.RealSplines(steps).values(c, steps.kinds())
    far = (np.abs(found - own) > 2e-3 * own).any(axis=1)
    last = np.abs(np.flatnonzero(far)[:, None] - np.flatnonzero(own[:, 0] == BEYOND)).min(axis=1, initial=600)
    assert far.sum() <= 15
    assert (last <= 20).all()


@pytest.mark.parametrize("direction", ["with", "without"])
def test_distances_of_their_own(direction, monkeypatch):
    """Whoever takes steps of many distances of their own is told the same, however the place of the line was found."""
    distances = np.random.default_rng(4).lognormal(-1.5, 0.7, (1, 300))
    person = SampledGaussian(0.01, distances, np.full((1, 300), 4.0))
    (found,) = person.epsilon(DELTA, direction)
    monkeypatch.setattr(line_tables, "MANY_DISTANCES", 1000)
    assert found == pytest.approx(person.epsilon(DELTA, direction)[0], rel=1e-9)
    assert person.delta(found, direction)[0] <= DELTA * (1.0 + 1e-9)
