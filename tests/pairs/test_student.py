"""Student noise against quadratures of the printed densities, in mpmath and in scipy, and against its limits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, special, stats

from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift, StudentShift


def density(nu):
    scale = mp.gamma((nu + 1) / 2) / (mp.sqrt(nu * mp.pi) * mp.gamma(nu / 2))
    return lambda x: scale * (1 + x * x / nu) ** (-(nu + 1) / 2)


def one_dimensional(D, nu, epsilon):
    """``int (p - e^epsilon q)_+`` in 30 digits: the densities are printed, the ends of the interval are found."""
    with mp.workdps(30):
        D, nu, epsilon = mp.mpf(D), mp.mpf(nu), mp.mpf(epsilon)
        f, c = density(nu), mp.exp(2 * epsilon / (nu + 1))
        # nu + (x - D)^2 > c (nu + x^2) between the roots
        middle, root = -D / (c - 1), mp.sqrt(D * D * c / (c - 1) ** 2 - nu)
        ends = [middle - root, *(x for x in (-20, -5, -1, 0) if middle - root < x < middle + root), middle + root]
        return mp.quad(lambda x: f(x) - mp.exp(epsilon) * f(x - D), ends)


def ball(low, high, nu, d):
    """The probability of a ball that meets the axis at low and high: ``|y|^2`` given the first coordinate is a beta."""

    def slice_(s):
        u = max((high - s) * (s - low), 0.0) / (nu + s * s)
        return stats.t.pdf(s, nu) * special.betainc((d - 1) / 2, (nu + 1) / 2, u / (1 + u))

    ends = np.unique(np.clip([low, -30, -10, -5, -2, -1, 0, 1, 2, 5, 10, high], low, high))
    parts = zip(ends[:-1], ends[1:], strict=True)
    return sum(integrate.quad(slice_, a, b, epsabs=1e-14, epsrel=1e-12, limit=400)[0] for a, b in parts)


def several_dimensions(D, nu, d, epsilon):
    c = np.exp(2 * epsilon / (nu + d))
    middle, root = -D / (c - 1), np.sqrt(D * D * c / (c - 1) ** 2 - nu)
    low, high = middle - root, middle + root
    return ball(low, high, nu, d) - np.exp(epsilon) * ball(low - D, high - D, nu, d)


@pytest.mark.parametrize(("D", "nu"), [(1.0, 5.0), (0.02, 1.0), (1e-5, 3.0), (4.0, 2.5), (30.0, 1.0), (2.0, 40.0)])
def test_one_dimension_against_the_printed_densities(D, nu):
    pairs = StudentShift([D], nu, 1)
    top = float(pairs.epsilon(0.0)[0])
    for share in (0.01, 0.3, 0.8, 0.99):
        truth = one_dimensional(D, nu, share * top)
        got = pairs.delta(share * top)[0]
        assert truth <= got * (1 + mp.mpf("1e-15")) and got <= truth * (1 + mp.mpf("2e-12"))
        epsilon = pairs.epsilon(float(truth))[0]
        assert one_dimensional(D, nu, epsilon) <= float(truth)
        assert one_dimensional(D, nu, epsilon * (1 - 1e-9)) > float(truth)


@pytest.mark.parametrize(
    ("D", "nu", "d"), [(1.0, 5.0, 3), (0.3, 2.5, 2), (4.0, 8.0, 10), (0.5, 0.5, 2), (0.02, 3.0, 5), (1.0, 1.0, 20)]
)
def test_several_dimensions_by_slices_of_the_ball(D, nu, d):
    pairs = StudentShift([D], nu, d)
    top = float(pairs.epsilon(0.0)[0])
    for share in (0.05, 0.4, 0.8):
        truth = several_dimensions(D, nu, d, share * top)
        assert pairs.delta(share * top)[0] == pytest.approx(truth, rel=1e-12, abs=1e-13)
    assert pairs.tv()[0] == pytest.approx(2 * stats.t.cdf(D / 2, nu) - 1, rel=1e-12)


def test_epsilon_passes_its_own_delta_and_is_close():
    rng = np.random.default_rng(0)
    D, nu, d = 10 ** rng.uniform(-4, 1, 20), 10 ** rng.uniform(-0.3, 1, 20), rng.integers(1, 6, 20).astype(float)
    pairs = StudentShift(D, nu, d)
    top = pairs.epsilon(0.0)
    np.testing.assert_allclose(top, (nu + d) * np.arcsinh(D / (2 * np.sqrt(nu))), rtol=1e-14)
    assert (pairs.delta(top) == 0).all()
    for delta in (1e-12, 1e-6, 1e-2):
        epsilon = pairs.epsilon(delta)
        assert ((epsilon <= top) & (pairs.delta(epsilon) <= delta)).all()
        less = epsilon * (1 - 1e-9)
        assert (pairs.delta(less)[epsilon > 0] > delta).all()


def test_renyi_against_the_printed_densities():
    pairs = StudentShift([0.5, 2.0, 1e-3], [3.0, 1.0, 5.0], 1)
    with mp.workdps(25):
        for i, (D, nu) in enumerate([(0.5, 3.0), (2.0, 1.0), (1e-3, 5.0)]):
            f = density(mp.mpf(nu))
            ends = [-mp.inf, -10, -3, -1, 0, 1, 3, 10, mp.inf]
            kl = mp.quad(lambda x, f=f, D=D: f(x) * mp.log(f(x) / f(x - D)), ends)
            assert kl <= pairs.kl()[i] <= kl * (1 + mp.mpf("1e-11"))
            for alpha in (1.5, 2.0, 30.0):
                moment = mp.quad(lambda x, f=f, D=D, alpha=alpha: f(x) ** alpha * f(x - D) ** (1 - alpha), ends)
                truth = mp.log(moment) / (alpha - 1)
                assert float(truth) * (1 - 1e-15) <= pairs.renyi(alpha)[i] <= truth * (1 + mp.mpf("1e-10"))
    assert (pairs.renyi(np.inf) == pairs.epsilon(0.0)).all()


def test_many_degrees_of_freedom_are_gaussian_noise():
    pairs = StudentShift([0.3, 1.0], 3000.0, 1)
    np.testing.assert_allclose(pairs.epsilon(1e-3), GaussianShift([0.3, 1.0]).epsilon(1e-3), rtol=2e-2)
    np.testing.assert_allclose(pairs.tv(), GaussianShift([0.3, 1.0]).tv(), rtol=1e-3)


def test_ends():
    pairs = StudentShift([0.0, np.inf, 1e-200], 5.0, 2)
    assert list(pairs.epsilon(1e-6)) == [0.0, np.inf, 0.0] and list(pairs.epsilon(0.0))[:2] == [0.0, np.inf]
    assert list(pairs.delta(1.0)) == [0.0, 1.0, 0.0] and pairs.delta(np.inf)[0] == 0.0
    assert list(pairs.renyi(2.0))[:2] == [0.0, np.inf] and list(pairs.attack_power(0.0)) == [0.0, 1.0, 0.0]
    assert list(pairs.attack_power(1.0)) == [1.0, 1.0, 1.0] and len(StudentShift([], 5.0, 2)) == 0
    with pytest.raises(InvalidInput, match="StudentShift pairs have no characteristic function"):
        pairs + GaussianShift([0.1, 0.1, 0.1])
    for nu, d in [(0.0, 1), (1e9, 1), (5.0, 0), (5.0, 1.5), (5.0, 1e9)]:
        with pytest.raises(InvalidInput, match=r"degrees_of_freedom|dimension"):
            StudentShift([0.1], nu, d)
