"""A real case: the diabetes and the breast-cancer patients. What was promised, and what each person lost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

import perinstance as pi
from perinstance_experiments.workbench import BLUE, DELTA, ORANGE, new_figure, save, steps

PROMISE = 1.0


@dataclass(frozen=True)
class Row:
    """One table under one release that promises epsilon = 1."""

    table: str
    release: str
    people: int
    promised: float
    median: float
    q95: float
    largest: float
    kind: str


@dataclass(frozen=True)
class Case:
    """A table whose scales are public: declared by what the columns mean, not read off these patients."""

    name: str
    X: np.ndarray
    y: np.ndarray


def cases() -> list[Case]:
    """Return both tables, rows and outcomes within the unit ball and [-1, 1] by clipping."""
    X, y = load_diabetes(return_X_y=True)
    Z, label = load_breast_cancer(return_X_y=True)
    # Cell measurements are logged around public round values; four columns keep the model readable.
    Z = np.log1p(Z[:, [0, 1, 4, 9]]) - np.log1p([14.0, 19.0, 0.1, 0.06])
    return [Case("diabetes", X * 4.0, (y - 150.0) / 200.0), Case("breast cancer", Z, 2.0 * label - 1.0)]


def releases(n: int) -> list[pi.AdaSSP | pi.AdaOPS]:
    """Return the two releases that keep a promise."""
    bounds = {"epsilon": PROMISE, "delta": DELTA, "x_bound": 1.0, "y_bound": 1.0}
    return [pi.AdaSSP(**bounds, rounds=1), pi.AdaOPS(**bounds, n_public=n)]


def make(out: Path, quick: bool = False, quiet: bool = False) -> list[Path]:
    """Make figure and numbers."""
    rows, losses = [], {}
    settings = [(case, release) for case in cases() for release in releases(len(case.y))]
    for case, release in steps(settings[:1] if quick else settings, "patients", quiet):
        audit = pi.audit(release, case.X, case.y, delta=DELTA)
        median, q95, largest = (float(v) for v in audit.quantile([0.5, 0.95, 1.0]))
        name = type(release).__name__
        rows.append(Row(case.name, name, len(audit), PROMISE, median, q95, largest, audit.pairs.kind))
        losses[f"{case.name}\n{name} ({audit.pairs.kind})"] = np.asarray(audit.losses)
    figure, ax = new_figure(1, width=7.2)
    ax.boxplot(list(losses.values()), whis=(0, 100), medianprops={"color": BLUE})
    ax.set_xticks(range(1, len(losses) + 1), list(losses))
    ax.axhline(PROMISE, color=ORANGE, label="promised to everyone")
    ax.set(ylabel="loss ε of each patient", title="Promised ε = 1, and what each patient lost")
    ax.legend(frameon=False)
    return save(out, "patients", figure, rows)
