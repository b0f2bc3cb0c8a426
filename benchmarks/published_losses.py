"""How much of everybody's losses survives their publication, on the shared regression tables. One command:

    python -m benchmarks.published_losses [--tables ../shared/data/uci] [--alpha 1]

Rows are z-scored and scaled to norm one, y / max|y|; one posterior sample (gamma = 1), its losses at delta = 1e-6, and
one publication at epsilon 1 and 4 each. Quantiles of the losses themselves stand beside what is read from the counts.
The scalings look at the whole table: this measures a method, it is no private pipeline.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import perinstance as pi

EPSILONS = (1.0, 4.0)
SHARES = (0.5, 0.95)


def line(path: Path, alpha: float) -> list[str]:
    """Measure one table."""
    cells = pq.read_table(path).to_pandas().to_numpy(dtype=np.float64)
    X, y = cells[:, :-1], cells[:, -1]
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(float).tiny)
    y = y / np.abs(y).max()
    release = pi.PosteriorSample(alpha=alpha, gamma=1.0)
    audit, fitted = pi.audit(release, X, y, delta=1e-6), pi.PosteriorSample(alpha=alpha, gamma=1.0).fit(X, y)
    shown = [path.stem, f"{len(y):,}", str(X.shape[1]), *(f"{audit.quantile(q):.3g}" for q in SHARES)]
    for epsilon in EPSILONS:
        told = pi.disclosure.publish_losses(audit, fitted, X, y, epsilon=epsilon, x_bound=1.0)
        reads = [told.quantile(q).high for q in SHARES]
        shown += [f"{read:.3g}" if np.isfinite(read) else "over 10" for read in reads]
    return shown


def main() -> None:
    """Print one line per table."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--tables", type=Path, default=Path("../shared/data/uci"))
    asked.add_argument("--alpha", type=float, default=1.0)
    given = asked.parse_args()
    paths = sorted(given.tables.glob("*.parquet"))
    shown = Table(
        "table", "people", "columns", "median loss", "95%", *(f"{q:.0%} at {e:g}" for e in EPSILONS for q in SHARES)
    )
    for path in paths:
        shown.add_row(*line(path, given.alpha))
    Console(width=140).print(shown if paths else f"no tables in {given.tables}: nothing was measured")


if __name__ == "__main__":
    main()
