"""Many sampled steps against deltas proved by ball arithmetic (``make_many_steps_truth.py``)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from perinstance.pairs import SampledGaussian
from perinstance.pairs.loss_sums.sampled.lattice import answers

DATA = Path(__file__).parent / "data"

#: How far epsilon may lie above, of itself or absolutely; of smaller deltas than this only that it is not below.
ABOVE, ABSOLUTELY, TINY = 1e-9, 5e-12, 1e-200


def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((DATA / name).read_text(encoding="utf-8").splitlines()))


ANYBODY, SELDOM_STEPS = _rows("large_counts_truth.csv"), _rows("seldom_steps_truth.csv")


def _numbers(row: dict[str, str]) -> tuple[list[float], list[float], list[float]]:
    rates, distances, steps = ([float(x) for x in row[name].split()] for name in ("rates", "distances", "steps"))
    return rates, distances, steps


def _excess(row: dict[str, str], both: bool = True) -> float:
    """How far above, of itself. Never below: the written delta is a double below the true one."""
    truth, delta = float(row["epsilon"]), float(row["delta"])
    rates, distances, steps = _numbers(row)
    pairs = SampledGaussian([rates], [distances], [steps])
    (found,) = pairs.epsilon(delta, row["direction"])
    assert found >= truth, row
    if both:
        assert pairs.delta(truth, row["direction"])[0] >= delta, row
    return (found - truth - ABSOLUTELY) / truth


@pytest.fixture
def coarse(monkeypatch) -> None:
    """Lattices of fewer points: faster."""
    monkeypatch.setattr(answers, "FINEST", answers.FINEST // 16)


def test_the_tables_are_large():
    """With those that hardly die along a line."""
    assert len(ANYBODY) > 1000 and len(SELDOM_STEPS) > 200
    for row in SELDOM_STEPS:
        rates, _, steps = _numbers(row)
        assert sum(steps) > 65_536 and sum(q * k for q, k in zip(rates, steps, strict=True)) < 40


@pytest.mark.parametrize("part", range(4))
def test_some_people(part, coarse):
    """Every twentieth of them."""
    rows = ANYBODY[20 * part :: 80]
    assert sum(_excess(row) > ABOVE for row in rows) <= 1  # by a lattice


@pytest.mark.parametrize("part", range(2))
def test_some_people_sampled_seldom(part, coarse):
    """Every twentieth of them."""
    for row in SELDOM_STEPS[part::20]:
        assert _excess(row, both=False) < ABOVE, row


def test_a_kind_that_always_loses_its_most(coarse):
    """It is taken out of the sum, from everybody at once; a lattice of all is 3% above."""
    (row,) = (
        row for row in ANYBODY if row["rates"].startswith("0.022219 0.000772311") and row["direction"] == "without"
    )
    assert _excess(row) < ABOVE
    rates, distances, steps = _numbers(row)
    above = float(row["epsilon"]) * (1.0 + ABOVE)
    assert SampledGaussian([rates], [distances], [steps]).delta(above, "without")[0] <= float(row["delta"])
    alone = [[0.0, steps[1], 0.0], steps, [steps[0], 0.0, steps[2]]]
    one, both, others = SampledGaussian([rates] * 3, [distances] * 3, alone).epsilon(float(row["delta"]), "without")
    assert both == pytest.approx(one + others, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_everybody(part):
    """All of them."""
    for row in ANYBODY[part::4]:
        assert _excess(row) < ABOVE or float(row["delta"]) < TINY, row


@pytest.mark.slow
def test_everybody_sampled_seldom():
    """All of them, both ways."""
    for row in SELDOM_STEPS:
        assert _excess(row) < ABOVE, row
