"""The steps of the proof that a corner stands for everybody below it (docs/mechanisms/adaops.md), one by one."""

from __future__ import annotations

import mpmath as mp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from perinstance.pairs import PosteriorSamplePair
from perinstance.releases.promises.promise import LARGEST_LEVERAGE, Promise

from .slow_roads import posterior_delta

mp.mp.dps = 40
GOLDEN = (1 + np.sqrt(5)) / 2
leverages = st.floats(-9, 0.48).map(lambda power: float(np.exp(power)))
residuals = st.floats(-4, 3).map(lambda power: float(np.exp(power)))


class Pair:
    """P, Q, L and the letters of the proof, at 40 digits."""

    def __init__(self, mu, rho):
        self.mu, self.rho = mp.mpf(mu), mp.mpf(rho)
        self.b = mp.log(1 + self.mu) + self.rho**2 / (1 + self.mu)
        self.p = self.rho, mp.sqrt(self.mu)
        self.q = self.rho / (1 + self.mu), mp.sqrt(self.mu / (1 + self.mu))

    def alpha(self, t):
        return (mp.sqrt(self.b + t) - self.q[0]) / self.q[1]

    def beta(self, t):
        return (self.rho - mp.sqrt(self.b - t)) / self.p[1]

    def psi(self, t):
        return self.alpha(t) ** 2 - self.beta(t) ** 2 + mp.log((self.b + t) / ((self.b - t) * (1 + self.mu)))

    def f(self, t):
        """``Q(w^2 > b + t) - P(w^2 < b - t)``."""
        high, (m, s) = mp.sqrt(self.b + t), self.q
        above = mp.ncdf((m - high) / s) + mp.ncdf((-high - m) / s)
        if t >= self.b:
            return above
        low, (m, s) = mp.sqrt(self.b - t), self.p
        return above - (mp.ncdf((low - m) / s) - mp.ncdf((-low - m) / s))

    def delta(self, epsilon):
        """P over Q."""
        c = mp.sqrt(self.b + 2 * epsilon)
        return sum(
            sign * (mp.ncdf((m - c) / s) + mp.ncdf((-c - m) / s))
            for sign, (m, s) in ((1, self.p), (-mp.exp(epsilon), self.q))
        )


@given(leverages, residuals, st.floats(0, 3))
@settings(max_examples=40)
def test_step_one_the_derivatives(mu, rho, epsilon):
    pair, h = Pair(mu, rho), mp.mpf(10) ** -12
    c = mp.sqrt(pair.b + 2 * epsilon)
    plus, minus = (mp.npdf(sign * c, pair.rho, pair.p[1]) for sign in (1, -1))
    by_rho = mp.mpf(mu) / (1 + mp.mpf(mu)) * (plus - minus)
    by_mu = (c * (1 + pair.mu) * (plus + minus) - pair.rho * pair.mu * (plus - minus)) / (2 * (1 + pair.mu) ** 2)
    there = pair.delta(epsilon)
    size = abs(by_rho) + abs(by_mu) + h
    assert abs((Pair(mu, pair.rho + h * rho).delta(epsilon) - there) / (h * rho) - by_rho) < 1e-5 * size
    assert abs((Pair(pair.mu + h * mu, rho).delta(epsilon) - there) / (h * mu) - by_mu) < 1e-5 * size
    assert by_rho >= 0
    assert by_mu >= 0 and mu < GOLDEN


@given(st.floats(-9, 3).map(np.exp), residuals)
@settings(max_examples=25)
def test_step_two_one_change_of_sign(mu, rho):
    pair = Pair(mu, rho)
    t0, b = pair.b * pair.mu / (2 + pair.mu), pair.b
    grid = [b * mp.mpf(k) / 200 for k in range(200)]
    gaps = [pair.beta(t) - pair.alpha(t) for t in grid]
    assert gaps[0] < 0 and all(pair.alpha(t) + pair.beta(t) > 0 for t in grid)
    before = [t for t, gap in zip(grid, gaps, strict=True) if gap < 0]
    assert before == grid[: len(before)]  # once beta is above alpha it stays there
    assert all(pair.psi(t) >= -(mp.mpf(10) ** -30) for t in before)
    slopes = [mp.diff(pair.psi, t) for t in (t0 / 7, t0 / 2, t0)]
    assert all(slope > 0 for slope in slopes)
    values = [pair.f(t) for t in [*grid, b, 1.5 * b]]
    rising = values[: len(before)]
    assert all(one <= other for one, other in zip(rising, rising[1:], strict=False))
    assert all(value >= 0 for value in values[len(before) :])


@given(leverages, residuals, st.floats(0, 1), st.floats(0, 1), st.floats(-3, 3))
def test_the_theorem(mu, rho, part, other, epsilon):
    for direction in ("without", "with"):
        small = posterior_delta(mu * part + 1e-12, rho * other, epsilon, direction)
        assert small <= PosteriorSamplePair(mu, rho).delta(epsilon)[0] * (1 + 1e-9) + 1e-14


def test_beyond_the_proof_nothing_is_promised():
    assert LARGEST_LEVERAGE < GOLDEN
    assert Promise(0.1, (LARGEST_LEVERAGE + 0.01,), (0.5,)).delta(5.0) == 1.0
    assert Promise(0.1, (LARGEST_LEVERAGE + 0.01,), (0.5,)).epsilon(1e-6) == np.inf
    assert Promise(0.1, (0.3,), (0.5,)).epsilon(1e-6) < 20
