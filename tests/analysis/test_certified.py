"""Everyone under a smooth model: refits of random and of promising people never beat the certificate."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from perinstance.analysis import everyone
from perinstance.errors import InvalidInput
from perinstance.models.sweep import ArraySweep
from perinstance.releases import OutputPerturbation

DELTA = 1e-6


def world(seed, estimator, n=400, d=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    eta = X @ rng.standard_normal(d)
    if isinstance(estimator, PoissonRegressor):
        y = rng.poisson(np.exp(eta)).clip(max=5).astype(float)
    else:
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    return rng, ArraySweep(X, y)


MODELS = [
    (LogisticRegression(C=0.3), [0.0, 1.0]),
    (LogisticRegression(C=1.0, fit_intercept=False), [0.0, 1.0]),
    (PoissonRegressor(alpha=0.05), [0.0, 5.0]),
]


@pytest.mark.parametrize("domain", ["ball", "box"])
@pytest.mark.parametrize("estimator, targets", MODELS)
def test_nobody_beats_the_certificate(estimator, targets, domain):
    rng, sweep = world(1, estimator)
    release = OutputPerturbation(estimator, scale=0.2)
    fit = release.confidential_fit(sweep, "certified")
    answer = everyone(release, fit, DELTA, x_bound=0.8, y_bound=5.0, domain=domain, sweep=sweep)
    d = sweep.n_features
    people = rng.standard_normal((60, d))
    people[:20] += 3 * rng.standard_normal((20, 1)) * fit.theta[:d]
    people = np.sign(people) * 0.8 if domain == "box" else people / np.linalg.norm(people, axis=1)[:, None] * 0.8
    both, y = np.vstack([people, people]), np.repeat(targets, 60)
    refitted = release.refine(fit, sweep, both, y, inside=False).pairs.epsilon(DELTA)
    assert refitted.max() <= answer.epsilon
    assert answer.attained <= answer.epsilon and answer.kind == "upper"
    if domain == "ball":
        assert answer.attained >= refitted.max() * 0.97 and answer.gap < 0.1


def test_without_the_data_nobody_is_refitted():
    _, sweep = world(2, MODELS[0][0])
    release = OutputPerturbation(MODELS[0][0], scale=0.2)
    answer = everyone(release, release.confidential_fit(sweep, "certified"), DELTA)
    assert np.isnan(answer.attained) and np.isfinite(answer.epsilon)


def test_other_grades_have_no_certificate():
    _, sweep = world(3, MODELS[0][0])
    release = OutputPerturbation(MODELS[0][0], scale=0.2)
    with pytest.raises(InvalidInput, match="certified"):
        everyone(release, release.confidential_fit(sweep, "estimate"), DELTA)
