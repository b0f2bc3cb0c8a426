"""Inversion along a slanted line: what its proof rests on, its moments, and a few steps against ball arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from perinstance.pairs import SampledGaussian
from perinstance.pairs.loss_sums.sampled.slanted_line.noise_path import alive, lay_path, line_size, moment
from perinstance.pairs.loss_sums.sampled.slanted_line.panels import COSINE, SINE, TANGENT, missed_at
from perinstance.pairs.loss_sums.sampled.slanted_line.slanted_line import NODES, RULE

from .sampled_pairs_of_steps import two_steps_delta


def _path(u, eta, bend):
    """Zeta and its derivatives at complex u, as printed."""
    t = np.exp(-np.abs(u.real - bend) + 0j)
    back = u.real < bend
    e = np.exp(np.where(back, u - bend, -(u - bend)))
    soft = np.where(back, np.log1p(e), (u - bend) + np.log1p(e))
    share = np.where(back, e / (1 + e), 1 / (1 + e))
    return u + 1j * (eta + soft / 2), 1 + 0.5j * share, 0.5j * share * (1 - share), np.abs(t)


def test_what_holds_in_the_strip():
    """The inequalities from which everything is bounded, at many points."""
    random = np.random.default_rng(5)
    n = 60_000
    eta = random.choice([1.0, 0.4, 0.1, 0.8], n)
    bend = random.choice([0.0, 0.0, 3.0, 8.0, 20.0], n)
    u = random.normal(0, 4, n) + np.where(random.random(n) < 0.3, bend, 0.0) + 0.5j * eta * random.uniform(-1, 1, n)
    u[: n // 4] = u[: n // 4].real + 0.5j * eta[: n // 4]  # the upper edge, which is the nearest to the zero
    zeta, first, second, near = _path(u, eta, bend)
    xi = zeta.real
    ratio = np.exp(np.where(xi < 0, zeta, -zeta))
    size = np.abs(1 + ratio)
    assert (size >= np.where(xi < 0, 0.9, 0.6)).all()
    S = np.where(xi < 0, np.log1p(ratio), zeta + np.log1p(ratio))
    slope = np.where(xi < 0, ratio / (1 + ratio), 1 / (1 + ratio))
    assert (S.imag >= 0).all()
    assert (np.abs(slope) <= 1.7 * np.minimum(1, np.exp(xi))).all()
    assert (np.abs(slope * (1 - slope)) <= 2.8 * np.exp(-np.abs(xi))).all()
    assert (np.abs(xi - u.real) <= 0.25).all() and (zeta.imag >= 0.5 * eta).all()
    assert (np.abs(first) <= 1.57).all() and (np.abs(first) >= 0.93).all()
    assert (np.abs(second) <= 0.5 * near).all()


def test_moments_fall_along_the_line():
    """``log |1 + e^zeta| <= TANGENT arg(1 + e^zeta)`` on the path of height 1 that bends at 0, in ball arithmetic."""
    from flint import acb, arb

    width = arb("0.02")
    for k in range(-1500, 2000):
        u = arb(k) / 50 + arb(0, width / 2)
        zeta = acb(u, 1 + (1 + u.exp()).log() / 2)
        S = (1 + zeta.exp()).log() if k < 50 else zeta + (1 + (-zeta).exp()).log()
        assert TANGENT * S.imag > S.real, k
    # left of it 1 + e^zeta is 1 + t e^i up to t^2; right of it S is zeta, and 2.5 (1 + u/2) exceeds u
    assert TANGENT * np.sin(1.0) > np.cos(1.0) + 0.5


def test_the_rule():
    """Gauss's rule is exact for polynomials up to twice its nodes less one."""
    for power in range(0, 2 * NODES, 2):
        assert RULE[1] @ RULE[0] ** power == pytest.approx(2 / (power + 1), rel=2e-15)
    assert pytest.approx(1.0) == COSINE**2 + SINE**2


@pytest.mark.parametrize(
    ("q", "m", "p"),
    [(0.1, 1.0, 3.0 + 2.0j), (1e-4, 0.5, 20.0 + 9.0j), (0.3, 2.0, -4.0 + 10.0j), (1e-3, 3.0, 4.0 + 10.0j)],
)
@pytest.mark.parametrize(("eta", "bend"), [(1.0, 0.0), (0.4, 3.0), (1.0, np.inf)])
def test_moments(q, m, p, eta, bend):
    """``E[(1 + e^zeta)^p]`` within its error, on every path, by ball arithmetic along the real line."""
    from flint import acb, arb, ctx

    ctx.prec = 400
    Q, M = arb(q), arb(m)
    mu, order = (Q / (1 - Q)).log() - M * M / 2, acb(p.real, p.imag)

    def density(z, analytic):
        return ((1 + z.exp()).log(analytic=analytic) * order - (z - mu) ** 2 / (2 * M * M)).exp()

    ends = [mu - 45 * M + k * (90 * M + M * M * 50) / 8 for k in range(9)]
    truth = sum((acb.integral(density, a, b) for a, b in zip(ends, ends[1:], strict=False)), acb(0))
    truth = complex(truth / (2 * arb.pi()).sqrt() / M)
    ctx.prec = 53
    path = lay_path(q, m, eta, bend, 20.0 + 1.4 * m * abs(p), 0)
    corners = np.array([[p.real, p.imag]] * 2)
    live = alive(path, p, corners)
    scale, missed = np.exp(live.scale), missed_at(path, p.real, p.imag)
    for excess in (False, True):
        if excess and live.scale != 0.0:
            continue
        value, lost = moment(path, p, live, excess)
        error = lost * scale + np.exp(missed) + np.exp(live.left)
        error += np.exp(missed_at(path, 0.0, 0.0)) + 3e-16 if excess else 0.0
        assert abs(value * scale + excess - truth) <= error + 1e-15 * abs(truth)
    assert abs(truth) <= np.exp(line_size(path, 1, p.real, p.imag)[0])


CASES = [
    ([(0.05, 1.2), (0.05, 1.2)], 3.0, "with"),
    ([(0.12, 3.0), (0.12, 3.0)], 0.1, "without"),
    ([(0.003, 2.3), (0.02, 0.7)], 5.0, "with"),
    ([(1e-4, 4.0), (1e-3, 2.0)], 5e-4, "without"),
]


@pytest.mark.parametrize(("steps", "epsilon", "direction"), CASES)
def test_two_steps_are_within_a_billionth(steps, epsilon, direction):
    """At the delta of an epsilon, which ball arithmetic knows: that epsilon, and nothing below; and delta there."""
    from flint import ctx

    ball = two_steps_delta(*steps, epsilon, direction, 300)
    ctx.prec = 53
    delta = float(ball.mid())
    rate, distance = ([step[i] for step in steps] for i in (0, 1))
    pairs = SampledGaussian([rate], [distance], 1)
    (found,) = pairs.epsilon(delta, direction)
    assert epsilon * (1 - 1e-12) <= found <= epsilon * (1 + 1e-9)
    (again,) = pairs.delta(epsilon, direction)
    assert delta * (1 - 1e-12) <= again <= delta * (1 + 1e-8)


def test_few_steps_cost_more_than_fewer():
    """Between one step, which has a closed form, and more of them; monotone in delta too."""
    for direction in ("with", "without"):
        losses = [SampledGaussian(0.02, [1.5], k).epsilon(1e-5, direction)[0] for k in (1, 2, 3, 5)]
        assert (np.diff(losses) > 0).all()
        pairs = SampledGaussian(0.02, [1.5], 3)
        assert pairs.epsilon(1e-4, direction)[0] < losses[2] < pairs.epsilon(1e-6, direction)[0]


def test_more_than_a_few_people_are_answered_by_straight_lines():
    """Asked together with many different ones the bound is the looser one, never a smaller one."""
    distance = np.linspace(0.8, 1.6, 40)
    together = SampledGaussian(0.01, distance, 3).epsilon(1e-6, "with")
    alone = SampledGaussian(0.01, distance[:2], 3).epsilon(1e-6, "with")
    assert (alone <= together[:2]).all() and (together[:2] <= alone * 1.01).all()
