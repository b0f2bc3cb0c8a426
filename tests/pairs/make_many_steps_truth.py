"""Write ``data/seldom_steps_truth.csv``: proved deltas of 65,537 to 1e7 seldom steps at an epsilon.

    python -m tests.pairs.make_many_steps_truth OUT.csv SEED SECONDS

Steps of one kind, ``rate * steps < 10``, distances from .05 to 5 (``sampled_trapezoids.py``; ``make_few_steps_truth.py`` gives
up there). As there an epsilon is chosen next to where Chernoff bounds a random delta, and written is a double at or
below the whole ball that contains delta.
"""

from __future__ import annotations

import csv
import math
import sys
import time

import numpy as np

from .make_few_steps_truth import BALL, FIELDS, chernoff
from .sampled_noise import TooHardError
from .sampled_trapezoids import ManySteps


def random_person(random: np.random.Generator) -> tuple[float, float, int, str, float]:
    """Rate, distance, steps, direction and log delta; many of them where losses of single steps are lognormal."""
    k = int(math.exp(random.uniform(math.log(65_537), math.log(1e7))))
    rate = 10 ** random.uniform(-6, math.log10(10 / k))
    between = random.random() < 0.4
    distance = math.exp(random.uniform(math.log(0.5), math.log(1.6)) if between else random.uniform(*np.log([0.05, 5])))
    exponent = random.uniform(-12, -2) if random.random() < 0.75 else random.uniform(-30, -12)
    if between:
        exponent = min(exponent, random.uniform(-13, -7))
    direction = "with" if random.random() < 0.5 else "without"
    return float(f"{rate:.6g}"), float(f"{distance:.6g}"), k, direction, exponent * math.log(10)


def truth(random: np.random.Generator) -> list[str]:
    """One row."""
    rate, distance, k, direction, log_delta = random_person(random)
    epsilon = chernoff([(rate, distance, k)], log_delta, direction)
    if not 0 < epsilon < 1e4:
        raise TooHardError("nothing is lost")
    found = ManySteps(rate, distance, k, epsilon, direction).delta(log_delta - 3)
    if not (found.is_finite() and found > 0 and found.rad() < BALL * found.mid()):
        raise TooHardError("the ball is not small enough")
    below = math.nextafter(float(found.lower()), 0.0)
    return [repr(rate), repr(distance), str(k), direction, repr(epsilon), repr(below)]


def main() -> None:
    """Append rows until the time is over."""
    out, seed, until = sys.argv[1], int(sys.argv[2]), time.time() + float(sys.argv[3])
    random = np.random.default_rng(seed)
    with open(out, "a", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        if file.tell() == 0:
            table.writerow(FIELDS)
        while time.time() < until:
            try:
                table.writerow(truth(random))
                file.flush()
            except (TooHardError, ValueError, OverflowError, ZeroDivisionError) as error:
                print(type(error).__name__, error, file=sys.stderr)


if __name__ == "__main__":
    main()
