"""How long exactness takes: a draw by dimension, the exact Gram matrix and clipping against one BLAS Gram matrix.

    python -m benchmarks.sampler [--rows 100000]

Processor time, minima over repeats. ``padded to`` is what a user waits for (``grid_draw``). The last line is the
correlation of time with the size of the noise over repeated scalar draws, which padding is there to remove.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.ratio import Ratio
from perinstance.sampling import (
    ExactGram,
    ExactObjective,
    ExactOutput,
    ExactPosterior,
    Noisy,
    draw,
    fixed_rows,
    noisy_eigenvalue,
)
from perinstance.sampling.grid_draw import quantum
from perinstance.sampling.ideal_laws import Ideal, settle
from perinstance.sampling.random_bits import SystemBits


def seconds(action: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        action()
        best = min(best, time.process_time() - start)
    return best


def unpadded(ideal: Ideal) -> tuple[int, ...]:
    return settle(ideal, [SystemBits() for _ in range(ideal.d)], -40)


def draws(console: Console) -> None:
    table = Table("draw", "d", "milliseconds", "padded to", title="One draw")
    rng = np.random.default_rng(0)
    for d in (1, 10, 50, 100, 200):
        X = rng.standard_normal((4 * d + 10, d))
        equations = ExactGram.of(X, X @ rng.standard_normal(d)).normal_equations(1.0)
        ideals: dict[str, Ideal] = {
            "noisy": Noisy(np.zeros(d), 1.0),
            "output": ExactOutput(equations, 1.0),
            "posterior": ExactPosterior(equations, 1.0),
            "objective": ExactObjective(equations, 1.0),
            "eigenvalue": noisy_eigenvalue(equations, 1.0),
        }
        for name, ideal in ideals.items():
            spent = seconds(lambda ideal=ideal: unpadded(ideal), 5 if d < 200 else 2)
            table.add_row(name, str(d), f"{1e3 * spent:.2f}", f"{1e3 * quantum(ideal.d, ideal.work):.0f}")
    console.print(table)


def sums(console: Console, n: int) -> None:
    table = Table(
        "d", "BLAS Gram (s)", "exact / BLAS", "exact, two digits / BLAS", "clip / BLAS", title=f"Sums of {n:,} rows"
    )
    rng = np.random.default_rng(1)
    for d in (10, 50, 100):
        X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
        rows = fixed_rows(X, y, np.sqrt(d), 1.0)
        floor = seconds(lambda X=X: X.T @ X, 5)
        ratios = [
            seconds(action, 3) / floor
            for action in (
                lambda X=X, y=y: ExactGram.of(X, y),
                lambda rows=rows: ExactGram.of(rows.X, rows.y),
                lambda X=X, y=y, d=d: fixed_rows(X, y, np.sqrt(d), 1.0),
            )
        ]
        table.add_row(str(d), f"{floor:.3f}", *(f"{ratio:.1f}" for ratio in ratios))
    console.print(table)


def leak(console: Console, repeats: int) -> None:
    ideal = Noisy([0.0], 1.0)
    found = {}
    for name, action in (("unpadded", lambda: unpadded(ideal)[0]), ("padded", lambda: draw(ideal).integers[0])):
        sizes, times = [], []
        for _ in range(repeats):
            start = time.perf_counter()
            size = abs(action())
            times.append(time.perf_counter() - start)
            sizes.append(size)
        ranks = [np.argsort(np.argsort(values)) for values in (sizes, times)]
        found[name] = np.corrcoef(*ranks)[0, 1]
    console.print(
        f"Rank correlation of time and noise over {repeats} scalar draws: {found['unpadded']:+.2f} unpadded, "
        f"{found['padded']:+.2f} padded (chance: {1 / np.sqrt(repeats):.2f})"
    )


def run() -> list[Ratio]:
    """Measure one draw at d = 100 against a second, and the exact sums against BLAS."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((410, 100))
    equations = ExactGram.of(X, X @ rng.standard_normal(100)).normal_equations(1.0)
    found = [
        Ratio(f"one exact {name} draw, d = 100, padded", "a second", quantum(ideal.d, ideal.work), 0.5)
        for name, ideal in (("posterior", ExactPosterior(equations, 1.0)), ("output", ExactOutput(equations, 1.0)))
    ]
    found.append(
        Ratio(
            "one exact posterior draw, d = 100, unpadded",
            "a second",
            seconds(lambda: unpadded(ExactPosterior(equations, 1.0)), 5),
        )
    )
    X, y = rng.standard_normal((100_000, 50)), rng.standard_normal(100_000)
    rows = fixed_rows(X, y, np.sqrt(50), 1.0)
    floor = seconds(lambda: X.T @ X, 5)
    found.append(
        Ratio(
            "exact Gram of fixed-point rows, d = 50",
            "BLAS Gram",
            seconds(lambda: ExactGram.of(rows.X, rows.y), 3) / floor,
        )
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=1000, help="draws for the time leak")
    arguments = parser.parse_args()
    console = Console()
    draws(console)
    sums(console, arguments.rows)
    leak(console, arguments.repeats)


if __name__ == "__main__":
    main()
