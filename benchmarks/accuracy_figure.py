"""Accuracy against epsilon, as a figure: the geometric mean over the tables that no setting was chosen on.

    python -m benchmarks.accuracy_figure [--tables ../shared/data/uci] [--repeats 2] [--out accuracy.svg]

The protocol is that of ``benchmarks.accuracy``; tables of more than 6,000 rows are left out to keep it short.
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import (
    CHOSEN_ON,
    TABLES,
    Method,
    ada_ops,
    ada_ssp,
    ada_ssp_one_round,
    ada_ssp_ranges,
    cross_validate,
    geometric_mean,
    read,
)
from perinstance_experiments import rivals

EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
LARGEST = 6_000
LINES: dict[str, tuple[Method, str]] = {
    "AdaSSP, one bound for rows": (ada_ssp, "o-"),
    "AdaSSP, ranges of columns": (ada_ssp_ranges, "s-"),
    "AdaSSP, rounds=1": (ada_ssp_one_round, "^--"),
    "AdaOPS": (ada_ops, "v--"),
}


def least_squares(X: NDArray, y: NDArray, epsilon: float, delta: float, rng: np.random.Generator) -> NDArray:
    """No privacy, with an intercept."""
    return rivals.least_squares(np.column_stack([X, np.ones(len(y))]), y)


def curve(method: Method, tables: list[Path], repeats: int) -> list[float]:
    """Return the geometric mean of error over trivial at every epsilon."""
    found = []
    for epsilon in EPSILONS:
        scores = [
            cross_validate(*read(path), method, epsilon, repeats, zlib.crc32(path.stem.encode()))[0] for path in tables
        ]
        found.append(geometric_mean(scores))
    return found


def main(argv: list[str] | None = None) -> int:
    """Draw the figure, and print its numbers."""
    import matplotlib.pyplot as plt
    import pyarrow.parquet as pq

    parser = argparse.ArgumentParser(prog="accuracy_figure", description=__doc__)
    parser.add_argument("--tables", type=Path, default=TABLES)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("accuracy.svg"))
    options = parser.parse_args(argv)
    paths = sorted(path for path in options.tables.glob("*.parquet") if path.stem not in CHOSEN_ON)
    paths = [path for path in paths if pq.read_metadata(path).num_rows <= LARGEST]
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for name, (method, style) in LINES.items():
        values = curve(method, paths, options.repeats)
        print(name, [round(value, 3) for value in values], flush=True)
        axes.plot(EPSILONS, values, style, label=name, markersize=4)
    floor = geometric_mean([cross_validate(*read(path), least_squares, 1.0, 1, 0)[0] for path in paths])
    print("least squares", round(floor, 3), [path.stem for path in paths])
    axes.axhline(floor, color="0.4", linestyle=":", label="least squares, not private")
    axes.axhline(1.0, color="0.7", linestyle="-", linewidth=0.8)
    axes.set(xscale="log", xlabel="epsilon (delta = 1e-6)", ylabel="squared error over that of predicting zero")
    axes.set_ylim(0.0, 1.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
