"""Sums of losses over the whole stated range against ball arithmetic: epsilon never below, at most 1e-9 above.

Where the slow road is slow (a second a number), the people are few and chosen to be awkward.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from flint import arb

from perinstance.pairs import (
    Composed,
    GaussianShift,
    GeneralGaussian,
    LaplaceShift,
    ObjectivePair,
    PosteriorSamplePair,
    compose,
)
from perinstance.pairs.sums import profile
from perinstance.pairs.sums.contour import integrate_along
from perinstance.pairs.sums.coordinates import LossCoordinates
from perinstance.pairs.sums.saddlepoint import (
    Losses,
    highest,
    place,
    saddle,
    slopes,
)
from perinstance.pairs.sums.solve import solve_one

from . import sums, truth
from .reference import objective_delta

# leverage, residual/s, x'x, v'v: the corners of the range, one dimension and two, and residuals beyond 1e5
OBJECTIVES = [
    (0.1, 1e6, 1.0, 0.02),
    (1e-9, 1e6, 1.0, 1e-12),
    (1e6, 1e6, 1.0, 1e12),
    (1e6, 1e3, 4.0, 1e18),
    (1e6, 0.0, 1.0, 3e12),
    (0.0, 3e5, 1.0, 0.0),
    (30.0, 2e5, 1.0, 1e4),
    (1e-4, 4e5, 0.5, 1.0),
    (2.0, 7e5, 1e-3, 4000.000004),
    (1e-12, 0.5, 2.0, 1e-20),
]
DELTAS = [1e-300, 1e-12, 0.2, 0.999, 1e-6, 1 - 1e-12, 1e-60, 0.5, 1e-3, 0.9]


def test_equal_neighbours_are_answered_once_and_no_others():
    """People who differ from the one before in one number, or in delta alone, have an answer of their own."""
    base = np.array([0.5, 2.0, 1.0, 0.5])
    some = np.repeat([base, *(base + 0.125 * unit for unit in np.eye(4)), base], 2, axis=0)
    laplace = np.repeat([0.5, 0.5, 0.75, 0.5, 0.5, 0.5], 2)
    delta = np.repeat([1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-3], 2)
    pairs = [ObjectivePair(*some.T), ObjectivePair(*some.T) + LaplaceShift(laplace)]
    for pair in pairs:
        once = np.concatenate([pair[i : i + 1].epsilon(delta[i]) for i in range(12)])
        assert (pair.epsilon(delta) == once).all() and len(np.unique(once)) == 6
    same = pairs[1][np.array([0, 0])]
    assert (same.epsilon([1e-6, 1e-3]) == np.r_[same[:1].epsilon(1e-6), same[:1].epsilon(1e-3)]).all()


def coordinates(person, direction):
    found = sums.objective_coordinates(*person)
    return found if direction == "without" else sums.exchanged(found)


def sharp(delta):
    """How close the truth must be: next to one it is 1 - delta that must be told apart."""
    return 1e-15 * min(1.0, 1.0 - delta)


def directions_in_turn(cases):
    """Each case in one direction, which changes from case to case; in the other one where time does not count."""
    for i, case in enumerate(cases):
        first, other = ("without", "with")[:: 1 if i % 2 else -1]
        yield pytest.param(*case, first, id=f"{case}-{first}")
        yield pytest.param(*case, other, id=f"{case}-{other}", marks=pytest.mark.slow)


def assert_solved(profile, epsilon, delta):
    """The profile is at most delta at epsilon, and at least delta where the true epsilon must lie above."""
    assert profile(epsilon) <= arb(delta)
    lower = truth.lowest(epsilon)
    assert lower <= 0 or profile(lower) >= arb(delta)


@pytest.mark.parametrize(("person", "delta", "direction"), directions_in_turn(zip(OBJECTIVES, DELTAS, strict=True)))
def test_objective_over_the_whole_range(person, delta, direction):
    pair = ObjectivePair(*([value] for value in person))
    epsilon = pair.epsilon(delta, direction)[0]
    with truth.digits(80):
        found = coordinates(person, direction)
        assert_solved(lambda e: sums.spectral_delta(found, e, sharp(delta)), epsilon, delta)
        at = sums.spectral_delta(found, epsilon, sharp(delta))
        got = arb(pair.delta(epsilon, direction)[0])
        assert at * (1 - arb("1e-15")) <= got <= at * (1 + arb("1e-11")) or at < 1e-300
        if epsilon < 100:  # the flip of signs: a profile again
            below = arb(pair.delta(-epsilon, direction)[0])
            other = coordinates(person, "with" if direction == "without" else "without")
            scale = (-arb(epsilon)).exp()
            exact = 1 - scale + scale * sums.spectral_delta(other, epsilon, 1e-15)
            assert exact * (1 - arb("1e-15")) <= below <= exact * (1 + arb("1e-11"))


@pytest.mark.parametrize("share", [*(pytest.param(s, marks=pytest.mark.slow) for s in (1e-1, 1e-4, 1e-8)), 1e-12])
@pytest.mark.parametrize(
    ("nu", "m"), [((0.3, -0.2), (0.5, 1.0)), ((3000.0, -0.1), (0.0, 0.5)), ((0.0, 0.02), (9.0, 1.0))], ids=str
)
def test_epsilon_next_to_nothing(nu, m, share):
    """A delta just below total variation: the loss is widely spread and epsilon is tiny."""
    pair = GeneralGaussian([nu], [m])
    delta = just_below_total_variation(pair, share)
    epsilon = pair.epsilon(delta, "without")[0]
    with truth.digits(60):
        found = [(arb(n), arb(s) ** 2) for n, s in zip(nu, m, strict=True)]
        accuracy = 1e-18 * min(1.0, 1.0 - delta)
        assert_solved(lambda e: sums.spectral_delta(found, e, accuracy), epsilon, delta)


@pytest.mark.parametrize(
    ("nu", "m", "share"),
    [
        pytest.param((-1.04e-4, -0.99994215, 42.7), (0.497, 6.102, 0.0031), 1.3e-6, marks=pytest.mark.slow),
        ((-0.99995832,), (4.4788,), 3e-9),
        ((-0.99999796, -0.0021), (2.8127, 0.0034), 5e-11),
    ],
    ids=str,
)
def test_epsilon_next_to_nothing_where_total_variation_is_next_to_one(nu, m, share):
    """``1 - delta`` hardly changes with epsilon here: what the exponent may be off by would become 1e-12."""
    pair = GeneralGaussian([nu], [m])
    delta = 1 - (1 - pair.tv()[0]) * (1 + share)
    epsilon = pair.epsilon(delta, "with")[0]
    assert 0 < epsilon < 1e-4
    with truth.digits(60):
        found = sums.exchanged([(arb(n), arb(s) ** 2) for n, s in zip(nu, m, strict=True)])
        accuracy = 1e-18 * (1.0 - delta)
        assert_solved(lambda e: sums.spectral_delta(found, e, accuracy), epsilon, delta)


def just_below_total_variation(pair, share):
    tv = pair.tv()[0]
    return tv * (1 - share) if tv < 0.5 else 1 - (1 - tv) * (1 + share)


@pytest.mark.parametrize(("seed", "people"), [(0, 2), *(pytest.param(s, 4, marks=pytest.mark.slow) for s in range(3))])
def test_awkward_people_next_to_nothing(seed, people):
    """Random coordinates and objectives, deltas just below total variation; of a sample each in one direction."""
    rng = np.random.default_rng(seed)
    checked = 0
    while checked < people:
        if checked % 2:
            k = rng.integers(1, 6)
            nu = 10 ** rng.uniform(-6, 6, k) * rng.choice([1, 1, -1], k)
            nu, m = np.where(nu < 0, nu / (1 - nu), nu), 10 ** rng.uniform(-3, 1.2, k)
            pair: GeneralGaussian | ObjectivePair = GeneralGaussian([nu], [m])
            with truth.digits(60):
                found = [(arb(n), arb(s) ** 2) for n, s in zip(nu.tolist(), m.tolist(), strict=True)]
        else:
            mu, xx = 10 ** rng.uniform(-6, 6), 10 ** rng.uniform(-8, 2)
            r, vv = 10 ** rng.uniform(-4, 6), mu**2 / xx * (1 + 10 ** rng.uniform(-10, 6))
            pair = ObjectivePair([mu], [r], [xx], [vv])
            with truth.digits(60):
                found = sums.objective_coordinates(float(mu), float(r), float(xx), float(vv))
        if not 1e-9 < pair.tv()[0] < 1 - 1e-15:
            continue
        delta = just_below_total_variation(pair, 10 ** rng.uniform(-14, -3))
        for direction in ("without", "with")[checked % 2 :: 2] if people == 2 else ("without", "with"):
            epsilon = pair.epsilon(delta, direction)[0]
            with truth.digits(60):
                there = found if direction == "without" else sums.exchanged(found)
                accuracy = 1e-18 * (1.0 - delta)
                assert_solved(lambda e, at=there, of=accuracy: sums.spectral_delta(at, e, of), epsilon, delta)
        checked += 1


# posteriors, shifts, Laplace distances, share: beside a shift, among atoms, and the saddle point left of -1/2
MIXED = [
    (((56747.12, 2.5e-5), (1839.65, 1.55)), (3.3,), (0.058,), 1e-9),
    (((0.0219, 7.9), (0.454, 4.19)), (), (1.5877, 0.0366), 1e-8),
    (((61797.5, 1918.0),), (), (8.01,), 1e-6),
    (((386689.0, 1525.0), (40290.0, 1315.0)), (), (0.0226, 0.12, 0.019), 1e-7),
    ((), (1.8,), (0.0895, 0.2477), 1e-8),
    (((30.0, 3.0),), (0.1,), (0.5, 0.5, 2.0), 1e-5),
]


@pytest.mark.parametrize("direction", ["without", "with"])
@pytest.mark.parametrize(("posteriors", "shifts", "distances", "share"), MIXED, ids=str)
def test_laplace_losses_next_to_nothing(posteriors, shifts, distances, share, direction):
    parts = [PosteriorSamplePair([mu], [rho]) for mu, rho in posteriors] + [GaussianShift([D]) for D in shifts]
    pair = Composed([*parts, *(LaplaceShift([D]) for D in distances)])
    delta = just_below_total_variation(pair, share)
    epsilon = pair.epsilon(delta, direction)[0]
    with truth.digits(50):
        found = [(arb(mu), arb(rho) ** 2 * arb(mu) / (1 + arb(mu))) for mu, rho in posteriors]
        found += [(arb(0), arb(D) ** 2) for D in shifts]
        found = found if direction == "without" else sums.exchanged(found)
        assert_solved(lambda e: 1 - sums.mixed_rest(found, distances, e), epsilon, delta)


@pytest.mark.parametrize(
    ("mu", "rho"), [((0.5,), (18.0,)), ((600.0, 250.0), (0.1, 7000.0)), ((1e-3, 40.0), (3.0, 90.0))]
)
def test_delta_next_to_the_largest_loss_of_posteriors(mu, rho):
    pair = Composed([PosteriorSamplePair([m], [r]) for m, r in zip(mu, rho, strict=True)])
    end = pair.renyi(np.inf, "with")[0]
    with truth.digits(90):
        found = sums.exchanged([(arb(m), arb(r) ** 2 * arb(m) / (1 + arb(m))) for m, r in zip(mu, rho, strict=True)])
        for gap in (1e-13, 1e-9, 1e-3):
            epsilon = end * (1 - gap)
            exact, got = sums.spectral_delta(found, epsilon), arb(pair.delta(epsilon, "with")[0])
            assert exact * (1 - arb("1e-15")) <= got <= exact * (1 + arb("1e-10")) or exact < 1e-300


LAPLACES = [
    [0.7],
    [0.3, 1.1],
    [2.0, 1e-3],
    [0.5, 0.5, 0.5],
    [20.0, 20.0, 3.0],
    [6.4, 6.4, 0.1, 0.004, 0.7],
    [0.03, 1.1, 0.001, 0.06, 0.03, 7.0],
]


@pytest.mark.parametrize("distances", LAPLACES, ids=str)
def test_sums_of_laplace_losses(distances):
    """At the ends, at the atoms and between them; and back to epsilon."""
    pair = Composed([LaplaceShift([D]) for D in distances])
    total = math.fsum(distances)
    atoms = [abs(total - 2 * D) for D in distances]
    places = [0.0, 0.3 * total, *atoms, *(total * (1 - gap) for gap in (1e-1, 1e-6, 1e-14))]
    for epsilon in places:
        exact = sums.laplaces_delta(distances, epsilon)
        got = arb(pair.delta(epsilon)[0])
        assert exact * (1 - arb("1e-15")) <= got <= exact * (1 + arb("1e-11")), (epsilon, got, exact)
    for delta in (1e-9, 1e-3, 0.1, 0.8, 1 - 1e-4, 1 - 1e-8):
        epsilon = pair.epsilon(delta)[0]
        assert_solved(lambda e: sums.laplaces_delta(distances, e), epsilon, delta)


def test_many_laplace_distances_beside_a_shift_are_exact():
    few = [0.05, 0.11, 0.2]
    pair = compose([GaussianShift([0.3]), *(LaplaceShift([D]) for D in few)])
    inner = compose([LaplaceShift([D]) for D in few])
    u = np.linspace(-9, 9, 8001)
    weight = np.exp(-u * u / 2) / np.exp(-u * u / 2).sum()
    for epsilon in (0.0, 0.4, 1.5):  # the mean of the profile of the others over the shift's loss
        mean = weight @ inner[np.zeros(u.size, dtype=int)].delta(epsilon - 0.3 * u - 0.045)
        assert pair.delta(epsilon)[0] == pytest.approx(mean, rel=1e-5)
    many = compose([GaussianShift([1.0]), *(LaplaceShift([D]) for D in np.geomspace(0.05, 0.3, 30))])
    split = compose([GaussianShift([0.6]), *many.parts[1:], GaussianShift([0.8])])
    assert many.kind == "exact"
    np.testing.assert_allclose(split.epsilon(1e-6), many.epsilon(1e-6), rtol=1e-9)
    equal = compose([GaussianShift([1.0]), *([LaplaceShift([0.3])] * 30)]).epsilon(1e-6)
    assert many.epsilon(1e-6) < equal


def test_the_slow_roads_agree():
    """The transform in many digits against MATH 1c literally; the residues against the printed Laplace profile."""
    with mp.workdps(40), truth.digits(60):
        for direction in ("without", "with"):
            exact = sums.spectral_delta(coordinates((0.1, 1.0, 2.0, 0.03), direction), 0.5)
            assert abs(float(exact) / float(objective_delta(0.1, 1.0, 2.0, 0.03, 0.5, direction)) - 1) < 1e-13
    assert float(sums.laplaces_delta([0.7], 0.4)) == pytest.approx(-math.expm1(-0.15), rel=1e-14)


def _rows(nu, m2):
    """Return what the kernels take of one person's Gaussian coordinates."""
    return tuple(part[0] for part in LossCoordinates.gaussian([nu], [np.sqrt(m2)]).losses[:4])


def _people(count, seed, laplace):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        k = rng.integers(1, 6)
        nu = np.where(rng.random(k) < 0.3, 0.0, 10 ** rng.uniform(-6, 6, k) * rng.choice([1, 1, -1], k))
        nu = np.where(nu < 0, nu / (1 - nu), nu)
        m2 = (10 ** rng.uniform(-6, 4, k) * (rng.random(k) < 0.8)) ** 2
        lap = 10 ** rng.uniform(-4, 2, laplace)
        delta = 10 ** rng.uniform(-290, 0) if rng.random() < 0.5 else 10 ** rng.uniform(-12, 0)
        times = rng.integers(1, 4, laplace).astype(float)
        if (nu != 0).any() or m2.any() or laplace:
            yield _rows(nu, m2), (lap, times), delta


@pytest.mark.parametrize(("laplace", "count"), [(0, 200), (2, 60)])
def test_the_integral_does_not_depend_on_the_contour(laplace, count):
    compared = 0
    for rows, laps, delta in _people(count, 5, laplace):
        person = Losses(*rows, *laps)
        epsilon = solve_one(delta, person)
        log_delta, rate, error = profile.above(epsilon, person)
        if not -690 < log_delta < 0 or error > 1e-6:
            continue  # at the end of a bounded loss a rounding of epsilon is all there is
        if epsilon > 0:
            rounded = rate * (4e-10 * epsilon + 4e-13)  # what epsilon is raised by
            assert math.log(delta) - 1e-8 - 8 * error - rounded <= log_delta <= math.log(delta)
        top = highest(person.nu)
        x = saddle(top, epsilon, person)
        t, a, _top = place(x, top)
        w = 1 / math.sqrt(sum(slopes(place(x, top), epsilon, person)[3:]) + 1 / t**2 + 1 / (1 + t) ** 2)
        for off in (-0.4, 0.4):
            here = place(x + off * w / (t * a if top > 0 else t), top)
            t, a, _top = here
            base, unit, other, total, _moved = integrate_along(here, epsilon, person)
            assert abs(base + math.log(unit / math.pi * total) - log_delta) <= 2 * (error + other) + 1e-13
            compared += 1
    assert compared > count
