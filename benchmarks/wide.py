"""More columns than people: an audit of ridge regression against the n x n work it cannot do without."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

import perinstance as pi
from benchmarks.ratio import Ratio, seconds
from perinstance.engines import Local

LIMIT = 20
SHAPES = ((100, 200), (300, 400), (1000, 1200), (300, 2000))


def blas_floor(X: np.ndarray) -> None:
    """``(XX' + I)^-1``: one product, one Cholesky factorisation, one triangular inverse."""
    K = X @ X.T + np.eye(len(X))
    lower = np.linalg.cholesky(K)
    np.linalg.inv(lower)


def run() -> list[Ratio]:
    rng = np.random.default_rng(0)
    release, engine = pi.PosteriorSample(alpha=1.0, gamma=1.0), Local(threads=1)
    ratios = []
    for n, p in SHAPES:
        X, y = rng.standard_normal((n, p)), rng.standard_normal(n)
        with threadpool_limits(1):
            audit = seconds(lambda X=X, y=y: pi.audit(release, X, y, engine=engine), 5)
            floor = seconds(lambda X=X: blas_floor(X), 5)
        ratios.append(Ratio(f"audit of {n} people, {p} columns", "inverse of the n x n matrix", audit / floor, LIMIT))
    return ratios
