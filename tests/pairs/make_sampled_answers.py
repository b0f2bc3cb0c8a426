"""Write ``tests/data/sampled_answers.csv``: what sampled steps, alone and with others, answer to hard questions.

    python -m tests.pairs.make_sampled_answers

The file was written once, by the six roads of November 2026, before one replaced them: inversion along lines and
hyperbolas, in one and two floats, a lattice of losses, quadrature of two steps. Most answers were within 1e-9 of the
truth, and none below it. ``test_sampled_answers.py`` says what may differ from them.
"""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path

import numpy as np

from perinstance.pairs import (
    GaussianShift,
    LaplaceShift,
    ObjectivePair,
    Pairs,
    PosteriorSamplePair,
    SampledGaussian,
    compose,
)
from tests.pairs.make_pair_answers import answer

FILE = Path(__file__).parents[1] / "data" / "sampled_answers.csv"
SECONDS = 20  # for a question


def people(rng: np.random.Generator) -> list[Pairs]:
    """Return one person each: log-uniform rates, distances and steps, several kinds of them, and other releases."""

    def some(low: float, high: float, n: int = 1) -> np.ndarray:
        return np.array([float(f"{x:.3g}") for x in np.exp(rng.uniform(np.log(low), np.log(high), n))])

    def steps(n: int, most: float = 1e6) -> SampledGaussian:
        rate = np.minimum(some(1e-5, 1.2, n), 1.0)
        return SampledGaussian([rate], [some(1e-3, 20.0, n)], [np.rint(some(1.0, most / n, n))])

    one = [steps(1) for _ in range(150)]
    mixed = [steps(int(rng.integers(2, 9))) for _ in range(40)]
    usual = [
        SampledGaussian([[q]], [[m]], [[n]])
        for q, m, n in zip(some(1e-3, 0.1, 25), some(0.05, 2.0, 25), np.rint(some(100, 20000, 25)), strict=True)
    ]
    others = [
        [
            GaussianShift(some(0.01, 5.0)),
            LaplaceShift(some(1e-3, 3.0)),
            PosteriorSamplePair(some(1e-5, 1.0), some(0.01, 10.0)),
            ObjectivePair([0.02], some(0.01, 1.0), [0.5], [0.002]),
        ]
        for _ in range(60)
    ]
    sums = [
        compose([steps(int(rng.integers(1, 3)), 1e5), *(x for x in other if rng.random() < 0.4)]) for other in others
    ]
    return one + mixed + usual + sums


def questions(rng: np.random.Generator, pair: Pairs) -> list[tuple[str, float, str]]:
    """Return some questions: the name of a method, its argument and the direction."""
    deltas = [float(f"{10.0 ** rng.uniform(-15, -1):.3g}") for _ in range(2)]
    side = str(rng.choice(["without", "with"]))
    asked = [("epsilon", deltas[0], "with"), ("epsilon", deltas[1], "without")]
    more = rng.random()
    if more < 0.4:
        e = float(pair.epsilon(deltas[0], side)[0])
        e = float(f"{e if e > 0 else 0.01:.4g}")
        asked.append(("delta", e, side))
        if more < 0.05:
            asked.append(("delta", -e, side))
    elif more < 0.6:
        asked.append(("renyi", float(rng.choice([1.0, 1.5, 2.0, 8.0, 64.0, np.inf])), side))
    elif more < 0.75:
        asked.append(("attack_power", float(rng.choice([1e-4, 0.01, 0.2])), "worst"))
    elif more < 0.8:
        asked.append(("tv", 0.0, "worst"))
    return asked


def late(*_: object) -> None:
    """Give a question up."""
    raise TimeoutError


def main() -> None:
    """Write the file."""
    rng = np.random.default_rng(41)
    signal.signal(signal.SIGALRM, late)
    with FILE.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["schema", "columns", "function", "argument", "direction", "answer"])
        everybody = people(rng)
        for pairs in [everybody[i] for i in rng.permutation(len(everybody))]:
            columns = {k: float(v[0]) for k, v in pairs.to_columns().items() if not k.endswith("kind")}
            try:
                signal.alarm(SECONDS)
                asked = questions(rng, pairs)
            except TimeoutError:
                continue
            for name, argument, direction in asked:
                try:
                    signal.alarm(SECONDS)
                    value = float(answer(pairs, name, argument, direction)[0])
                except TimeoutError:
                    continue
                finally:
                    signal.alarm(0)
                table.writerow([str(pairs.schema()), json.dumps(columns), name, argument, direction, f"{value:.14g}"])
                file.flush()


if __name__ == "__main__":
    main()
