"""What a draw refuses, how it rounds, and how long it takes."""

import inspect
import math
import time
from fractions import Fraction

import numpy as np
import pytest

import perinstance.sampling as sampling
from perinstance.errors import InvalidInput
from perinstance.sampling import (
    ExactGram,
    ExactObjective,
    ExactOutput,
    ExactPosterior,
    Noisy,
    draw,
    grid_draw,
)
from perinstance.sampling.grid_draw import quantum, steady_time

rng = np.random.default_rng(0)
X, y = rng.standard_normal((50, 3)), rng.standard_normal(50)
EQUATIONS = ExactGram.of(X, y).normal_equations(1.0)
IDEALS = [
    Noisy([0.5, Fraction(1, 3), 7, lambda: sampling.ball_arithmetic.exact(2).sqrt()], 1e-3),
    Noisy([0.5, -2.0], [1.0, 2.0], "laplace"),
    ExactOutput(EQUATIONS, 2.0),
    ExactOutput(EQUATIONS, 2.0, np.diag([1.0, 2.0, 3.0])),
    ExactOutput([0.25, 3.0], 2.0),
    ExactPosterior(EQUATIONS, 4.0),
    ExactObjective(EQUATIONS, 4.0),
]


@pytest.mark.parametrize("ideal", IDEALS, ids=lambda ideal: type(ideal).__name__)
@pytest.mark.parametrize("grid", [2.0**-40, 2.0**-3, 4.0, 2.0**-80])
def test_draws_lie_on_the_grid(ideal, grid):
    point = draw(ideal, grid)
    assert len(point.integers) == ideal.d
    assert all(isinstance(k, int) for k in point.integers)
    assert point.values.tolist() == [float(k * Fraction(grid)) for k in point.integers]
    assert draw(ideal, 2.0**-40).integers != draw(ideal, 2.0**-40).integers


def test_irrational_centers():
    point = draw(Noisy([lambda: sampling.ball_arithmetic.exact(2).sqrt(), Fraction(1, 3)], 1e-9), 2.0**-80)
    np.testing.assert_allclose(point.values, [math.sqrt(2), 1 / 3], atol=1e-7)


@pytest.mark.parametrize("grid", [0.0, -0.5, 0.3, math.inf, math.nan, 3.0])
def test_the_grid_is_a_power_of_two(grid):
    with pytest.raises(InvalidInput, match="power of two"):
        draw(Noisy([0.0], 1.0), grid)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Noisy([0.0], 0.0),
        lambda: Noisy([0.0], [1.0, -1.0]),
        lambda: Noisy([0.0], math.nan),
        lambda: Noisy([0.0], 1.0, "cauchy"),
        lambda: ExactOutput(EQUATIONS, -1.0),
        lambda: ExactOutput(EQUATIONS, 1.0, np.eye(2)),
        lambda: ExactOutput(EQUATIONS, 1.0, np.array([[1.0, 2, 0], [0, 1, 0], [0, 0, 1]])),
        lambda: ExactPosterior(EQUATIONS, math.inf),
        lambda: ExactObjective(EQUATIONS, 0.0),
        lambda: draw(Noisy([math.nan], 1.0)),
        lambda: draw(ExactPosterior(ExactGram.of(np.ones((4, 2)), np.ones(4)).normal_equations(), 1.0)),
    ],
)
def test_refusals(bad):
    with pytest.raises(InvalidInput):
        bad()


def test_nearly_singular_is_not_singular():
    columns = np.column_stack([np.ones(4), np.ones(4)])
    columns[0, 1] += 2.0**-52
    equations = ExactGram.of(columns, np.arange(4.0)).normal_equations()
    assert len(draw(ExactPosterior(equations, 1.0)).integers) == 2
    assert (
        len(draw(ExactPosterior(ExactGram.of(np.ones((4, 2)), np.ones(4)).normal_equations(1e-300), 1.0)).integers) == 2
    )


def test_there_is_no_seed():
    words = {"seed", "rng", "random_state", "generator", "bits", "strings"}
    for name in sampling.__all__:
        member = getattr(sampling, name)
        if callable(member):
            assert not words & set(inspect.signature(member).parameters), name


class Clock:
    """A clock that moves when told to, and a microsecond each time it is looked at."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self) -> float:
        self.now += 1e-6
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("spent", "padded"), [(0.0, 0.25), (0.2, 0.25), (0.2495, 0.25), (0.26, 0.5), (1.1, 2.0)])
def test_time_is_padded_to_public_buckets(monkeypatch, spent, padded):
    clock = Clock()
    monkeypatch.setattr(grid_draw, "time", clock)
    with steady_time(0.25):
        clock.now += spent
    assert clock.now == pytest.approx(100.0 + padded, abs=1e-5)
    with pytest.raises(ZeroDivisionError), steady_time(0.25):
        clock.now += spent
        raise ZeroDivisionError
    assert clock.now == pytest.approx(100.0 + 2 * padded, abs=1e-4)


def test_a_draw_takes_its_public_time():
    ideal = ExactPosterior(EQUATIONS, 1.0)
    draw(ideal)
    start = time.monotonic()
    draw(ideal)
    assert time.monotonic() - start >= quantum(3, 27)
