"""Small tables for smooth models."""

import numpy as np
from sklearn.linear_model import GammaRegressor, LogisticRegression

from perinstance.folds.sweep import ArraySweep


def world(seed, estimator, n=400, d=3, spread=0.0, most=5, lift=0.2):
    """Rows in the unit ball; with a spread, columns of unequal size and one that is not symmetric."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.exp(spread * rng.standard_normal(d))
    if spread:
        X[:, 0] = np.abs(X[:, 0])
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    eta = X @ rng.standard_normal(d)
    if isinstance(estimator, LogisticRegression):
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    else:
        y = rng.poisson(np.exp(eta)).clip(max=most).astype(float) + lift * isinstance(estimator, GammaRegressor)
    return rng, ArraySweep(X, y)
