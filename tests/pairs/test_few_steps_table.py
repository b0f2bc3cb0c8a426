"""Three and more sampled steps against deltas proved by ball arithmetic (``make_few_steps_truth.py``)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from perinstance.pairs import SampledGaussian

DATA = Path(__file__).parent / "data"
ROWS = [
    row
    for name in ("few_steps_truth.csv", "many_steps_truth.csv")
    for row in csv.DictReader((DATA / name).read_text(encoding="utf-8").splitlines())
]

# How far epsilon may lie above, of itself: by direction, by how many steps there are (3 to 15, to 64, or more) and by
# whether the person is sampled less than a tenth of a time on average. The declared goal is 1e-9 everywhere,
# which some 97 of 100 rows keep; the largest found so far is 5.5e-6 (few steps of very different kinds).
LIMITS = {
    ("with", "few", "seldom"): 2e-5,
    ("with", "few", "often"): 2e-5,
    ("with", "many", "seldom"): 1e-7,
    ("with", "many", "often"): 1e-7,
    ("with", "long", "seldom"): 1e-7,
    ("with", "long", "often"): 1e-7,
    ("without", "few", "seldom"): 2e-5,
    ("without", "few", "often"): 2e-5,
    ("without", "many", "seldom"): 1e-7,
    ("without", "many", "often"): 1e-7,
    ("without", "long", "seldom"): 2e-5,  # where epsilon is next to the largest loss
    ("without", "long", "often"): 1e-7,
}


def _numbers(row: dict[str, str]) -> tuple[list[float], list[float], list[float]]:
    rates, distances, steps = ([float(x) for x in row[name].split()] for name in ("rates", "distances", "steps"))
    return rates, distances, steps


def _kind(row: dict[str, str]) -> tuple[str, str, str]:
    rates, _, steps = _numbers(row)
    often = sum(q * k for q, k in zip(rates, steps, strict=True))
    count = "few" if sum(steps) < 16 else "many" if sum(steps) < 65 else "long"
    return row["direction"], count, "seldom" if often < 0.1 else "often"


KINDS = sorted({_kind(row) for row in ROWS})


def _check(row: dict[str, str]) -> None:
    """Never below. The written delta is a double below the true one: not even the last digit may be.

    Above by no more than the limit, or, where delta hardly depends on epsilon, delta is known to 1e-11.
    """
    truth, delta = float(row["epsilon"]), float(row["delta"])
    rates, distances, steps = _numbers(row)
    pairs = SampledGaussian([rates], [distances], [steps])
    (found,), (profile,) = pairs.epsilon(delta, row["direction"]), pairs.delta(truth, row["direction"])
    assert found >= truth and profile >= delta, row
    assert found <= truth * (1 + LIMITS[_kind(row)]) + 1e-13 or profile <= delta * (1 + 1e-11), (found / truth - 1, row)


@pytest.mark.parametrize("kind", KINDS)
def test_one_of_each_kind(kind):
    """The first of each."""
    _check(next(row for row in ROWS if _kind(row) == kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_whole_table(kind):
    """All of them."""
    for row in ROWS:
        if _kind(row) == kind:
            _check(row)
