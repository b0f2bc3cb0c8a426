"""Every number of a pair is rounded up, and by little: the printed definitions in ball arithmetic, over wide ranges.

delta, Renyi divergences and the power of a test are all larger where more is lost, so all are rounded up. Divergences
near the smallest floats, and deltas below 1e-300, only have to be positive and not below.
"""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from perinstance.pairs import Composed, GaussianShift, GeneralGaussian, LaplaceShift, PosteriorSamplePair, StudentShift
from perinstance.pairs.bounded import Dominated

from . import truth

N = 400


def powers(rng, low, high, n=N):
    return 10 ** rng.uniform(low, high, n)


def mixed(rng, *choices):
    """Take each entry from one of several arrays."""
    return np.choose(rng.integers(0, len(choices), len(choices[0])), choices)


def deltas(rng):
    return mixed(rng, powers(rng, -322, -1e-3), powers(rng, -20, -1e-3), 1 - powers(rng, -15, -0.3))


def rates(rng):
    return mixed(rng, powers(rng, -300, -0.3), powers(rng, -12, -0.3), 1 - powers(rng, -15, -0.3))


def around(rng, epsilons):
    """At the epsilon of some delta, between it and zero, at zero, and on the other side."""
    shares = mixed(rng, np.ones(N), rng.uniform(0, 1, N), np.zeros(N), -rng.uniform(0, 1, N))
    return np.where(np.isfinite(epsilons), epsilons, 1.0) * shares


def check(got, truths, slack, floor=1e-300):
    """Nobody below; nobody further above than their slack, unless the truth is next to underflow."""
    for i, (value, exact) in enumerate(zip(got.tolist(), truths, strict=True)):
        with truth.digits(60):
            assert arb(value) >= exact.lower(), (i, value, exact)
            assert exact < floor or arb(value) <= exact.upper() * (1 + slack), (i, value, exact)


def enclosed(function, *columns):
    """One narrow enclosure for each person."""
    return [truth.enclosed(function, *row, accuracy=1e-19) for row in zip(*(c.tolist() for c in columns), strict=True)]


@pytest.mark.parametrize("seed", range(3))
def test_delta_of_a_shift(seed):
    rng = np.random.default_rng(seed)
    D = mixed(rng, powers(rng, -14, 4), powers(rng, -3, 2), powers(rng, -119, -14))
    epsilons = around(rng, GaussianShift(D).epsilon(deltas(rng)))
    exact = enclosed(truth.shift_delta, D, epsilons)
    got = GaussianShift(D).delta(epsilons)
    check(got, exact, 2e-11)
    usual = got > 1e-30
    check(got[usual], [e for e, u in zip(exact, usual, strict=True) if u], 2e-12)


@pytest.mark.parametrize(("direction", "slack"), [("without", 2e-11), ("with", 1e-9)])
@pytest.mark.parametrize("seed", range(3))
def test_delta_of_a_posterior(seed, direction, slack):
    rng = np.random.default_rng(seed)
    mu = mixed(rng, powers(rng, -16, 6), powers(rng, -6, 1), powers(rng, 6, 12))
    rho = mixed(rng, powers(rng, -8, 6), powers(rng, -3, 3), np.sqrt(mu) * powers(rng, -12, 0.7))
    epsilons = around(rng, PosteriorSamplePair(mu, rho).epsilon(deltas(rng), direction))
    flipped = np.full(N, direction == "with")
    exact = enclosed(truth.posterior_delta, mu, rho, epsilons, flipped)
    check(PosteriorSamplePair(mu, rho).delta(epsilons, direction), exact, slack)


def test_delta_of_a_posterior_of_any_size():
    """Labelled ``upper`` beyond 1e12: not below there either."""
    rng = np.random.default_rng(5)
    mu, size = powers(rng, -300, 60), powers(rng, -3, 3)
    rho = mixed(rng, np.sqrt(mu) * powers(rng, -3, 1), powers(rng, -30, 30))
    epsilons = np.minimum(size * (mu + rho), 1e60)
    exact = enclosed(truth.posterior_delta, mu, rho, epsilons, np.zeros(N, dtype=bool))
    check(PosteriorSamplePair(mu, rho).delta(epsilons, "without"), exact, np.inf)


def test_delta_of_sums():
    """Two coordinates that make one shift, and a posterior sample beside nothing."""
    rng = np.random.default_rng(6)
    D, angle = mixed(rng, powers(rng, -6, 3), powers(rng, -2, 1)), rng.uniform(0, 1.5, N)
    m = np.stack([D * np.cos(angle), D * np.sin(angle)], axis=1)

    def of_both(a, b, epsilon):
        return truth.shift_delta((arb(a) ** 2 + arb(b) ** 2).sqrt(), epsilon)

    epsilons = around(rng, GaussianShift(D).epsilon(np.maximum(deltas(rng), 1e-300)))
    check(GeneralGaussian(np.zeros((N, 2)), m).delta(epsilons), enclosed(of_both, *m.T, epsilons), 1e-11)
    far = np.full(N, 1e4) * D  # where floats have underflown
    assert (GeneralGaussian(np.zeros((N, 2)), m).delta(far) > 0).all() and (GaussianShift(D).delta(far) > 0).all()


def laplace_delta(D, epsilon):
    D, epsilon = arb(D), arb(epsilon)
    if epsilon >= D:
        return arb(0)
    return 1 - epsilon.exp() if epsilon < -D else 1 - ((epsilon - D) / 2).exp()


def laplace_power(D, rate):
    rate, fade = arb(rate), (-arb(D)).exp()
    if rate > arb(0.5):
        return 1 - fade * (1 - rate)
    return 1 - fade / (4 * rate) if 2 * rate > fade else rate / fade


def laplace_renyi(D, alpha):
    D, alpha = arb(D), arb(alpha)
    if alpha == 1:
        return D - 1 + (-D).exp()
    ends = alpha * ((alpha - 1) * D).exp() + (alpha - 1) * (-alpha * D).exp()
    return (ends / (2 * alpha - 1)).log() / (alpha - 1)


def test_laplace():
    rng = np.random.default_rng(7)
    D = mixed(rng, powers(rng, -14, 3), powers(rng, -3, 1), powers(rng, -322, -14))
    epsilons = D * mixed(rng, rng.uniform(-1.2, 1, N), 1 - powers(rng, -15, 0))
    check(LaplaceShift(D).delta(epsilons), enclosed(laplace_delta, D, epsilons), 1e-14)
    rate = mixed(rng, rates(rng), np.exp(-np.minimum(D, 700)) * rng.uniform(0, 1, N))
    check(LaplaceShift(D).attack_power(rate), enclosed(laplace_power, D, rate), 1e-14)
    longer = np.maximum(D, 1e-110)  # the coordinates of smaller ones are raised
    orders = mixed(rng, np.ones(N), 1 + powers(rng, -15, 9), 1 + powers(rng, -3, 2))
    for pairs in (LaplaceShift(longer), Composed([LaplaceShift(longer), GaussianShift(np.zeros(N))])):
        check(pairs.renyi(orders), enclosed(laplace_renyi, longer, orders), 2e-14)
        check(pairs.zcdp(), enclosed(laplace_renyi, longer, np.ones(N)), 2e-14)


def shift_renyi(D, alpha):
    return arb(alpha) * arb(D) ** 2 / 2


def test_renyi_of_a_shift():
    rng = np.random.default_rng(8)
    D = mixed(rng, powers(rng, -140, 140), powers(rng, -3, 3), rng.integers(1, 100, N).astype(float))
    orders = mixed(rng, np.ones(N), 1 + powers(rng, -15, 9), rng.integers(1, 100, N).astype(float))
    check(GaussianShift(D).renyi(orders), enclosed(shift_renyi, D, orders), 2e-15)
    check(GaussianShift(D).zcdp(), enclosed(shift_renyi, D, np.ones(N)), 2e-15)


def posterior_renyi(mu, rho, alpha, with_over_without):
    mu, rho, alpha = arb(mu), arb(rho), arb(alpha)
    a, q2, log = alpha - 1, rho**2 / (1 + mu), (1 + mu).log()
    if with_over_without:
        logs = (log - mu / (1 + mu)) / 2 if a == 0 else (alpha * log - (1 + alpha * mu).log()) / (2 * a)
        return alpha * mu * q2 / (2 * (1 + alpha * mu)) + logs
    if not a * mu < 1:
        return arb("inf")
    logs = mu / 2 if a == 0 else -(1 - a * mu).log() / (2 * a)
    return alpha * mu * q2 / (2 * (1 - a * mu)) + logs - log / 2


@pytest.mark.parametrize("direction", ["without", "with"])
def test_renyi_of_a_posterior(direction):
    """Also where P over Q is next to infinite, and orders next to one of tiny leverages."""
    rng = np.random.default_rng(9)
    mu = mixed(rng, powers(rng, -16, 6), powers(rng, -6, 1), powers(rng, -99, -16))  # smaller ones are raised
    rho = mixed(rng, powers(rng, -8, 6), powers(rng, -3, 3), np.zeros(N))
    next_to_infinite = np.maximum(1 + (1 - powers(rng, -15, 0)) / mu, 1)
    orders = mixed(rng, np.ones(N), 1 + powers(rng, -15, 3), next_to_infinite if direction == "without" else np.ones(N))
    rows = zip(mu.tolist(), rho.tolist(), orders.tolist(), strict=True)
    with truth.digits(400):
        finite = [posterior_renyi(*row, direction == "with").is_finite() for row in rows]
    mu, rho, orders = mu[finite], rho[finite], orders[finite]
    assert len(mu) > N / 2
    exact = enclosed(posterior_renyi, mu, rho, orders, np.full(len(mu), direction == "with"))
    check(PosteriorSamplePair(mu, rho).renyi(orders, direction), exact, 3e-14)


def quantile(rate):
    """``Phi^-1(rate)`` by Newton from a float."""
    from scipy.special import ndtri

    z = arb(float(ndtri(rate)))
    for _ in range(6):
        density = (-(z**2) / 2).exp() / (2 * arb.pi()).sqrt()
        z = (z - ((truth.tail(-z) if z < 0 else 1 - truth.tail(z)) - arb(rate)) / density).mid()
    return z


def test_power_against_a_shift():
    rng = np.random.default_rng(10)
    D, rate = mixed(rng, powers(rng, -14, 2), powers(rng, -2, 1)), rates(rng)
    with truth.digits(400):
        exact = [truth.tail(-(quantile(r) + arb(d))) for d, r in zip(D.tolist(), rate.tolist(), strict=True)]
    check(GaussianShift(D).attack_power(rate), exact, 1e-11)
    check(GeneralGaussian(np.zeros((N, 1)), D[:, None]).attack_power(rate), exact, 1e-8)
    check(Dominated(D, np.zeros(N), np.zeros(N)).attack_power(rate), exact, np.inf)
    assert (GaussianShift(D).attack_power(5e-324) >= GaussianShift(D).attack_power(0.0)).all()


def test_power_against_a_posterior():
    """A threshold gives a rate and a power; at the rate, rounded down, the power is at most that, and hardly less."""
    rng = np.random.default_rng(11)
    mu = mixed(rng, powers(rng, -16, 6), powers(rng, -6, 1))
    rho = np.minimum(mixed(rng, powers(rng, -8, 6), powers(rng, -3, 3)), 50 * np.sqrt(mu))
    for m, r, share in zip(mu.tolist(), rho.tolist(), rng.uniform(0, 1, N).tolist(), strict=True):
        widths = [10.0 ** (-100 * share), abs(r / m**0.5 - 37 + 42 * share)]
        for width in widths:
            with truth.digits(900):
                rate, power = truth.posterior_masses(m, r, width * m**0.5)
                least = float(rate)
                if not 1e-305 < least < 1:
                    continue
                # the power is concave in the rate: at a float next to it, it is next to this share of itself
                known = power * (arb(least) / rate).min(arb(1))
                got = PosteriorSamplePair(m, r).attack_power(least).item()
                assert arb(got) >= known.lower() and got <= (power * (1 + arb("1e-6"))).upper(), (m, r, width)


def student_delta(D, nu, epsilon):
    """In one dimension: distribution functions by incomplete beta functions, at the ends of the interval."""
    D, nu, epsilon = arb(D), arb(nu), arb(epsilon)
    b, c = D / nu.sqrt(), (2 * epsilon / (nu + 1)).exp()
    root = (b * b - (c - 1) * (c - 1 - b * b)).sqrt()
    low, high = (-b - root) / (c - 1), (-b + root) / (c - 1)

    def below(x):
        half = (1 / (1 + x * x)).beta_lower(nu / 2, arb(1) / 2, regularized=True) / 2
        return half if x < 0 else 1 - half

    if epsilon > 0:
        return below(high) - below(low) - epsilon.exp() * (below(high - b) - below(low - b))
    return 1 - (below(low) - below(high)) - epsilon.exp() * (1 - (below(low - b) - below(high - b)))


def test_student():
    rng = np.random.default_rng(12)
    D, nu = powers(rng, -6, 3), rng.choice([0.5, 1.0, 2.0, 3.0, 5.0, 30.0], N)
    pairs = StudentShift(D, nu, 1.0)
    epsilons = pairs.epsilon(0.0) * mixed(rng, rng.uniform(-1, 1, N), 1 - powers(rng, -6, -1))
    check(pairs.delta(epsilons), enclosed(student_delta, D, nu, epsilons), 1e-8)  # next to the largest loss; else 1e-12


def student_renyi(D, nu, alpha):
    """The integral of the printed densities, in balls; x is the tangent of an angle."""
    from flint import acb

    D, nu, alpha = arb(D), arb(nu), arb(alpha)
    b, k, t = D / nu.sqrt(), (nu + 1) / 2, alpha - 1
    scale = ((nu + 1) / 2).gamma() / (arb.pi().sqrt() * (nu / 2).gamma())

    def moment(angle, _analytic):
        sine, cosine = angle.sin(), angle.cos()
        loss = (1 + b * cosine * (b * cosine - 2 * sine)).log() * k
        weight = cosine ** (nu - 1) * scale
        return weight * (loss * t).exp() if t > 0 else weight * loss

    half = arb.pi() / 2
    total = acb.integral(moment, -half, half, rel_tol=arb(2) ** -90, abs_tol=arb(2) ** -200).real
    return total.log() / t if t > 0 else total


def test_renyi_of_student():
    rng = np.random.default_rng(13)
    n = 40
    D, nu = powers(rng, -3, 2, n), rng.choice([1.0, 3.0, 5.0], n)
    orders = np.where(rng.random(n) < 0.25, 1.0, 1 + powers(rng, -4, 2, n))
    rows = zip(D.tolist(), nu.tolist(), orders.tolist(), strict=True)
    with truth.digits(60):
        exact = [student_renyi(*row) for row in rows]
    assert all(e.rad() < 1e-15 * e for e in exact)
    got = StudentShift(D, nu, 1.0).renyi(orders)
    check(got, exact, 1e-3)  # of means far apart the rule sees little, which is charged
    near = np.sqrt(nu) > D
    check(got[near], [e for e, u in zip(exact, near, strict=True) if u], 1e-11)


def test_known_from_above_only():
    """The formulas of the bound itself, exactly: ``GaussianShift(D).delta(epsilon - offset) + tail``."""
    rng = np.random.default_rng(14)
    D, offset, tail = powers(rng, -3, 1), powers(rng, -6, 0), powers(rng, -12, -2)
    epsilons = np.abs(around(rng, GaussianShift(D).epsilon(np.maximum(deltas(rng), 1e-20)))) + offset

    def bound(D, offset, tail, epsilon):
        return (truth.shift_delta(D, arb(epsilon) - arb(offset)) + arb(tail)).min(arb(1))

    exact = enclosed(bound, D, offset, tail, epsilons)
    check(Dominated(D, offset, tail).delta(epsilons, "with"), exact, 1e-11)
    check(Composed([Dominated(D, offset, tail)]).delta(epsilons, "with"), exact, 1e-11)
