"""Who takes part, and what that does to the fit: the paper's second and third open question, by simulation.

Everybody has a limit of their own for epsilon, drawn independently of their row, and leaves when what they are told
exceeds it. Three things they might be told: their own loss (which nobody may tell them; they leave until nobody else
wants to), a bound from their own row (AdaSSP), or the promise that holds for everybody. Outcomes are not quite linear,
so that people with rare features, who lose most, are also those from whom a straight line learns something else.
What is measured is the part of the error that does not average out: the fit of those who stay against that of
everybody, averaged over tables, in the predictions for everybody and for those with rare features. Nothing here is
advice to drop anybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import perinstance as pi
from perinstance_experiments.workbench import BLUE, DELTA, GREEN, ORANGE, Floats, new_figure, save, steps

N, D, TABLES, SPREAD, RARE = 1000, 3, 12, 0.75, 0.1
LIMITS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
RULES = ("own loss", "own row", "promise")
TOLD = {"own loss": "told their own loss", "own row": "told a bound from their own row", "promise": "told the promise"}


@dataclass(frozen=True)
class Row:
    """One rule and one median limit."""

    rule: str
    median_limit: float
    staying: float  #: share of the people
    rare_staying: float  #: share of the tenth with the rarest features
    bias: float  #: of predictions, for everybody, in standard deviations of the outcome
    rare_bias: float  #: the same for the tenth with the rarest features
    chance: float  #: the standard error of ``bias``: what so few tables show where there is none


def simulate(n: int, seed: int) -> tuple[Floats, Floats]:
    """Draw rows of norm at most one, long ones rare, and outcomes that bend upwards for them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * rng.choice([0.15, 0.35], p=[1 - RARE, RARE], size=(n, 1))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    bend = np.abs(X[:, 0]) * X[:, 0]
    return X, np.clip(X @ [0.5, -0.3, 0.2] + bend + 0.1 * rng.normal(size=n), -1.0, 1.0)


def staying(rule: str, X: Floats, y: Floats, limits: Floats) -> Floats:
    """Return who stays, as a mask."""
    if rule == "own loss":
        stay = np.ones(len(y), dtype=bool)
        while True:  # whoever leaves makes the others' losses larger
            losses = pi.audit(pi.PosteriorSample(alpha=1.0, gamma=10.0), X[stay], y[stay], delta=DELTA).losses
            leave = np.flatnonzero(stay)[losses > limits[stay]]
            if not len(leave) or len(leave) == stay.sum():
                return stay
            stay[leave] = False
    if rule == "own row":
        release = pi.AdaSSP(epsilon=1.0, delta=DELTA, x_bound=1.0, y_bound=1.0)
        told = pi.audit(release, X, y, delta=DELTA).losses  # a function of each row alone
        return told <= limits
    return limits >= 1.0


def measure(rule: str, median: float, n: int, tables: int) -> Row:
    """Average over tables."""
    rows = [_one(rule, median, n, seed) for seed in range(tables)]
    gaps = np.array([row[0] for row in rows])
    X, y = simulate(20 * n, seed=10_000)
    size = np.linalg.norm(X, axis=1)
    rare = size >= np.quantile(size, 1 - RARE)
    error = X @ gaps.mean(axis=0) / y.std()  # what does not average out over tables
    spread = (X @ gaps.T).std(axis=1, ddof=1) / np.sqrt(tables) / y.std()
    share, rare_share = (float(np.mean([row[k] for row in rows])) for k in (1, 2))
    return Row(rule, median, share, rare_share, _root_mean(error), _root_mean(error[rare]), _root_mean(spread))


def _root_mean(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _one(rule: str, median: float, n: int, seed: int) -> tuple[Floats, float, float]:
    X, y = simulate(n, seed)
    limits = median * np.exp(SPREAD * np.random.default_rng(500 + seed).normal(size=n))
    stay = staying(rule, X, y, limits)
    size = np.linalg.norm(X, axis=1)
    rare = size >= np.quantile(size, 1 - RARE)
    if stay.sum() <= D:
        return np.full(D, np.nan), float(stay.mean()), float(stay[rare].mean())
    all_, those = (np.linalg.lstsq(X[k], y[k], rcond=None)[0] for k in (np.ones(n, dtype=bool), stay))
    return those - all_, float(stay.mean()), float(stay[rare].mean())


def make(out: Path, quick: bool = False, quiet: bool = False) -> list[Path]:
    """Make figure and numbers."""
    n, tables, limits = (300, 3, LIMITS[2::2]) if quick else (N, TABLES, LIMITS)
    grid = [(rule, median) for rule in RULES for median in limits]
    rows = [measure(rule, median, n, tables) for rule, median in steps(grid, "participation", quiet)]
    figure, (left, right) = new_figure(2)
    for rule, colour, mark in zip(RULES, (ORANGE, GREEN, BLUE), "sov", strict=True):
        some = [row for row in rows if row.rule == rule]
        at = [row.median_limit for row in some]
        left.plot(at, [row.staying for row in some], mark + "-", color=colour, label=TOLD[rule])
        left.plot(at, [row.rare_staying for row in some], mark + ":", color=colour)
        right.plot(at, [row.bias for row in some], mark + "-", color=colour, label=TOLD[rule])
        right.plot(at, [row.rare_bias for row in some], mark + ":", color=colour)
    left.set(
        xscale="log",
        xlabel="median limit for ε",
        ylabel="share who stay",
        title="who takes part (dotted: rare features)",
    )
    right.set(
        xscale="log",
        xlabel="median limit for ε",
        ylabel="bias of predictions / sd of outcome",
        title="what that does to the fit",
    )
    left.legend(frameon=False)
    return save(out, "participation", figure, rows)
