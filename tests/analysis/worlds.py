"""Small data sets and releases that the tests of the analyses share."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import Ridge

from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.releases import ObjectivePerturbation, OutputPerturbation, PosteriorSample

FAMILIES = ("posterior", "output", "objective")


def table(rng, n, d, spread=1.0):
    """Rows in the unit ball, columns of unequal size, targets in [-1, 1]."""
    X = rng.standard_normal((n, d)) * np.exp(spread * rng.standard_normal(d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.clip(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n), -1, 1)
    return X, y


def release_of(family, alpha=1.0, fit_intercept=False, scale=2.0, precision=None):
    """A release; ``scale`` is the size of its noise."""
    if family == "posterior":
        return PosteriorSample(alpha, scale**-2, fit_intercept)
    ridge = Ridge(alpha=alpha, fit_intercept=fit_intercept)
    if family == "output":
        return OutputPerturbation(ridge, scale=scale, precision=precision)
    return ObjectivePerturbation(ridge, scale=scale)


def fit_of(release, X, y):
    return release.confidential_fit(ArraySweep(np.asarray(X, dtype=float), np.asarray(y, dtype=float)))


def losses(release, fit, X, y, delta):
    """Epsilon of outsiders who join."""
    return np.asarray(release.people(fit, Block(np.ascontiguousarray(X), y), inside=False).pairs.epsilon(delta))
