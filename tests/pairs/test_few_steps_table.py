"""Three and more sampled steps against deltas proved by ball arithmetic (``make_few_steps_truth.py``)."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from flint import arb

from perinstance.pairs import SampledGaussian
from perinstance.pairs.loss_sums.sampled.lattice import answers
from perinstance.pairs.loss_sums.sampled.lattice.lattice_bound import Kinds, LatticeBound

from .make_few_steps_truth import row_of

DATA = Path(__file__).parent / "data"
ROWS = [
    row
    for name in ("few_steps_truth.csv", "many_steps_truth.csv")
    for row in csv.DictReader((DATA / name).read_text(encoding="utf-8").splitlines())
]

# How far epsilon may lie above, of itself or absolutely; lattices of fewer points in the tests that always run.
ABOVE, ABSOLUTELY, COARSE = 1e-9, 5e-12, 2e-6


def _numbers(row: dict[str, str]) -> tuple[list[float], list[float], list[float]]:
    rates, distances, steps = ([float(x) for x in row[name].split()] for name in ("rates", "distances", "steps"))
    return rates, distances, steps


def _kind(row: dict[str, str]) -> tuple[str, str, str]:
    rates, _, steps = _numbers(row)
    often = sum(q * k for q, k in zip(rates, steps, strict=True))
    count = "few" if sum(steps) < 16 else "many" if sum(steps) < 65 else "long"
    return row["direction"], count, "seldom" if often < 0.1 else "often"


KINDS = sorted({_kind(row) for row in ROWS})


def _check(row: dict[str, str], most: float = ABOVE) -> None:
    """Never below. The written delta is a double below the true one: not even the last digit may be."""
    truth, delta = float(row["epsilon"]), float(row["delta"])
    rates, distances, steps = _numbers(row)
    pairs = SampledGaussian([rates], [distances], [steps])
    (found,), (profile,) = pairs.epsilon(delta, row["direction"]), pairs.delta(truth, row["direction"])
    assert found >= truth and profile >= delta, row
    assert found <= truth * (1 + most) + ABSOLUTELY, (found / truth - 1, row)


@pytest.fixture
def coarse(monkeypatch) -> float:
    """Return how far above the truth lattices of fewer points may be."""
    monkeypatch.setattr(answers, "FINEST", answers.FINEST // 16)
    return COARSE


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_each_kind(kind, coarse):
    """The first of each."""
    _check(next(row for row in ROWS if _kind(row) == kind), coarse)


def test_no_place_further_out_is_known(coarse):
    """Next to the end of the noise nothing tells how wide the steps of a line may be: it was 3% above the truth."""
    _check(next(row for row in ROWS if row["delta"].startswith("5.63043795336664e-262")), coarse)


@pytest.mark.parametrize("points", [128, 777, 4096])
def test_coarse_lattices_are_bounds(points):
    """However wide the spacing, and whatever of the variance is taken back: delta is never below the truth.

    Between two points the bound is linear in ``e^epsilon``.
    """
    taken_back = 0
    for row in ROWS[:: 40 if points < 1000 else 80]:
        truth, log_delta = float(row["epsilon"]), math.log(float(row["delta"]))
        kinds = Kinds.of(np.array(_numbers(row)), 1.0 if row["direction"] == "with" else -1.0, log_delta)
        end = 1.01 * truth if kinds.sign > 0 else max(truth - 0.01 * kinds.place(truth), 0.0)
        bound = LatticeBound(kinds, end, points)
        j = int(kinds.place(truth) / bound.lattice.spacing)
        logs = [bound.log_delta(k) for k in (j, j + 1)] if j < bound.last else [np.inf]
        if max(logs) < np.inf:
            taken_back += bound._averaged
            here, there = bound.epsilon(j), bound.epsilon(j + 1)
            share = math.expm1(truth - here) / math.expm1(there - here)
            found = logs[0] + math.log1p(share * math.expm1(logs[1] - logs[0]))
            digits = 1e-11 * truth + bound._off  # of the truth and of the place
            slope = abs((logs[1] - logs[0]) / (there - here))
            assert found >= log_delta - slope * digits - 1e-13 * abs(log_delta), row
    assert taken_back > 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_whole_table(kind):
    """All of them."""
    for row in ROWS:
        if _kind(row) == kind:
            _check(row)


def test_rows_are_written_with_all_their_digits():
    """A table that says 1.23457e+06 steps would be the truth of another person."""
    row = row_of([(0.00012345678901, 0.5, 1234567)], "with", 0.1, arb("1e-9"))
    assert row[:3] == ["0.00012345678901", "0.5", "1234567"]
