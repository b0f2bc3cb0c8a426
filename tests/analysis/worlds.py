"""Small data sets and releases that the tests of the analyses share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import GammaRegressor, LogisticRegression, Ridge

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


KINDS = (
    "plain",
    "near-dependent",
    "duplicated",
    "constant",
    "offset",
    "scales",
    "tiny",
    "exact fit",
    "giant row",
    "few rows",
    "alone",
    "integers",
    "float32",
    "repeated rows",
)
ALPHAS = (0.0, 1e-16, 1e-12, 1e-8, 1e-6, 1e-3, 1.0, 1e3, 1e8)


@dataclass
class Hostile:
    """A table, the release's penalty and whether there is an intercept."""

    kind: str
    X: np.ndarray
    y: np.ndarray
    alpha: float
    intercept: bool


def hostile(seed: int) -> Hostile:
    """One table; the kind goes round."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n, d = int(rng.choice([6, 9, 14, 24])), int(rng.choice([1, 2, 3, 4]))
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)
    alpha = float(rng.choice(ALPHAS))
    intercept = bool(rng.integers(2))
    if kind == "near-dependent" and d > 1:
        X[:, -1] = X[:, 0] + 10.0 ** -rng.integers(3, 13) * X[:, -1]
    elif kind == "duplicated":
        X = np.column_stack([X, X[:, 0]])
    elif kind == "constant":
        X[:, -1] = rng.choice([1.0, 3.0, 1e4])
        intercept = True
    elif kind == "offset":
        X = X + 10.0 ** rng.integers(3, 9) * rng.choice([-1.0, 1.0], d)
    elif kind == "scales":
        X = X * 10.0 ** rng.integers(-30, 31, d)
    elif kind == "tiny":
        X, y = X * 10.0 ** -rng.integers(20, 60), y * 10.0 ** rng.integers(-20, 21)
    elif kind == "exact fit":
        X = np.round(4 * X)
        y = X @ np.round(3 * rng.standard_normal(d))
    elif kind == "giant row":
        X[0] *= 10.0 ** rng.integers(4, 12)
    elif kind == "few rows":
        keep = int(rng.integers(2, 5))
        X, y = X[:keep], y[:keep]
    elif kind == "alone":
        X[:, -1] = 0.0
        X[: int(rng.integers(1, 4)), -1] = rng.standard_normal()
    elif kind == "integers":
        X, y = np.round(5 * X), np.round(5 * y)
    elif kind == "float32":
        X = (X + 10.0 ** rng.integers(0, 5)).astype(np.float32)
    elif kind == "repeated rows":
        X, y = np.repeat(X[: n // 3 + 1], 3, axis=0), np.repeat(y[: n // 3 + 1], 3)
    return Hostile(kind, X, y, alpha, intercept)
