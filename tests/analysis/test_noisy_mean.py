"""The township: everyone and the worst case of a noisy mean."""

import numpy as np
import pytest

from perinstance.analysis import everyone, worst_case_dp
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.releases import NoisyMean

DELTA = 1e-5


def losses(release, fit, X):
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
    found = losses(release, fit, people)
    assert 0.97 * answer.epsilon < found.max() <= answer.epsilon * (1 + 1e-9)
    assert losses(release, fit, answer.x[None])[0] == pytest.approx(answer.epsilon, rel=1e-9)
    assert answer.attained <= answer.epsilon and answer.kind == ("upper" if noise == "laplace" else "exact")


@pytest.mark.parametrize("statistic", ["mean", "sum"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_worst_data_set_attains_it(noise, statistic):
    release = NoisyMean(scale=0.05, noise=noise, statistic=statistic)
    answer = worst_case_dp(release, DELTA, 1.5, n=20, d=3)
    fit = release.confidential_fit(ArraySweep(answer.data()[0], np.zeros(20)))
    assert losses(release, fit, answer.target[None])[0] == pytest.approx(answer.epsilon, rel=1e-9)
    rng = np.random.default_rng(1)
    for _ in range(50):
        X, people = (rng.standard_normal((20, 3)) + 2 * s * rng.standard_normal(3) for s in (1, -1))
        X, people = (a / np.linalg.norm(a, axis=1)[:, None] * 1.5 for a in (X, people))
        fit = release.confidential_fit(ArraySweep(X, np.zeros(20)))
        assert losses(release, fit, people).max() <= answer.epsilon * (1 + 1e-9)


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
    assert 0 < losses(release, fit, answer.x[None])[0] <= answer.epsilon
    assert losses(release, fit, answer.x[None])[0] == pytest.approx(answer.epsilon, rel=1e-9)
    assert answer.epsilon <= worst_case_dp(release, DELTA, 2 * size, n=30, d=2).epsilon * (1 + 1e-12)


def test_a_loss_beyond_the_largest_float_is_an_upper_bound():
    release = NoisyMean(scale=1e-200, noise="laplace")
    fit = release.confidential_fit(ArraySweep(np.full((3, 1), 1e200), np.zeros(3)))
    answer = everyone(release, fit, DELTA, x_bound=1e200)
    assert (answer.epsilon, answer.kind) == (np.inf, "upper")
