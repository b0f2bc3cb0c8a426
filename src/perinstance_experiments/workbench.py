"""What every experiment shares: simulated tables, progress, and a figure and its numbers written side by side."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
T = TypeVar("T")

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#888888"  # Okabe and Ito
DELTA = 1e-6


@dataclass(frozen=True)
class Table:
    """A simulated table: rows of norm at most one, outcomes in [-1, 1]."""

    X: Floats
    y: Floats
    theta: Floats


def linear_gaussian(n: int, d: int, seed: int, noise: float = 0.3, size: float = 1.0, spread: float = 1.0) -> Table:
    """Draw the paper's model: rows of norm one, ``y = x'theta_0 + noise``, clipped at [-1, 1].

    ``size`` is ``||theta_0||``; ``spread`` < 1 shrinks the last direction, which makes the design worse conditioned.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, -1] *= spread
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    theta = rng.normal(size=d)
    theta *= size / np.linalg.norm(theta)
    return Table(X, np.clip(X @ theta + noise * rng.normal(size=n), -1.0, 1.0), theta)


def save(out: Path, name: str, figure: Any, rows: Sequence[Any]) -> list[Path]:
    """Write NAME.png, NAME.svg and NAME.csv (one line per record)."""
    import matplotlib

    made = [out / f"{name}.png", out / f"{name}.svg", out / f"{name}.csv"]
    figure.savefig(made[0], dpi=150, metadata={"Software": None})
    with matplotlib.rc_context({"svg.hashsalt": "perinstance"}):  # the same numbers give the same file
        figure.savefig(made[1], metadata={"Date": None})
    records = [asdict(row) for row in rows]
    with made[2].open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, records[0])
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in r.items()} for r in records)
    return made


def new_figure(columns: int = 1, width: float = 6.4, height: float = 4.2) -> tuple[Any, Any]:
    """Return a figure and its axes, drawn without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns)


def steps(items: Iterable[T], name: str, quiet: bool) -> Iterator[T]:
    """Walk over settings with a progress bar in a terminal, silently in a pipe."""
    items = list(items)
    if quiet or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=name, console=Console(stderr=True), transient=True)
