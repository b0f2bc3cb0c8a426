"""Smooth models: what an audit costs beside the fit, how tight its bounds are, how far an estimate is off. One command:

    python -m benchmarks.smooth [--n 1000000] [--d 50] [--exact 10000] [--repeats 5]

The audit by upper bounds (the fold for its constants and the map over everyone) is compared with one more Newton
iteration of the same fit in the same process: minima over interleaved repeats, so that a busy machine disturbs both
alike.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
from rich.console import Console
from rich.table import Table

from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.models.losses.catalogue import CATALOGUE
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective
from perinstance.models.smooth.movement_bounds import Sensitivity, prepare, sensitivity
from perinstance.models.smooth.neighbour_refits import distances, leave_one_out
from perinstance.models.smooth.objective_folds import fit_smooth, slopes

BLOCK = 1 << 16


def simulated(loss: str, n: int, d: int, seed: int = 0) -> ArraySweep:
    """Rows with an outlier in a thousand, targets that suit the loss."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[::1000] *= 3
    eta = X @ (rng.normal(size=d) / np.sqrt(d))
    targets, mean = CATALOGUE[loss].targets, np.exp(np.clip(eta, -5, 5))
    if targets.binary:
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(np.float64)
    elif targets.lowest == 0:
        y = rng.gamma(2.0, mean / 2) + 1e-9 if targets.open else rng.poisson(mean).astype(np.float64)
    else:
        y = eta + rng.standard_t(3, size=n)
    return ArraySweep(X, y, BLOCK)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cost(n: int, d: int, repeats: int, out: Console) -> float:
    """Certified logistic audit over one Newton iteration."""
    sweep = simulated("logistic", n, d)
    objective = SmoothObjective(CATALOGUE["logistic"], RidgePenalty(1.0), fit_intercept=True)
    fit = fit_smooth(sweep, objective)
    model = prepare(sweep, fit)

    def people(block: Block) -> Sensitivity:
        return sensitivity(model, block.X, block.y)

    work = {
        "one more Newton iteration": lambda: sweep.fold(partial(slopes, objective=objective, theta=fit.theta)),
        "audit: constants (a fold)": lambda: prepare(sweep, fit),
        "audit: everyone (a map)": lambda: [s.distance.sum() for s in sweep.map(people)],
    }
    best = dict.fromkeys(work, np.inf)
    for _ in range(repeats):
        for name, job in work.items():
            best[name] = min(best[name], seconds(job))
    tracemalloc.start()
    for s in sweep.map(people):
        del s
    prepare(sweep, fit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    table = Table("logistic regression", "ns a person", title=f"n = {n:,}, d = {d}")
    for name, took in best.items():
        table.add_row(name, f"{1e9 * took / n:.0f}")
    newton, *audit = best.values()
    table.add_row("audit / iteration", f"{sum(audit) / newton:.2f}")
    table.add_row("peak memory / block", f"{peak / (8 * BLOCK * d):.2f}")
    out.print(table)
    return sum(audit) / newton


def exact(n: int, d: int, out: Console) -> None:
    """Everyone's leave-one-out minimum."""
    sweep = simulated("logistic", n, d)
    fit = fit_smooth(sweep, SmoothObjective(CATALOGUE["logistic"], RidgePenalty(1.0), fit_intercept=True))
    model = prepare(sweep, fit, kind="exact")
    took = seconds(lambda: leave_one_out(model, sweep, sweep.X, sweep.y))
    out.print(f"exact: {n:,} people, d = {d}: {took:.1f} s")


def tightness(out: Console, d: int = 10) -> None:
    """Bounds over truth with few and with many people for each parameter, and the error of the estimate beside them."""
    table = Table(
        "loss", "n", "no certificate", "median", "95%", "largest", "estimate: lowest", "highest", title="over the truth"
    )
    for loss, times in product(CATALOGUE, (3, 10, 30, 100)):
        sweep = simulated(loss, times * d, d)
        fit = fit_smooth(sweep, SmoothObjective(CATALOGUE[loss], RidgePenalty(1.0), fit_intercept=True))
        truth = distances(leave_one_out(prepare(sweep, fit, kind="exact"), sweep, sweep.X, sweep.y), None).value
        moved = truth > 1e-10
        bound = sensitivity(prepare(sweep, fit), sweep.X, sweep.y).distance[moved] / truth[moved]
        rough = sensitivity(prepare(sweep, fit, kind="estimate"), sweep.X, sweep.y).distance[moved] / truth[moved]
        sure = bound[np.isfinite(bound)]
        ratios = [f"{q:.4f}" for q in (*np.quantile(sure, [0.5, 0.95, 1.0]), np.min(rough), np.max(rough))]
        table.add_row(loss, f"{times} d", f"{1 - len(sure) / len(bound):.1%}", *ratios)
    out.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--d", type=int, default=50)
    parser.add_argument(
        "--exact", type=int, default=10_000, help="people whose leave-one-out minima are computed; 0: none"
    )
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    out = Console()
    cost(arguments.n, arguments.d, arguments.repeats, out)
    tightness(out)
    if arguments.exact:
        exact(arguments.exact, arguments.d, out)


if __name__ == "__main__":
    main()
