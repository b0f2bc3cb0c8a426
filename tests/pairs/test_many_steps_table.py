"""Many sampled steps against deltas proved by ball arithmetic (``make_many_steps_truth.py``)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from perinstance.pairs import SampledGaussian
from perinstance.pairs.loss_sums.sampled.lattice import answers

DATA = Path(__file__).parent / "data"

#: How far epsilon may lie above, of itself or absolutely: over the declared range, and of people with many seldom steps
#: (docs/composition.md); the coarse ones are of lattices with fewer points, in the tests that always run.
ABOVE, ABSOLUTELY, SELDOM, COARSE = 1e-9, 5e-12, 3e-5, 1e-3


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((DATA / name).read_text(encoding="utf-8").splitlines()))


ANYBODY, SELDOM_STEPS = _rows("large_counts_truth.csv"), _rows("seldom_steps_truth.csv")


def _check(row: dict[str, str], most: float, both: bool = True) -> None:
    """Never below. The written delta is a double below the true one: not even the last digit may be."""
    truth, delta = float(row["epsilon"]), float(row["delta"])
    pairs = SampledGaussian([[float(row["rates"])]], [[float(row["distances"])]], [[int(row["steps"])]])
    (found,) = pairs.epsilon(delta, row["direction"])
    assert found >= truth, row
    assert found <= truth * (1 + most) + ABSOLUTELY, (found / truth - 1, row)
    if both:
        assert pairs.delta(truth, row["direction"])[0] >= delta, row


@pytest.fixture
def coarse(monkeypatch) -> None:
    """Lattices of fewer points: faster."""
    monkeypatch.setattr(answers, "FINEST", answers.FINEST // 64)


def test_the_tables_are_large():
    """Thousands of cases, with those that hardly die along a line."""
    assert len(ANYBODY) > 1000 and len(SELDOM_STEPS) > 150
    many = [row for row in SELDOM_STEPS if int(row["steps"]) > 65_536 and float(row["rates"]) * int(row["steps"]) < 10]
    assert len(many) == len(SELDOM_STEPS)


@pytest.mark.parametrize("part", range(4))
def test_some_people(part, coarse):
    """Every twentieth of them."""
    for row in ANYBODY[20 * part :: 80]:
        _check(row, COARSE)


@pytest.mark.parametrize("part", range(2))
def test_some_people_sampled_seldom(part, coarse):
    """Every twentieth of them."""
    for row in SELDOM_STEPS[part::20]:
        _check(row, COARSE, both=False)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_everybody(part):
    """All of them."""
    for row in ANYBODY[part::8]:
        _check(row, ABOVE)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
def test_everybody_sampled_seldom(part):
    """All of them: up to half a minute each."""
    for row in SELDOM_STEPS[part::16]:
        _check(row, SELDOM, both=False)
