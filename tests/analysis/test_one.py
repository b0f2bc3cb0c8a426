"""One person over data sets; everybody over random data sets; everybody under assumptions."""

import numpy as np
import pytest

from perinstance.analysis import LossSample, one_person, over_random_tables, personal_dp, subsets, with_assumptions
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from tests.analysis.worlds import FAMILIES, fit_of, losses, release_of, table

DELTA = 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_one_person_joins_each_data_set(family):
    rng = np.random.default_rng(0)
    X, y = table(rng, 40, 3)
    release = release_of(family)
    x, target = np.array([0.5, -0.2, 0.1]), 0.7
    sets = list(subsets(X, y, 5, 4, rng))
    answer = one_person(release, x, target, sets, DELTA)
    for (A, b), eps in zip(sets, answer.epsilon, strict=True):
        assert len(A) == 35
        with_ = release.confidential_fit(ArraySweep(np.vstack([A, x]), np.append(b, target)))
        inside = release.people(with_, Block(x[None], np.array([target]))).pairs.epsilon(DELTA)[0]
        assert eps == pytest.approx(inside, rel=1e-6)
    assert answer.largest == answer.epsilon.max() and answer.kind == "exact"
    assert (answer.epsilon <= personal_dp(release, x, target, DELTA, n=40).epsilon).all()


def test_a_prior_on_data_sets_and_its_errors():
    """The mean's interval covers the mean of a long run about as often as it says."""
    release = release_of("output", 1.0)

    def sampler(rng):
        return table(rng, 30, 2, spread=0.0)

    target = (np.array([[0.6, 0.3]]), np.array([0.5]))
    rng = np.random.default_rng(2)
    long = over_random_tables(release, sampler, target, DELTA, draws=300, rng=rng)
    truth, median = long.epsilon.mean(), np.median(long.epsilon)
    runs = [over_random_tables(release, sampler, target, DELTA, draws=30, rng=rng) for _ in range(25)]
    means, medians = [run.mean() for run in runs], [run.quantile(0.5) for run in runs]
    assert np.mean([m.low <= truth <= m.high for m in means]) > 0.85
    assert np.mean([m.low <= median <= m.high for m in medians]) > 0.85
    assert long.moments(2).kind == "estimate"


def test_random_people_from_a_sampler():
    release = release_of("posterior")
    answer = over_random_tables(
        release,
        lambda rng: table(rng, 20, 2),
        lambda rng: table(rng, 7, 2),
        DELTA,
        draws=5,
        rng=np.random.default_rng(3),
    )
    assert answer.epsilon.shape == (5, 7) and (answer.epsilon > 0).all()
    with pytest.raises(InvalidInput):
        over_random_tables(release, lambda rng: table(rng, 20, 2), table(np.random.default_rng(0), 2, 2), draws=0)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_order_statistics_cover_whatever_the_distribution(share):
    rng = np.random.default_rng(4)
    truth = np.quantile(rng.gamma(0.5, size=400_000), share)
    hits = 0
    for _ in range(400):
        b = LossSample(rng.gamma(0.5, size=60), DELTA, "exact", ()).quantile(share, 0.9)
        hits += b.low <= truth <= b.high
    assert hits / 400 > 0.87


@pytest.mark.parametrize("family", FAMILIES)
def test_assumptions_hold_for_everybody_who_meets_them(family):
    """Random data sets with the smallest eigenvalue and the size of theta at the bounds; people along worst ways."""
    rng = np.random.default_rng(5)
    release = release_of(family, 1.0, scale=1.5)
    worst = 0.0
    bound = with_assumptions(release, DELTA, smallest_eigenvalue=4.0, theta_bound=1.0)
    for _ in range(80):
        Q = np.linalg.qr(rng.standard_normal((2, 2)))[0]
        X = np.diag(np.sqrt([3.0, 3.0 + rng.exponential(5)])) @ Q.T  # X'X + I has smallest eigenvalue 4
        y = rng.standard_normal(2)
        theta = np.linalg.solve(X.T @ X + np.eye(2), X.T @ y)
        y = y / np.linalg.norm(theta)
        fit = fit_of(release, X, y)
        people = np.vstack([Q[:, 0], fit.theta, rng.standard_normal((6, 2))])
        people /= np.linalg.norm(people, axis=1)[:, None]
        eps = losses(release, fit, np.vstack([people, people]), np.repeat([1.0, -1.0], 8), DELTA)
        worst = max(worst, eps.max())
    assert 0.6 * bound.epsilon < worst <= bound.epsilon
    if family == "posterior":
        assert bound.kind == "exact" and bound.closed_form > bound.epsilon


@pytest.mark.parametrize("family", ["posterior", "output"])
def test_the_corner_is_attained(family):
    """theta along the weakest direction, and x with it."""
    release = release_of(family, 1.0, scale=1.5)
    X = np.diag(np.sqrt([3.0, 10.0]))
    y = np.array([4.0 / 3.0**0.5, 0.0])  # theta = (1, 0)
    fit = fit_of(release, X, y)
    assert np.allclose(fit.theta, [1.0, 0.0])
    loss = losses(release, fit, np.array([[1.0, 0.0]]), np.array([-1.0]), DELTA)[0]
    bound = with_assumptions(release, DELTA, smallest_eigenvalue=4.0, theta_bound=1.0)
    assert bound.kind == "exact" and loss == pytest.approx(bound.epsilon, rel=1e-8)
    assert loss <= bound.epsilon * (1 + 1e-9)  # a person's own loss may be rounded up by that much
    with pytest.raises(InvalidInput):
        with_assumptions(release, DELTA, smallest_eigenvalue=0.0, theta_bound=1.0)
