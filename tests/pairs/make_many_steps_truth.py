"""Write ``data/seldom_steps_truth.csv`` or ``large_counts_truth.csv``: proved deltas of many steps at an epsilon.

    python -m tests.pairs.make_many_steps_truth OUT.csv SEED SECONDS seldom | seldom_kinds | all

``seldom``: 65,537 to 1e7 steps, ``rate * steps < 10``, distances from .05 to 5: ``make_few_steps_truth.py`` gives up.
``seldom_kinds``: the same of two to four kinds. ``all``: 8 to 1e7 steps of up to three kinds over the declared range,
if they are cheap (``sampled_trapezoids.py``).

An epsilon is chosen next to where Chernoff bounds a random delta if no step has noise so large that delta is about that
chance: with it moments say nothing. Written is a double at or below the whole ball that contains delta.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from .make_few_steps_truth import append_rows, row_of
from .sampled_contours import Step
from .sampled_noise import TooHardError
from .sampled_trapezoids import ManySteps

Person = tuple[list[Step], str, float]  # with the log of a delta


def rounded(rate: float, distance: float, steps: int) -> Step:
    """Six digits of both."""
    return float(f"{rate:.6g}"), float(f"{distance:.6g}"), steps


def shared(random: np.random.Generator, count: int, kinds: int) -> list[int]:
    """A number of steps cut into kinds."""
    cuts = np.sort(random.choice(count - 1, kinds - 1, replace=False)) + 1
    return [int(k) for k in np.diff(np.concatenate([[0], cuts, [count]]))]


def seldom(random: np.random.Generator, most_kinds: int = 1) -> Person:
    """Many of them where losses of single steps are lognormal."""
    k = int(math.exp(random.uniform(math.log(65_537), math.log(1e7))))
    often = 10 ** random.uniform(-6, math.log10(10 / k))
    between = random.random() < 0.4
    distance = math.exp(random.uniform(math.log(0.5), math.log(1.6)) if between else random.uniform(*np.log([0.05, 5])))
    exponent = random.uniform(-12, -2) if random.random() < 0.75 else random.uniform(-30, -12)
    if between:
        exponent = min(exponent, random.uniform(-13, -7))
    direction = "with" if random.random() < 0.5 else "without"
    steps = [rounded(often, distance, k)]
    if most_kinds > 1:
        kinds = int(random.integers(2, most_kinds + 1))
        near = np.clip(distance * np.exp(random.uniform(-0.7, 0.7, kinds)), 0.05, 5)
        rates = [max(often * 10 ** random.uniform(-1, 0), 1e-6) for _ in near]
        steps = [rounded(q, m, n) for q, m, n in zip(rates, near, shared(random, k, kinds), strict=True)]
    return steps, direction, exponent * math.log(10)


def anybody(random: np.random.Generator) -> Person:
    """The same over the declared range."""
    k = int(math.exp(random.uniform(math.log(8), math.log(1e7))))
    kinds = 1 if random.random() < 0.7 else int(random.integers(2, 4))
    people = random.random() < 0.6  # where they are
    steps = []
    for n in shared(random, k, kinds):
        rate, distance = 10 ** random.uniform(-6, -0.01), 10 ** random.uniform(-6, 1.7)
        if people:
            rate, distance = 10 ** random.uniform(-4, -0.05), 10 ** random.uniform(-3, 1)
        steps.append(rounded(rate, distance, n))
    exponent = random.uniform(-300, -12) if random.random() < 0.3 else random.uniform(-12, -0.5)
    return steps, "with" if random.random() < 0.5 else "without", exponent * math.log(10)


def near_epsilon(steps: list[Step], direction: str, log_delta: float) -> float:
    """An epsilon next to that of a delta."""
    c = 2.0 ** np.arange(-14.0, 44.0, 0.25)
    K = np.zeros(c.size)
    for q, m, k in steps:
        x = np.arange(-14.0, 40.0 + m, 0.01)
        far = m * x - m * m / 2
        large = np.logaddexp(math.log1p(-q), math.log(q) + far)
        loss = np.where(far < 20, np.log1p(q * np.expm1(np.minimum(far, 20))), large)
        density = np.exp(-x * x / 2) * 0.01 / math.sqrt(2 * math.pi)
        law = density * np.exp(loss) if direction == "with" else density
        kept = np.cumsum(law[::-1])[::-1] * k > 0.2 * math.exp(log_delta) / len(steps)
        loss, law = (loss if direction == "with" else -loss)[kept], law[kept]
        with np.errstate(over="ignore", invalid="ignore"):
            K += k * np.log1p(np.expm1(np.outer(c, loss)) @ law)
    epsilon = (K + c * np.log(c) - (1 + c) * np.log1p(c) - log_delta) / c
    return float(f"{np.nanmin(np.where(np.isfinite(epsilon), epsilon, np.inf)):.12g}")


def truth(person: Person, most_work: float) -> list[str]:
    """One row."""
    steps, direction, log_delta = person
    epsilon = near_epsilon(steps, direction, log_delta)
    if not 0 < epsilon < 1e4:
        raise TooHardError("nothing is lost")
    return row_of(steps, direction, epsilon, ManySteps(steps, epsilon, direction, most_work).delta(log_delta - 1))


def main() -> None:
    """Append random rows."""
    random = np.random.default_rng(int(sys.argv[2]))
    choose, work = {
        "seldom": (seldom, 1e8),
        "seldom_kinds": (lambda random: seldom(random, 4), 1e8),
        "all": (anybody, 2e6),
    }[sys.argv[4]]
    append_rows(sys.argv[1], float(sys.argv[3]), lambda: truth(choose(random), work))


if __name__ == "__main__":
    main()
