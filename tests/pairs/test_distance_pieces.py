"""Moments of many distances from the points of pieces: against sums of their own, integrals, and rounded distances."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from perinstance.pairs import SampledGaussian
from perinstance.pairs.loss_sums.sampled.lines import line_tables
from perinstance.pairs.loss_sums.sampled.lines.distance_pieces import (
    ELLIPSES,
    DistancePiece,
    _bounds,
    _cells,
    pieces_of,
)
from perinstance.pairs.loss_sums.sampled.lines.line_tables import LineTables, close_together, fill_decays
from perinstance.pairs.loss_sums.sampled.log_moments import StepKind, divergence_of, fill_log_moments
from perinstance.pairs.loss_sums.sampled.more_digits import many_distances, precise_answers
from perinstance.pairs.loss_sums.sampled.more_digits.pair_moments import moments_in_pairs
from perinstance.pairs.loss_sums.sampled.steps import SampledSteps

RNG = np.random.default_rng(20261118)


def own_logs(q: float, m: float, over: bool, place: tuple[float, float], nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return log moments of one kind by a sum over its own noise, and their errors."""
    step, out, lost = StepKind(q, m, over, 0.0), np.empty(nodes, np.complex128), np.empty(nodes)
    fill_log_moments(step, np.array(divergence_of(step)), *place, out, lost)
    return out, lost


def moment(q: float, m: complex, over: bool, z: complex) -> complex:
    """Return A of a distance, which may be complex, by trapezoids over u."""
    p = 1 + z if over else -z
    wide = abs(m) / math.sqrt(math.cos(2.0 * np.angle(m)))
    u = np.linspace(-16.0 * wide - wide**2, 16.0 * wide + (2.0 + abs(p.real)) * wide**2, 60_001)
    density = np.exp(-((u + m * m / 2) ** 2) / (2 * m * m)) / (m * math.sqrt(2 * math.pi))
    return complex((density * np.exp(p * np.log1p(q * np.expm1(u)))).sum() * (u[1] - u[0]))


def exact_moment(q: float, m: float, over: bool, z: complex) -> mp.mpc:
    """Return A to the digits of the context."""
    p = 1 + mp.mpc(z) if over else -mp.mpc(z)

    def integrand(x: mp.mpf) -> mp.mpc:
        w = 1 - mp.mpf(q) + mp.mpf(q) * mp.exp(m * x - mp.mpf(m) ** 2 / 2)
        return mp.exp(p * mp.log(w) - x * x / 2)

    cuts = [mp.mpf(x) for x in np.linspace(-15.0, 15.0 + 2.0 * m * (2.0 + abs(z.real)), 25)]
    return mp.quad(integrand, cuts) / mp.sqrt(2 * mp.pi)


@pytest.mark.parametrize("over", [True, False])
@pytest.mark.parametrize(
    ("q", "place"), [(0.01, (8.0, 1.0)), (1e-3, (10.0, 3.0)), (0.2, (4.0, 0.5)), (1e-5, (2.0, 50.0))]
)
def test_tables_of_many_distances_are_those_of_their_own_sums(q, place, over):
    """Every value lies within both errors of the one by a sum of its own, and next to nothing is lost by pieces."""
    distances, nodes = np.exp(RNG.uniform(math.log(0.05), 0.0, 400)), 40
    steps = SampledSteps.of(np.full((1, 400), q), distances[None], np.ones((1, 400)))
    steps = steps.swapped() if over else steps
    tables = LineTables.of_steps(steps)
    table = tables.line(*place, nodes, steps.kinds())
    served = [piece for (piece, *_), one in tables.pieces._tables.items() if one.remainder.size]
    assert served, "no piece serves"
    for j in RNG.choice(400, 12, replace=False):
        log, lost = own_logs(q, float(steps.distances[j]), over, place, nodes)
        found = table.values.values[j, :nodes] + 1j * table.values.values[j, nodes:]
        assert (np.abs(found - log) <= table.lost[j] + lost).all()
        assert (table.lost[j] <= 1e-10 * np.maximum(np.abs(log), log[0].real)).all()


@pytest.mark.parametrize("over", [True, False])
@pytest.mark.parametrize(("q", "c"), [(0.3, 3.0), (0.01, 8.0), (1e-4, 4.0)])
def test_moments_of_complex_distances_lie_below_their_bounds(q, c, over):
    """On the whole ellipse, A differs from one, or from the power of 1 - q, by at most what is said."""
    for low, high in ((0.2, 0.4), (0.7, 0.84), (1.0, 1.19)):
        for s in ELLIPSES[1:6:2]:
            power = 1.0 + c if over else -c
            cells, _ = _cells(q, (low, high), power, s)
            if not len(cells):
                continue
            for y in (0.0, 5.0, 0.5 / q):
                z = complex(c, y)
                p = 1 + z if over else -z
                to_first, to_one = _bounds(cells, abs(p), abs(p * (p - 1)))
                for angle in RNG.uniform(0.0, 2.0 * math.pi, 4):
                    turn = s * np.exp(1j * angle)
                    v = 0.5 * math.log(low * high) + 0.25 * math.log(high / low) * (turn + 1.0 / turn)
                    found = moment(q, complex(np.exp(v)), over, z)
                    assert abs(found / (1 - q) ** p - 1) <= to_first * (1 + 1e-6) + 1e-12
                    assert abs(found - 1) <= to_one * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("over", [True, False])
@pytest.mark.parametrize("of_logs", [False, True])
def test_polynomials_through_few_points_are_as_far_off_as_is_said(over, of_logs):
    """With so few points that it can be seen, in 20 digits: the remainder is a bound, and not for ever."""
    q, c, spacing = 0.01, 3.0, 20.0
    piece = DistancePiece(q, 0.5, 1.0, 7)
    remainders = piece.remainders(over, c, spacing, 3, of_logs)
    with mp.workdps(20):
        z = complex(c, spacing * 2)
        points = [exact_moment(q, m, over, z) for m in piece.points.tolist()]
        points = [mp.log(a) for a in points] if of_logs else points
        worst = 0.0
        for m in (0.52, 0.71, 0.97):
            weights = [mp.mpf(w) for w in piece.weights(np.array([m]))[0]]
            own = exact_moment(q, m, over, z)
            own = mp.log(own) if of_logs else own
            worst = max(worst, float(abs(mp.fdot(weights, points) - own)))
        assert 1e-6 * remainders[2] < worst <= remainders[2]


@pytest.mark.parametrize("over", [True, False])
def test_distances_die_together(over):
    """What is said of all distances between two is true of each: against the moments themselves."""
    q, c, ends = 0.02, 3.0, np.array([[0.8, 0.9]])
    places, out = np.array([3.0, 10.0, 40.0]), np.empty((1, 3))
    kl = np.array([divergence_of(StepKind(q, 0.9, over, 0.0))])
    fill_decays(np.array([q]), ends, kl, over, c, places, out)
    alone = np.empty((1, 3))
    fill_decays(np.array([q]), np.array([[0.9, 0.9]]), kl, over, c, places, alone)
    assert (out <= alone).all()
    assert (out >= 0.5 * alone).all()
    for m in (0.8, 0.83, 0.87, 0.9):
        log, _ = own_logs(q, m, over, (c, 0.5), 200)
        for place, said in zip(places, out[0], strict=True):
            beyond = log[0].real - log[int(place / 0.5) :].real
            assert said <= beyond.min()


def test_close_together():
    """Groups cover everybody, lie at one rate each and within a sixteenth of an octave."""
    rates, distances = RNG.choice([0.1, 0.2], 500), np.exp(RNG.uniform(-3.0, 1.0, 500))
    nearest, furthest, which = close_together(rates, distances)
    assert (rates[nearest[which]] == rates).all()
    assert ((distances[nearest[which]] <= distances) & (distances <= distances[furthest[which]])).all()
    assert (distances[furthest] <= distances[nearest] * 2.0 ** (1.0 / 16.0) * (1 + 1e-12)).all()


def test_weights_of_a_person_are_exact_for_polynomials():
    """Steps at the points have the same power sums of log m, in 40 digits, as the steps themselves."""
    piece, own = DistancePiece(1e-3, 0.5, 0.71, many_distances.POINTS), np.empty((2, 60))
    own[0], own[1] = RNG.uniform(0.5, 0.71, 60), RNG.integers(1, 50, 60)
    own[0, 7] = piece.points[3]
    high, low = many_distances.ManyDistances(True, 1)._summed(piece, own)
    with mp.workdps(40):
        places, points = (
            [mp.log(mp.mpf(m) / piece.middle) / piece.half for m in some.tolist()] for some in (own[0], piece.points)
        )
        for power in (0, 1, 2, 7, 20, 39):
            exact = mp.fsum(mp.mpf(n) * t**power for t, n in zip(places, own[1].tolist(), strict=True))
            steps = zip(points, high.tolist(), low.tolist(), strict=True)
            found = mp.fsum((mp.mpf(a) + mp.mpf(b)) * t**power for t, a, b in steps)
            assert abs(found - exact) <= mp.mpf(2) ** -95 * own[1].sum()


@pytest.mark.parametrize("over", [True, False])
def test_sums_over_points_to_many_digits(over):
    """Log moments of a person's steps, summed over points, are those of their own to their remainder."""
    q, place, nodes = 1e-4, (3.0, 40.0), 33
    own = np.stack([np.full(150, q), RNG.uniform(0.5, 1.0, 150), RNG.integers(1, 4, 150).astype(float)])
    steps = many_distances.ManyDistances(over, 1).at_points(own, lambda q, m: True, place, nodes)
    assert steps.remainder is not None
    assert steps.kinds.shape[1] < 150
    sums = []
    with mp.workdps(40):
        for kinds in (steps.kinds, np.vstack([own, np.zeros((1, 150))])):
            logs = [moments_in_pairs(a, b, over, place, nodes).logs for a, b, *_ in kinds.T.tolist()]
            for k in (1, 16, 32):
                total = mp.mpc(0)
                for log, (high, low) in zip(logs, kinds[2:].T.tolist(), strict=True):
                    v = [mp.mpf(float(x)) for x in log.values[:, k]]
                    total += (mp.mpf(high) + mp.mpf(low)) * mp.mpc(v[0] + v[2], v[1] + v[3])
                sums.append(total)
        for k, (found, exact) in zip((1, 16, 32), zip(sums[:3], sums[3:], strict=True), strict=True):
            assert abs(found - exact) <= steps.remainder[k] + steps.remainder[0] + mp.mpf(10) ** -24
            assert steps.remainder[k] < 1e-15


def without_pieces(monkeypatch) -> None:
    monkeypatch.setattr(line_tables, "MANY_DISTANCES", 10**9)
    monkeypatch.setattr(many_distances, "MANY", 10**9)
    monkeypatch.setattr(precise_answers, "MANY", 10**9)


@pytest.mark.parametrize("direction", ["with", "without"])
@pytest.mark.parametrize(("q", "delta"), [(0.01, 1e-5), (0.1, 1e-9)])
def test_epsilon_of_many_distances(q, delta, direction, monkeypatch):
    """The same by sums of their own, and between those of rounded distances."""
    distances = np.minimum(RNG.lognormal(-1.5, 0.8, (2, 330)), 0.6)
    people = SampledGaussian(q, distances, np.ones((2, 330)))
    found = people.epsilon(delta, direction)
    grid = np.geomspace(distances.min() * 0.999, 0.61, 60)
    for side, sign in (("left", 1.0), ("right", -1.0)):
        at = np.searchsorted(grid, distances, side=side) - (1 if sign < 0 else 0)
        rounded = SampledGaussian(q, grid[at], np.ones((2, 330))).epsilon(delta, direction)
        assert (sign * (rounded - found) > 0.0).all()
    without_pieces(monkeypatch)
    assert_allclose(found, people.epsilon(delta, direction), rtol=2e-11)


def test_seldom_people_share_the_points(monkeypatch):
    """Whoever is asked along, to all digits; by sums of their own, too."""
    distances = np.minimum(RNG.lognormal(-1.0, 0.6, (2, 130)), 0.9)
    people = SampledGaussian(2e-3, distances, np.full((2, 130), 2.0))
    found = people.epsilon(1e-6)
    assert_allclose(found[:1], people[:1].epsilon(1e-6), rtol=1e-12)
    without_pieces(monkeypatch)
    assert_allclose(found[1:], people[1:].epsilon(1e-6), rtol=1e-11)


def test_the_same_distance_in_many_columns_is_one_kind():
    """Columns of one distance count as that many steps of it."""
    distances = np.repeat(RNG.uniform(0.1, 1.0, 20), 15)
    columns = SampledGaussian(0.01, np.stack([distances, distances[::-1]]), np.ones((2, 300)))
    kinds = SampledGaussian(0.01, distances[::15][None], np.full((1, 20), 15.0))
    assert_allclose(columns.epsilon(1e-6), np.repeat(kinds.epsilon(1e-6), 2), rtol=1e-11)
    assert columns.coordinates().sampled.of_person(0).shape == (3, 20)


def test_pieces_hold_their_distances():
    """Every distance lies in its piece, and pieces of few distances are left out."""
    rates, distances = np.repeat([0.1, 0.2], 400), np.exp(RNG.uniform(-4.0, 2.0, 800))
    found = pieces_of(rates, distances)
    assert found
    for piece, rows in found:
        assert rows.size >= 48
        assert (rates[rows] == piece.rate).all()
        assert (np.abs(piece.places(distances[rows])) <= 1.0).all()
        assert_allclose(piece.weights(distances[rows]).sum(axis=1), 1.0, rtol=1e-12)
        assert (np.abs(piece.weights(distances[rows])).sum(axis=1) < 3.5).all()
        np.testing.assert_array_equal(piece.weights(piece.points[:2]), np.eye(32)[:2])
    assert not pieces_of(np.full(400, 1.0 - 1e-12), distances[:400])


def test_halves():
    """Both hold their distances, and small pieces, or those of few, have none."""
    piece, distances = DistancePiece(0.1, 0.5, 1.0), RNG.uniform(0.5, 1.0, 400)
    found = piece.halves(distances)
    np.testing.assert_array_equal(np.sort(np.concatenate([rows for _, rows in found])), np.arange(400))
    for half, rows in found:
        assert half.count == piece.count
        assert (np.abs(half.places(distances[rows])) <= 1.0).all()
        assert half.half < 0.51 * piece.half
    assert not piece.halves(distances[:50])
    assert len(piece.halves(distances[:50], people=4)) == 2
    assert not DistancePiece(0.1, 0.97, 1.0).halves(distances)
