"""The worst case over data sets: attained by the data set it names, never beaten by others."""

from fractions import Fraction

import numpy as np
import pytest

from perinstance.analysis import everyone, exponential_mechanism, personal_dp, worst_case_dp
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.releases import NoisyMean
from tests.analysis.worlds import fit_of, losses, release_of

DELTA = 1e-6


def witness_loss(release, answer):
    X, y = answer.data()
    fit = fit_of(release, X, y)
    return losses(release, fit, answer.target[None], np.array([answer.target_y]), answer.delta)[0]


@pytest.mark.parametrize("family", ["posterior", "output", "objective"])
@pytest.mark.parametrize("alpha, n, d", [(10.0, 30, 2), (1.0, 200, 3), (0.3, 5, 1)])
def test_the_data_set_it_names_attains_it(family, alpha, n, d):
    release = release_of(family, alpha, scale=3.0)
    answer = worst_case_dp(release, DELTA, 1.3, 0.8, n=n, d=d)
    X, y = answer.data()
    assert X.shape == (n, d) and (np.linalg.norm(X, axis=1) <= 1.3 * (1 + 1e-12)).all() and (np.abs(y) <= 0.8).all()
    assert np.linalg.norm(answer.target) <= 1.3 * (1 + 1e-12) and abs(answer.target_y) <= 0.8
    assert witness_loss(release, answer) == pytest.approx(answer.attained, rel=1e-6)
    assert answer.attained <= answer.epsilon <= answer.attained * 1.01


@pytest.mark.parametrize("family", ["posterior", "output"])
@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(s, marks=pytest.mark.slow) for s in range(3, 8))])
def test_no_data_set_and_target_lose_more(family, seed):
    """Random spectra, random directions, labels chosen to push theta: none beats the bound."""
    rng = np.random.default_rng(seed)
    n, d, alpha = int(rng.integers(2, 40)), int(rng.integers(1, 4)), float(10 ** rng.uniform(-1, 1))
    release = release_of(family, alpha, scale=1.0)
    answer = worst_case_dp(release, DELTA, n=n, d=d)
    best = 0.0
    for _ in range(60):
        U = np.linalg.qr(rng.standard_normal((n, d)))[0] if n >= d else rng.standard_normal((n, d))
        X = U * np.sqrt(n * rng.random(d) ** 3)
        X = X / max(1.0, np.linalg.norm(X, axis=1).max())
        x = rng.standard_normal((30, d))
        x /= np.linalg.norm(x, axis=1)[:, None]
        x *= rng.choice([1.0, 0.6, 0.3], (30, 1))
        H = X.T @ X + alpha * np.eye(d)
        for row in x[:6]:  # labels that make x'theta as large as this X allows
            y = np.sign(X @ np.linalg.solve(H, row))
            fit = fit_of(release, X, y)
            best = max(best, losses(release, fit, x, np.full(30, -1.0), DELTA).max())
    assert best <= answer.epsilon


def test_one_person_over_all_data_sets():
    release = release_of("output", 0.5, scale=1.0)
    x, y = np.array([0.3, -0.4]), 0.5
    answer = personal_dp(release, x, y, DELTA, n=20)
    assert np.allclose(answer.target, x) and answer.target_y == y
    assert witness_loss(release, answer) == pytest.approx(answer.attained, rel=1e-6)
    everyone = worst_case_dp(release, DELTA, n=20, d=2)
    assert answer.epsilon < everyone.epsilon
    rng = np.random.default_rng(0)
    for _ in range(200):
        X = rng.standard_normal((20, 2))
        X /= np.linalg.norm(X, axis=1)[:, None] / rng.random((20, 1)) ** 0.3
        fit = fit_of(release, X, rng.choice([-1.0, 1.0], 20))
        assert losses(release, fit, x[None], np.array([y]), DELTA)[0] <= answer.epsilon


def test_a_shorter_target_can_lose_more():
    """Output perturbation with little regularisation: a long row damps its own movement."""
    release = release_of("output", 0.05, scale=1.0)
    answer = worst_case_dp(release, DELTA, n=1, d=2)
    assert np.linalg.norm(answer.target) < 0.9
    assert answer.epsilon <= answer.attained * 1.02


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"fit_intercept": True}, {"n": None}])
def test_what_has_no_finite_statement_says_why(options):
    n = options.pop("n", 10)
    answer = worst_case_dp(release_of("posterior", **options), DELTA, n=n, d=2)
    assert answer.epsilon == np.inf and "infinite" in answer.assumptions[-1]


def test_the_exponential_mechanism_by_quadrature():
    """One dimension, theta on a grid: the log ratio of the two truncated posteriors never exceeds epsilon."""
    theta = np.linspace(-2, 2, 4001)
    rng = np.random.default_rng(0)
    bound = exponential_mechanism(gamma=0.7, x_bound=1.0, y_bound=1.0, theta_bound=2.0)
    worst = 0.0
    for _ in range(300):
        X, y = rng.uniform(-1, 1, (2, 6))
        X[-1], y[-1] = rng.choice([-1, 1]), rng.choice([-1, 1])
        energy = -0.35 * (y[:, None] - X[:, None] * theta) ** 2
        p, q = (np.exp(e - e.max()) for e in (energy[:-1].sum(axis=0), energy.sum(axis=0)))
        worst = max(worst, np.abs(np.log(p / p.sum()) - np.log(q / q.sum())).max())
    assert 0.3 * bound.epsilon < worst <= bound.epsilon
    assert bound.as_published == 4 * bound.epsilon
    for gamma, x, y, radius in rng.uniform(0.1, 3.0, (50, 4)).tolist():
        truth = Fraction(gamma) / 2 * (Fraction(y) + Fraction(x) * Fraction(radius)) ** 2
        found = Fraction(exponential_mechanism(gamma, x, y, radius).epsilon)
        assert truth <= found <= truth * (1 + Fraction(1, 10**15))
    assert exponential_mechanism(1.0, 1e200, 1.0, 1.0).epsilon == np.inf


def test_a_release_with_a_promise_says_its_promise():
    from perinstance.releases import AdaSSP

    release = AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0)
    answer = worst_case_dp(release, 1e-6, d=4)
    assert 0.9 < answer.epsilon <= 1.0 * (1 + 1e-6) and np.isnan(answer.attained) and answer.kind == "upper"


def joining(release, fit, X):
    return np.asarray(release.people(fit, Block(X, None), inside=False).pairs.epsilon(DELTA))


@pytest.mark.parametrize("statistic", ["mean", "sum"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("domain", ["ball", "box"])
def test_nobody_is_farther_away(noise, statistic, domain):
    rng = np.random.default_rng(0)
    release = NoisyMean(scale=0.05, noise=noise, statistic=statistic)
    fit = release.confidential_fit(ArraySweep(rng.standard_normal((30, 3)) + 0.4, np.zeros(30)))
    answer = everyone(release, fit, DELTA, x_bound=1.5, domain=domain)
    people = rng.standard_normal((20_000, 3))
    people = (
        np.clip(people * 3, -1.5, 1.5) if domain == "box" else people / np.linalg.norm(people, axis=1)[:, None] * 1.5
    )
    found = joining(release, fit, people)
    assert 0.97 * answer.epsilon < found.max() <= answer.epsilon * (1 + 1e-9)
    assert joining(release, fit, answer.x[None])[0] == pytest.approx(answer.epsilon, rel=1e-9)
    assert answer.attained <= answer.epsilon and answer.kind == ("upper" if noise == "laplace" else "exact")


@pytest.mark.parametrize("statistic", ["mean", "sum"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_worst_data_set_attains_it(noise, statistic):
    release = NoisyMean(scale=0.05, noise=noise, statistic=statistic)
    answer = worst_case_dp(release, DELTA, 1.5, n=20, d=3)
    fit = release.confidential_fit(ArraySweep(answer.data()[0], np.zeros(20)))
    assert joining(release, fit, answer.target[None])[0] == pytest.approx(answer.epsilon, rel=1e-9)
    rng = np.random.default_rng(1)
    for _ in range(50):
        X, people = (rng.standard_normal((20, 3)) + 2 * s * rng.standard_normal(3) for s in (1, -1))
        X, people = (a / np.linalg.norm(a, axis=1)[:, None] * 1.5 for a in (X, people))
        fit = release.confidential_fit(ArraySweep(X, np.zeros(20)))
        assert joining(release, fit, people).max() <= answer.epsilon * (1 + 1e-9)


@pytest.mark.parametrize("statistic", ["mean", "sum"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("size", [1e-200, 1.7e12, 1e200])
def test_columns_far_from_zero_and_of_any_scale(noise, statistic, size):
    """Nobody of the domain is above everyone's loss, nor is the worst case below it: no square over- or underflows."""
    release = NoisyMean(scale=size, noise=noise, statistic=statistic)
    X = size * (1 + np.random.default_rng(2).normal(size=(30, 2)) / 10)
    fit = release.confidential_fit(ArraySweep(X, np.zeros(30)))
    answer = everyone(release, fit, DELTA, x_bound=2 * size)
    assert answer.kind == ("upper" if noise == "laplace" else "exact")
    assert 0 < joining(release, fit, answer.x[None])[0] <= answer.epsilon
    assert joining(release, fit, answer.x[None])[0] == pytest.approx(answer.epsilon, rel=1e-9)
    assert answer.epsilon <= worst_case_dp(release, DELTA, 2 * size, n=30, d=2).epsilon * (1 + 1e-12)


def test_a_loss_beyond_the_largest_float_is_an_upper_bound():
    release = NoisyMean(scale=1e-200, noise="laplace")
    fit = release.confidential_fit(ArraySweep(np.full((3, 1), 1e200), np.zeros(3)))
    answer = everyone(release, fit, DELTA, x_bound=1e200)
    assert (answer.epsilon, answer.kind) == (np.inf, "upper")
