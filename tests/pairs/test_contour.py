"""The inversion's own checks: the integral may not depend on where the contour lies, within the error it owns up to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perinstance.pairs.sums import profile
from perinstance.pairs.sums.contour import integrate_along
from perinstance.pairs.sums.coordinates import LossCoordinates
from perinstance.pairs.sums.saddlepoint import (
    LinePlace,
    Losses,
    highest,
    middle,
    place,
    saddle,
    slopes,
)
from perinstance.pairs.sums.solve import solve_one


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


def test_left_of_the_pole_the_contour_gives_the_complement():
    rows = _rows(np.array([0.3, -0.2, 0.0]), np.array([4.0, 9.0, 25.0]))
    for laps in ((np.empty(0), np.empty(0)), (np.array([1.5, 0.2]), np.array([1.0, 3.0]))):
        person = Losses(*rows, *laps)
        for epsilon in (0.5, 5.0, 15.0, 25.0):
            t = middle(epsilon, person)
            assert -1 < t < 0
            base, w, error, total, _moved = integrate_along(LinePlace(t, 1.0, 0.0), epsilon, person)
            rest = math.exp(base) * w / math.pi * total
            x = saddle(0.3, epsilon, person)
            base, w, other, total, _moved = integrate_along(place(x, 0.3), epsilon, person)
            assert abs(math.exp(base) * w / math.pi * total + rest - 1) < 1e-11 + error + other


def test_both_sides_add_up_to_one_among_atoms():
    """A faint Gaussian or none beside Laplace losses: everything is multiplied out, left of 0 with changing signs."""
    rng = np.random.default_rng(4)
    compared = 0
    for _ in range(60):
        rows = _rows(np.array([0.0, rng.choice([0.0, 1e-3, -1e-3])]), 10 ** rng.uniform(-8, -4, 2) * rng.integers(0, 2))
        laps = 10 ** rng.uniform(-1, 1, 3), rng.integers(1, 3, 3).astype(float)
        epsilon = rng.uniform(0, 0.9) * np.sum(laps[0] * laps[1])
        above = profile.above(epsilon, Losses(*rows, *laps))
        below = profile.below(epsilon, Losses(*rows, *laps))
        assert above[2] < 1e-10
        if below[2] < 1e-6:
            assert abs(math.exp(above[0]) + math.exp(below[0]) - 1) < 1e-11 + above[2] + below[2]
            compared += 1
    assert compared > 40
