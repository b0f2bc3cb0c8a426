"""Write ``data/sampled_profile_truth.csv``: delta of sampled steps at an epsilon, over the whole declared range.

    python -m tests.pairs.make_sampled_truth OUT.csv SEED SECONDS [lines | balls]

``balls``: one step by its closed form and two steps by an integral of one (``sampled_pairs_of_steps.py``), both in ball
arithmetic, which proves them. ``lines``: many steps by inversion in 240 bits (``sampled_lines.py``), kept if a finer
and longer sum says the same to 16 digits. An epsilon is chosen next to where Chernoff bounds a random delta: so a
truth is one integral and no root.
"""

from __future__ import annotations

import csv
import math
import sys
import time

import numpy as np
from flint import arb, ctx

from .sampled_lines import BITS, Line, SlowDeathError, place, profile, random_case
from .sampled_pairs_of_steps import bits_for, random_steps, two_steps_delta
from .sampled_truth import one_step_delta

FIELDS = ["rates", "distances", "steps", "direction", "epsilon", "delta"]
DIGITS = 1e-16
BALL = 2e-14


def line_truth(random: np.random.Generator) -> list[str]:
    """Many steps of one kind."""
    training, delta = random_case(random)
    with np.errstate(all="ignore"):
        divergence = float(training.float_cumulants(np.array([0.0]))[0, 1])
    most = 0.5 * math.sqrt(max(divergence, 0.0) / 2)  # about the total variation
    if delta > most:
        delta = most * 10 ** -random.uniform(0.3, 9)
    c, start = place(training, math.log(delta))
    epsilon = float(f"{start:.12g}")
    if not epsilon > 0:
        raise SlowDeathError("nothing is lost")
    ctx.prec = BITS
    spacing = 2 * math.pi * c / (75 - math.log(delta))
    for _ in range(3):
        value, _, change = profile(Line(training, c, spacing, 150.0), arb(epsilon))
        if value > 0 and change < 1e-9:
            again, _, _ = profile(Line(training, c, spacing * 0.53, 190.0), arb(epsilon))
            if abs(again / value - 1) < DIGITS:
                return row([training.rate], [training.distance], [training.steps], training.direction, epsilon, again)
        spacing /= 2
    raise SlowDeathError("no step is fine enough")


def ball_truth(random: np.random.Generator) -> list[str]:
    """One step, or two."""
    steps, delta = random_steps(random)
    steps = [tuple(float(f"{x:.6g}") for x in step) for step in steps]
    direction = "with" if random.random() < 0.5 else "without"
    if random.random() < 0.2:
        steps = steps[:1]
    rates, distances = ([step[i] for step in steps] for i in (0, 1))
    epsilon = chernoff(steps, math.log(delta), direction)
    if not epsilon > 0:
        raise SlowDeathError("nothing is lost")
    bits = bits_for(steps, delta) + 200
    if len(steps) == 1:
        ctx.prec = bits + 400
        found = one_step_delta(*steps[0], epsilon, direction)
    else:
        found = two_steps_delta(*steps, epsilon, direction, bits)
    if not (found.is_finite() and found > arb("1e-306") and found.rad() < BALL * found.mid()):
        raise SlowDeathError("the ball is not small enough")
    if len(set(steps)) == 1:
        return row(rates[:1], distances[:1], [len(steps)], direction, epsilon, found.mid())
    return row(rates, distances, [1] * len(steps), direction, epsilon, found.mid())


def chernoff(steps: list[tuple[float, float]], log_delta: float, direction: str) -> float:
    """Return an epsilon next to that of a delta."""
    c = 2.0 ** np.arange(-14.0, 44.0, 0.5)
    total = 0.0
    for q, m in steps:
        x = np.linspace(-40.0, 40.0 + m, 1200)
        loss = np.logaddexp(math.log1p(-q), math.log(q) + m * x - m * m / 2)
        if m * q < 1e-3:
            loss = np.where(m * x < 30, np.log1p(q * np.expm1(np.minimum(m * x - m * m / 2, 30))), loss)
        base = -x * x / 2 - 0.5 * math.log(2 * math.pi) + math.log(x[1] - x[0])
        power = np.outer(1 + c, loss) if direction == "with" else np.outer(-c, loss)
        total = total + np.logaddexp.reduce(base + power, axis=1)
    epsilon = (total + c * np.log(c) - (1 + c) * np.log1p(c) - log_delta) / c
    return float(f"{np.nanmin(np.where(np.isfinite(epsilon), epsilon, np.inf)):.12g}")


def row(rates, distances, steps, direction, epsilon, delta) -> list[str]:
    """Return the cells."""
    lists = (" ".join(f"{x:.6g}" for x in rates), " ".join(f"{x:.6g}" for x in distances), " ".join(map(str, steps)))
    return [*lists, direction, repr(epsilon), delta.str(17, radius=False)]


def main() -> None:
    """Append rows until the time is over."""
    out, seed, until = sys.argv[1], int(sys.argv[2]), time.time() + float(sys.argv[3])
    make = {"lines": line_truth, "balls": ball_truth}[sys.argv[4]]
    random = np.random.default_rng(seed)
    with open(out, "a", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        while time.time() < until:
            try:
                table.writerow(make(random))
                file.flush()
            except (SlowDeathError, ValueError, OverflowError, ZeroDivisionError):
                continue


if __name__ == "__main__":
    main()
