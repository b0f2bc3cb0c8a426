"""What hiding the path is worth: the last iterate of noisy gradient descent against all iterates, and its limit.

Ridge regression without clipping, everybody in every step: the iterates are Gaussian with and without each person. All
iterates together cost more with every step. The last one alone stops growing: with small steps it tends to one sample
of the posterior, of inverse temperature ``gamma = 2 / (learning rate * noise^2)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance_experiments.workbench import BLUE, DELTA, GREY, ORANGE, linear_gaussian, new_figure, save, steps

LEARNING_RATE, NOISE = 0.002, 10.0
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
#: the law of the whole path is written down for so many steps
LONGEST_PATH = 100
TABLE = linear_gaussian(40, 2, seed=4)


@dataclass(frozen=True)
class Row:
    """One number of steps: quantiles of the losses at ``DELTA``."""

    steps: int
    last_median: float
    last_largest: float
    all_median: float  #: NaN beyond ``LONGEST_PATH``
    all_largest: float
    posterior_median: float
    posterior_largest: float


def losses(count: int, publish: str) -> tuple[float, float]:
    """Return the median and the largest loss."""
    plain = Ridge(alpha=1.0, fit_intercept=False)
    release = pi.NoisyDescent(plain, count, LEARNING_RATE, None, NOISE, publish=publish)
    median, largest = pi.audit(release, TABLE.X, TABLE.y, delta=DELTA).quantile([0.5, 1.0])
    return float(median), float(largest)


def posterior() -> tuple[float, float]:
    """Return the same of the limit."""
    limit = pi.PosteriorSample(alpha=1.0, gamma=2.0 / (LEARNING_RATE * NOISE**2))
    median, largest = pi.audit(limit, TABLE.X, TABLE.y, delta=DELTA).quantile([0.5, 1.0])
    return float(median), float(largest)


def measure(count: int) -> Row:
    """Audit one number of steps, both ways of publishing."""
    everything = losses(count, "all") if count <= LONGEST_PATH else (float("nan"),) * 2
    return Row(count, *losses(count, "last"), *everything, *posterior())


def make(out: Path, quick: bool = False, quiet: bool = False) -> list[Path]:
    """Make figure and numbers."""
    rows = [measure(count) for count in steps(STEPS[:4] if quick else STEPS, "hidden-path", quiet)]
    figure, ax = new_figure(1, width=7.0)
    at = [row.steps for row in rows]
    for name, colour, words in (("all", ORANGE, "all iterates"), ("last", BLUE, "the last iterate")):
        ax.plot(at, [getattr(row, f"{name}_largest") for row in rows], "o-", color=colour, label=f"{words}: largest")
        median = [getattr(row, f"{name}_median") for row in rows]
        ax.plot(at, median, "s--", color=colour, label=f"{words}: median")
    ax.axhline(rows[0].posterior_largest, color=GREY, label="posterior sample: largest")
    ax.axhline(rows[0].posterior_median, color=GREY, linestyle="--", label="posterior sample: median")
    ax.set(xscale="log", yscale="log", xlabel="steps", ylabel=f"loss ε at δ = {DELTA:g}")
    ax.set_title("What hiding the path is worth")
    ax.legend(frameon=False, fontsize="small")
    return save(out, "hidden-path", figure, rows)


def limit_gap(count: int, learning_rate: float) -> float:
    """Return how far, relatively, the last iterate's losses are from those of its posterior sample, at most."""
    plain, gamma = Ridge(alpha=1.0, fit_intercept=False), 10.0
    noise = float(np.sqrt(2.0 / (learning_rate * gamma)))
    last = pi.audit(pi.NoisyDescent(plain, count, learning_rate, None, noise), TABLE.X, TABLE.y).losses
    sample = pi.audit(pi.PosteriorSample(alpha=1.0, gamma=gamma), TABLE.X, TABLE.y).losses
    return float(np.abs(last / sample - 1.0).max())
