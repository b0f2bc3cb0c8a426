"""A block's losses in one call of compiled code are those of the steps it is made of, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.folds.block import Block
from perinstance.models import ArraySweep
from perinstance.models.linear import cholesky_qr, ridge
from perinstance.models.linear.row_statistics import AT_A_TIME
from perinstance.releases.base.block_losses import AnswerRoom, loss_loop, losses_of_block

RELEASES = {
    "sample": pi.PosteriorSample(alpha=1.0, gamma=2.0),
    "with intercept": pi.PosteriorSample(alpha=1.0, gamma=2.0, fit_intercept=True),
    "output": pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=1e-3),
}


@pytest.fixture(autouse=True)
def _no_table_is_small(monkeypatch):
    """Small ones have factors and lengths of their own, by steps."""
    for module in (cholesky_qr, ridge):
        monkeypatch.setattr(module, "SMALL_TABLE", 0)


def rows(seed, n, d, kind):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    if kind == "awkward":
        X[5] *= 300.0  # dominates
        X[6], X[n - 1] = 0.0, 0.0  # in no equation without an intercept
        y[7] = X[7] @ np.linalg.lstsq(X, y, rcond=None)[0]  # almost fitted
    return X, y


@pytest.mark.parametrize("kind", ["usual", "awkward"])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", RELEASES)
def test_one_call_is_its_steps(name, large, kind, monkeypatch):
    monkeypatch.setattr(ridge, "LARGE_TABLE", 0 if large else 10**12)
    release, (X, y) = RELEASES[name], rows(1, 2 * AT_A_TIME + 7, 9, kind)
    fit = release.confidential_fit(ArraySweep(X, y))
    block = Block(X, y)
    answer = losses_of_block(block, release, fit, True, 1e-6)
    people, epsilon = answer.people, answer.epsilon
    steps = release.people(fit, block)
    for ours, theirs in zip(
        (people.leverage, people.residual, epsilon, people.pairs.kinds, *people.pairs.parameters().values()),
        (
            steps.leverage,
            steps.residual,
            steps.pairs.epsilon(1e-6),
            steps.pairs.kinds,
            *steps.pairs.parameters().values(),
        ),
        strict=True,
    ):
        known = np.ones(len(y), dtype=bool) if steps.open is None else ~steps.open
        assert np.array_equal(ours[known], theirs[known])
    assert (people.open is None) == (steps.open is None) == (kind == "usual")
    assert steps.open is None or np.array_equal(people.open, steps.open)


@pytest.mark.parametrize("name", RELEASES)
def test_what_is_not_for_it_goes_step_by_step(name):
    release, (X, y) = RELEASES[name], rows(2, AT_A_TIME, 9, "usual")
    fit = release.confidential_fit(ArraySweep(X, y))
    loop = loss_loop(release, fit, X, True, 1e-6)
    assert loop is not None and loop.of_block(Block(X, y), AnswerRoom.empty(len(y))) is not None
    refused = [
        (Block(X, y), False, 1e-6),  # people outside
        (Block(X, y), True, 0.7),  # no tables
        (Block(X[:-1], y[:-1]), True, 1e-6),  # few
        (Block(np.asfortranarray(X), y), True, 1e-6),
        (Block(X.astype(np.float32), y), True, 1e-6),
    ]
    for block, inside, delta in refused:
        assert loss_loop(release, fit, block.X, inside, delta) is None
        answer = losses_of_block(block, release, fit, inside, delta)
        assert len(answer.epsilon) == len(block)


def test_a_release_with_people_of_its_own_keeps_them():
    class Twice(pi.PosteriorSample):
        def people(self, fit, block, inside=True):
            found = super().people(fit, block, inside)
            return type(found)(2 * found.leverage, found.residual, found.pairs, found.open)

    X, y = rows(3, AT_A_TIME, 4, "usual")
    once, twice = (release(1.0).confidential_fit(ArraySweep(X, y)) for release in (pi.PosteriorSample, Twice))
    assert losses_of_block(Block(X, y), Twice(1.0), twice, True, 1e-6).people.leverage[0] == pytest.approx(
        2 * losses_of_block(Block(X, y), pi.PosteriorSample(1.0), once, True, 1e-6).people.leverage[0]
    )
