"""Figure 2, right: posterior sampling. Privacy against excess risk, at many temperatures.

Excess risk is the expected extra squared error of the sample, ``E F(theta~) - min F = d/(2 gamma)`` over n. Beside it:
quantiles of the exact losses, pDP for all, the exact worst case, and the pure DP of the exponential mechanism that
restricts theta to a ball (Wang, Fienberg and Smola 2015), which is the statement the paper compares with.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import perinstance as pi
from perinstance import analysis
from perinstance_experiments.workbench import (
    BLUE,
    DELTA,
    GREEN,
    ORANGE,
    PURPLE,
    Table,
    linear_gaussian,
    new_figure,
    save,
    steps,
)

N, D, ALPHA = 1000, 10, 10.0
GAMMAS = np.geomspace(0.01, 100.0, 9)


@dataclass(frozen=True)
class Row:
    """One temperature."""

    gamma: float
    excess_risk: float
    median: float
    q95: float
    largest: float
    everyone: float
    dp: float
    exponential_mechanism: float


def measure(table: Table, gamma: float) -> Row:
    """Audit one temperature."""
    n, d = table.X.shape
    audit = pi.audit(pi.PosteriorSample(alpha=ALPHA, gamma=gamma), table.X, table.y, delta=DELTA)
    everyone, dp = audit.everyone(x_bound=1.0, y_bound=1.0), audit.worst_case_dp(x_bound=1.0, y_bound=1.0)
    # The exponential mechanism needs a bound on theta fixed in advance: the largest estimate any such table can give.
    ball = np.sqrt(n) / (2 * np.sqrt(ALPHA))
    pure = analysis.exponential_mechanism(gamma, 1.0, 1.0, ball)
    median, q95, largest = (float(v) for v in audit.quantile([0.5, 0.95, 1.0]))
    excess = analysis.optimisation_error(d, gamma).mean / n
    return Row(
        gamma, float(excess), median, q95, largest, float(everyone.epsilon), float(dp.epsilon), float(pure.epsilon)
    )


def make(out: Path, quick: bool = False, quiet: bool = False) -> list[Path]:
    """Make figure and numbers."""
    table = linear_gaussian(100 if quick else N, D, seed=2)
    rows = [measure(table, float(g)) for g in steps(GAMMAS[::4] if quick else GAMMAS, "fig2-right", quiet)]
    figure, ax = new_figure(1, width=7.2)
    risk = [row.excess_risk for row in rows]
    for name, field, look, colour in (
        ("pure DP, exponential mechanism", "exponential_mechanism", "^:", PURPLE),
        ("worst case (DP), exact", "dp", "v-", ORANGE),
        ("pDP for all", "everyone", "s--", GREEN),
        ("largest in the data", "largest", "o-", BLUE),
        ("95% in the data", "q95", "o--", BLUE),
        ("median in the data", "median", "o:", BLUE),
    ):
        ax.plot(risk, [getattr(row, field) for row in rows], look, color=colour, label=name)
    ax.set(xscale="log", yscale="log", xlabel="excess risk (per person)", ylabel="loss ε at δ = 1e-6")
    ax.set_title(f"One posterior sample, n = {len(table.y)}, d = {D}, α = {ALPHA:g}")
    ax.legend(frameon=False)
    return save(out, "fig2-right", figure, rows)
