"""Plain trapezoidal sums in balls, which prove the tables of many steps, against roads that share nothing with them."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx

from .sampled_noise import TooHardError
from .sampled_strip import KindOfSteps
from .sampled_trapezoids import ManySteps

DATA = Path(__file__).parent / "data"


@pytest.fixture(autouse=True)
def _precision():
    yield
    ctx.prec = 53


def _rows(name: str) -> list[dict[str, str]]:
    rows = csv.DictReader((DATA / name).read_text(encoding="utf-8").splitlines())
    return [row for row in rows if sum(map(int, row["steps"].split())) > 60 and float(row["delta"]) > 1e-60]


def _found(row: dict[str, str], most_work: float = 1e6) -> arb:
    lists = (row[name].split() for name in ("rates", "distances", "steps"))
    steps = [(float(q), float(m), int(k)) for q, m, k in zip(*lists, strict=True)]
    return ManySteps(steps, float(row["epsilon"]), row["direction"], most_work).delta(math.log(float(row["delta"])) + 1)


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_slanted_paths_prove_the_same(every):
    """``sampled_contours.py``: written are doubles below its balls, by 3e-13 at most."""
    hit = 0
    for row in _rows("many_steps_truth.csv")[::every]:
        try:
            found = _found(row)
        except TooHardError:
            continue
        hit += 1
        assert found.rad() < 1e-13 * found.mid()
        assert -1e-14 < float(found.mid() / float(row["delta"])) - 1 < 3e-13, row
    assert hit >= 3 + 20 // every


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_lines_of_240_bits_say_the_same(every):
    """``sampled_lines.py``: kept where a finer and longer sum had the same sixteen digits."""
    hit = 0
    for row in _rows("sampled_profile_truth.csv")[::every]:
        try:
            found = _found(row)
        except TooHardError:
            continue
        hit += 1
        assert (found * (1 + arb(0, 3e-16))).contains(arb(row["delta"])), row
    assert hit >= 4 + 40 // every


@pytest.mark.parametrize("direction", ["with", "without"])
@pytest.mark.parametrize(("rate", "distance", "steps"), [(2e-4, 0.9, 4000), (3e-4, 0.1, 20_000), (0.02, 2.0, 800)])
def test_other_plans_overlap(rate, distance, steps, direction):
    """More digits are another line, another spacing, another end: each ball contains the next."""
    person = ManySteps([(rate, distance, steps)], 0.01 if rate < 0.01 else 2.0, direction)
    rough = person.delta(-8.0)
    balls = [person.attempt(float(rough.log().mid()), goal) for goal in (8.0, 14.0, 25.0, 45.0)]
    for ball, next_ball in zip(balls, balls[1:], strict=False):
        assert ball.contains(next_ball) and next_ball.rad() < ball.rad() / 100


@pytest.mark.parametrize("direction", ["with", "without"])
@pytest.mark.parametrize(("rate", "distance", "steps"), [(2e-5, 0.9, 40_000), (2e-3, 0.1, 900), (0.02, 3.0, 800)])
def test_decay_is_a_bound(rate, distance, steps, direction):
    """At many heights above, by plain sums over the noise."""
    person = KindOfSteps(rate, distance, steps, direction)
    c = 4.0 if distance < 2 else 1.0  # to the left of where noise far out counts
    decay = person.decay(c, 40.0)
    assert decay is not None
    x = np.arange(-12.0, 30.0, 2e-4)
    loss = np.log1p(rate * np.expm1(distance * x - distance**2 / 2))
    law = np.exp(person.power(c) * loss - x * x / 2)
    law /= law.sum()
    heights = decay.height * np.geomspace(1, 3 * decay.times, 60)
    sizes = np.array([abs((law * np.exp(1j * y * loss)).sum()) for y in heights])
    assert (steps * np.log(sizes) < -40).all()
    if distance < 2:  # and not far below it is no longer so
        assert steps * np.log(abs((law * np.exp(1j * heights[0] / 30 * loss)).sum())) > -40


def test_the_largest_moment_is_one():
    """``without``: at both sides of the strip, by a plain sum; and not far above."""
    for rate, distance, c in [(1e-5, 1.2, 3e4), (0.05, 0.01, 2e3), (1e-3, 3.0, 40.0)]:
        person = KindOfSteps(rate, distance, 1000, "without")
        _, a, low, high = person.noise(c, 60.0)
        bound = float(person.largest(c, a))
        s = np.arange(-20.0, 20.0, 1e-3)
        w = [np.abs(1 - rate + rate * np.exp(distance * (s + 1j * t) - distance**2 / 2)) for t in (0, -a, -2 * a)]
        plain = [float((np.exp(-c * np.log(v) - s * s / 2)).sum() * 1e-3 / math.sqrt(2 * math.pi)) for v in w]
        assert max(plain) < bound < 30 * min(plain)
        ctx.prec = 100
        outside = float(person.outside(c, a, low, high))
        out = np.exp(-c * np.log(w[1]) - s * s / 2)[(s < low) | (s > high)].sum() * 1e-3 / math.sqrt(2 * math.pi)
        assert out <= outside < math.exp(-55)


@pytest.mark.parametrize("direction", ["with", "without"])
def test_kinds_are_steps(direction):
    """The same steps called two kinds, and one of two kinds beside few steps of a third."""
    whole = ManySteps([(2e-3, 0.4, 3000)], 0.15, direction).delta(-12.0)
    parts = ManySteps([(2e-3, 0.4, 2900), (2e-3, 0.4, 100)], 0.15, direction).delta(-12.0)
    assert whole.overlaps(parts) and parts.rad() < 1e-13 * parts.mid()
    more = ManySteps([(2e-3, 0.4, 3000), (1e-6, 0.1, 5)], 0.15, direction).delta(-12.0)
    assert more > whole and more < whole * (1 + arb(1e-5))
