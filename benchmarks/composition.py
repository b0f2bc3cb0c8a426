"""How long it takes to add up many releases on many people, four ways. One command:

    python -m benchmarks.composition [--people 100000] [--mixed 20000] [--releases 20] [--repeats 3]

Gaussian shifts: simple, advanced, Renyi and exact, everybody of the table. Mixed: posterior samples, shifts and Laplace
noise in turn. Times are minima over the repeats, in one process and one thread, after one warm-up call that compiles.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from perinstance.analysis.composition_bounds import ORDERS, SHARES, advanced_bound, compose, renyi_to_epsilon
from perinstance.pairs import GaussianShift, LaplaceShift, Pairs, PosteriorSamplePair

DELTA = 1e-6


def gaussian(people: int, releases: int, rng: np.random.Generator) -> list[Pairs]:
    return [GaussianShift(rng.lognormal(-4, 1, people)) for _ in range(releases)]


def mixed(people: int, releases: int, rng: np.random.Generator) -> list[Pairs]:
    kinds = (
        lambda: PosteriorSamplePair(rng.lognormal(-5, 1, people), np.abs(rng.standard_normal(people))),
        lambda: GaussianShift(rng.lognormal(-4, 1, people)),
        lambda: LaplaceShift(np.full(people, 0.02)),
    )
    return [kinds[i % 3]() for i in range(releases)]


def simple(pairs: Sequence[Pairs], delta: float) -> np.ndarray:
    return np.sum([part.epsilon(delta / len(pairs)) for part in pairs], axis=0)


def advanced(pairs: Sequence[Pairs], delta: float) -> np.ndarray:
    share = [(1 - part) * delta / len(pairs) for part in SHARES]
    losses = [[part.epsilon(each) for part in pairs] for each in share]
    return np.min([advanced_bound(one, part * delta) for one, part in zip(losses, SHARES, strict=True)], axis=0)


def renyi(pairs: Sequence[Pairs], delta: float) -> np.ndarray:
    total = compose(pairs)
    return np.min([renyi_to_epsilon(total.renyi(order), order, delta) for order in ORDERS], axis=0)


def exact(pairs: Sequence[Pairs], delta: float) -> np.ndarray:
    return np.asarray(compose(pairs).epsilon(delta))


WAYS: dict[str, Callable[[Sequence[Pairs], float], np.ndarray]] = {
    "simple": simple,
    "advanced": advanced,
    "renyi": renyi,
    "exact": exact,
}


def seconds(way: Callable[[], np.ndarray], repeats: int) -> float:
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        way()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--mixed", type=int, default=20_000)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    table = Table("releases", "people", "way", "seconds", "us per person", "median loss")
    cases = (("gaussian", gaussian, options.people), ("mixed", mixed, options.mixed))
    for name, make, people in cases:
        few, pairs = make(50, options.releases, rng), make(people, options.releases, rng)
        for label, way in WAYS.items():
            way(few, DELTA)
            spent = seconds(lambda way=way, pairs=pairs: way(pairs, DELTA), options.repeats)  # type: ignore[misc]
            median = float(np.median(way(pairs, DELTA)))
            table.add_row(
                f"{options.releases} {name}",
                f"{people:,}",
                label,
                f"{spent:.2f}",
                f"{spent / people * 1e6:.2f}",
                f"{median:.4g}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
