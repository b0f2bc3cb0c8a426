"""Tables that a fit has trouble with, by kind: what the kept searches for losses below the truth draw from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
