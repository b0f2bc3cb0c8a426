"""Small tables for smooth models."""

import numpy as np
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor

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


def hard_world(seed):
    """Return a hard table and what is asked of it: few people, rare columns, C to 10, classes apart, far domains."""
    rng = np.random.default_rng(seed)
    kind = ("logistic", "poisson", "logistic", "gamma", "separated")[seed % 5]
    intercept = bool(rng.random() < 0.5)
    d = int(rng.choice([1, 2, 3, 5, 10]))
    n = max(int(rng.choice([30, 50, 80, 150, 300, 600])), 5 * d + 5)
    if kind in ("poisson", "gamma"):
        maker = PoissonRegressor if kind == "poisson" else GammaRegressor
        estimator = maker(alpha=float(rng.choice([0.01, 0.1, 0.5])), fit_intercept=intercept)
    else:
        estimator = LogisticRegression(C=float(rng.choice([0.3, 1.0, 10.0])), fit_intercept=intercept)
    X = rng.standard_normal((n, d)) * np.exp(0.5 * rng.standard_normal(d))
    X[:, 0] = np.abs(X[:, 0])
    if d > 1 and rng.random() < 0.5:
        X[:, 1] *= rng.random(n) < 0.15
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    eta = X @ rng.standard_normal(d)
    if kind == "separated":
        along = X @ rng.standard_normal(d)
        y = (along > np.median(along)).astype(float)
    elif kind == "logistic":
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    else:
        y = rng.poisson(np.exp(eta)).clip(max=5).astype(float) + 0.2 * (kind == "gamma")
    options = {"x_bound": float(rng.choice([0.7, 1.0, 1.5])), "scale": float(rng.choice([0.05, 0.2, 1.0]))}
    return rng, ArraySweep(X, y), estimator, options
