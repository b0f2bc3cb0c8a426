"""``everyone`` is never beaten: precisions, large leverages, open directions, degenerate tables, hostile ones.

The truth of a person on a hostile table: H^-1 and theta as rational numbers, hence leverage, residual and movement
without any rounding. Nobody within the bounds loses more, and somebody as much.
"""

from collections import Counter
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from flint import fmpq_mat

from perinstance.analysis import everyone
from perinstance.errors import NumericalTrouble
from perinstance.folds.sweep import ArraySweep
from perinstance.pairs import GaussianShift, ObjectivePair, PosteriorSamplePair
from tests.analysis.worlds import FAMILIES, fit_of, hostile, losses, release_of, table
from tests.neighbours.refit import Solution, design, matrix, rational, solve, to_float, to_mpf

DELTA = 1e-6


def crowd(rng, fit, d, size, domain, x_bound):
    """Rows anywhere in the domain, mostly at its border: at random, and along the estimate."""
    X = rng.standard_normal((size, d))
    X[: size // 2] += 3 * rng.standard_normal((size // 2, 1)) * fit.theta[:d]
    length = x_bound * rng.choice([1.0, 1.0, 0.5], (size, 1))
    return np.sign(X) * length if domain == "box" else X / np.linalg.norm(X, axis=1)[:, None] * length


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


#: both sides of a comparison are inverted profiles, each at most this share above its truth
INVERTED = 2e-9
#: how far above the truth an attained value may be rounded
EXACT = 1e-6
#: pairs further apart are not compared: their profiles cannot be inverted to all digits
ABSURD = 1e20


#: what the bracket of a box may leave open: it is enclosed in an ellipsoid, over which forms are larger
BOX_GAP = 0.5


@dataclass
class World:
    """The exact fit that people join."""

    family: str
    scale: float
    intercept: bool
    fit: Solution
    K: fmpq_mat

    def losses(self, X, y):
        """The exact loss of each of these people; NaN where it is beyond comparing."""
        Z = matrix(design(X, self.intercept))
        KZ = self.K * Z.transpose()
        predicted = Z * self.fit.theta
        numbers = np.empty((4, len(X)))
        for i in range(len(X)):
            v = fmpq_mat(KZ.nrows(), 1, [KZ[j, i] for j in range(KZ.nrows())])
            x = fmpq_mat(1, KZ.nrows(), [Z[i, j] for j in range(KZ.nrows())])
            mu, r = (x * v)[0, 0], rational(y[i]) - predicted[i, 0]
            vv = (v.transpose() * v)[0, 0]
            if self.family == "output":
                numbers[0, i] = float(mp.sqrt(to_mpf(vv * r * r / (1 + mu) ** 2)) / mp.mpf(self.scale))
            else:
                scaled = abs(float(to_mpf(r) / mp.mpf(self.scale)))
                numbers[:, i] = to_float(mu), scaled, to_float((x * x.transpose())[0, 0]), to_float(vv)
        if self.family == "output":
            pairs, size = GaussianShift(numbers[0]), numbers[0]
        elif self.family == "posterior":
            pairs, size = PosteriorSamplePair(numbers[0], numbers[1]), numbers[:2].max(axis=0)
        else:
            pairs = ObjectivePair(*numbers)
            size = np.maximum(numbers[1], numbers[2] * numbers[3] * (1 + numbers[1]) ** 2)
        epsilon = np.full(len(X), np.nan)
        fine = size < ABSURD
        epsilon[fine] = pairs[fine].epsilon(DELTA)
        return epsilon


def exact_crowd(rng, world, d, domain, x_bound, size):
    """Anywhere, on the boundary, along theta, along the eigenvectors of H^-1 and of its square."""
    p = world.K.nrows()
    K = np.array([[to_float(world.K[i, j]) for j in range(p)] for i in range(p)])[:d, :d]
    theta = np.array([to_float(world.fit.theta[i, 0]) for i in range(d)])
    X = rng.standard_normal((size, d))
    with np.errstate(over="ignore", invalid="ignore"):
        axes = np.linalg.eigh(K / np.abs(K).max())[1].T
        special = [axes, axes + rng.standard_normal((d, 1)) * theta / (np.linalg.norm(theta) + 1e-300), theta[None]]
        special = np.concatenate([*special, np.eye(d), X[: size // 3] @ axes.T * rng.random(d)])
    special = special[np.isfinite(special).all(axis=1)]
    X[: len(special)] = special[:size]
    if domain == "box":
        X[::2] = np.where(X[::2] < 0, -1.0, 1.0)
        X[1::2] /= np.abs(X[1::2]).max(axis=1, keepdims=True) + 1e-300
        return np.clip(X * x_bound, -x_bound, x_bound)
    X *= np.where(np.arange(size) % 4 == 3, rng.random(size), 1.0)[:, None] / (
        np.linalg.norm(X, axis=1)[:, None] + 1e-300
    )
    return X * (x_bound * (1 - 1e-15))


def inside(X, domain, x_bound):
    if domain == "box":
        return np.clip(X, -x_bound, x_bound)
    return X * np.minimum(1.0, x_bound * (1 - 1e-15) / (np.linalg.norm(X, axis=1)[:, None] + 1e-300))


def attacked(seed, size=24) -> Counter:
    """One table, one family, one domain; the best people found are improved by steps from one to the next."""
    rng = np.random.default_rng([11, seed])
    table, seen = hostile(seed), Counter()
    family, domain = FAMILIES[seed // 14 % 3], ("ball", "box")[seed // 42 % 2]
    release = release_of(family, table.alpha, table.intercept, float(rng.choice([0.1, 1.0, 30.0])))
    scale = release.mechanism().scale
    X, y = np.asarray(table.X, dtype=np.float64), table.y
    d = X.shape[1]
    x_bound = float(np.abs(X).max() * rng.choice([0.1, 1.0, 1.0, 3.0]))
    y_bound = float(np.abs(y).max() * rng.choice([0.5, 1.0, 2.0]))
    exact = solve(X, y, table.alpha, table.intercept)
    try:
        fit = release.confidential_fit(ArraySweep(table.X, y))
    except NumericalTrouble:
        seen["no fit"] += 1
        return seen
    try:
        answer = everyone(release, fit, DELTA, x_bound=x_bound, y_bound=y_bound, domain=domain)
    except NumericalTrouble:
        seen["refused"] += 1
        return seen
    if exact.null is not None:
        assert np.isinf(answer.epsilon)
        seen["infinite"] += 1
        return seen
    world = World(family, scale, table.intercept, exact, exact.H.inv())
    with mp.workdps(60):
        rows = exact_crowd(rng, world, d, domain, x_bound, size)
        targets = y_bound * rng.choice([-1.0, 1.0], size)
        rows, targets = np.concatenate([rows, rows]), np.concatenate([targets, -targets])
        found = world.losses(rows, targets)
        # around the best of them, and around the person that is named
        best = int(np.nanargmax(np.where(np.isnan(found), -1.0, found)))
        near = np.concatenate([np.tile(rows[best], (4, 1)), np.tile(answer.x, (4, 1))])
        near = inside(
            near + rng.choice([1e-3, 1e-2, 0.1], (8, 1)) * x_bound * rng.standard_normal((8, d)), domain, x_bound
        )
        climbed = world.losses(near, np.repeat([targets[best], answer.y], 4))
        found = np.concatenate([found, climbed])
        seen["people"] += int(np.isfinite(found).sum())
        own = world.losses(answer.x[None], np.array([answer.y]))[0]
    worst = np.nanmax(found, initial=0.0)
    assert not worst > answer.epsilon * (1 + INVERTED), ("below", worst, answer.epsilon, answer.kind)
    # the person that is named is one of the domain, and loses what is said
    assert (np.abs(answer.x) <= x_bound).all() if domain == "box" else np.linalg.norm(answer.x) <= x_bound * (1 + 1e-12)
    assert abs(answer.y) <= y_bound
    if not np.isnan(own):
        assert answer.attained <= own * (1 + 2 * EXACT) + 1e-12, ("attained", answer.attained, own, answer.kind)
    if table.kind in ("plain", "integers") and 0 < answer.attained < np.inf:
        assert answer.gap < (0.01 if domain == "ball" else BOX_GAP), (answer.gap, family, domain)
    if answer.kind == "exact":
        assert answer.epsilon <= max(own, worst) * (1 + 2 * EXACT) + 1e-12, ("exact", answer.epsilon, own)
    seen[answer.kind] += 1
    seen["infinite upper"] += int(np.isinf(answer.epsilon))
    return seen


# every kind of table: posterior and output in a ball, posterior and objective in a box
@pytest.mark.parametrize("start", [0, 14, 42, 70])
def test_a_sample_of_people_never_loses_more(start):
    seen = sum((attacked(seed, 8) for seed in range(start, start + 14)), Counter())
    assert seen["people"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 1336, 42))
def test_thousands_of_people_never_lose_more(start):
    seen = sum((attacked(seed) for seed in range(start, start + 42)), Counter())
    print(dict(seen))
    assert seen["people"] > 1000
