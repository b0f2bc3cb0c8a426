"""Losses by simulated trainings, against the laws that are known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.errors import InvalidInput
from perinstance.training import simulate

RNG = np.random.default_rng(5)
X = RNG.normal(size=(8, 1))
Y = 0.5 * X[:, 0] + RNG.normal(size=8)
PLAIN = Ridge(alpha=1.0, fit_intercept=False)


def test_the_interval_holds_the_exact_loss_of_ridge_regression():
    release = pi.NoisyDescent(PLAIN, 5, 0.05, None, 2.0, publish="all")
    exact = pi.audit(release, X, Y)
    person = int(np.argmax(exact.losses))
    assert exact.kind[person] == "exact"
    for epsilon in (0.0, 0.3):
        found = simulate(release, X, Y, person, epsilon, trainings=1000, rng=np.random.default_rng(1))
        true = exact.pairs[person].delta(epsilon)[0]
        assert found.low <= true <= found.high and found.high - found.low < 0.12
        assert found.delta == pytest.approx(true, abs=0.03) and found.kind == "estimate"


def test_one_sampled_step_is_its_closed_form():
    release = pi.NoisyDescent(PLAIN, 1, 0.05, 0.7, 1.0, rate=0.3)
    person = int(np.argmax(np.abs(X[:, 0] * Y)))
    length = min(abs(X[person, 0] * Y[person]), 0.7)
    true = pi.pairs.SampledGaussian(0.3, [length]).delta(0.05)[0]
    found = simulate(release, X, Y, person, 0.05, trainings=1500, rng=np.random.default_rng(2))
    assert found.low <= true <= found.high and found.delta == pytest.approx(true, abs=0.03)
    assert any("batches" in words for words in found.assumptions)


def test_classifiers_are_simulated_below_their_promise():
    release = pi.NoisyDescent(LogisticRegression(), steps=3, clip=0.8, noise=1.5, classes=("no", "yes"))
    found = simulate(release, X, np.where(Y > 0, "yes", "no"), 0, 0.2, trainings=100, rng=np.random.default_rng(3))
    assert found.low <= release.promise().delta(0.2) and 0 <= found.low <= found.delta <= found.high <= 1


def test_labels_and_missing_cells_count_as_in_fit():
    """A label that is no declared class, or a row with a missing cell, is as if the person were not there."""
    release = pi.NoisyDescent(LogisticRegression(), 3, 0.1, 1.0, 1.0, classes=("yes", "no"))
    labels, rows = np.where(Y > 0, "yes", "no").astype(object), X.copy()

    def found(y, x):
        return simulate(release, x, y, 0, 0.1, trainings=50, rng=np.random.default_rng(3))

    plain = found(np.delete(labels, 5), np.delete(rows, 5, 0))
    odd, missing = labels.copy(), rows.copy()
    odd[5], missing[5] = "perhaps", np.nan
    assert found(odd, rows).delta == found(labels, missing).delta == pytest.approx(plain.delta, rel=1e-9)
    nobody = labels.copy()
    nobody[0] = "perhaps"
    assert found(nobody, rows).delta == 0.0


def test_what_is_refused():
    plain, logistic = pi.NoisyDescent(PLAIN, 2, noise=1.0), pi.NoisyDescent(LogisticRegression(), 3, noise=1.0)
    for release, wrong, why in (
        (plain, {"person": 8}, "person"),
        (plain, {"person": -1}, "person"),
        (plain, {"trainings": 1}, "trainings"),
        (plain, {"epsilon": np.nan}, "epsilon"),
        (plain, {"confidence": 1.0}, "confidence"),
        (plain, {"y": Y[:3]}, "one per row"),
        (pi.NoisyDescent(PLAIN, 2, noise=1.0, filter=(8, 1.0)), {}, "filter"),
        (pi.PosteriorSample(), {}, "NoisyDescent"),
        (logistic, {"y": np.where(Y > 0, "yes", "no")}, "classes"),
    ):
        with pytest.raises(InvalidInput, match=why):
            simulate(release, **{"X": X, "y": Y, "person": 0, "epsilon": 1.0, "trainings": 10, **wrong})
