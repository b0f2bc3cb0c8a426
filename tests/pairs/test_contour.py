"""The inversion's own checks: the integral may not depend on where the contour lies, within the error it owns up to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perinstance.pairs import hockey
from perinstance.pairs.contour import NODES, contour
from perinstance.pairs.saddlepoint import divergence, first_guess, highest, middle, place, saddle, slopes, variance


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
            yield nu, 1 + nu, m2, lap, times, delta


@pytest.mark.parametrize(("laplace", "count"), [(0, 600), (2, 150)])
def test_the_integral_does_not_depend_on_the_contour(laplace, count):
    where, weight = np.empty(NODES, complex), np.empty(NODES, complex)
    compared = 0
    for nu, v, m2, lap, times, delta in _people(count, 5, laplace):
        person = (nu, v, m2, lap, times)
        epsilon = hockey.solve(delta, *person, 4096, where, weight)
        log_delta, _rate, error = hockey._above(epsilon, *person, 4096, where, weight)[:3]
        if not -690 < log_delta < 0 or error > 1e-6:
            continue  # at the end of a bounded loss a rounding of epsilon is all there is
        if epsilon > 0:
            assert math.log(delta) - 1e-8 - 8 * error <= log_delta <= math.log(delta)
        top, s2 = highest(nu), variance(*person)
        B = divergence(*person) - epsilon
        x = saddle(B, first_guess(B, s2, top), top, *person)
        t, a = place(x, top)
        w = 1 / math.sqrt(slopes(t, a, top, *person)[1] + 1 / t**2 + 1 / (1 + t) ** 2)
        for off in (-0.4, 0.4):
            t, a = place(x + off * w / (t * a if top > 0 else t), top)
            kl = divergence(nu, v, m2, lap[:0], times[:0])
            base, unit, _n, other, total, _m = contour(t, a, top, epsilon, kl, *person, 4096, where, weight)
            assert abs(base + math.log(unit / math.pi * total) - log_delta) <= 2 * (error + other) + 1e-13
            compared += 1
    assert compared > count


def test_left_of_the_pole_the_contour_gives_the_complement():
    where, weight = np.empty(NODES, complex), np.empty(NODES, complex)
    none = np.empty(0)
    nu, m2 = np.array([0.3, -0.2, 0.0]), np.array([4.0, 9.0, 25.0])
    person = (nu, 1 + nu, m2, none, none)
    kl = divergence(*person)
    for epsilon in (0.5, 5.0, 15.0, 25.0):
        t = middle(kl - epsilon, *person)
        assert -1 < t < 0
        base, w, _n, error, total, _m = contour(t, 1.0, 0.0, epsilon, kl, *person, 1, where, weight)
        rest = math.exp(base) * w / math.pi * total
        x = saddle(kl - epsilon, first_guess(kl - epsilon, variance(*person), 0.3), 0.3, *person)
        base, w, _n, other, total, _m = contour(*place(x, 0.3), 0.3, epsilon, kl, *person, 1, where, weight)
        assert abs(math.exp(base) * w / math.pi * total + rest - 1) < 1e-11 + error + other
