"""The discussion's claims: for all against average, covariate shift, the smallest eigenvalue, ||theta_0||.

One posterior sample of least squares. The paper says that the mean squared loss of the people in the data does not
depend on the smallest eigenvalue, that pDP for all is larger by a factor of order ``(1 + ||theta_0||)^2 / m``, and that
under covariate shift (outsiders with any features, outcomes from the same model) the factor ``(1 + ||theta_0||)`` is
gone. Here the design is squeezed in one direction and theta_0 is made longer, and all three are measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import perinstance as pi
from perinstance_experiments.workbench import BLUE, DELTA, GREEN, ORANGE, new_figure, save, steps

N, D, NOISE = 2000, 5, 0.05
SPREADS = (1.0, 0.5, 0.2, 0.1)
SIZES = (0.25, 1.0, 4.0)


@dataclass(frozen=True)
class Row:
    """One design and one length of theta_0."""

    spread: float
    size: float
    smallest_eigenvalue: float  #: of d X'X / n
    mean_square: float  #: of the losses of the people in the data
    shifted_mean_square: float  #: of outsiders with features from elsewhere and outcomes from the model
    everyone: float  #: upper bound for anybody with ||x|| <= 1 and |y| <= 1 + ||theta_0||
    ratio: float  #: everyone^2 / mean_square
    predicted: float  #: (1 + ||theta_0||)^2 / smallest_eigenvalue


def simulate(n: int, spread: float, size: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows of norm one, squeezed in one direction, and outcomes of the linear model, not clipped."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    X[:, -1] *= spread
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    theta = np.ones(D) * size / np.sqrt(D)
    return X, X @ theta + NOISE * rng.normal(size=n), theta


def measure(n: int, spread: float, size: float) -> Row:
    """Audit people in the data, people from elsewhere, and anybody."""
    X, y, theta = simulate(n, spread, size, seed=3)
    release = pi.PosteriorSample(alpha=0.0, gamma=1.0)
    audit = pi.audit(release, X, y, delta=DELTA)
    rng = np.random.default_rng(4)
    elsewhere = rng.normal(size=(n, D))
    elsewhere /= np.linalg.norm(elsewhere, axis=1, keepdims=True)
    others = elsewhere, elsewhere @ theta + NOISE * rng.normal(size=n)
    outside = pi.audit(release, X, y, outsiders=others, delta=DELTA)
    everyone = float(audit.everyone(x_bound=1.0, y_bound=1.0 + size).epsilon)
    smallest = float(np.linalg.eigvalsh(X.T @ X)[0] * D / n)
    inside = float(audit.moments(2)[1])
    shifted = float(outside.moments(2)[1])
    return Row(spread, size, smallest, inside, shifted, everyone, everyone**2 / inside, (1 + size) ** 2 / smallest)


def make(out: Path, quick: bool = False, quiet: bool = False) -> list[Path]:
    """Make figure and numbers."""
    n = 300 if quick else N
    grid = [(spread, size) for spread in SPREADS for size in SIZES]
    rows = [measure(n, *one) for one in steps(grid, "covariate-shift", quiet)]
    figure, (left, right) = new_figure(2)
    middle = [row for row in rows if row.size == 1.0]
    eigenvalue = [row.smallest_eigenvalue for row in middle]
    left.plot(eigenvalue, [row.everyone**2 for row in middle], "s--", color=GREEN, label="for all (squared)")
    left.plot(
        eigenvalue,
        [row.shifted_mean_square for row in middle],
        "v:",
        color=ORANGE,
        label="from elsewhere (mean square)",
    )
    left.plot(eigenvalue, [row.mean_square for row in middle], "o-", color=BLUE, label="in the data (mean square)")
    left.set(
        xscale="log", yscale="log", xlabel="smallest eigenvalue of d X'X / n", ylabel="squared loss", title="‖θ₀‖ = 1"
    )
    left.legend(frameon=False)
    right.plot([row.predicted for row in rows], [row.ratio for row in rows], "o", color=BLUE)
    right.set(
        xscale="log",
        yscale="log",
        xlabel="(1 + ‖θ₀‖)² / smallest eigenvalue",
        ylabel="for all² / mean square in the data",
    )
    return save(out, "covariate-shift", figure, rows)
