"""Edges of the closed-form pairs: zero, infinity, kinds, no people, wrong parameters; Student noise by slices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from flint import arb, fmpq
from hypothesis import given
from scipy import integrate, special, stats

from perinstance.errors import InvalidInput
from perinstance.pairs import (
    GaussianShift,
    GeneralGaussian,
    LaplaceShift,
    ObjectivePair,
    PosteriorSamplePair,
    SampledGaussian,
    StudentShift,
    compose,
)

from . import truth
from .strategies import DELTAS, batch, examples, scale

NOTHING = [GaussianShift(0.0), LaplaceShift(0.0), PosteriorSamplePair(0.0, 5.0), PosteriorSamplePair(0.0, np.inf)]
EVERYTHING = [
    GaussianShift(np.inf),
    LaplaceShift(np.inf),
    PosteriorSamplePair(np.inf, 1.0),
    PosteriorSamplePair(0.5, np.inf),
]


@pytest.mark.parametrize("pairs", NOTHING, ids=repr)
def test_identical_distributions_lose_nothing(pairs):
    for delta in (0.0, 1e-300, 0.5, 1 - 1e-16):
        assert pairs.epsilon(delta).item() == 0.0
    assert pairs.delta(0.0).item() == pairs.delta(3.0).item() == pairs.tv().item() == pairs.kl().item() == 0.0
    assert pairs.delta(-1.0).item() == pytest.approx(1 - np.exp(-1))
    assert pairs.renyi(np.inf).item() == pairs.zcdp().item() == 0.0
    assert pairs.attack_power(0.07).item() == pytest.approx(0.07, rel=1e-15)


SHORT = np.array([1e-300, 1e-200, 1e-162, 1e-160, 3e-155, 1e-153])
SHORT_PAIRS = {  # the divergence of order alpha, for short distances: alpha times this
    "shift": (GaussianShift(SHORT), lambda d: d * d / 2),
    "laplace": (LaplaceShift(SHORT), lambda d: d * d / 2),
    "student": (StudentShift(SHORT, 5.0, 1.0), lambda d: d * d * 3 / 8),
    "leverage": (PosteriorSamplePair(SHORT, 0.0), lambda d: d * d / 4),
    "both": (PosteriorSamplePair(SHORT, SHORT), lambda d: d * d / 4),
    "certain step": (SampledGaussian(1.0, SHORT), lambda d: d * d / 2),
    "certain steps": (SampledGaussian(1.0, SHORT, 9), lambda d: 9 * d * d / 2),
    "beside a step": (compose([SampledGaussian(1.0, SHORT), LaplaceShift(SHORT)]), lambda d: d * d),
}


@pytest.mark.parametrize("name", SHORT_PAIRS)
def test_divergences_of_short_distances_do_not_underflow(name):
    """Squares below 1e-308 have few digits, or none."""
    pairs, half = SHORT_PAIRS[name]
    truths = [half(fmpq(*float(d).as_integer_ratio())) for d in SHORT]
    for alpha in (1.0, 1.25, 2.0, 8.0):
        for found, least in zip(pairs.renyi(alpha), truths, strict=True):
            exact = fmpq(*float(found).as_integer_ratio())
            assert found > 0.0 and exact >= least * fmpq(*alpha.as_integer_ratio()) * fmpq(10**12 - 1, 10**12)
    assert (pairs.kl() > 0.0).all() and (pairs.zcdp() > 0.0).all() and (pairs.tv() > 0.0).all()
    if name not in ("laplace", "student"):
        assert np.isposinf(pairs.renyi(np.inf)).all() and np.isposinf(pairs.epsilon(0.0)).all()


@pytest.mark.parametrize("pairs", EVERYTHING, ids=repr)
def test_disjoint_distributions_lose_everything(pairs):
    for delta in (0.0, 1e-6, 0.99):
        assert pairs.epsilon(delta).item() == np.inf
    assert pairs.delta(700.0).item() == pairs.delta(-3.0).item() == pairs.tv().item() == 1.0
    assert pairs.kl().item() == pairs.renyi(2.0).item() == pairs.zcdp().item() == np.inf
    assert pairs.attack_power(0.01).item() == 1.0


def test_delta_zero():
    assert GaussianShift([0.0, 1e-9, 3.0]).epsilon(0.0).tolist() == [0.0, np.inf, np.inf]
    assert PosteriorSamplePair([0.0, 0.1], [1.0, 1.0]).epsilon(0.0).tolist() == [0.0, np.inf]
    assert LaplaceShift([0.0, 0.25, 3.0]).epsilon(0.0).tolist() == [0.0, 0.25, 3.0]
    # Q over P has a largest loss: (log1p(mu) + rho^2/(1 + mu))/2
    assert PosteriorSamplePair(0.5, 2.0).epsilon(0.0, "with").item() == pytest.approx(
        (np.log(1.5) + 4 / 1.5) / 2, rel=1e-9
    )


def test_laplace_epsilon_is_never_below():
    """``max(0, D + 2 log(1 - delta))`` in twice the precision."""
    rng = np.random.default_rng(0)
    D, delta = 10 ** rng.uniform(-12, 4, 3000), 10 ** rng.uniform(-300, -1e-3, 3000)
    got = LaplaceShift(D).epsilon(delta)
    with truth.digits(400):
        for d, e, g in zip(D.tolist(), delta.tolist(), got.tolist(), strict=True):
            exact = (arb(d) + 2 * (1 - arb(e)).log()).max(arb(0))
            assert g >= exact and g <= exact * (1 + 1e-9) + 1e-13, (d, e, g)


def test_extreme_numbers_give_numbers():
    """No NaN, no overflow, no warning (warnings are errors here), whatever the size."""
    sizes = np.array([0.0, 5e-324, 1e-300, 1e-150, 1e-12, 1e-4, 1.0, 1e4, 1e6, 1e12 - 1, 1e100, 1e151, 1e300, np.inf])
    mu, rho = (grid.ravel() for grid in np.meshgrid(sizes, sizes))
    every = (
        GaussianShift(sizes),
        LaplaceShift(sizes),
        PosteriorSamplePair(mu, rho),
        PosteriorSamplePair(np.tile(mu, 3), np.tile(rho, 3)),
    )
    for pairs in every:
        for direction in ("worst", "without", "with"):
            for delta in (0.0, 5e-324, 1e-300, 1e-6, 0.5, 0.9, np.nextafter(1, 0)):
                epsilons = pairs.epsilon(delta, direction)
                assert (epsilons >= 0).all()
            for epsilon in (-np.inf, -800.0, -1e-9, 0.0, 1e-300, 1.0, 800.0, 1e12, np.inf):
                deltas = pairs.delta(epsilon, direction)
                assert ((deltas >= 0) & (deltas <= 1)).all()
            for alpha in (1.0, 1 + 1e-15, 2.0, 1e9, np.inf):
                assert (pairs.renyi(alpha, direction) >= 0).all()
        for rate in (0.0, 1e-300, 1e-3, 0.5, 1 - 1e-12, 1.0):
            powers = pairs.attack_power(rate)
            assert ((powers >= rate) & (powers <= 1)).all()


@given(
    mu=batch(scale(1e-300, 1e300), 20),
    rho=batch(scale(1e-300, 1e300), 20),
    near=batch(scale(1e-3, 30.0), 20),
    deltas=batch(DELTAS, 20),
)
@examples(25)
@pytest.mark.parametrize("direction", ["without", "with"])
def test_huge_posteriors_are_never_below(direction, mu, rho, near, deltas):
    """Alone and among many, residuals of any size and about as large as the spread of P; the label says what it is."""
    half = len(mu) // 2
    rho[:half] = np.minimum(np.sqrt(mu[:half]) * near[:half], 1e300)
    pairs = PosteriorSamplePair(mu, rho)
    many = PosteriorSamplePair(np.resize(mu, 520), np.resize(rho, 520)).epsilon(deltas[0], direction)[:20]
    for epsilons, at in ((pairs.epsilon(deltas, direction), deltas), (many, np.full(20, deltas[0]))):
        for m, r, e, d in zip(mu.tolist(), rho.tolist(), epsilons.tolist(), at.tolist(), strict=True):
            if e < np.inf:
                accuracy = 1e-14 * min(1.0, 1.0 - d)
                assert truth.enclosed(truth.posterior_delta, m, r, e, direction == "with", accuracy=accuracy) <= arb(d)
    assert ((pairs.kinds == "upper") == ((mu > 1e12) | (rho > 1e12))).all()


@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.5, 1 - 1e-16])
@pytest.mark.parametrize(("mu", "rho"), [(1e97, 1e20), (1e60, 1e25), (1e75, 1e30), (1e200, 1.0)])
def test_a_huge_leverage_has_a_huge_finite_loss(mu, rho, delta):
    pairs = PosteriorSamplePair([mu], [rho])
    assert mu * 1e-33 < pairs.epsilon(delta).item() < mu * 1e4 and pairs.kind == "upper"


def test_labels_beyond_the_range_of_exact_answers():
    large = [1e12, 1e13, 1e151, 1.7976931348623157e308, np.inf]
    expected = ["exact", "upper", "upper", "upper", "exact"]
    for pairs in (
        GaussianShift(large),
        LaplaceShift(large),
        GeneralGaussian(np.zeros((5, 1)), np.reshape(large, (5, 1))),
    ):
        assert pairs.kinds.tolist() == expected
        epsilons = pairs.epsilon(1e-6)
        least = np.array(large) if isinstance(pairs, LaplaceShift) else np.multiply(large, [5e11, 5e12, 5e150, 1, 1])
        assert (epsilons >= least * (1 - 1e-5)).all()
    assert (GaussianShift(large) + LaplaceShift(np.ones(5))).kinds.tolist() == expected
    assert (
        ObjectivePair([1e10], [1.0], [1e10], [1e10]).kind == "upper"
        and GeneralGaussian([[-1 + 1e-14]], [[1.0]]).kind == "upper"
    )


def test_kinds():
    pairs = GaussianShift([1.0, 2.0, 3.0], kind=["exact", "upper", "estimate"])
    assert pairs.kind == "estimate" and list(pairs.kinds) == ["exact", "upper", "estimate"]
    assert pairs[:2].kind == "upper" and pairs[0].kind == "exact"
    assert GaussianShift.concatenate([pairs[:1], pairs[1:2]]).kind == "upper"
    assert (
        PosteriorSamplePair([0.1], [1.0], kind="upper").kind == "upper"
        and LaplaceShift([], kind="upper").kind == "exact"
    )
    for kind in ("sure", ["exact"], np.array([["exact"] * 3])):
        with pytest.raises(InvalidInput, match="kind"):
            GaussianShift([1.0, 2.0, 3.0], kind=kind)


@pytest.mark.parametrize("bad", [[-1.0], [np.nan], [[1.0]], [1.0, -np.inf]])
def test_bad_parameters_are_refused(bad):
    for make in (
        GaussianShift,
        LaplaceShift,
        lambda x: PosteriorSamplePair(x, 1.0),
        lambda x: PosteriorSamplePair(1.0, x),
    ):
        with pytest.raises(InvalidInput):
            make(bad)


def test_nobody_changes_the_pairs():
    pairs = PosteriorSamplePair([0.1], [1.0])
    for view in (pairs.leverage, pairs.residual, GaussianShift([1.0]).distance):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 2.0


def test_any_layout_of_arrays():
    base = np.linspace(0.1, 1, 1200)
    frozen = base.copy()
    frozen.flags.writeable = False
    expected = GaussianShift(base).epsilon(1e-6)
    assert (GaussianShift(frozen).epsilon(1e-6) == expected).all()
    assert (GaussianShift(base[::-1]).epsilon(1e-6)[::-1] == expected).all()
    assert GaussianShift(base.astype(np.float32)).epsilon(1e-6) == pytest.approx(expected, rel=1e-6)
    assert (
        PosteriorSamplePair(frozen[::2], 1.0).epsilon(1e-6)
        == PosteriorSamplePair(base[::2].copy(), np.ones(600)).epsilon(1e-6)
    ).all()


def test_threads_share_the_tables():
    rng = np.random.default_rng(4)
    mu, rho = 10 ** rng.uniform(-5, 0, 4000), rng.exponential(size=4000)
    pairs = PosteriorSamplePair(mu, rho)
    with ThreadPoolExecutor(8) as pool:
        parts = np.array(list(pool.map(pairs.epsilon, [3.7e-7] * 8)))
    assert (parts == parts[0]).all() and (parts > 0).any()


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
