"""Write ``tests/data/pair_answers.csv``: what every pair but the sampled one answers to hard questions.

    python -m tests.pairs.make_pair_answers

The file was written once, by the roads of November 2026, before they were replaced by fewer; each of those roads had
been compared with ball arithmetic. ``test_pair_answers.py`` says what may differ from it.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from perinstance.pairs import (
    GaussianShift,
    GeneralGaussian,
    LaplaceShift,
    ObjectivePair,
    Pairs,
    PosteriorSamplePair,
    StudentShift,
    compose,
)
from perinstance.pairs.bounded import Dominated

FILE = Path(__file__).parents[1] / "data" / "pair_answers.csv"
DELTAS = (0.0, 1e-300, 1e-100, 1e-30, 1e-15, 1e-9, 1e-6, 1e-5, 1e-3, 0.05, 0.3, 0.6, 0.9, 0.999)
EPSILONS = (-20.0, -1.0, -1e-3, 0.0, 1e-9, 1e-3, 0.3, 1.0, 4.0, 30.0, 500.0)
ORDERS = (1.0, 1.0 + 1e-9, 1.01, 1.5, 2.0, 10.0, 300.0, 1e9, np.inf)
RATES = (0.0, 1e-200, 1e-12, 1e-3, 0.05, 0.5, 0.97, 1.0)
DIRECTIONS = ("worst", "without", "with")
PER_PERSON = 7  # questions


def people(rng: np.random.Generator) -> list[Pairs]:
    """Return vectors of pairs: corners of the parameters, and sums of all sorts."""

    def some(low: float, high: float, n: int) -> np.ndarray:
        return np.array([float(f"{x:.3g}") for x in np.exp(rng.uniform(np.log(low), np.log(high), n))])

    mu = np.r_[[1e-14, 1e-9, 1e-300, 0.01, 0.5, 3.0, 1e3, 1e7, 1e11, 0.1, 0.9], some(1e-8, 1e3, 8)]
    rho = np.r_[[1e-3, 0.0, 1.0, 10.0, 1e-6, 1e3, 0.0, 2.0, 1e6, 1e9, 5.0], some(1e-3, 1e4, 8)]
    lever, size = some(1e-6, 1e2, 6), some(1e-3, 1e3, 6)
    x2 = some(1e-2, 1e2, 6)
    excess = np.array([[0.5, -0.3, 0.0], [-0.9, 0.0, 0.0], [1e-9, -1e-9, 0.1], [1e4, 2.0, -0.99], [-0.5, -0.6, -0.7]])
    shift = np.array([[0.2, 0.0, 1.0], [0.0, 3.0, 0.0], [1e-6, 0.0, 1e-3], [5.0, 0.0, 0.1], [0.0, 0.0, 0.1]])
    few = [LaplaceShift(some(1e-3, 3.0, 5)) for _ in range(4)]
    wide = PosteriorSamplePair(some(1e-5, 1.0, 5), some(1e-2, 30.0, 5))
    narrow = ObjectivePair(lever[:5], size[:5] / 10, x2[:5], 1.3 * lever[:5] ** 2 / x2[:5])
    return [
        GaussianShift(
            np.r_[[1e-300, 1e-12, 1e-9, 1e-5, 0.01, 0.3, 1.0, 5.0, 40.0, 1e3, 1e6, 1e11, 0.0, np.inf], some(0.01, 9, 4)]
        ),
        LaplaceShift(np.r_[[1e-12, 1e-3, 0.5, 2.0, 30.0, 800.0, np.inf, 0.0]]),
        StudentShift(
            [1e-9, 0.1, 1.0, 5.0, 40.0, 1e6], [5.0, 1.0, 0.5, 30.0, 3.0, 2.0], [1.0, 3.0, 10.0, 1.0, 100.0, 1.0]
        ),
        PosteriorSamplePair(mu, rho),
        ObjectivePair(lever, size, x2, 4.0 * lever**2 / x2),
        ObjectivePair(lever, size, x2, lever**2 / x2),
        GeneralGaussian(excess, shift),
        Dominated([0.0, 0.5, 3.0, 1e-6], [0.0, 0.01, 0.3, 1e-3], [0.0, 1e-12, 1e-7, 0.0]),
        compose([wide, few[0]]),
        compose([few[0], few[1], few[0]]),
        compose([*few, few[2], few[2]]),
        compose([GaussianShift(some(0.05, 3, 5)), few[3], few[1]]),
        compose([wide, narrow, GaussianShift(some(0.01, 1, 5))]),
        compose([GeneralGaussian(excess, shift), few[2]]),
        compose([*[wide] * 10]),
        compose([wide, Dominated([0.1] * 5, [0.01] * 5, [1e-9] * 5)]),
    ]


def questions(pairs: Pairs, rng: np.random.Generator) -> list[tuple[str, float, str]]:
    """Return some questions: the name of a method, its argument and the direction."""
    asked = [("epsilon", x) for x in DELTAS] * 2 + [("delta", x) for x in EPSILONS]
    asked += [("renyi", x) for x in ORDERS] + [("attack_power", x) for x in RATES]
    asked += [("tv", 0.0), ("kl", 0.0), ("zcdp", 0.0)]
    chosen = rng.choice(len(asked), PER_PERSON, replace=False)
    return [(*asked[i], str(rng.choice(DIRECTIONS))) for i in chosen]


def answer(pairs: Pairs, name: str, argument: float, direction: str) -> np.ndarray:
    """Ask one question about everybody."""
    if name in ("tv", "zcdp"):
        return getattr(pairs, name)()
    if name == "kl":
        return pairs.kl(direction)
    if name == "attack_power":
        return pairs.attack_power(argument)
    return getattr(pairs, name)(argument, direction)


def main() -> None:
    """Write the file."""
    rng = np.random.default_rng(40)
    with FILE.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["schema", "columns", "function", "argument", "direction", "answer"])
        for pairs in people(rng):
            for i in range(len(pairs)):
                one = pairs[i]
                columns = {k: float(v[0]) for k, v in one.to_columns().items() if not k.endswith("kind")}
                for name, argument, direction in questions(one, rng):
                    value = float(answer(one, name, argument, direction)[0])
                    table.writerow([str(one.schema()), json.dumps(columns), name, argument, direction, f"{value:.14g}"])


if __name__ == "__main__":
    main()
