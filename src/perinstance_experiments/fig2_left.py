"""Figure 2, left: isotropic noise on linear regression. Box plots of the losses over settings, against DP.

In every setting the losses of the people in the data lie orders of magnitude below the worst case of the same release.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance_experiments.workbench import DELTA, linear_gaussian, new_figure, save, steps

SETTINGS = [(n, d, scale) for n in (100, 1000) for d in (3, 10) for scale in (0.5, 4.0)]


@dataclass(frozen=True)
class Row:
    """One setting: quantiles of the losses and the worst case."""

    n: int
    d: int
    scale: float
    smallest: float
    q25: float
    median: float
    q75: float
    largest: float
    dp: float
    dp_over_median: float


def measure(n: int, d: int, scale: float) -> tuple[Row, pi.Audit]:
    """Audit one setting."""
    table = linear_gaussian(n, d, seed=n + d)
    release = pi.OutputPerturbation(estimator=Ridge(alpha=1.0, fit_intercept=False), scale=scale)
    audit = pi.audit(release, table.X, table.y, delta=DELTA)
    dp = float(audit.worst_case_dp(x_bound=1.0, y_bound=1.0).epsilon)
    quantiles = [float(v) for v in audit.quantile([0.0, 0.25, 0.5, 0.75, 1.0])]
    return Row(n, d, scale, *quantiles, dp, dp / quantiles[2]), audit


def make(out: Path, quick: bool = False, quiet: bool = False) -> list[Path]:
    """Make figure and numbers."""
    from perinstance import plots

    settings = SETTINGS[:2] if quick else SETTINGS
    measured = [measure(*one) for one in steps(settings, "fig2-left", quiet)]
    names = [f"n={r.n}\nd={r.d}\nσ={r.scale:g}" for r, _ in measured]
    figure, ax = new_figure(1, width=8.0)
    plots.settings(
        {name: np.asarray(audit.losses) for name, (_, audit) in zip(names, measured, strict=True)},
        ax,
        dp={name: row.dp for name, (row, _) in zip(names, measured, strict=True)},
    )
    ax.set_title("Losses of the people in the data; triangles: worst case (DP) of the same release")
    return save(out, "fig2-left", figure, [row for row, _ in measured])
