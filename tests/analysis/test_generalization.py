"""The generalisation bounds against simulated learning problems: the gap is below the bound in every one."""

import numpy as np
import pytest
from scipy.special import ndtr

from perinstance.analysis import generalization, stability
from perinstance.analysis.random_tables import joined
from perinstance.errors import InvalidInput
from perinstance.folds.sweep import ArraySweep
from tests.analysis.worlds import release_of

DELTA = 1e-3


def sampler(theta, noise, spread):
    def draw(rng, n):
        X = rng.standard_normal((n, len(theta))) * spread
        X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
        return X, np.clip(X @ theta + noise * rng.standard_normal(n), -1, 1)

    return draw


def loss(theta, X, y):
    """Squared error, clipped to [0, 1]: (draws, people)."""
    return np.minimum((y - theta @ X.T) ** 2, 1.0)


def gap(release, draw, draw_target, weight, n, rng, sets=400, draws=20, fresh=200):
    """``|E (1/n) sum w_i l(theta, z_i) - E l(theta, z)|`` by simulation, with its standard error."""
    differences = []
    for _ in range(sets):
        X, y = draw(rng, n)
        law = release.law(release.confidential_fit(ArraySweep(X, y)))
        theta = law.mean + rng.standard_normal((draws, law.root.shape[1])) @ law.root.T
        train = (loss(theta, X, y) * weight(X, y)).mean()
        differences.append(train - loss(theta, *draw_target(rng, fresh)).mean())
    d = np.array(differences)
    return abs(d.mean()), d.std() / len(d) ** 0.5


def bound(release, draw, draw_target, weight, n, rng, sets=60, people=60):
    """Losses of people of both populations who join n - 1 others."""
    eps, eps_target, weights, tv = [], [], [], []
    for _ in range(sets):
        X, y = draw(rng, n - 1)
        here = draw(rng, people)
        pairs = joined(release, X, y, *here)
        eps.append(pairs.epsilon(DELTA))
        tv.append(pairs.tv())
        weights.append(weight(*here))
        eps_target.append(joined(release, X, y, *draw_target(rng, people)).epsilon(DELTA))
    return np.array(eps), np.array(eps_target), np.array(weights), np.array(tv)


CASES = [
    ("posterior", 20, 2, 1.0, 2.0),
    ("posterior", 8, 3, 1.0, 4.0),
    ("output", 10, 2, 0.5, 1.0),
]


@pytest.mark.parametrize("family, n, d, alpha, scale", CASES)
def test_the_gap_is_below_the_bound(family, n, d, alpha, scale):
    rng = np.random.default_rng(n + d)
    release = release_of(family, alpha, scale=scale)
    draw = sampler(rng.standard_normal(d), 0.3, 1.0)

    def ones(X, y):
        return np.ones(len(y))

    found, error = gap(release, draw, draw, ones, n, rng)
    eps, _, _, tv = bound(release, draw, draw, ones, n, rng)
    answer = generalization(eps, DELTA, tv=tv)
    assert found <= answer.bound + 3 * error
    assert found <= answer.total_variation + 3 * error
    assert answer.bound <= answer.simple + 3 * answer.standard_error
    assert answer.kind == "estimate" and answer.standard_error > 0


@pytest.mark.parametrize("family, n, scale", [("posterior", 20, 2.0), ("output", 30, 0.4)])
def test_another_population(family, n, scale):
    """The target lives where the data is thin; weights are the exact ratio of the two densities of the first column."""
    rng = np.random.default_rng(7)
    theta = np.array([0.8, -0.5])

    def draw_from(p):
        def draw(rng, m):  # the first column is +-0.7: +0.7 with probability p
            first = np.where(rng.random(m) < p, 0.7, -0.7)
            X = np.column_stack([first, rng.uniform(-0.7, 0.7, m)])
            return X, np.clip(X @ theta + 0.3 * rng.standard_normal(m), -1, 1)

        return draw

    def weight(X, y):
        return np.where(X[:, 0] > 0, 0.9 / 0.3, 0.1 / 0.7)

    release = release_of(family, 1.0, scale=scale)
    here, there = draw_from(0.3), draw_from(0.9)
    found, error = gap(release, here, there, weight, n, rng)
    eps, eps_target, w, tv = bound(release, here, there, weight, n, rng)
    by_sample = generalization(eps, DELTA, epsilon_target=eps_target)
    by_weights = generalization(eps, DELTA, weights=w, tv=tv)
    assert found <= by_sample.bound + 3 * error
    assert found <= by_weights.bound + 3 * error
    assert found <= by_weights.total_variation + 3 * error
    spread = 4 * (by_sample.standard_error + by_weights.standard_error) + 0.1 * by_sample.bound
    assert by_weights.bound == pytest.approx(by_sample.bound, abs=spread)


@pytest.mark.parametrize("seed", range(10))
def test_stability_of_one_replacement(seed):
    """The inequality under the bound, exactly: two Gaussians in one dimension, worst test functions in [0, 1]."""
    rng = np.random.default_rng(seed)
    release = release_of("posterior", 1.0, scale=float(rng.choice([0.5, 2.0])))
    X, y = rng.uniform(-1, 1, (6, 1)), rng.uniform(-1, 1, 6)
    two, ys = rng.uniform(-1, 1, (2, 1)), rng.uniform(-1, 1, 2)
    pairs = joined(release, X, y, two, ys)
    laws = [
        release.law(release.confidential_fit(ArraySweep(np.vstack([X, two[i]]), np.append(y, ys[i])))) for i in (0, 1)
    ]
    (m1, s1), (m2, s2) = ((law.mean[0], abs(law.root[0, 0])) for law in laws)
    grid = np.linspace(-20, 20, 40_001)
    total_variation = (
        np.abs(np.diff(ndtr((grid - m1) / s1)) - np.diff(ndtr((grid - m2) / s2))).sum() / 2
    )  # the largest difference of means of any function with values in [0, 1]
    assert total_variation <= pairs.tv().sum() + 1e-9
    for delta in (1e-2, 1e-4):
        a, b = pairs.epsilon(delta)
        assert total_variation <= stability(a, b, delta, delta) + 1e-9


def test_the_product_leaves_out_pairs_of_one_person_with_herself():
    """An unbiased estimate of E e^eps' E e^eps'': the mean over many small samples is the population value."""
    rng = np.random.default_rng(0)
    losses = rng.exponential(0.3, (20_000, 3))
    mean = np.exp(losses[losses < 50]).mean()
    answer = generalization(losses, 0.0)
    assert answer.bound == pytest.approx(mean**2 - 1, rel=0.05)


def test_a_whole_population_gives_an_upper_bound():
    answer = generalization([[0.1, 0.3]], 1e-6, population=True)
    mean = np.exp([0.1, 0.3]).mean()
    assert answer.kind == "upper"
    assert answer.bound == pytest.approx(mean**2 - 1 + 1e-6 * (1 + mean))
    assert answer.simple >= answer.bound


def test_assumptions_are_enforced():
    with pytest.raises(InvalidInput):
        generalization([[0.1]], 0.1, weights=[1.0], epsilon_target=[[0.1]])
    with pytest.raises(InvalidInput):
        generalization([[0.1]], 0.1, weights=[-1.0])
    with pytest.raises(InvalidInput):
        generalization([[0.1], [0.2]], 0.1, epsilon_target=[[0.1]])
    with pytest.raises(InvalidInput):
        generalization([[-0.1]], 0.1)
