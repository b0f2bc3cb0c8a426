"""Figure 1: output perturbation of ridge regression. DP, pDP for all, and the losses of the people in the data.

The paper states neither n nor d. Its reading, "more than an order of magnitude stronger for all users in the data set,
and six times for all users in the entire universe", is tested over a range of both: with exact numbers it is that of a
small table (n = 35, d = 5, the figure). The advantage grows without limit with n, because the worst table does not get
better with n while the data at hand does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance_experiments.workbench import (
    BLUE,
    DELTA,
    GREEN,
    ORANGE,
    Table,
    linear_gaussian,
    new_figure,
    save,
    steps,
)

SIGMA = 4.0
SHOWN = (35, 5)
SETTINGS = [SHOWN, (100, 5), (100, 10), (300, 10), (1000, 10), (3000, 10), (1000, 30)]


@dataclass(frozen=True)
class Row:
    """One table."""

    n: int
    d: int
    median: float
    largest: float
    everyone: float  #: upper bound over anybody with ||x|| <= 1, |y| <= 1
    everyone_attained: float
    dp: float
    dp_over_largest: float
    dp_over_everyone: float


def release() -> pi.OutputPerturbation:
    """Return N((X'X + I)^-1 X'y, sigma^2 I), sigma = 4."""
    return pi.OutputPerturbation(estimator=Ridge(alpha=1.0, fit_intercept=False), scale=SIGMA)


def measure(table: Table) -> tuple[Row, pi.Audit]:
    """Audit one table and put both worst cases beside it."""
    audit = pi.audit(release(), table.X, table.y, delta=DELTA)
    everyone, dp = audit.everyone(x_bound=1.0, y_bound=1.0), audit.worst_case_dp(x_bound=1.0, y_bound=1.0)
    median, largest = (float(v) for v in audit.quantile([0.5, 1.0]))
    n, d = table.X.shape
    worst = float(dp.epsilon)
    bound, attained = float(everyone.epsilon), float(everyone.attained)
    row = Row(n, d, median, largest, bound, attained, worst, worst / largest, worst / bound)
    return row, audit


def make(out: Path, quick: bool = False, quiet: bool = False) -> list[Path]:
    """Make figure and numbers."""
    from perinstance import plots

    settings = SETTINGS[:2] if quick else SETTINGS
    rows, shown = [], None
    for n, d in steps(settings, "fig1", quiet):
        row, audit = measure(linear_gaussian(n, d, seed=1))
        rows.append(row)
        if (n, d) == SHOWN:
            shown = (row, audit)
    assert shown is not None
    figure, (left, right) = new_figure(2)
    plots.distribution(shown[1], left, dp=shown[0].dp, everyone=shown[0].everyone)
    left.set_title(f"n = {SHOWN[0]}, d = {SHOWN[1]}: losses of the people in the data")
    names = [f"{r.n}, {r.d}" for r in rows]
    right.plot(names, [r.dp for r in rows], "v-", color=ORANGE, label="worst case (DP)")
    right.plot(names, [r.everyone for r in rows], "s--", color=GREEN, label="pDP for all")
    right.plot(names, [r.largest for r in rows], "o-", color=BLUE, label="largest in the data")
    right.plot(names, [r.median for r in rows], "o:", color=BLUE, label="median in the data")
    right.set(yscale="log", xlabel="n, d", ylabel="loss ε", title="the same release on larger tables")
    right.legend(frameon=False)
    return save(out, "fig1", figure, rows)
