"""The slanted inversion in balls, which proves the tables, against roads that share nothing with it."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from flint import ctx
from scipy.special import ndtr

from .sampled_contours import Inversion, steps_delta
from .sampled_noise import Kind, Line, TooHardError
from .sampled_truth import one_step_delta

DATA = Path(__file__).parent / "data"
SLOW = pytest.mark.slow


@pytest.fixture(autouse=True)
def _precision():
    yield
    ctx.prec = 53


@pytest.mark.parametrize("direction", ["with", "without"])
@pytest.mark.parametrize(
    ("rate", "distance", "epsilon"),
    [(0.3, 0.7, 0.25), pytest.param(2e-5, 0.2, 1.2e-5, marks=SLOW), pytest.param(0.01, 6.0, 0.004, marks=SLOW)],
)
def test_one_step_is_its_closed_form(rate, distance, epsilon, direction):
    """The ball contains it, and is small."""
    found = steps_delta([(rate, distance, 1)], epsilon, direction)
    ctx.prec = 400
    truth = one_step_delta(rate, distance, epsilon, direction)
    assert found.overlaps(truth) and found.rad() < 1e-13 * found.mid()


@pytest.mark.slow
def test_two_steps_are_the_table_of_integrals():
    """The stored middles of two steps by integrals over the noise (``sampled_pairs_of_steps.py``)."""
    rows = list(csv.DictReader((DATA / "two_steps_truth.csv").read_text(encoding="utf-8").splitlines()))
    hit = 0
    for row in rows[3:11]:
        rates, distances, steps = ([float(x) for x in row[name].split()] for name in ("rates", "distances", "steps"))
        try:
            found = steps_delta(
                list(zip(rates, distances, map(int, steps), strict=True)), float(row["epsilon"]), row["direction"]
            )
        except TooHardError:
            continue
        hit += 1
        assert abs(float(found.mid() / float(row["delta"])) - 1) < 5e-14
    assert hit >= 4


def _bracket(rate, distance, count, epsilon, direction, cells=2000):
    """Delta between two sums over a grid of the loss: all terms positive, nothing transformed.

    The ratio of a cell moved to its ends, its mean kept, only spreads it, and delta is convex in every ratio: above.
    The loss moved down under the law that delta is an expectation of, and up in the other direction: below.
    """
    top = distance * 9 + distance**2 / 2 + math.log(rate)  # less log(1 - rate)
    if direction == "without":  # above it nothing counts
        top = -count * math.log1p(-rate) - epsilon
    g = top / cells
    loss = g * np.arange(cells + 1)
    with np.errstate(divide="ignore"):
        edge = (np.log(np.expm1(loss)) + math.log1p(-rate) - math.log(rate)) / distance + distance / 2
    p, far = np.diff(ndtr(edge)), np.diff(ndtr(edge - distance))
    q = (1 - rate) * p + rate * far
    low = (1 - rate) * np.exp(loss[:-1])
    up = np.clip((q - p * low) / (low * math.expm1(g)), 0, p)
    spread = np.append(p - up, 0.0) + np.append(0.0, up)
    beyond = rate * ndtr(distance - edge[-1]) + (1 - rate) * ndtr(-edge[-1])

    def total(law, at):
        out = law
        for _ in range(count - 1):
            out = np.convolve(out, law)
        S = count * math.log1p(-rate) + g * (np.arange(out.size) + at)
        return out, S

    law, S = total(spread, 0)
    if direction == "with":
        above = (law * np.exp(S) * np.clip(-np.expm1(epsilon - S), 0, None)).sum() + count * beyond
        law, S = total(q, 0)
        below = (law * np.clip(-np.expm1(epsilon - S), 0, None)).sum()
    else:
        above = (law * np.clip(-np.expm1(epsilon + S), 0, None)).sum()
        law, S = total(p, count)
        below = (law * np.clip(-np.expm1(epsilon + S), 0, None)).sum()
    return below, above


@pytest.mark.parametrize("direction", ["with", "without"])
@pytest.mark.parametrize(
    ("rate", "distance", "count", "epsilon"),
    [
        (0.05, 1.2, 3, 0.1),
        pytest.param(0.2, 2.0, 4, 0.6, marks=SLOW),
        pytest.param(0.001, 3.0, 5, 0.2, marks=SLOW),
        (0.6, 0.5, 3, 0.8),
    ],
)
def test_a_grid_of_losses_brackets_it(rate, distance, count, epsilon, direction):
    """Two plain sums, one above and one below."""
    if direction == "without":
        epsilon = min(epsilon, -0.4 * count * math.log1p(-rate))
    found = float(steps_delta([(rate, distance, count)], epsilon, direction).mid())
    below, above = _bracket(rate, distance, count, epsilon, direction)
    assert below * (1 - 1e-12) <= found <= above * (1 + 1e-12)
    assert above < found * 1.002 and below > found * 0.5


def test_the_path_and_the_angle_are_nothing():
    """Another place for the line, other angles: the balls overlap."""
    steps, epsilon = [(0.2, 0.7, 6)], 1.7
    first = steps_delta(steps, epsilon, "with")
    other = Inversion(steps, epsilon, "with")
    other.c = 1.5 * other.c
    assert other.delta().overlaps(first)


def test_bounds_along_a_line_are_bounds():
    """The integral of the absolute value by a fine plain sum is below its bound, and not far."""
    random = np.random.default_rng(5)
    for line in (Line(0.0, 0.2), Line(0.3, -0.2), Line(0.55, 0.3, 2.0)):
        kind = Kind(0.05, 1.1, 1, 1, share=0.3)
        for _ in range(4):
            z = complex(random.uniform(-3, 6), random.uniform(0, 40))
            bound = line.absolute(kind, 8 + 40j).total(z)
            s = np.linspace(-20, 40, 60_001)
            x, turned = line(s, kind.distance)
            loss = np.log1p(np.exp(kind.log_r + kind.distance * x))
            jumps = np.round(np.diff(loss.imag) / (2 * math.pi))
            loss = loss - 2j * math.pi * np.append(0, np.cumsum(jumps))
            size = np.abs(np.exp(-x * x / 2 + loss + z * (loss - kind.share)) * turned) / math.sqrt(2 * math.pi)
            plain = math.log(size.sum() * (s[1] - s[0]))
            assert plain <= bound < plain + 0.1 + 0.01 * abs(z)
