"""Statistical efficiency: the error of private regressions as a multiple of that of least squares, as n grows.

The paper claims ``1 + O~(1/(n epsilon^2))`` for OPS and AdaOPS. OPS with a worst-case promise (ridge sqrt(n), the
largest gamma whose exact DP keeps epsilon) is not efficient: its ridge biases it, and gamma stays bounded. AdaOPS is:
its error tends to that of least squares, the sooner the larger epsilon. Rivals: sufficient statistics with noise,
subsample-and-aggregate (Smith 2008), objective perturbation. All noise is simulated; nothing is published.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

import perinstance as pi
from perinstance import analysis
from perinstance.releases.promises.estimator import simulated_coefficients
from perinstance_experiments import rivals
from perinstance_experiments.workbench import DELTA, new_figure, save, steps

Floats = NDArray[np.float64]
Method = Callable[[Floats, Floats, float, float, np.random.Generator], Floats]

NOISE = 0.2
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
SETTINGS = ((5, 1.0), (10, 0.3), (10, 1.0), (10, 3.0))
REPEATS = 20


@dataclass(frozen=True)
class Row:
    """One method at one size."""

    d: int
    epsilon: float
    n: int
    method: str
    error_over_least_squares: float


def simulate(n: int, d: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Draw rows on the sphere, outcomes of a linear model cut at 1, and the coefficients behind them."""
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    theta = rng.standard_normal(d)
    theta *= 0.3 / np.linalg.norm(theta)
    return X, np.clip(X @ theta + NOISE * rng.standard_normal(n), -1.0, 1.0), theta


def ada_ops(X: Floats, y: Floats, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """AdaOPS with a public n."""
    return simulated_coefficients(pi.AdaOPS(epsilon, delta, 1.0, 1.0, n_public=len(y), fit_intercept=False), X, y, rng)


def ada_ssp(X: Floats, y: Floats, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """AdaSSP with its defaults."""
    return simulated_coefficients(pi.AdaSSP(epsilon, delta, 1.0, 1.0, fit_intercept=False), X, y, rng)


@lru_cache(maxsize=128)
def ops_gamma(n: int, d: int, epsilon: float, delta: float) -> float:
    """Return the largest gamma at which OPS with ridge sqrt(n) is (epsilon, delta)-DP, by the exact worst case."""

    def excess(log_gamma: float) -> float:
        release = pi.PosteriorSample(alpha=float(np.sqrt(n)), gamma=float(np.exp(log_gamma)))
        return float(analysis.worst_case_dp(release, delta, 1.0, 1.0, n=n, d=d).epsilon) - epsilon

    low, high = -25.0, 10.0
    if excess(low) >= 0:
        return 0.0  # the covariance alone gives more than epsilon away
    return float(np.exp(brentq(excess, low, high, xtol=1e-3) - 2e-3))


def ops(X: Floats, y: Floats, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """One posterior sample whose worst case keeps the promise; zero where none does."""
    n, d = X.shape
    gamma = ops_gamma(n, d, epsilon, delta)
    if gamma == 0.0:
        return np.zeros(d)
    H = X.T @ X + np.sqrt(n) * np.eye(d)
    L = np.linalg.cholesky(H)
    return np.linalg.solve(H, X.T @ y) + np.linalg.solve(L.T, rng.standard_normal(d)) / np.sqrt(gamma)


METHODS: dict[str, Method] = {
    "AdaOPS": ada_ops,
    "AdaSSP": ada_ssp,
    "OPS": ops,
    "sufficient statistics": rivals.sufficient_statistics,
    "subsample and aggregate": rivals.subsample_and_aggregate,
    "objective perturbation": rivals.objective_perturbation,
}


def measure(n: int, d: int, epsilon: float, repeats: int, names: tuple[str, ...] = tuple(METHODS)) -> list[Row]:
    """Return ``E ||X(theta - theta_0)||^2`` of each method over that of least squares."""
    rng = np.random.default_rng([n, d])
    tables = max(2, min(repeats, 1_000_000 // n))
    best, errors = 0.0, dict.fromkeys(names, 0.0)
    for _ in range(tables):
        X, y, theta = simulate(n, d, rng)
        best += float(((X @ (rivals.least_squares(X, y) - theta)) ** 2).sum())
        draws = max(1, repeats // tables)
        for name in names:
            for _ in range(draws):
                estimate = METHODS[name](X, y, epsilon, DELTA, rng)
                errors[name] += float(((X @ (estimate - theta)) ** 2).sum()) / draws
    return [Row(d, epsilon, n, name, error / best) for name, error in errors.items()]


def make(out: Path, quick: bool = False, quiet: bool = False) -> list[Path]:
    """Make figure and numbers."""
    settings = SETTINGS[:1] if quick else SETTINGS
    sizes = SIZES[:2] if quick else SIZES
    grid = [(n, d, epsilon) for d, epsilon in settings for n in sizes]
    rows = [row for one in steps(grid, "efficiency", quiet) for row in measure(*one, repeats=4 if quick else REPEATS)]
    figure, axes = new_figure(len(settings), width=4.6)
    for ax, (d, epsilon) in zip(np.atleast_1d(axes), settings, strict=True):
        for k, name in enumerate(METHODS):
            line = [row for row in rows if (row.d, row.epsilon, row.method) == (d, epsilon, name)]
            ratio = [row.error_over_least_squares for row in line]
            ax.plot([row.n for row in line], ratio, "osv^D*"[k] + ("-" if k < 2 else "--"), label=name)
        ax.axhline(1.0, color="black", linewidth=0.8)
        ax.set(xscale="log", yscale="log", xlabel="n", title=f"d = {d}, ε = {epsilon:g}")
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("error over that of least squares")
    first.legend(frameon=False, fontsize="small")
    return save(out, "efficiency", figure, rows)
