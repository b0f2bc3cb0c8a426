"""Relative efficiency of AdaOPS against least squares as the data grows: it tends to 1, as the paper claims.

    python -m benchmarks.efficiency [--largest 1000000] [--repeats 40]

Simulated: d = 10, rows uniform on the sphere, labels ``x'theta_0 + N(0, 0.2^2)`` cut at 1. The figure is the ratio of
mean squared prediction errors, ``E ||X(theta_ls - theta_0)||^2 / E ||X(theta - theta_0)||^2``, at epsilon = 1,
delta = 1e-6.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

import perinstance as pi
from benchmarks.ratio import Ratio
from perinstance.releases.promises.estimator import simulated_coefficients
from perinstance_experiments import rivals

Floats = NDArray[np.float64]

D, SIGMA, DELTA = 10, 0.2, 1e-6


def ada_ops(X: Floats, y: Floats, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """AdaOPS(n_public=n), through the origin as the model is, simulated."""
    release = pi.AdaOPS(epsilon, delta, 1.0, 1.0, n_public=len(y), fit_intercept=False)
    return simulated_coefficients(release, X, y, rng)


def ada_ops_private_n(X: Floats, y: Floats, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """AdaOPS(n_public=None), likewise."""
    return simulated_coefficients(pi.AdaOPS(epsilon, delta, 1.0, 1.0, fit_intercept=False), X, y, rng)


def ada_ssp(X: Floats, y: Floats, epsilon: float, delta: float, rng: np.random.Generator) -> Floats:
    """AdaSSP, likewise."""
    return simulated_coefficients(pi.AdaSSP(epsilon, delta, 1.0, 1.0, fit_intercept=False), X, y, rng)


METHODS = {
    "AdaOPS": ada_ops,
    "AdaOPS_private_n": ada_ops_private_n,
    "AdaSSP": ada_ssp,
    "rival_sufficient_statistics": rivals.sufficient_statistics,
    "rival_subsample_aggregate": rivals.subsample_and_aggregate,
    "rival_objective_perturbation": rivals.objective_perturbation,
}


def simulate(n: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Draw a table and the coefficients behind it."""
    X = rng.standard_normal((n, D))
    X /= np.linalg.norm(X, axis=1)[:, None]
    theta = rng.standard_normal(D)
    theta *= 0.3 / np.linalg.norm(theta)
    return X, np.clip(X @ theta + SIGMA * rng.standard_normal(n), -1.0, 1.0), theta


def efficiency(
    n: int, repeats: int, epsilon: float = 1.0, seed: int = 0, methods: tuple[str, ...] = tuple(METHODS)
) -> dict[str, float]:
    """Return the relative efficiency of each method at this n."""
    rng = np.random.default_rng([seed, n])
    tables = max(1, min(repeats, 4_000_000 // n))
    best, errors = 0.0, dict.fromkeys(methods, 0.0)
    for _ in range(tables):
        X, y, theta = simulate(n, rng)
        best += float(((X @ (rivals.least_squares(X, y) - theta)) ** 2).sum())
        for name in methods:
            for _ in range(max(1, repeats // tables)):
                estimate = METHODS[name](X, y, epsilon, DELTA, rng)
                errors[name] += float(((X @ (estimate - theta)) ** 2).sum()) / max(1, repeats // tables)
    return {name: best / error for name, error in errors.items()}


def run() -> list[Ratio]:
    """Measure the end of the curve, for ``python -m benchmarks``."""
    n = 1_000_000
    loss = 1.0 / efficiency(n, repeats=8, methods=("AdaOPS",))["AdaOPS"]
    return [Ratio(f"AdaOPS's squared error, n = {n:,}, d = {D}", "least squares", loss, limit=1.1)]


def main(argv: list[str] | None = None) -> int:
    """Print one row per n; exit 1 when AdaOPS does not approach least squares."""
    parser = argparse.ArgumentParser(prog="efficiency", description=__doc__)
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=40)
    options = parser.parse_args(argv)
    console = Console()
    sizes = [int(n) for n in np.unique(np.round(np.geomspace(1000, options.largest, 7), -2))]
    rows = {n: efficiency(n, options.repeats) for n in track(sizes, "efficiency", console=console)}
    shown = Table(title=f"efficiency relative to least squares, d = {D}, epsilon = 1, delta = {DELTA:g}")
    shown.add_column("n", justify="right")
    for name in METHODS:
        shown.add_column(name.replace("_", " "), justify="right")
    for n, row in rows.items():
        shown.add_row(f"{n:,}", *(f"{row[name]:.3f}" for name in METHODS))
    console.print(shown)
    figures = [rows[n]["AdaOPS"] for n in sizes]
    return 0 if figures[-1] > 0.9 and figures[0] < figures[len(figures) // 2] < figures[-1] else 1


if __name__ == "__main__":
    raise SystemExit(main())
