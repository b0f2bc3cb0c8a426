"""Both directions, the attack and the Renyi divergence against plain numerical integration of the densities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.integrate import trapezoid

from perinstance.pairs import GaussianShift, LaplaceShift, PosteriorSamplePair

from .strategies import LEVERAGES, RESIDUALS, batch, examples, scale

# (mu, rho): ordinary people, no residual, large leverage, large residual
PEOPLE = [(0.01, 1.0), (0.3, 0.0), (2.0, 0.7), (1e-4, 30.0), (50.0, 3.0), (0.5, 12.0)]
EPSILONS = [-2.0, -0.3, 0.0, 0.05, 0.4, 1.5]


def normal(mean, variance):
    return lambda w: -((w - mean) ** 2) / (2 * variance) - np.log(2 * np.pi * variance) / 2


def densities(name, *parameters):
    """Return log p and log q on a grid that reaches far enough and is fine enough for both, and the grid."""
    p, q, w = _densities(name, *parameters)
    return p(w), q(w), w


def _densities(name, *parameters):
    if name == "posterior":
        mu, rho = parameters
        p, q = normal(rho, mu), normal(rho / (1 + mu), mu / (1 + mu))
        spread = 14 * np.sqrt(mu)
        return p, q, np.linspace(rho / (1 + mu) - spread, rho + spread, 800_001)
    (D,) = parameters
    grid = np.linspace(-45, 45 + D, 900_001)
    if name == "shift":
        return normal(D, 1.0), normal(0.0, 1.0), grid
    return (lambda w: -np.abs(w - D) - np.log(2)), (lambda w: -np.abs(w) - np.log(2)), grid


CASES = [("posterior", *person) for person in PEOPLE] + [
    (name, D) for name in ("shift", "laplace") for D in (0.05, 1, 6)
]


def pairs_of(case):
    return {"posterior": PosteriorSamplePair, "shift": GaussianShift, "laplace": LaplaceShift}[case[0]](*case[1:])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_answers_are_the_integrals_that_define_them(case):
    log_p, log_q, w = densities(*case)
    pairs, p, q = pairs_of(case), np.exp(log_p), np.exp(log_q)
    for epsilon in EPSILONS:
        without = trapezoid(np.maximum(p - np.exp(epsilon) * q, 0), w)
        with_ = trapezoid(np.maximum(q - np.exp(epsilon) * p, 0), w)
        assert pairs.delta(epsilon, "without").item() == pytest.approx(without, abs=3e-8, rel=1e-6)
        assert pairs.delta(epsilon, "with").item() == pytest.approx(with_, abs=3e-8, rel=1e-6)
        assert pairs.delta(epsilon).item() == pytest.approx(max(without, with_), abs=3e-8, rel=1e-6)
    # the best of all tests: outcomes sorted by likelihood ratio, and added up
    order = np.argsort(log_p - log_q, kind="stable")
    rates, powers = (np.cumsum(one[order]) * (w[1] - w[0]) for one in (p, q))
    for rate in (0.001, 0.01, 0.1, 0.5, 0.9):
        assert pairs.attack_power(rate).item() == pytest.approx(np.interp(rate, rates, powers), abs=2e-4)
    for alpha in (1.0, 1.3, 5.0):
        for direction, (top, base) in {"without": (log_p, log_q), "with": (log_q, log_p)}.items():
            reach = max((alpha - 1) * case[1] / 0.3, alpha * case[-1] * np.sqrt(case[1]) / 6)
            if case[0] == "posterior" and direction == "without" and reach > 1:
                continue  # infinite, or the integrand reaches beyond the grid; test_rounded_up.py has them
            exponent = alpha * top - (alpha - 1) * base
            peak = exponent.max()
            if alpha == 1:
                value = trapezoid(np.exp(top) * (top - base), w)
            else:
                value = (np.log(trapezoid(np.exp(exponent - peak), w)) + peak) / (alpha - 1)
            assert pairs.renyi(alpha, direction).item() == pytest.approx(value, rel=2e-5, abs=1e-9), direction


def test_no_zcdp_for_a_posterior():
    assert PosteriorSamplePair([0.0, 1e-9, 3.0], [1.0, 0.0, 1.0]).zcdp().tolist() == [0.0, np.inf, np.inf]
    mu = 0.25  # orders from (1 + mu)/mu = 5 on diverge
    assert np.isfinite(PosteriorSamplePair(mu, 1.0).renyi(4.999, "without").item())
    assert PosteriorSamplePair(mu, 1.0).renyi(5.0, "without").item() == np.inf
    assert np.isfinite(PosteriorSamplePair(mu, 1.0).renyi(1e9, "with").item())


@given(batch(LEVERAGES, 50), batch(RESIDUALS, 50), batch(scale(1e-12, 1e3, 0.0), 50))
@examples(30)
def test_without_dominates_with(mu, rho, epsilons):
    """P over Q is the larger direction for every epsilon >= 0 (MATH 1b)."""
    pairs = PosteriorSamplePair(mu, rho)
    without, with_ = pairs.delta(epsilons, "without"), pairs.delta(epsilons, "with")
    assert (without >= with_ * (1 - 1e-9) - 1e-300).all()
    # and so Q over P is the larger one below zero
    assert (pairs.delta(-epsilons, "with") >= pairs.delta(-epsilons, "without") * (1 - 1e-9)).all()


def bound(mu, rho, delta, factor):
    """Theorem on one posterior sample, with ``factor log(2/delta)`` in both tail terms; as published, factor is 1."""
    tail = factor * np.log(2 / delta)
    return abs(mu * rho**2 / (1 + mu) - np.log1p(mu)) / 2 + mu * tail / 2 + np.sqrt(mu * tail) * rho


def test_as_published_it_is_below_the_exact_loss():
    """The two cases of MATH section 3, and a large share of ordinary people."""
    exact = PosteriorSamplePair([0.01, 0.1], [1.0, 10.0]).epsilon(1e-6)
    published = np.array([bound(0.01, 1.0, 1e-6, 1), bound(0.1, 10.0, 1e-6, 1)])
    assert exact == pytest.approx([0.4795, 20.02], rel=1e-3)
    assert published == pytest.approx([0.4535, 17.27], rel=1e-3)
    assert (published < exact).all()
    rng = np.random.default_rng(1)
    mu, rho = 10 ** rng.uniform(-5, 0, 2000), 10 ** rng.uniform(-1, 2, 2000)
    assert (bound(mu, rho, 1e-6, 1) < PosteriorSamplePair(mu, rho).epsilon(1e-6)).mean() > 0.3


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3, 0.1])
def test_corrected_it_is_above_the_exact_loss(delta):
    rng = np.random.default_rng(2)
    mu, rho = 10 ** rng.uniform(-10, 4, 20_000), 10 ** rng.uniform(-4, 4, 20_000)
    assert (bound(mu, rho, delta, 2) >= PosteriorSamplePair(mu, rho).epsilon(delta)).all()
