"""The Laplace posterior's pairs against means and covariances refitted without each person."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import perinstance as pi
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.models.problem_registry import huber
from perinstance.pairs import GeneralGaussian
from perinstance.releases.laplace_posterior import LaplacePosterior

from .dumb import FORMULAS, problem, refit

GAMMA = 0.8


def _posterior(name, X, y, alpha, mean):
    theta = refit(name, X, y, alpha, intercept=True, mean=mean)
    A = np.column_stack([X, np.ones(len(X))])
    weights = np.append(np.full(X.shape[1], alpha * (len(X) if mean else 1)), 0.0)
    H = (A.T * FORMULAS[name](y, A @ theta)[2]) @ A + np.diag(weights)
    return theta, np.linalg.inv(H) / GAMMA


@pytest.mark.parametrize(
    ("estimator", "name", "alpha", "mean"),
    [(LogisticRegression(C=0.5), "logistic", 2.0, False), (PoissonRegressor(alpha=0.05), "poisson", 0.05, True)],
    ids=["logistic", "poisson"],
)
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
def test_pairs_of_refitted_posteriors(estimator, name, alpha, mean, inside):
    X, y = problem(name, np.random.default_rng(6), 90, 3, spread=0.3)
    release = LaplacePosterior(estimator, gamma=GAMMA)
    sweep = ArraySweep(X, y, rows=40)
    fit = release.confidential_fit(sweep)
    Z, z = (X[:5], y[:5]) if inside else (X[:5] * 1.2, y[:5])
    assert release.people(fit, Block(Z, z), inside).open.all()
    found = release.refine(fit, sweep, Block(Z, z), inside).pairs
    everyone = _posterior(name, X, y, alpha, mean)
    for i in range(5):
        if inside:
            p, q = _posterior(name, np.delete(X, i, 0), np.delete(y, i), alpha, mean), everyone
        else:
            p, q = everyone, _posterior(name, np.vstack([X, Z[i]]), np.append(y, z[i]), alpha, mean)
        expected = GeneralGaussian.from_moments(p[0][None], p[1][None], q[0][None], q[1][None])
        for direction in ("without", "with"):
            assert found[i].kl(direction) == pytest.approx(expected.kl(direction), rel=1e-6)
        assert found[i].epsilon(1e-5) == pytest.approx(expected.epsilon(1e-5), rel=1e-6)
    rough = release.people(release.confidential_fit(sweep, "estimate"), Block(Z, z), inside)
    assert rough.open is None
    assert rough.pairs.kind == "estimate"
    assert rough.pairs.kl() == pytest.approx(found.kl(), rel=0.5)


def test_a_ridge_regression_is_the_posterior_sample():
    """For squared loss the Laplace approximation is exact: the pairs are those of PosteriorSample."""
    from perinstance.models.losses.catalogue import Squared
    from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective
    from perinstance.models.smooth.problem import SmoothProblem

    X, y = problem("squared", np.random.default_rng(3), 50, 2)
    model = SmoothProblem(SmoothObjective(Squared(), RidgePenalty(1.5)))
    smooth = pi.audit(LaplacePosterior(model, gamma=GAMMA), X, y, delta=1e-6)
    linear = pi.audit(pi.PosteriorSample(alpha=1.5, gamma=GAMMA), X, y, delta=1e-6)
    assert smooth.epsilon == pytest.approx(linear.epsilon, rel=1e-6)


def test_publishing_and_refusals():
    X, y = problem("logistic", np.random.default_rng(9), 200, 2)
    release = LaplacePosterior(LogisticRegression(), gamma=1e8).fit(X, y)
    expected = LogisticRegression(tol=1e-10).fit(X, y)
    assert release.coef_ == pytest.approx(expected.coef_, abs=0.02)
    assert release.coef_.shape == (1, 2)
    assert release.predict_proba(X[:3]).sum(axis=1) == pytest.approx(np.ones(3))
    assert release.score(X, y) == pytest.approx(expected.score(X, y), abs=0.05)
    with pytest.raises(InvalidInput, match="upper"):
        release.confidential_fit(ArraySweep(X, y), "upper")
    for refused in (Ridge(), huber()):
        with pytest.raises(RefusedModel, match="Laplace"):
            LaplacePosterior(refused).problem()
