"""The slow road for many sampled steps: the printed formulas in 240 bits, until finer and longer changes nothing.

``delta(epsilon) = (1/2 pi i) int A(z)^T e^{-z epsilon} dz/(z (1 + z))`` along a straight line. The moments A are
trapezoidal sums along a line off the real axis, at z = c + i k h by one multiplication per node of the noise; the noise
is cut off at 40 standard deviations, which changes delta by less than 1e-340 a step. Both steps are halved until 17
digits stay, and the line ends where its terms have been below 1e-24 of the sum for a while. Nothing here is shared with
the package: places are found by plain sums in floats.

``python -m tests.pairs.sampled_lines OUT.csv SEED SECONDS`` writes a table of truths with all cores.
"""

from __future__ import annotations

import csv
import math
import os
import sys
import time
from dataclasses import dataclass

import numpy as np
from flint import acb, arb, ctx

BITS = 240
REACH = 40.0
GIVE_UP = 12_000
MOST_WORK = 8_000_000  # nodes of the line times nodes of the noise: some seconds


class SlowDeathError(ArithmeticError):
    """The terms along the line do not become small within the nodes, or the time, that are allowed."""


@dataclass(frozen=True)
class Training:
    """T steps of one kind, in one direction."""

    rate: float
    distance: float
    steps: int
    direction: str

    def float_cumulants(self, c: np.ndarray) -> np.ndarray:
        """K, K', K'' at some real places, by plain sums in floats: to find a place."""
        m, q = self.distance, self.rate
        x = np.linspace(-REACH, REACH + m, int((2 * REACH + m) * max(12.0, 12.0 * m)))
        loss = np.logaddexp(math.log1p(-q), math.log(q) + m * x - m * m / 2)
        if m * abs(q) < 1e-3:
            loss = np.where(m * x < 30, np.log1p(q * np.expm1(np.minimum(m * x - m * m / 2, 30))), loss)
        sign = 1.0 if self.direction == "with" else -1.0
        log = (loss if sign > 0 else 0.0) - x * x / 2
        out = []
        for place in c:
            power = log + sign * place * loss
            top = power.max()
            weight = np.exp(power - top)
            mean = (weight * loss).sum() / weight.sum()
            var = (weight * (loss - mean) ** 2).sum() / weight.sum()
            base = np.exp(log - log.max())
            excess = np.expm1(np.minimum(sign * place * loss, 700)) if top < 600 else None
            if excess is not None:
                K = math.log1p(max((base * excess).sum() / base.sum(), -1 + 1e-16))
            else:
                K = top + math.log(weight.sum()) - log.max() - math.log(base.sum())
            out.append((self.steps * K, self.steps * sign * mean, self.steps * var))
        return np.array(out)


class Line:
    """K along one line, node by node, at full precision."""

    def __init__(self, training: Training, c: float, spacing: float, fine: float) -> None:
        ctx.prec = BITS
        self.c, self.spacing, self.steps = c, spacing, training.steps
        q, m = arb(training.rate), arb(training.distance)
        having = training.direction == "with"
        theta = min(1.0, 1.3 / training.distance)
        if not having:
            theta = min(theta, self._quiet(training, c))
        d = 2 * math.pi * theta / fine
        low, high = self._range(training, c)
        self.nodes = int((high - low) / d) + 1
        side = arb(theta if having else -theta)
        losses, terms = [], []
        for i in range(self.nodes):
            x = acb(arb(low) + i * arb(d), side)
            loss = (1 - q + q * (m * x - m * m / 2).exp()).log()
            loss = loss if having else -loss
            log = -x * x / 2 + (loss if having else 0)
            losses.append(loss)
            terms.append((log + c * loss).exp())
        scale = arb(d) / (2 * arb.pi()).sqrt()
        self._terms = [_middle(term * scale) for term in terms]
        self._turns = [_middle((acb(0, spacing) * loss).exp()) for loss in losses]
        self.values: list[acb] = []

    @staticmethod
    def _quiet(training: Training, c: float) -> float:
        """How far off the real axis the powers of 1/w do not grow much where they count."""
        m, q = training.distance, training.rate
        x = np.linspace(-REACH, REACH + m, 4000)
        theta = 1.3 / m
        for _ in range(60):
            w = 1 - q + q * np.exp(np.minimum(m * x - m * m / 2, 700.0) + 0j)
            moved = 1 - q + q * np.exp(np.minimum(m * x - m * m / 2, 700.0) + 2j * m * theta)
            growth = c * (np.log(np.abs(w)) - np.log(np.abs(moved)))
            size = -c * np.log(np.abs(w)) - x * x / 2
            if (size + growth).max() < size.max() + 12:
                return theta
            theta *= 0.7
        return theta

    @staticmethod
    def _range(training: Training, c: float) -> tuple[float, float]:
        """Where the integrand is more than e^-130 of its largest value."""
        m, q = training.distance, training.rate
        x = np.arange(-REACH, REACH + m, 0.05)
        loss = np.logaddexp(math.log1p(-q), math.log(q) + m * x - m * m / 2)
        p = 1 + c if training.direction == "with" else -c
        size = np.maximum(p * loss, loss if training.direction == "with" else 0.0) - x * x / 2
        live = np.flatnonzero(size > size.max() - 160)
        if training.direction == "with" and live[-1] == len(x) - 1:
            raise SlowDeathError("the moment lies beyond the noise")
        if training.direction == "without":
            live = np.array([live[0], len(x) - 1 if c * q > 1 else live[-1]])
        return float(x[live[0]]) - 0.2, float(x[live[-1]]) + 0.2

    def more(self, n: int) -> None:
        """Append K at n more nodes."""
        if len(self.values) * self.nodes > MOST_WORK:
            raise SlowDeathError("it would take too long")
        for _ in range(n):
            total = sum(self._terms, acb(0))
            self.values.append(_middle(total.log() * self.steps))
            self._terms = [a * b for a, b in zip(self._terms, self._turns, strict=True)]


def _middle(z: acb) -> acb:
    return acb(z.real.mid(), z.imag.mid())


def profile(line: Line, epsilon: arb) -> tuple[arb, arb, float]:
    """Delta, minus its slope, and how much the double step changes, relatively; longer until it dies."""
    total, slope, coarse = arb(0), arb(0), arb(0)
    k, quiet = 0, 0
    while quiet < 40:
        if k >= GIVE_UP:
            raise SlowDeathError("it does not die along this line")
        if k >= len(line.values):
            line.more(64)
        z = acb(arb(line.c), k * arb(line.spacing))
        f = (line.values[k] - z * epsilon).exp() / (z * (1 + z)) * (arb("0.5") if k == 0 else 1)
        total += f.real
        slope += (z * f).real
        if k % 2 == 0:
            coarse += 2 * f.real
        size = (abs(f.real) + abs(f.imag)).mid()
        quiet = quiet + 1 if size * (k + 1) < arb("1e-24") * abs(total).mid() else 0
        k += 1
    scale = arb(line.spacing) / arb.pi()
    return (total * scale).mid(), (slope * scale).mid(), float(abs((coarse - total) / total).mid())


def truth(training: Training, delta: float, c: float, start: float) -> float:
    """Epsilon at delta, to 17 digits; the caller says where the line may lie."""
    ctx.prec = BITS
    target = arb(delta).log()
    spacing = 2 * math.pi * c / (75 - math.log(delta))
    epsilon = arb(start)
    for _ in range(4):
        line = Line(training, c, spacing, 150.0)
        for _ in range(40):
            value, slope, change = profile(line, epsilon)
            if not value > 0:
                raise SlowDeathError("the sum is not positive here")
            step = ((value.log() - target) * value / slope).mid()
            epsilon = (epsilon + step).mid()
            if abs(step) < arb("1e-19") * abs(epsilon) or abs(step) < arb("1e-28"):
                break
        value, slope, change = profile(line, epsilon)
        if change < 1e-9:  # the fine step adds about the square of what the double one does, or at most as much
            finer = Line(training, c, spacing * 0.53, 190.0)
            again, slope, _ = profile(finer, epsilon)
            off = abs((again.log() - target) * value / slope / epsilon)
            if off < arb("3e-17"):
                return float(epsilon)
        spacing /= 2
    raise SlowDeathError("no step is fine enough")


def place(training: Training, log_delta: float) -> tuple[float, float]:
    """A place for the line, somewhat left of the saddle point, and an epsilon to start from."""
    octaves = np.arange(-14.0, 44.0, 0.25)
    c = 2.0**octaves
    with np.errstate(all="ignore"):
        K = training.float_cumulants(c)
        epsilon = (K[:, 0] - log_delta) / c
    best = int(np.nanargmin(np.where(np.isfinite(epsilon), epsilon, np.inf)))
    shift = 0.75 if log_delta > -60 else 0.1
    return float(c[best] * 2.0**-shift), float(max(epsilon[best], 0.0))


def random_case(random: np.random.Generator) -> tuple[Training, float]:
    """A training and a delta over the whole declared range; deltas up to the total variation."""
    rate, distance = 10 ** random.uniform(-6, -0.001), 10 ** random.uniform(-6, 1.7)
    if random.random() < 0.6:  # where people are
        rate, distance = 10 ** random.uniform(-4, -0.05), 10 ** random.uniform(-3, 1)
    steps = int(10 ** random.uniform(0.302, 7 if random.random() < 0.5 else 4))
    delta = 10 ** (random.uniform(-300, -12) if random.random() < 0.3 else random.uniform(-12, -0.31))
    direction = "with" if random.random() < 0.5 else "without"
    return Training(float(f"{rate:.6g}"), float(f"{distance:.6g}"), steps, direction), float(f"{delta:.4g}")


def worker(job: tuple[int, float]) -> list[list[object]]:
    """Truths until a time."""
    seed, until = job
    random = np.random.default_rng(seed)
    rows: list[list[object]] = []
    while time.time() < until:
        training, delta = random_case(random)
        began = time.time()
        try:
            with np.errstate(all="ignore"):
                divergence = float(training.float_cumulants(np.array([0.0]))[0, 1])
            most = 0.5 * math.sqrt(max(divergence, 0.0) / 2)  # about the total variation
            if delta > most:
                delta = float(f"{most * 10 ** -random.uniform(0.3, 9):.4g}")
            c, start = place(training, math.log(delta))
            epsilon = truth(training, delta, c, start)
        except (SlowDeathError, ValueError, OverflowError, ZeroDivisionError):
            continue
        if epsilon > 0:
            row = [training.rate, training.distance, training.steps, delta, training.direction, repr(epsilon)]
            rows.append([*row, f"{time.time() - began:.1f}"])
    return rows


def main() -> None:
    """Write a table."""
    import multiprocessing

    out, seed, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    jobs = [(seed * 1000 + i, time.time() + seconds) for i in range(os.cpu_count() or 1)]
    with multiprocessing.Pool(len(jobs)) as pool, open(out, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["rate", "distance", "steps", "delta", "direction", "epsilon", "seconds"])
        for rows in pool.imap_unordered(worker, jobs):
            table.writerows(rows)
            file.flush()


if __name__ == "__main__":
    main()
