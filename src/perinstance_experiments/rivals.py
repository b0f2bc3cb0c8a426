"""Rivals of AdaOPS and AdaSSP, for comparison only: simulated with floating-point noise, never published.

All of them keep (epsilon, delta) on paper for ``||x|| <= 1``, ``|y| <= 1`` and adding or removing one person.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from perinstance.pairs import GaussianShift
from perinstance.releases.promises.promise import gaussian_distance

Floats = NDArray[np.float64]


def least_squares(X: Floats, y: Floats) -> Floats:
    """The estimate without privacy."""
    return np.linalg.lstsq(X, y, rcond=None)[0]


def sufficient_statistics(X: Floats, y: Floats, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """(X'X, X'y) with exactly calibrated noise, and a ridge that lifts the smallest noisy eigenvalue over the noise.

    The smallest eigenvalue is taken from the noisy matrix: post-processing (``SSP_exact_post_lmin`` is of this kind).
    """
    d = X.shape[1]
    scale = math.sqrt(2.0) / gaussian_distance(epsilon, delta)
    Z = rng.standard_normal((d, d))
    G = X.T @ X + scale * (Z + Z.T) / 2.0
    ridge = max(0.0, 2.0 * math.sqrt(d) * scale - max(0.0, float(np.linalg.eigvalsh(G)[0])))
    return np.linalg.solve(G + ridge * np.eye(d), X.T @ y + scale * rng.standard_normal(d))


def subsample_and_aggregate(
    X: Floats, y: Floats, epsilon: float, delta: float, rng: np.random.Generator, radius: float = 1.0
) -> Floats:
    """Smith (2008): least squares on disjoint blocks, each cut to a ball, averaged, with noise.

    People fall into one of ``k`` blocks independently of the data, so one person moves one estimate by at most
    ``2 radius``, and the average by ``2 radius / k``. Blocks hold about ``max(2 d, sqrt(n))`` people (of a public n).
    """
    n, d = X.shape
    k = max(1, int(n / max(2 * d, math.sqrt(n))))
    block = rng.integers(k, size=n)
    total = np.zeros(d)
    for b in range(k):
        theta = least_squares(X[block == b], y[block == b]) if (block == b).any() else np.zeros(d)
        total += theta * min(1.0, radius / max(float(np.linalg.norm(theta)), 1e-300))
    return total / k + 2.0 * radius / k / gaussian_distance(epsilon, delta) * rng.standard_normal(d)


def objective_perturbation(X: Floats, y: Floats, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """Huber regression (gradient cut at 1) with a random linear term, calibrated as Redberg, Koskela and Wang (2023).

    With L = 1 and beta = 1 (Lipschitz and smooth), ``e1 = epsilon - |log(1 - beta/ridge)|``, ``e2 = e1 - L^2/(2 s^2)``:
    ``delta = 2 H(e1)`` if ``e2 >= 0``, else ``1 - e^e2 + 2 e^e2 H(L^2/(2 s^2))``, H the profile of a shift by ``L/s``.
    A quarter of epsilon pays for the ridge.
    """
    ridge = 1.0 / (1.0 - math.exp(-epsilon / 4.0))
    e1 = 0.75 * epsilon

    def excess(log_scale: float) -> float:
        s = math.exp(log_scale)
        e2 = e1 - 0.5 / s**2
        if e2 >= 0:
            return 2.0 * float(GaussianShift(1.0 / s).delta(e1)[0]) - delta
        return 1.0 - math.exp(e2) + 2.0 * math.exp(e2) * float(GaussianShift(1.0 / s).delta(0.5 / s**2)[0]) - delta

    scale = math.exp(brentq(excess, -3.0, 20.0)) * (1.0 + 1e-9)
    b = scale * rng.standard_normal(X.shape[1])
    return _huber(X, y, ridge, b)


SKETCHED, SKETCHED_AGAIN, STEPS = 2.5, 6.0, 3  # what the authors use: k over max(d, log 1/failure), and iterations
ORDERS = 1.0 + np.geomspace(1e-2, 1e4, 400)


@lru_cache(maxsize=256)
def mixing_level(epsilon: float, delta: float, k: int, steps: int, row: float) -> float:
    """The smallest g such that sketches N(0, Z'Z + g I) of k rows, ``steps`` times, keep (epsilon, delta) in all.

    ``row`` bounds the squared norm of a person's row. One sketch has the Renyi divergence
    ``k/(2(a-1)) (a log(1 - row/g) - log(1 - a row/g))`` of order a (Lev et al. 2025); the noisy smallest eigenvalue, of
    scale ``g/sqrt(k)``, is composed with them. A third of delta is left for the eigenvalue's bound.
    """

    def spent(log_level: float) -> float:
        g = math.exp(log_level)
        a = ORDERS[ORDERS * row < g]
        if not len(a):
            return math.inf
        sketch = k / (2.0 * (a - 1.0)) * (a * np.log1p(-row / g) - np.log1p(-a * row / g))
        eigenvalue = a * k * row**2 / (2.0 * g**2)
        to_delta = (math.log(1.5 / delta) + (a - 1.0) * np.log1p(-1.0 / a) - np.log(a)) / (a - 1.0)
        return float((steps * sketch + eigenvalue + to_delta).min())

    low, high = math.log(1.02 * row), 30.0
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if spent(middle) > epsilon else (low, middle)
    return math.exp(high)


def _lifted(G: Floats, level: float, k: int, tail: float, rng: np.random.Generator) -> Floats:
    """``G`` raised by what its smallest eigenvalue, bounded below from noise, leaves of the level."""
    scale = level / math.sqrt(k)
    low = float(np.linalg.eigvalsh(G)[0]) + scale * float(rng.standard_normal()) - scale * math.sqrt(2.0 * tail)
    return G + max(0.0, level - max(0.0, low)) * np.eye(len(G))


def _sketch(G: Floats, k: int, rng: np.random.Generator) -> Floats:
    """``S'S`` of k rows of N(0, G): what a Gaussian sketch of the table and its noise amount to."""
    rows = rng.standard_normal((k, len(G))) @ np.linalg.cholesky(G).T
    return rows.T @ rows


def gaussian_mixing(X: Floats, y: Floats, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """GaussMix (Lev et al., NeurIPS 2025, arXiv 2505.24603): least squares on one noisy Gaussian sketch of (X, y)."""
    d, tail = X.shape[1], math.log(20.0 / delta)
    k = int(SKETCHED * max(d, tail))
    Z = np.column_stack([X, y])
    level = mixing_level(epsilon, delta, k, 1, 2.0)
    S = _sketch(_lifted(Z.T @ Z, level, k, tail, rng), k, rng)
    return np.linalg.solve(S[:d, :d], S[:d, d])


def iterative_hessian_mixing(X: Floats, y: Floats, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """IHM (Lev et al. 2026, arXiv 2601.07545): steps ``theta + H^-1 m``, each with a new sketch H and a noisy moment m.

    As the authors split it: half of epsilon and three quarters of delta for the sketches of X, the rest for the moments
    of residuals, which are clipped at the label's bound.
    """
    d, tail = X.shape[1], math.log(40.0 * STEPS / delta)
    k = int(SKETCHED_AGAIN * max(d, tail))
    level = mixing_level(epsilon / 2.0, 0.75 * delta, k, STEPS, 1.0)
    G = _lifted(X.T @ X, level, k, tail, rng)
    scale = math.sqrt(STEPS) / gaussian_distance(epsilon / 2.0, delta / 4.0)
    theta = np.zeros(d)
    for _ in range(STEPS):
        moment = X.T @ np.clip(y - X @ theta, -1.0, 1.0) + scale * rng.standard_normal(d)
        theta = theta + np.linalg.solve(_sketch(G, k, rng) / k, moment)
    return theta


def _huber(X: Floats, y: Floats, ridge: float, b: Floats) -> Floats:
    """``argmin sum huber(y - x'theta) + ridge/2 ||theta||^2 + b'theta`` by damped Newton steps."""
    d = X.shape[1]
    theta = np.zeros(d)

    def value(t: Floats) -> float:
        r = np.abs(y - X @ t)
        return float(np.where(r <= 1, r * r / 2, r - 0.5).sum() + ridge / 2 * t @ t + b @ t)

    for _ in range(100):
        r = y - X @ theta
        gradient = -X.T @ np.clip(r, -1, 1) + ridge * theta + b
        if np.linalg.norm(gradient) < 1e-8 * (1.0 + np.linalg.norm(b)):
            break
        inner = X[np.abs(r) <= 1]
        step = np.linalg.solve(inner.T @ inner + ridge * np.eye(d), gradient)
        size, here, slope = 1.0, value(theta), float(gradient @ step)
        while value(theta - size * step) > here - 1e-4 * size * slope and size > 1e-9:
            size /= 2.0
        theta = theta - size * step
    return theta
