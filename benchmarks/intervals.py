"""Whether intervals cover, and how long they are. One command, under four minutes:

    python -m benchmarks.intervals [--tables 400] [--only WORD]

Each cell draws tables, publishes with simulated noise and asks whether the 95% intervals of the slopes hold the truth:
of the population, or of this table's fit without noise. Told are the pooled coverage, that of the worst coefficient,
the share of coefficients that the noise hides, and the length over that of the best use of the whole budget (or over
the standard error of an ordinary fit). A cell is kept where the pooled coverage lies in [.93, .995] and no coefficient
is below .90 by more than two standard errors of so many tables. ``costs`` at 200,000 people is
a known failure of free intervals, kept in sight.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.special import expit

from perinstance.inference.equation import Estimated
from perinstance.inference.table import _half_widths
from perinstance.releases.adassp import estimator as adassp_intervals
from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.adassp.robust_stage import weighted
from perinstance.releases.logistic import estimator as logistic_intervals
from perinstance.releases.logistic import mechanism as slope_mechanism
from perinstance.releases.promises.declared_box import DeclaredBox, box_of
from perinstance.releases.promises.promise import gaussian_distance
from perinstance.releases.promises.window import Window, simulated
from perinstance.sampling import FixedRows

Floats = NDArray[np.float64]
DELTA, SPREAD, Z = 1e-6, 0.15, 1.959963984540054
COSTS_RANGES = [(0, 110), (0, 1), (0, 30), (0, 15), (0, 1)]
COSTS_TRUTH = np.array([12.0, -150.0, 620.0, 700.0, 400.0])
COSTS_BOX = box_of(COSTS_RANGES, (0, 40000), 5, True)


@dataclass(frozen=True)
class Cell:
    """What one cell found."""

    name: str
    coverage: float  #: pooled over the coefficients that have intervals
    worst: float
    hidden: float
    length: float  #: median over coefficients and tables, over the reference
    tables: int = 400
    limits: tuple[float, float, float] = (0.93, 0.995, 0.90)  #: pooled from, to; worst from

    @property
    def holds(self) -> bool:
        """Whether the coverage is what is promised; where everything is hidden there is nothing to cover."""
        low, high, worst = self.limits
        doubt = 2 * np.sqrt(worst * (1 - worst) / self.tables)  # of the share of so many tables
        return self.hidden > 0.9 or (low <= self.coverage <= high and not self.worst < worst - doubt)


def rows(n: int, d: int, kind: str, rng: np.random.Generator) -> Floats:
    """Rows in the unit ball: ``well``, ``ill`` (condition number 1000) or ``t3`` (long rows shortened)."""
    scales = np.geomspace(1, 1000**-0.5, d) if kind == "ill" else np.ones(d)
    X = rng.standard_normal((n, d)) * scales * np.sqrt(0.5 / (scales**2).sum())
    if kind == "t3":
        X /= np.sqrt(rng.chisquare(3, n) / 3)[:, None]
    return X / np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]


def present(X: Floats, y: Floats) -> FixedRows:
    """Rows in units, none of them missing."""
    return FixedRows(X, y, np.ones(len(y), dtype=bool))


def scatter(X: Floats, kind: str, rng: np.random.Generator) -> Floats:
    """Residuals of standard deviation about ``SPREAD``: ``gauss``, ``t5``, or ``skewed`` with a spread that varies."""
    if kind == "t5":
        return SPREAD * rng.standard_t(5, len(X)) * np.sqrt(0.6)
    if kind == "skewed":
        a = X[:, 0] / X[:, 0].std()
        return SPREAD * np.sqrt(0.25 + 0.75 * a * a) * (rng.standard_exponential(len(X)) - 1)
    return SPREAD * rng.standard_normal(len(X))


def cell(
    name: str, tables: int, d: int, draw: Callable[[], tuple[Estimated, Floats, Floats]], **limits: tuple[float, ...]
) -> Cell:
    """Ask every table: ``draw`` returns what is known, the truth and the reference lengths of d slopes."""
    held, widths = np.zeros((tables, d)), np.zeros((tables, d))
    for k in range(tables):
        solved, truth, reference = draw()
        half = _half_widths(solved, Z)[:d]
        held[k] = np.abs(solved.estimate[:d] - truth) <= half
        widths[k] = half / (Z * reference)
    seen = np.isfinite(widths)
    enough = seen.sum(axis=0) >= 20
    worst = min((held[seen[:, j], j].mean() for j in range(d) if enough[j]), default=np.nan)
    pooled = held[seen].mean() if seen.any() else np.nan
    length = np.median(widths[seen]) if seen.any() else np.inf
    return Cell(name, pooled, worst, 1 - seen.mean(), length, tables, **limits)


def adassp(
    n: int,
    d: int,
    epsilon: float,
    about: str,
    x: str = "well",
    noise: str = "gauss",
    tables: int = 400,
    count: int = 5,
    robust: bool = False,
) -> Cell:
    """Intervals of AdaSSP in a ball, free or robust; ``count=1`` is the one-shot release."""
    rng = np.random.default_rng([n, d, int(10 * epsilon), len(x), len(noise)])
    X = rows(n, d, x, rng)
    beta = rng.standard_normal(d)
    beta *= SPREAD / np.std(X @ beta)
    box = box_of(1.0, 1.0, d, True)
    plan = adassp_mechanism.spend(epsilon, DELTA, box, None, count, None, robust)
    Z1 = np.column_stack([X, np.full(n, box.weight)])
    inverse = np.linalg.inv(Z1.T @ Z1)
    e = Z1 * scatter(X, noise, rng)[:, None]
    sampling = np.diag(inverse @ (e.T @ e) @ inverse)
    clip = 1.5 * SPREAD * box.x_bound / gaussian_distance(epsilon, DELTA) / 0.8664
    best = np.sqrt(sampling + clip**2 * np.diag(inverse @ inverse))[:d]

    def draw() -> tuple[Estimated, Floats, Floats]:
        y = np.clip(X @ beta + scatter(X, noise, rng), -1, 1)
        published = adassp_mechanism.run(plan, Window(present(Z1, y), simulated(rng)))
        solved = adassp_intervals.equation(published, plan, about == "population").solved()
        return solved, beta if about == "population" else (inverse @ (Z1.T @ y))[:d], best

    kind = "robust" if robust else "AdaSSP" if count > 1 else "one-shot"
    return cell(f"{kind}, {about}: n={n:,} d={d} eps={epsilon:g} rows {x}, noise {noise}", tables, d, draw)


def logistic(n: int, d: int, epsilon: float, x: str = "well", tables: int = 400) -> Cell:
    """Free intervals of the private logistic regression, about the population."""
    rng = np.random.default_rng([n, d, int(10 * epsilon), len(x)])
    box = box_of(1.0, 1.0, d, True)
    X = rows(n, d, x, rng)
    Z1 = np.column_stack([X, np.full(n, box.weight)])
    beta = rng.standard_normal(d)
    theta = np.append(beta * 1.2 / np.std(X @ beta), -0.5 / box.weight)
    p = expit(Z1 @ theta)
    reference = np.sqrt(np.diag(np.linalg.inv((Z1 * (p * (1 - p))[:, None]).T @ Z1)))[:d]
    plan = slope_mechanism.spend(epsilon, DELTA, box.x_bound, 30)

    def draw() -> tuple[Estimated, Floats, Floats]:
        sign = np.where(rng.uniform(size=n) < p, 1.0, -1.0)
        published = slope_mechanism.run(plan, Window(present(Z1, sign), simulated(rng)))
        return logistic_intervals.equation(box, plan, published).solved(), theta[:d], reference

    return cell(f"logistic, population: n={n:,} d={d} eps={epsilon:g} rows {x}", tables, d, draw)


def patients(n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Made-up hospital stays: skewed costs whose spread grows with their mean."""
    age = np.clip(rng.normal(58, 18, n), 18, 100)
    female, emergency = rng.uniform(size=(2, n)) < np.array([[0.5], [0.3]])
    nights = rng.negative_binomial(2, 2 / (2 + 4 + 0.03 * (age - 58) + 2 * emergency).clip(0.5))
    creatinine = rng.lognormal(0.0, 0.35, n)
    X = np.column_stack([age, female, nights, creatinine, emergency]).astype(float)
    return X, (900 + X @ COSTS_TRUTH) * rng.gamma(6, 1 / 6, n)


def clipped_truth() -> Floats:
    """Least squares in the population of stays as they are clipped to what is declared."""
    rng, sums = np.random.default_rng(99), np.zeros((7, 7))
    for _ in range(8):
        X, y = patients(250_000, rng)
        X = np.clip(X, *np.transpose(COSTS_RANGES))
        Z = np.column_stack([X, np.ones(len(y)), np.clip(y, 0, 40000)])
        sums += Z.T @ Z
    return np.linalg.solve(sums[:6, :6], sums[:6, 6])[:5]


def table_root(published: adassp_mechanism.Published, rows: Floats, y: Floats) -> Floats:
    """The table's own answer to the question that robust intervals ask, without noise, in units."""
    frame, bought = published.frame, published.bought
    Z, theta = frame.free_rows(present(rows, y)), published.bought.theta
    short = np.minimum(1.0, frame.x_bound / np.linalg.norm(Z, axis=1))[:, None]
    slope = (Z * short).T @ (Z * short)
    for _ in range(6):
        theta = theta + np.linalg.solve(slope, weighted(Z, y, theta, bought.clip, frame.x_bound).sum(axis=0))
    return theta


def costs(n: int, tables: int, robust: bool = False, about: str = "population", box: DeclaredBox = COSTS_BOX) -> Cell:
    """The known failure of free intervals, and its remedy."""
    rng = np.random.default_rng(n)
    plan = adassp_mechanism.spend(1.0, DELTA, box, None, 5, None, robust)
    declared = clipped_truth() if robust else COSTS_TRUTH
    nothing = np.zeros((6, 0))

    def draw() -> tuple[Estimated, Floats, Floats]:
        X, y = patients(n, rng)
        Z1 = np.column_stack([X, np.ones(n)])
        inverse = np.linalg.inv(Z1.T @ Z1)
        e = Z1 * (y - Z1 @ (inverse @ (Z1.T @ y)))[:, None]
        reference = np.sqrt(np.diag(inverse @ (e.T @ e) @ inverse))[:5]
        seen = box.rows(X, y)
        published = adassp_mechanism.run(plan, Window(seen, simulated(rng)))
        known = adassp_intervals.known(plan, published, about)
        truth = declared
        if about == "table":
            units = published.frame.in_units(table_root(published, seen.X, seen.y), box.weight)
            truth = box.user_coefficients(Estimated(units, np.eye(6), np.eye(6), nothing)).estimate[:5]
        return known.solved, truth, reference

    if robust:
        return cell(f"costs, robust, {about}: n={n:,} eps=1", tables, 5, draw)
    return cell(f"costs, free: n={n:,} eps=1 (known failure)", tables, 5, draw, limits=(0.0, 1.0, 0.0))


def cells(tables: int) -> list[tuple[str, Callable[[], Cell]]]:
    """Return what is run, by name."""
    every: list[Callable[[], Cell]] = []
    for about in ("population", "table"):
        for n, d, epsilon, x, noise in (
            (10_000, 3, 1, "well", "gauss"),
            (10_000, 10, 1, "well", "gauss"),
            (10_000, 10, 4, "well", "gauss"),
            (10_000, 10, 1, "well", "t5"),
            (10_000, 10, 1, "t3", "gauss"),
            (10_000, 10, 1, "ill", "gauss"),
        ):
            every.append(partial(adassp, n, d, epsilon, about, x, noise, tables))
        every.append(partial(adassp, 100_000, 10, 0.1, about, tables=tables // 8))
        every += [partial(costs, n, tables * 10_000 // n + 20, True, about) for n in (20_000, 50_000)]
        for n, d, noise in ((10_000, 10, "gauss"), (10_000, 3, "skewed"), (10_000, 10, "skewed")):
            every.append(partial(adassp, n, d, 1, about, "well", noise, tables // 2, 5, True))
    for n, d in ((10_000, 3), (100_000, 10), (1_000_000, 3)):
        every.append(partial(adassp, n, d, 1, "table", tables=max(tables * 10_000 // n, 20), count=1))
    every += [partial(logistic, 10_000, d, 1, tables=tables // 2) for d in (3, 10)]
    every += [partial(costs, n, max(tables // 40, 10)) for n in (50_000, 200_000)]
    return [(repr(one), one) for one in every]


def main() -> int:
    """Print the table; 1 where a promised coverage is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    table, kept = Table("cell", "coverage", "worst", "hidden", "length", ""), True
    for _, run_cell in cells(chosen.tables):
        if chosen.only and chosen.only not in repr(run_cell):
            continue
        found = run_cell()
        numbers = [f"{x:.3f}" for x in (found.coverage, found.worst)] + [f"{found.hidden:.2f}", f"{found.length:.2f}"]
        table.add_row(found.name, *numbers, "kept" if found.holds else "NOT KEPT")
        kept &= found.holds
    Console(width=140).print(table)
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
