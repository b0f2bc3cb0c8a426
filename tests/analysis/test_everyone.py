"""``everyone`` is never beaten: random people, people along promising directions, people who climb."""

import numpy as np
import pytest

from perinstance.analysis import everyone
from perinstance.folds.block import Block
from tests.analysis.worlds import FAMILIES, fit_of, losses, release_of, table

DELTA = 1e-6


def crowd(rng, fit, d, size, domain, x_bound):
    """Random rows: anywhere, on the boundary, towards theta, along the directions that nothing holds up."""
    X = rng.standard_normal((size, d))
    theta = fit.theta[:d] / (np.linalg.norm(fit.theta[:d]) + 1e-300)
    K = fit.inverse()[:d, :d]
    X[: size // 3] += 3 * rng.standard_normal((size // 3, 1)) * theta
    X[size // 3 : 2 * size // 3] = X[size // 3 : 2 * size // 3] @ K + rng.standard_normal((1, 1)) * theta
    length = rng.choice([1.0, 1.0, 0.7, 0.3], (size, 1))
    if domain == "ball":
        return X / np.linalg.norm(X, axis=1)[:, None] * x_bound * length
    corner = np.sign(X) * x_bound
    return np.where(rng.random((size, 1)) < 0.5, corner, np.clip(X, -x_bound, x_bound) * length)


def attack(seed, family, domain="ball", size=10_000):
    rng = np.random.default_rng(seed)
    d, n = int(rng.choice([1, 2, 3, 5, 10])), int(rng.choice([10, 50, 400]))
    X, y = table(rng, n, d)
    x_bound, y_bound = rng.uniform(0.5, 1.5, 2)
    release = release_of(
        family, float(rng.choice([0.3, 1.0, 10.0])), bool(seed % 2), float(rng.choice([0.5, 2.0, 10.0]))
    )
    fit = fit_of(release, X, y)
    answer = everyone(release, fit, DELTA, x_bound=x_bound, y_bound=y_bound, domain=domain)
    people, y = crowd(rng, fit, d, size, domain, x_bound), y_bound * rng.choice([-1.0, 1.0], size)
    if family == "objective":  # its exact loss is slow: rank by a Renyi divergence, then ask the best
        top = np.argsort(-release.people(fit, Block(people, y), inside=False).pairs.renyi(3.0))[:40]
        people, y = people[top], y[top]
    best = losses(release, fit, people, y, DELTA).max()
    # the person it names is in the domain and loses what it says
    if domain == "ball":
        assert np.linalg.norm(answer.x) <= x_bound * (1 + 1e-12)
    else:
        assert (np.abs(answer.x) <= x_bound).all()
    assert abs(answer.y) <= y_bound
    assert losses(release, fit, answer.x[None], np.array([answer.y]), DELTA)[0] == pytest.approx(
        answer.attained, rel=1e-9
    )
    assert answer.attained <= answer.epsilon
    assert best <= answer.epsilon, (seed, family, best, answer)
    return answer


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", ["posterior", "output"])
def test_nobody_in_the_ball_loses_more_and_somebody_as_much(family, seed):
    assert attack(seed, family).gap < 0.01


def test_objective_perturbation_in_the_ball():
    assert attack(0, "objective", size=3000).gap < 0.01


#: What the bracket of a box may leave open: it is enclosed in an ellipsoid, over which forms are larger.
BOX_GAP = 0.5


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", ["posterior", "output"])
def test_nobody_in_the_box_loses_more(family, seed):
    assert attack(seed, family, domain="box", size=3000).gap < BOX_GAP


def test_a_precision_that_is_not_round():
    rng = np.random.default_rng(8)
    X, y = table(rng, 80, 4)
    B = rng.standard_normal((4, 4))
    release = release_of("output", 1.0, precision=B @ B.T + np.eye(4))
    fit = fit_of(release, X, y)
    answer = everyone(release, fit, DELTA)
    found = losses(release, fit, crowd(rng, fit, 4, 20_000, "ball", 1.0), rng.choice([-1.0, 1.0], 20_000), DELTA)
    assert found.max() <= answer.epsilon and answer.gap < 0.01


def test_a_large_delta_and_leverages_beyond_one():
    """Where the loss falls with the leverage the corner is not the answer; the bound still holds."""
    rng = np.random.default_rng(9)
    X, y = table(rng, 3, 3)
    release = release_of("posterior", 0.01, scale=0.05)
    fit = fit_of(release, X, y)
    people = crowd(rng, fit, 3, 1000, "ball", 1.0)
    assert losses(release, fit, people, rng.choice([-1.0, 1.0], 1000), 0.9).max() <= everyone(release, fit, 0.9).epsilon


def test_an_open_direction_is_an_infinite_loss():
    release = release_of("posterior", 0.0)
    fit = fit_of(release, np.array([[1.0, 0.0], [2.0, 0.0], [0.5, 0.0]]), np.array([1.0, 2.0, 0.0]))
    answer = everyone(release, fit, DELTA)
    assert answer.epsilon == np.inf
    assert losses(release, fit, answer.x[None], np.array([answer.y]), DELTA)[0] == np.inf


def test_a_box_with_one_bound_per_feature():
    rng = np.random.default_rng(4)
    release = release_of("posterior")
    fit = fit_of(release, *table(rng, 100, 3))
    tight = everyone(release, fit, DELTA, x_bound=[0.1, 1.0, 0.2], domain="box")
    wide = everyone(release, fit, DELTA, x_bound=1.0, domain="box")
    assert tight.epsilon < wide.epsilon and (np.abs(tight.x) <= [0.1, 1.0, 0.2]).all()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("domain", ["ball", "box"])
def test_degenerate_worlds(family, domain):
    """Nobody's y differs from zero; fewer rows than columns; columns of very different size; a domain of one point."""
    rng = np.random.default_rng(6)
    release = release_of(family, 1.0)
    for X, y in (
        (rng.standard_normal((5, 2)), np.zeros(5)),
        (rng.standard_normal((2, 4)), rng.standard_normal(2)),
        (np.ones((1, 2)), np.ones(1)),
        (rng.standard_normal((30, 2)) * [1e4, 1e-4], rng.standard_normal(30)),
    )[: 1 if family == "objective" else 4]:
        fit = fit_of(release, X, y)
        answer = everyone(release, fit, DELTA, x_bound=0.5, y_bound=0.3, domain=domain)
        people = crowd(rng, fit, X.shape[1], 300, domain, 0.5)
        found = losses(release, fit, people, rng.choice([-0.3, 0.3], 300), DELTA)
        assert found.max() <= answer.epsilon * (1 + 1e-9) and answer.attained <= answer.epsilon
        nothing = everyone(release, fit, DELTA, x_bound=0.0, y_bound=0.3, domain=domain)
        assert nothing.epsilon <= 1e-9
