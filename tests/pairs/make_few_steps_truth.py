"""Write ``data/few_steps_truth.csv``: proved deltas of 3 to 64 sampled steps at an epsilon (``sampled_contours.py``).

    python -m tests.pairs.make_few_steps_truth OUT.csv SEED SECONDS [FEWEST MOST]

An epsilon is chosen next to where Chernoff bounds a random delta, or where single steps alone have it: so a truth is
one integral and no root. Written is a double at or below the whole ball that contains delta: at most 3e-13 of it
below. So the true epsilon of that double is at least the one written.
"""

from __future__ import annotations

import csv
import math
import sys
import time
from collections.abc import Callable

import numpy as np
from flint import arb, ctx

from .sampled_contours import Inversion, Step
from .sampled_noise import TooHardError, log_one_plus, log_sum
from .sampled_truth import one_step_delta

FIELDS = ["rates", "distances", "steps", "direction", "epsilon", "delta"]
BALL = 1e-13


def random_steps(random: np.random.Generator, fewest: int, most: int) -> tuple[list[Step], float, str, bool]:
    """Steps of one to four kinds, a delta and a direction over the declared range, most of them where people are."""
    count = int(round(math.exp(random.uniform(math.log(fewest - 0.4), math.log(most + 0.4)))))
    kinds = 1 if random.random() < 0.6 else int(random.integers(2, 5))
    kinds = min(kinds, count)
    cuts = np.sort(random.choice(count - 1, kinds - 1, replace=False)) + 1 if kinds > 1 else np.array([], int)
    counts = np.diff(np.concatenate([[0], cuts, [count]]))
    seldom = random.random() < 0.35
    often = 0.03 if count < 4096 else 10 ** random.uniform(-1.5, 1.0)  # how often a person is sampled at most
    low, high = (
        (-6.0, max(math.log10(often / count), -6.0)) if seldom else (-6.0 if random.random() < 0.3 else -2.5, -0.05)
    )
    near = random.uniform(-1.3, 1.08) if random.random() < 0.75 else random.uniform(-3, 1.69)
    steps = []
    for k in counts:
        rate = 10 ** random.uniform(low, high)
        distance = 10 ** (near if kinds == 1 else np.clip(near + random.uniform(-0.5, 0.5), -3, 1.69))
        steps.append((float(f"{rate:.6g}"), float(f"{distance:.6g}"), int(k)))
    exponent = random.uniform(-15, -2) if random.random() < 0.7 else random.uniform(-300, -0.4)
    often = sum(q * k for q, _, k in steps)
    if seldom and random.random() < 0.7:  # from the rate on downwards
        exponent = math.log10(min(often, 1.0)) - 10 ** random.uniform(-1, 1.3)
    return (
        steps,
        exponent * math.log(10),
        "with" if random.random() < 0.5 else "without",
        seldom or random.random() < 0.3,
    )


def chernoff(steps: list[Step], log_delta: float, direction: str) -> float:
    """An epsilon next to that of a delta."""
    c = 2.0 ** np.arange(-14.0, 44.0, 0.25)
    total = np.zeros(c.size)
    for q, m, k in steps:
        turn = (m * m / 2 + math.log1p(-q) - math.log(q)) / m
        x = np.unique(np.concatenate([np.linspace(-40, 40 + m, 1200), turn + np.linspace(-9, 9, 200) / m]))
        loss = log_one_plus(m * (x - turn) + 0j).real + math.log1p(-q)
        base = -x * x / 2 - 0.5 * math.log(2 * math.pi) + np.log(np.gradient(x))
        power = np.outer(1 + c, loss) if direction == "with" else np.outer(-c, loss)
        total += k * np.array([log_sum(base + row) for row in power])
    epsilon = (total + c * np.log(c) - (1 + c) * np.log1p(c) - log_delta) / c
    return float(f"{np.nanmin(np.where(np.isfinite(epsilon), epsilon, np.inf)):.12g}")


def largest_alone(steps: list[Step], log_delta: float, direction: str) -> float:
    """Where the deltas of single steps sum up to delta: next to it where one large step decides."""
    ctx.prec = 1500
    delta, low, high = arb(log_delta).exp(), 0.0, 1.0

    def alone(epsilon: float) -> arb:
        return sum((k * one_step_delta(q, m, epsilon, direction) for q, m, k in steps), arb(0))

    while alone(high) > delta:
        low, high = high, 4 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if alone(middle) > delta else (low, middle)
    shift = sum(q * k for q, _, k in steps) - min(q for q, _, _ in steps)
    return float(f"{max(low - (shift if direction == 'with' else 0), 0):.12g}")


def truth(random: np.random.Generator, fewest: int, most: int) -> list[str]:
    """One row."""
    steps, log_delta, direction, alone = random_steps(random, fewest, most)
    epsilon = largest_alone(steps, log_delta, direction) if alone else chernoff(steps, log_delta, direction)
    if not 0 < epsilon < 1e4:
        raise TooHardError("nothing is lost")
    return row_of(steps, direction, epsilon, Inversion(steps, epsilon, direction).delta())


def row_of(steps: list[Step], direction: str, epsilon: float, found: arb) -> list[str]:
    """Write a row, every number with all its digits, if the ball of its delta is small enough."""
    if not (found.is_finite() and found > 0 and found.rad() < BALL * found.mid()):
        raise TooHardError("the ball is not small enough")
    if not -708 < float(found.log().mid()) < -0.69:
        raise TooHardError("out of range")
    lists = [" ".join(repr(step[i]) for step in steps) for i in range(3)]
    below = math.nextafter(float(found.lower()), 0.0)
    return [*lists, direction, repr(epsilon), repr(below)]


def append_rows(path: str, seconds: float, make: Callable[[], list[str]]) -> None:
    """Append rows to a table until the time is over."""
    until = time.time() + seconds
    with open(path, "a", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        if file.tell() == 0:
            table.writerow(FIELDS)
        while time.time() < until:
            try:
                table.writerow(make())
                file.flush()
            except (TooHardError, ValueError, OverflowError, ZeroDivisionError) as error:
                print(type(error).__name__, error, file=sys.stderr)


def main() -> None:
    """Append random rows."""
    random = np.random.default_rng(int(sys.argv[2]))
    fewest, most = (int(x) for x in sys.argv[4:6]) if len(sys.argv) > 4 else (3, 64)
    append_rows(sys.argv[1], float(sys.argv[3]), lambda: truth(random, fewest, most))


if __name__ == "__main__":
    main()
